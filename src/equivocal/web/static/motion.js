// motion.js: slides bars from the old picture to the new one, so that the eye can follow a belief.

import { reducedMotion } from "./dom.js";

const TIMING = { duration: 260, easing: "ease-out" };

export function slide(old, fresh) {
  if (!old || old.classList.contains("slide") || reducedMotion()) return;
  const before = new Map([...old.querySelectorAll("g.row")].map((row) => [row.dataset.key, row]));
  for (const row of fresh.querySelectorAll("g.row")) {
    const was = before.get(row.dataset.key);
    if (!was) {
      row.animate([{ opacity: 0 }, { opacity: 1 }], TIMING);
      continue;
    }
    if (was.dataset.y !== row.dataset.y) {
      row.animate([was, row].map((each) => ({ transform: `translate(0, ${each.dataset.y}px)` })), TIMING);
    }
    const rects = was.querySelectorAll("rect");
    row.querySelectorAll("rect").forEach((rect, i) => slideRect(rects[i], rect));
  }
}

function slideRect(was, rect) {
  if (!was) return;
  const place = (each) => ({
    x: `${each.getAttribute("x")}px`, width: `${each.getAttribute("width")}px`,
  });
  const [from, to] = [place(was), place(rect)];
  if (from.x !== to.x || from.width !== to.width) rect.animate([from, to], TIMING);
}

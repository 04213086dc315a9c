// overview.js: all words at once. A column for each word, a row for each role; in every cell the
// fillers believed most, each as its name on a bar.
//
// On the page buttons stand where a saved picture has its words (answer.js).

import { svg } from "./dom.js";
import { percent } from "./format.js";
import { fit, measure, wrap } from "./look.js";

const WORDS = 44; // height of the words; style.css gives .words the same
const NAME = 15; // height of a role's name
const LINE = 17; // height of one filler
const GAP = 5; // below a role
const EDGE = 3; // on both sides of a column
const SLIGHT = 0.005; // a truth below is not marked
const FILLERS = 2; // of a role in one cell

export function overview(answer, position, width, look) {
  const columns = { count: answer.words.length, wide: width / answer.words.length };
  const roles = Object.keys(answer.words[0].roles);
  const step = NAME + FILLERS * LINE + GAP;
  const height = WORDS + 6 + roles.length * step;
  const node = svg("g", { class: "overview" },
    svg("rect", { x: position * columns.wide, width: columns.wide, height, rx: 6,
      fill: look.colours.chosen }),
    ...(look.titled ? answer.words : []).map((entry, i) =>
      word(entry.word, i, position, columns, look.colours)),
    ...roles.flatMap((role, r) => {
      const y = WORDS + 6 + r * step;
      return [
        svg("text", { x: EDGE, y: y + 11, "font-size": 11, fill: look.colours.muted }, role),
        ...answer.words.flatMap((entry, i) => cell(entry.roles[role], i, y + NAME, columns, look)),
      ];
    }));
  return { node, height };
}

function word(text, i, position, columns, colours) {
  const weight = i === position ? 700 : 400;
  const lines = wrap(text, columns.wide - 6, 14, weight).slice(0, 2);
  const middle = (i + 0.5) * columns.wide;
  const first = WORDS / 2 + 5 - 8.5 * (lines.length - 1);
  return svg("text", { "text-anchor": "middle", "font-size": 14, "font-weight": weight,
    fill: i <= position ? colours.ink : colours.muted },
    ...lines.map((part, k) => svg("tspan", { x: middle, y: first + 17 * k }, part)));
}

function cell(beliefs, i, top, columns, { colours }) {
  const shown = [...beliefs].sort((a, b) => b.bayes - a.bayes).slice(0, FILLERS);
  const x = i * columns.wide + EDGE;
  const room = Math.max(1, columns.wide - 2 * EDGE);
  return shown.flatMap((belief, k) => {
    const y = top + k * LINE;
    const weight = belief.said ? 700 : 400;
    const value = percent(belief.bayes);
    const beside = measure(belief.filler, 12, weight) + measure(value, 11) + 12 < room;
    const parts = [
      svg("rect", { x, y, width: room, height: LINE - 2, fill: colours.track }),
      svg("rect", { x, y, width: room * belief.bayes, height: LINE - 2, fill: colours.bayes,
        "fill-opacity": 0.38 }),
      svg("text", { x: x + 3, y: y + 11.5, "font-size": 12, "font-weight": weight },
        fit(belief.filler, room - 6, 12, weight)),
    ];
    if (beside) {
      parts.push(svg("text", { x: x + room - 3, y: y + 11.5, "font-size": 11, "text-anchor": "end" },
        value));
    }
    if (belief.truth >= SLIGHT) {
      const place = x + room * belief.truth;
      parts.push(svg("path", { d: `M${place - 3.5} ${y + LINE - 2}h7l-3.5 -6z`, fill: colours.ink }));
    }
    return parts;
  });
}

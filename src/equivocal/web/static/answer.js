// answer.js: the section of one sentence: its words as buttons, its picture, and a table for
// screen readers.

import { html } from "./dom.js";
import { percent } from "./format.js";
import { colours, measure, unit } from "./look.js";
import { slide } from "./motion.js";
import { headingOf, picture } from "./picture.js";

const NARROWEST_WORD = 42; // below this a long sentence scrolls within its frame

export function createAnswer(index, choose) {
  const title = html("h3", { class: "unseen", id: `answer-${index}` });
  const words = html("ol", { class: "words", id: index ? `words-${index}` : "words" });
  const frame = html("div", { class: "frame" }, words);
  const numbers = html("div", { class: "unseen" });
  const section = html("section", { class: "answer card", "data-sentence": index,
    "aria-labelledby": title.id }, title, frame, numbers);
  let drawn = null;

  function show(answer, position, common, moving) {
    const at = Math.min(position, answer.words.length - 1);
    title.textContent = answer.sentence;
    fillWords(words, answer, at, choose);
    const wide = Math.max(frame.clientWidth, NARROWEST_WORD * unit() * answer.words.length);
    words.style.width = `${wide}px`;
    words.style.fontSize = `${typeSize(answer.words, wide / unit() / answer.words.length)}rem`;
    const fresh = picture(answer, at, { colours: colours(), unit: unit(), width: wide,
      visible: frame.clientWidth, ...common });
    if (drawn) drawn.replaceWith(fresh);
    else frame.append(fresh);
    if (moving) slide(drawn, fresh);
    drawn = fresh;
    numbers.replaceChildren(table(answer, at));
  }

  return { section, show };
}

// What pictures side by side have in common: the scales of their lines, and room for the longest
// heading and list, so that panels are level and stepping moves none.
export function shared(answers) {
  const words = answers.flatMap((answer) => answer.words);
  const largest = (of) => Math.max(...words.map(of));
  return {
    surpriseTop: largest((entry) => entry.semantic_update) || 1,
    // whole nats: a scale that follows the slider would hide that uncertainty falls
    entropyTop: Math.max(1, Math.ceil(largest((entry) => entry.entropy))),
    headings: answers.map((answer) => headingOf(answer, answer.words.length - 1)),
    noted: words.some((entry) => entry.possible === false),
    rows: Object.fromEntries(Object.keys(words[0].roles).map((role) =>
      [role, largest((entry) => entry.roles[role].length)])),
  };
}

// As large as the longest part of a word allows, down to what can still be read.
function typeSize(words, column) {
  const parts = words.flatMap((entry) => entry.word.split(" "));
  const widest = Math.max(...parts.map((part) => measure(part, 16, 700)));
  return Math.max(0.66, Math.min(1, (column - 14) / widest));
}

// Buttons of an unchanged sentence stay, and with them the focus.
function fillWords(list, answer, position, choose) {
  const wanted = answer.words.map((entry) => entry.word);
  const there = [...list.children].map((item) => item.textContent);
  if (wanted.join("\n") !== there.join("\n")) {
    list.style.gridTemplateColumns = `repeat(${wanted.length}, minmax(0, 1fr))`;
    list.replaceChildren(...wanted.map((word, i) =>
      html("li", {}, html("button", { type: "button", click: () => choose(i) }, word))));
  }
  list.querySelectorAll("button").forEach((button, i) => {
    if (i === position) {
      button.setAttribute("aria-current", "step");
      button.scrollIntoView({ block: "nearest", inline: "nearest" });
    }
    else button.removeAttribute("aria-current");
    const { possible } = answer.words[i];
    button.classList.toggle("ahead", i > position);
    button.classList.toggle("impossible", possible === false);
    button.title = possible !== false ? "" : "impossible in this world";
  });
}

function table(answer, position) {
  const { word, possible, roles } = answer.words[position];
  const note = possible !== false ? "" : " The words are impossible in this world.";
  const head = ["role", "filler", "trained", "Bayesian", "90 % from", "90 % to", "truth", "said"];
  const rows = Object.entries(roles).flatMap(([role, beliefs]) => beliefs.map((belief) => [
    role, belief.filler, percent(belief.mle), percent(belief.bayes), percent(belief.low),
    percent(belief.high), belief.truth === null ? "none" : percent(belief.truth),
    belief.said ? "yes" : "no",
  ]));
  return html("table", { class: "numbers" },
    html("caption", {}, `Beliefs after “${word}” in “${answer.sentence}”.${note}`),
    html("thead", {}, html("tr", {}, ...head.map((name) => html("th", { scope: "col" }, name)))),
    html("tbody", {}, ...rows.map((cells) => html("tr", {}, ...cells.map((cell, i) =>
      i < 2 ? html("th", { scope: "row" }, cell) : html("td", {}, cell))))));
}

// answer.js: the section of one sentence: its summary, its words as buttons, its picture, and a table
// for screen readers.

import { html } from "./dom.js";
import { colours, measure, percent, unbroken, unit } from "./look.js";
import { slide } from "./panel.js";
import { allNames, allWords, beliefs, headingOf } from "./picture.js";
import { drawSlide, path } from "./slides.js";

const NARROWEST_WORD = 82; // below this a long sentence scrolls within its frame
const WIDEST_WORD = 170;
const SMALLEST = 0.72; // rem
const SLIDE = 340; // units that the picture of a story needs in width; with more room it is drawn larger
const LARGEST = 2;
const BELOW = 44; // units under that picture

export function createAnswer(index, choose) {
  const title = html("h3", { class: "unseen", id: `answer-${index}` });
  const headline = html("p", { class: "headline" });
  const behind = html("p", { class: "behind" });
  const doubt = html("p", { class: "behind doubt" });
  const words = html("ol", { class: "words", id: index ? `words-${index}` : "words" });
  const [frame, below] = [html("div", { class: "frame" }, words), html("div", { class: "frame", role: "group",
    "aria-label": "All words at once" })];
  for (const [one, other] of [[frame, below], [below, frame]]) { // they scroll together
    one.addEventListener("scroll", () => { other.scrollLeft = one.scrollLeft; });
  }
  const rows = html("div", { class: "rows" }, below); // with their names
  const numbers = html("div", { class: "unseen" });
  const section = html("section", { class: "answer card", "data-sentence": index,
    "aria-labelledby": title.id },
    title, html("div", { class: "summary", "aria-live": "polite" }, headline, behind, doubt), frame, rows, numbers);
  let drawn = null; // the beliefs after the chosen word

  function show(answer, position, common, moving) {
    const at = Math.min(position, answer.words.length - 1);
    name(answer, false);
    const [first, ...others] = summaryOf(answer, at);
    const last = others.findIndex((line) => line.startsWith("Doubt: "));
    fillText(headline, first);
    fillText(behind, others.slice(0, last).join(" "));
    doubt.textContent = others.slice(last).join(" ");
    fillWords(words, answer, at, choose);
    const width = frame.clientWidth;
    const all = Math.max(width, columnOf(answer.words) * unit() * answer.words.length);
    words.style.width = `${all}px`;
    words.style.fontSize = `${typeSize(answer.words, all / unit() / answer.words.length)}rem`;
    const look = { colours: colours(), unit: unit(), width, ...common };
    below.replaceChildren(allWords(answer, at, { ...look, width: all }));
    rows.replaceChildren(below, allNames(answer, look));
    if (all > width) below.tabIndex = 0; // what scrolls must be within reach of the keyboard
    else below.removeAttribute("tabindex");
    const fresh = beliefs(answer, at, look);
    if (moving) slide(drawn, fresh);
    place(fresh);
    numbers.replaceChildren(table(answer, at));
    reveal(frame, words.children[at]);
  }

  // Draws the picture of a step of the story, enlarged by `larger`; `stops` are the answers at other stops
  // that it needs. Returns by how much it may be enlarged on this screen.
  function tell(answer, view, stops, common, larger) {
    name(answer, true);
    section.querySelector(".path:not(.slide)")?.remove();
    const width = title.clientWidth;
    const room = innerHeight - title.getBoundingClientRect().bottom - scrollY - BELOW * unit();
    const most = larger ?? Math.max(1, Math.min(LARGEST, width / unit() / SLIDE));
    const look = { colours: colours(), unit: most * unit(), width, ...common };
    const fresh = drawSlide(view, answer, stops, look);
    fresh.classList.add("slide");
    place(fresh);
    numbers.replaceChildren(table(answer, answer.words.length - 1));
    return Math.max(1, most * Math.min(1, room / fresh.getAttribute("height")));
  }

  function name(answer, visible) {
    title.textContent = answer.sentence;
    title.classList.toggle("unseen", !visible);
  }

  function place(fresh) {
    if (drawn) drawn.replaceWith(fresh);
    else rows.before(fresh);
    drawn = fresh;
  }

  // Shows the belief along sampler time above the picture; without answers, removes it.
  function showPath(answers, { position, step }) {
    section.querySelector(".path:not(.slide)")?.remove();
    if (!answers) return;
    const at = Math.min(position, answers[0].words.length - 1);
    const chart = path(answers, at, step, { colours: colours(), unit: unit(), width: frame.clientWidth });
    if (chart) frame.before(chart);
  }

  return { section, show, showPath, tell };
}

// What pictures side by side share: the scales of their lines, and room for the longest heading and
// list, so that panels are level and stay in place from word to word. `level` are those of the answers
// that stand beside each other.
export function shared(answers, level = answers) {
  const largest = (of, among = answers) =>
    Math.max(...among.flatMap((answer) => answer.words.map(of)));
  return {
    surpriseTop: largest((entry) => entry.semantic_update) || 1,
    // whole nats: a scale that follows the slider would hide that uncertainty falls
    entropyTop: Math.max(1, Math.ceil(largest((entry) => entry.entropy))),
    doubtTop: Math.max(...answers.map((answer) => answer.words.at(-1).entropy)),
    headings: level.map((answer) => headingOf(answer, answer.words.length - 1)),
    noted: level.some(({ words }) => words.some((entry) => entry.possible === false)),
    rows: rowsOf(level.flatMap(({ words }) => words)),
  };
}

// The longest list of each role after some words.
const rowsOf = (words) => Object.fromEntries(Object.keys(words[0].roles).map((role) =>
  [role, Math.max(...words.map(({ roles }) => roles[role].length))]));

// Percentages, which stand in parentheses, are set in paler type.
function fillText(node, text) {
  node.replaceChildren(...text.split(/(\([^()]*\))/).map((part, i) =>
    (i % 2 ? html("span", { class: "number" }, part) : part)));
}

// Scrolls the frame of a long sentence, and nothing else, until a word is in it.
function reveal(frame, item) {
  const [left, right] = [item.offsetLeft, item.offsetLeft + item.offsetWidth];
  if (left < frame.scrollLeft) frame.scrollLeft = left;
  else if (right > frame.scrollLeft + frame.clientWidth) frame.scrollLeft = right - frame.clientWidth;
}

// The lines that sum up the beliefs after a word, the reading first.
const summaryOf = (answer, position) => unbroken(answer.words[position].summary).split("\n");

const widestPart = (words) => Math.max(...words.flatMap((entry) =>
  entry.word.split(" ").map((part) => measure(part, 16, 700))));

// A column has room for the longest part of a word, in small type.
export function columnOf(words) {
  return Math.max(NARROWEST_WORD, Math.min(WIDEST_WORD, SMALLEST * widestPart(words) + 18));
}

// The largest type that fits the longest part of a word, but not too small to read.
function typeSize(words, column) {
  return Math.max(SMALLEST, Math.min(1, (column - 18) / widestPart(words)));
}

// The buttons of an unchanged sentence are kept, and the focus with them.
function fillWords(list, answer, position, choose) {
  const wanted = answer.words.map((entry) => entry.word);
  const there = [...list.children].map((item) => item.textContent);
  if (wanted.join("\n") !== there.join("\n")) {
    list.style.gridTemplateColumns = `repeat(${wanted.length}, minmax(0, 1fr))`;
    list.replaceChildren(...wanted.map((word, i) =>
      html("li", {}, html("button", { type: "button", click: () => choose(i) }, word))));
  }
  list.querySelectorAll("button").forEach((button, i) => {
    if (i === position) button.setAttribute("aria-current", "step");
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

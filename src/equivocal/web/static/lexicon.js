// lexicon.js: ready-made examples, and the world's words to click together.

import { byId, html } from "./dom.js";
import { capital } from "./format.js";

export function fillExamples(world, choose) {
  const groups = new Map();
  for (const example of world.examples) {
    const button = html("button", { type: "button", "data-sentence": example.sentence,
      "data-compare": example.compare ?? "", title: example.sentence,
      click: () => choose({ sentence: example.sentence, compare: example.compare ?? null }),
    }, example.label);
    groups.set(example.group, [...(groups.get(example.group) ?? []), button]);
  }
  fillGroups("examples", groups);
}

export function markExample(state) {
  for (const button of byId("examples").querySelectorAll("button")) {
    const same = button.dataset.sentence === state.sentence
      && button.dataset.compare === (state.compare ?? "");
    button.setAttribute("aria-pressed", String(same));
  }
}

let phrases = []; // every word of the world, as it is said

// `field` gives the input edited last; `changed` is called when a click has changed it. Returns what
// a click on a word does.
export function setUpLexicon(field, changed) {
  const rewrite = (text) => { field().value = text; changed(); };
  byId("remove-word").addEventListener("click", () => rewrite(shortened(field().value)));
  return (word) => rewrite(appended(field().value, word));
}

export function fillLexicon(world, append) {
  phrases = Object.values(world.classes).flat();
  fillGroups("lexicon", Object.entries(world.classes).map(([name, words]) => [name,
    words.map((word) => html("button", { type: "button", click: () => append(word) }, word))]));
}

function fillGroups(id, groups) {
  byId(id).querySelector(".groups").replaceChildren(...[...groups].map(([name, buttons], i) =>
    html("div", { role: "group", "aria-labelledby": `${id}-${i}` },
      html("h3", { id: `${id}-${i}` }, capital(name)), html("div", { class: "chips" }, ...buttons))));
}

const appended = (text, word) => [text.trimEnd(), word].filter(Boolean).join(" ");

// Without its last word: the longest phrase of the world that ends the text, or what follows the
// last space; and without an article or comma that would then be left hanging.
function shortened(text) {
  const trimmed = text.trim().replace(/[\s,.;!?]+$/, "");
  const lower = ` ${trimmed.toLowerCase()}`;
  const last = phrases.filter((phrase) => lower.endsWith(` ${phrase.toLowerCase()}`))
    .sort((a, b) => b.length - a.length)[0] ?? trimmed.split(" ").at(-1);
  const rest = trimmed.slice(0, trimmed.length - last.length);
  return rest.replace(/(^|\s)(the|an?)\s*$/i, "").replace(/[\s,]+$/, "");
}

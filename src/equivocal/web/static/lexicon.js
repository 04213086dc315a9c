// lexicon.js: ready-made examples, and the world's words to click together.

import { byId, html } from "./dom.js";
import { capital } from "./format.js";

export function setUpExamples(world, choose) {
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

// `field` gives the input edited last; `changed` is called when a click has changed it.
export function setUpLexicon(world, field, changed) {
  const groups = Object.entries(world.classes).map(([name, words]) => [name, words.map((word) =>
    html("button", { type: "button", click: () => rewrite(appended(field().value, word)) }, word))]);
  fillGroups("lexicon", groups);
  const phrases = Object.values(world.classes).flat();
  byId("remove-word").addEventListener("click", () => rewrite(shortened(field().value, phrases)));

  function rewrite(text) {
    field().value = text;
    changed();
  }
}

function fillGroups(id, groups) {
  byId(id).querySelector(".groups").replaceChildren(...[...groups].map(([name, buttons], i) =>
    html("div", { role: "group", "aria-labelledby": `${id}-${i}` },
      html("h3", { id: `${id}-${i}` }, capital(name)), html("div", { class: "chips" }, ...buttons))));
}

const appended = (text, word) => [text.trimEnd(), word].filter(Boolean).join(" ");

// Without its last word: the longest phrase of the world that ends the text, or what follows the
// last space; and without an article or comma that would then be left hanging.
function shortened(text, phrases) {
  const trimmed = text.trim().replace(/[\s,.;!?]+$/, "");
  const lower = ` ${trimmed.toLowerCase()}`;
  const last = phrases.filter((phrase) => lower.endsWith(` ${phrase.toLowerCase()}`))
    .sort((a, b) => b.length - a.length)[0] ?? trimmed.split(" ").at(-1);
  const rest = trimmed.slice(0, trimmed.length - last.length);
  return rest.replace(/(^|\s)(the|an?)\s*$/i, "").replace(/[\s,]+$/, "");
}

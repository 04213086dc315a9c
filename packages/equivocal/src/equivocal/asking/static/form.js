// form.js: the fields of the two sentences, and what fills them: ready-made examples, and the world's
// words to click together.

import { fitSampler } from "./controls.js";
import { byId, html } from "./dom.js";
import { capital } from "./look.js";

let example = null; // what a click on an example does
let append = null; // what a click on a word does

// `change` is called with the sentences to ask, `chooseWorld` with the name of a world.
export function setUpForm(worlds, change, chooseWorld) {
  const fields = [byId("sentence"), byId("compare")];
  let edited = fields[0];
  fields.forEach((field) => {
    field.addEventListener("focus", () => { edited = field; });
  });
  const ask = () => {
    const [sentence, compare] = fields.map((field) => field.value.trim());
    if (!sentence) complain(0, "Type a sentence, or build one from the words below.");
    else change({ sentence, compare: second() ? compare || null : null, position: null });
  };
  byId("form").addEventListener("submit", (event) => { event.preventDefault(); ask(); });
  byId("add-compare").addEventListener("click", () => { second(true); fields[1].focus(); });
  byId("remove-compare").addEventListener("click", () => {
    second(false);
    fields[1].value = "";
    edited = fields[0];
    byId("add-compare").focus();
    change({ compare: null });
  });
  append = setUpLexicon(() => (second() ? edited : fields[0]), ask);
  example = (chosen) => {
    fillFields(chosen);
    ask();
  };
  byId("world-choice").hidden = worlds.length < 2;
  byId("world").append(...worlds.map(({ name }) => html("option", { value: name }, name)));
  byId("world").addEventListener("change", () => chooseWorld(byId("world").value));
}

// Examples, words, limits and stops of a world.
export function showWorld(world) {
  byId("world").value = world.name;
  for (const id of ["sentence", "compare"]) byId(id).maxLength = world.limits.characters;
  fillExamples(world, example);
  fillLexicon(world, append);
  fitSampler(world);
  const description = world.description.replace(/`([^`]*)`/g, "“$1”");
  byId("about").textContent = `World “${world.name}”: ${description} `
    + `Answers come from ${world.network}.`;
}

// Returns whether the field of the second sentence is shown; with an argument, shows or hides it first.
function second(open) {
  if (open !== undefined) {
    byId("second").hidden = !open;
    byId("add-compare").hidden = open;
  }
  return !byId("second").hidden;
}

export function fillFields({ sentence, compare }) {
  byId("sentence").value = sentence;
  byId("compare").value = compare ?? "";
  second(Boolean(compare));
}

// Says what is wrong with field `index` (-1: with neither); what was typed stays.
export function complain(index, message) {
  byId("error").textContent = message;
  ["sentence", "compare"].forEach((id, i) => {
    for (const [name, value] of [["aria-invalid", "true"], ["aria-describedby", "error"]]) {
      if (i === index) byId(id).setAttribute(name, value);
      else byId(id).removeAttribute(name);
    }
  });
}

function fillExamples(world, choose) {
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
function setUpLexicon(field, changed) {
  const rewrite = (text) => { field().value = text; changed(); };
  byId("remove-word").addEventListener("click", () => rewrite(removeLastWord(field().value)));
  return (word) => rewrite(appendWord(field().value, word));
}

function fillLexicon(world, append) {
  phrases = Object.values(world.classes).flat();
  fillGroups("lexicon", Object.entries(world.classes).map(([name, words]) => [name,
    words.map((word) => html("button", { type: "button", click: () => append(word) }, word))]));
}

function fillGroups(id, groups) {
  byId(id).querySelector(".groups").replaceChildren(...[...groups].map(([name, buttons], i) =>
    html("div", { role: "group", "aria-labelledby": `${id}-${i}` },
      html("h3", { id: `${id}-${i}` }, capital(name)), html("div", { class: "chips" }, ...buttons))));
}

const appendWord = (text, word) => [text.trimEnd(), word].filter(Boolean).join(" ");

// Removes the last word of a text: the longest phrase of the world that ends it, or what follows the
// last space; and an article or comma that would then be left at the end.
function removeLastWord(text) {
  const trimmed = text.trim().replace(/[\s,.;!?]+$/, "");
  const lower = ` ${trimmed.toLowerCase()}`;
  const last = phrases.filter((phrase) => lower.endsWith(` ${phrase.toLowerCase()}`))
    .sort((a, b) => b.length - a.length)[0] ?? trimmed.split(" ").at(-1);
  const rest = trimmed.slice(0, trimmed.length - last.length);
  return rest.replace(/(^|\s)(the|an?)\s*$/i, "").replace(/[\s,]+$/, "");
}

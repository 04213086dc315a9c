// form.js: the fields of the two sentences, and what fills them.

import { fitSampler } from "./controls.js";
import { byId, html } from "./dom.js";
import { fillExamples, fillLexicon, setUpLexicon } from "./lexicon.js";

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

// Whether the field of the second sentence is there; with an argument, makes it so.
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

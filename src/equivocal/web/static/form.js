// form.js: the fields of the two sentences, and what fills them.

import { byId } from "./dom.js";
import { setUpExamples, setUpLexicon } from "./lexicon.js";

// `change` is called with the sentences to ask.
export function setUpForm(world, change) {
  const fields = [byId("sentence"), byId("compare")];
  let edited = fields[0];
  fields.forEach((field) => {
    field.maxLength = world.limits.characters;
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
  setUpLexicon(world, () => (second() ? edited : fields[0]), ask);
  setUpExamples(world, (example) => {
    fillFields(example);
    ask();
  });
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

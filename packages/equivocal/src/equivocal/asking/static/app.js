// app.js: the page. A state is { world, sentence, compare, position, step, chapter }: `world` is a name,
// `compare` is null without a second sentence, `position` counts words from 0 and null means the last,
// and `chapter` is the step of the story, from 0, or null in free play. Behind the # of the address
// stands the same, so that a link opens what is shown.

import { byId, capital, formatTime, html } from "dom";
import { answer, openWorlds } from "engine";
import { CHAPTERS, hasStory, isStory, setUpStory, showStory, STORY } from "story";
import { showAnswer } from "view";

const CONVERGED = "converged";
const FIELDS = ["sentence", "compare"];
const ROUND = 1e4;

let worlds;
let state = null;
let edited = "sentence"; // the field that a click on a word adds to
const known = new Map(); // answers by world, sentence and step

const worldOf = (name) => worlds.find((world) => world.name === name) ?? worlds[0];
const sentencesOf = ({ sentence, compare }) => [sentence, compare].filter(Boolean);

function ask(sentence, step, name) {
  const key = JSON.stringify([name, sentence, step]);
  if (!known.has(key)) known.set(key, answer(sentence, worldOf(name), step));
  return known.get(key);
}

// Shows a changed state. If a sentence cannot be answered, the old answers stay and say of what.
function change(wish) {
  const next = { ...state, ...wish };
  let answers = [];
  for (const [i, sentence] of sentencesOf(next).entries()) {
    try {
      answers = [...answers, ask(sentence, next.step, next.world)];
    } catch (problem) {
      if (problem.constructor !== Error) throw problem; // a mistake in these modules
      refuse(FIELDS[i], problem.message);
      return;
    }
  }
  const last = Math.max(...answers.map(({ words }) => words.length)) - 1;
  const before = state;
  state = { ...next, position: Math.min(next.position ?? last, last) };
  complain(null, "");
  byId("results").classList.remove("stale");
  if (before?.world !== state.world) showWorld();
  draw(answers);
  history.replaceState(null, "", `#${addressOf(state)}`);
}

function draw(answers) {
  const { chapter, position, world } = state;
  const focused = document.activeElement?.closest(".words");
  document.body.dataset.view = chapter === null ? "free" : CHAPTERS[chapter].view;
  byId("story").hidden = chapter === null;
  byId("tell").setAttribute("aria-pressed", String(chapter !== null));
  showSampler(answers[0]);
  byId("answers").replaceChildren(...(chapter === null
    ? answers.map((each) => showAnswer(each, position, (chosen) => change({ position: chosen })))
    : showStory(chapter, answers, worldOf(world), (sentence, step) => ask(sentence, step, world))));
  for (const button of byId("examples").querySelectorAll("button")) {
    button.setAttribute("aria-pressed", String(button.dataset.sentences === sentencesOf(state).join("\n")));
  }
  if (focused) byId("answers").querySelector(".words [aria-current]")?.focus();
}

function refuse(field, message) {
  complain(field, message);
  byId("results").classList.toggle("stale", state !== null);
  byId("stale").textContent = state === null ? ""
    : `Still the answer to ${sentencesOf(state).map((each) => `“${each}”`).join(" and ")}`;
  if (state?.chapter != null) {
    state = { ...state, chapter: null };
    draw(sentencesOf(state).map((sentence) => ask(sentence, state.step, state.world)));
  }
}

// Says what is wrong with a field; what was typed stays.
function complain(field, message) {
  byId("error").textContent = message;
  for (const id of FIELDS) {
    byId(id).toggleAttribute("aria-invalid", id === field);
    if (id === field) byId(id).setAttribute("aria-describedby", "error");
    else byId(id).removeAttribute("aria-describedby");
  }
}

function showSampler({ step, time }) {
  const { steps, paper_step: paper } = worldOf(state.world);
  const name = step === CONVERGED ? "the converged posterior" : step === 0 ? "the prior, before any data"
    : `step ${step}, τ = ${formatTime(time)}${step === paper ? ", where the paper stops" : ""}`;
  byId("slider").max = steps.length - 1;
  byId("slider").value = steps.indexOf(step);
  byId("slider").setAttribute("aria-valuetext", name);
  byId("slider-label").textContent = name;
}

// Examples, words and limits of the world.
function showWorld() {
  const world = worldOf(state.world);
  byId("world").value = world.name;
  byId("tell").hidden = !hasStory(world);
  const groups = new Map();
  for (const { group, label, sentence, compare } of world.examples) {
    const button = html("button", { type: "button", "data-sentences": [sentence, compare].filter(Boolean).join("\n"),
      click: () => put({ sentence, compare }) }, label);
    groups.set(group, [...(groups.get(group) ?? []), button]);
  }
  fillGroups("examples", groups);
  fillGroups("lexicon", Object.entries(world.words).map(([name, words]) => [name, words.map((word) =>
    html("button", { type: "button", click: () => append(word) }, word))]));
  byId("about").textContent = `World “${world.name}”: ${world.description.replace(/`([^`]*)`/g, "“$1”")} `
    + `Answers come from ${world.network}, prior variance ${world.prior_variance}.`;
}

function fillGroups(id, groups) {
  byId(id).querySelector(".groups").replaceChildren(...[...groups].map(([name, buttons], i) =>
    html("div", { role: "group", "aria-labelledby": `${id}-${i}` },
      html("h3", { id: `${id}-${i}` }, capital(name)), html("div", { class: "chips" }, ...buttons))));
}

// Puts sentences into the fields, and asks them.
function put(sentences) {
  fillFields(sentences);
  submit();
}

function fillFields({ sentence, compare }) {
  byId("sentence").value = sentence;
  byId("compare").value = compare ?? "";
  openSecond(Boolean(compare));
}

function openSecond(open) {
  byId("second").hidden = !open;
  byId("add-compare").hidden = open;
  if (!open) edited = "sentence";
}

function append(word) {
  byId(edited).value = [byId(edited).value.trim(), word].filter(Boolean).join(" ");
  submit();
}

function submit() {
  const [sentence, compare] = FIELDS.map((id) => byId(id).value.trim());
  if (!sentence) refuse("sentence", "Type a sentence, or build one from the words below.");
  else change({ sentence, compare: byId("second").hidden ? null : compare || null, position: null, chapter: null });
}

// The sentences that a world opens with: its first example.
function firstExample(world) {
  const { sentence = "", compare = null } = world.examples[0] ?? {};
  return { sentence, compare };
}

function chooseWorld(name) {
  const wish = { world: name, ...firstExample(worldOf(name)), step: CONVERGED, position: null, chapter: null };
  fillFields(wish);
  change(wish);
}

function readAddress() {
  const query = new URLSearchParams(location.hash.slice(1));
  if (![...query.keys()].length && worlds.some(hasStory)) {
    return { ...STORY, step: CONVERGED, position: null, chapter: 0 };
  }
  const world = worldOf(query.get("world"));
  const sentence = query.get("sentence")?.trim();
  const [word, chapter] = ["word", "story"].map((name) => Number.parseInt(query.get(name), 10) - 1);
  const read = { world: world.name,
    ...(sentence ? { sentence, compare: query.get("compare")?.trim() || null } : firstExample(world)),
    position: sentence && word >= 0 ? word : null,
    step: world.steps.find((step) => String(step) === query.get("step")) ?? CHAPTERS[chapter]?.step ?? CONVERGED };
  return { ...read, chapter: CHAPTERS[chapter] && hasStory(world) && isStory(read) ? chapter : null };
}

function addressOf({ sentence, compare, position, step, world, chapter }) {
  const query = { sentence, compare, word: position + 1, step, world, story: chapter === null ? null : chapter + 1 };
  return new URLSearchParams(Object.entries(query).filter(([, value]) => value !== null));
}

function setUpForm() {
  byId("form").addEventListener("submit", (event) => { event.preventDefault(); submit(); });
  for (const id of FIELDS) byId(id).addEventListener("focus", () => { edited = id; });
  byId("add-compare").addEventListener("click", () => { openSecond(true); byId("compare").focus(); });
  byId("remove-compare").addEventListener("click", () => { openSecond(false); submit(); byId("add-compare").focus(); });
  byId("world").append(...worlds.map(({ name }) => html("option", { value: name }, name)));
  byId("world-choice").hidden = worlds.length < 2;
  byId("world").addEventListener("change", () => chooseWorld(byId("world").value));
  byId("slider").addEventListener("input", () =>
    change({ step: worldOf(state.world).steps[byId("slider").value] }));
  document.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const plain = !event.altKey && !event.ctrlKey && !event.metaKey && !event.shiftKey;
    if (!by || !plain || !state || event.target.closest?.("input, select")) return;
    event.preventDefault();
    change({ position: Math.max(0, state.position + by) });
  });
}

function turn(chapter) {
  const wish = chapter === null ? { chapter, step: CONVERGED }
    : { ...STORY, step: CHAPTERS[chapter].step, position: null, chapter };
  if (chapter !== null) fillFields(wish);
  else if (byId("story").contains(document.activeElement)) byId("tell").focus(); // the story is about to vanish
  change(wish);
}

async function start() {
  worlds = await openWorlds();
  setUpStory(() => state?.chapter ?? null, turn);
  setUpForm();
  const first = readAddress();
  fillFields(first);
  change(first);
  if (!state) { // the link's sentence cannot be answered
    change({ ...first, ...firstExample(worldOf(first.world)), chapter: null });
    change(first);
  }
  addEventListener("hashchange", () => { const next = readAddress(); fillFields(next); change(next); });
}

const started = start();

// `await equivocal.ask(text, { world, step, top })` gives the object that `equivocal ask --json` prints, to
// four digits after the point.
window.equivocal = {
  async ask(sentence, { world, step, top } = {}) {
    await started;
    return JSON.parse(JSON.stringify(answer(sentence, worldOf(world), step, top), (_, value) =>
      (typeof value === "number" ? Math.round(value * ROUND) / ROUND : value)));
  },
};

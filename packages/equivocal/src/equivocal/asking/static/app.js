// app.js: the page. Every change of the state is a question, and the newest answer is shown.

import { createAnswer, shared } from "./answer.js";
import { comprehend, loadWorlds } from "./api.js";
import { setUpSampler, setUpStepping, showSampler, showStepping } from "./controls.js";
import { byId } from "./dom.js";
import { nameExports, setUpExport } from "./export.js";
import { complain, fillFields, markExample, setUpForm, showWorld } from "./form.js";
import { followWidth, setUpTheme } from "./look.js";
import { firstExample, knownStep, readState, sentencesOf, writeAddress } from "./state.js";
import { chapterOf, setUpStory, showStory, stopsOf } from "./story.js";

let worlds;
let wanted; // what was asked for last
let shown = null; // what is on the page: a state, and its `answers`
let asking = new AbortController();
let stepping;
let telling = null; // what the story says about it, once it is worded
const sections = [0, 1].map((index) => createAnswer(index, (position) => {
  stepping.stop();
  go(position);
}));

const worldOf = (state) => worlds.find(({ name }) => name === state.world);
const count = () => Math.max(...shown.answers.map((answer) => answer.words.length));
const player = () => (shown ? { position: shown.position, count: count() } : { position: 0, count: 0 });

// A new change aborts the question under way, whose answer is stale, and includes its wish.
async function change(wish) {
  wanted = { ...wanted, ...wish };
  const asked = wanted;
  asking.abort();
  asking = new AbortController();
  const { signal } = asking;
  const late = setTimeout(() => byId("results").setAttribute("aria-busy", "true"), 300);
  const results = await Promise.allSettled(
    sentencesOf(asked).map((sentence) => comprehend(sentence, asked, signal)));
  clearTimeout(late);
  if (signal.aborted) return;
  byId("results").removeAttribute("aria-busy");
  const failed = results.findIndex((result) => result.status === "rejected");
  complain(failed, results[failed]?.reason.message ?? "");
  // `wanted`, not `asked`: a word may have been stepped to meanwhile
  if (failed < 0) accept({ ...wanted, answers: results.map((result) => result.value) });
  else if (shown) accept({ ...shown, chapter: asked.chapter });
  greyOut(failed >= 0);
}

// After either sentence is refused, the old answers stay, greyed and labelled with their sentences.
function greyOut(stale) {
  byId("results").classList.toggle("stale", stale && Boolean(shown));
  byId("stale").textContent = stale && shown
    ? `Still the answer to ${sentencesOf(shown).map((each) => `“${each}”`).join(" and ")}` : "";
}

function accept(next) {
  const last = Math.max(...next.answers.map((answer) => answer.words.length)) - 1;
  const before = shown;
  shown = { ...next, position: Math.min(next.position ?? last, last) };
  wanted = shown;
  const same = before && before.world === shown.world
    && sentencesOf(before).join("\n") === sentencesOf(shown).join("\n");
  if (!same) byId("answers").replaceChildren(...shown.answers.map((_, i) => sections[i].section));
  byId("results").classList.toggle("two", shown.answers.length === 2);
  if (before?.world !== shown.world) showWorld(worldOf(shown));
  markExample(shown);
  nameExports(shown.answers);
  showSampler(worldOf(shown), shown);
  const at = (sentence) => (step) => comprehend(sentence, { ...next, step });
  telling = showStory(shown, worldOf(shown), { plain: at(shown.sentence), at: at(shown.compare) });
  draw(Boolean(same));
}

function go(position) {
  if (!shown || position === shown.position) return;
  shown = { ...shown, position };
  wanted = { ...wanted, position };
  draw(true);
}

function draw(moving = false) {
  if (!shown) return;
  writeAddress(shown);
  if (chapterOf(shown)) {
    drawSlides();
    return;
  }
  shown.answers.forEach((answer, i) =>
    sections[i].show(answer, shown.position, commonOf(answer), moving));
  const chosen = shown.answers.flatMap(({ words }) => words[shown.position]?.word ?? []);
  showStepping(player(), [...new Set(chosen)].join(" · "));
  drawPaths();
}

function commonOf(answer) {
  const beside = matchMedia("(min-width: 56rem)").matches; // as style.css places them
  return shared(shown.answers, beside ? shown.answers : [answer]);
}

const askAlong = (state, stops) => Promise.all(state.answers.map(({ sentence }) =>
  Promise.all(stops.map((step) => comprehend(sentence, { ...state, step })))));

async function drawSlides() {
  const state = shown;
  const { view, stops = () => [] } = chapterOf(state);
  const along = await askAlong(state, stops(worldOf(state)));
  await telling; // its height decides how much room there is
  if (shown !== state) return;
  const tell = (larger) => state.answers.map((answer, i) =>
    sections[i].tell(answer, view, along[i], commonOf(answer), larger));
  tell(Math.min(...tell())); // both as large as the screen has room for
}

// The beliefs along sampler time, where they are wanted: answers at every stop.
async function drawPaths() {
  const state = shown;
  const along = byId("along").getAttribute("aria-pressed") === "true";
  const paths = along ? await askAlong(state, stopsOf(worldOf(state))) : [];
  if (shown === state) state.answers.forEach((_, i) => sections[i].showPath(paths[i], state));
}

function setUpAlong() {
  byId("along").addEventListener("click", () => {
    const on = byId("along").getAttribute("aria-pressed") !== "true";
    byId("along").setAttribute("aria-pressed", String(on));
    if (shown) drawPaths();
  });
}

function chooseWorld(name) {
  const world = worldOf({ world: name });
  const wish = { world: name, ...firstExample(world), position: null, chapter: null,
    step: knownStep(String(wanted.step), world), prior: world.prior_variance };
  fillFields(wish);
  change(wish);
}

// A question of the user ends the story.
function ask(wish) {
  stepping.stop();
  change({ ...wish, chapter: null });
}

async function start() {
  setUpTheme(draw);
  try {
    worlds = await loadWorlds();
  } catch (problem) {
    complain(-1, problem.message);
    return;
  }
  wanted = readState(worlds);
  setUpStory(worlds, () => shown?.chapter ?? null, (wish) => {
    stepping.stop();
    if (wish.sentence) fillFields(wish);
    change(wish);
  });
  stepping = setUpStepping(player, go);
  setUpForm(worlds, ask, chooseWorld);
  setUpSampler(() => worldOf(wanted), (wish) => change({ ...wish, position: shown?.position ?? null }));
  setUpAlong();
  setUpExport(() => shown ?? { answers: [], position: 0 });
  byId("examples").open = matchMedia("(min-width: 56rem)").matches;
  fillFields(wanted);
  showWorld(worldOf(wanted));
  await change({});
  followWidth(byId("answers"), draw);
}

start();

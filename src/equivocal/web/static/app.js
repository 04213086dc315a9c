// app.js: the page. A change of the state is asked of the server; the newest answer is shown.

import { createAnswer, shared } from "./answer.js";
import { comprehend, loadWorld } from "./api.js";
import { setUpSampler, setUpStepping, showSampler, showStepping } from "./controls.js";
import { byId, html } from "./dom.js";
import { setUpExport } from "./export.js";
import { complain, fillFields, setUpForm } from "./form.js";
import { unbroken } from "./format.js";
import { markExample } from "./lexicon.js";
import { isDark } from "./look.js";
import { addressOf, readState, sentencesOf } from "./state.js";

let world;
let wanted; // what was asked for last
let shown = null; // what is on the page: a state, and its `answers`
let asking = new AbortController();
let stepping;
const sections = [0, 1].map((index) => createAnswer(index, (position) => {
  stepping.stop();
  go(position);
}));

const count = () => Math.max(...shown.answers.map((answer) => answer.words.length));
const player = () => (shown ? { position: shown.position, count: count() } : { position: 0, count: 0 });

// Stale answers are dropped: a new change aborts what is under way, and carries its wish along.
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
  if (failed === 0) {
    wanted = shown ?? asked;
    if (shown) showSampler(world, shown);
    return;
  }
  const answers = results.slice(0, failed < 0 ? 2 : failed).map((result) => result.value);
  // `wanted`, not `asked`: a word may have been stepped to meanwhile
  accept({ ...wanted, compare: failed < 0 ? asked.compare : null, answers });
}

function accept(next) {
  const last = Math.max(...next.answers.map((answer) => answer.words.length)) - 1;
  const before = shown;
  shown = { ...next, position: Math.min(next.position ?? last, last) };
  wanted = shown;
  const same = before && sentencesOf(before).join("\n") === sentencesOf(shown).join("\n");
  if (!same) byId("answers").replaceChildren(...shown.answers.map((_, i) => sections[i].section));
  byId("results").classList.toggle("two", shown.answers.length === 2);
  byId("summary").replaceChildren(
    ...shown.answers.map((answer) => html("p", {}, unbroken(answer.summary))));
  markExample(shown);
  showSampler(world, shown);
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
  const common = shared(shown.answers);
  shown.answers.forEach((answer, i) => sections[i].show(answer, shown.position, common, moving));
  const { words } = shown.answers.find((answer) => answer.words.length > shown.position);
  showStepping(player(), words[shown.position].word);
  const address = addressOf(shown);
  if (address !== location.search) history.replaceState(null, "", address);
}

function setUpTheme() {
  const button = byId("theme");
  const name = () => { button.textContent = isDark() ? "Light theme" : "Dark theme"; draw(); };
  button.addEventListener("click", () => {
    const theme = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = theme;
    try { localStorage.setItem("equivocal-theme", theme); } catch { /* then for this visit only */ }
    name();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", name);
  name();
}

// Only the width: a picture that grows in height must not be drawn anew while its bars slide.
function followWidth() {
  let width = byId("answers").clientWidth;
  new ResizeObserver(() => {
    if (byId("answers").clientWidth === width) return;
    width = byId("answers").clientWidth;
    draw();
  }).observe(byId("answers"));
}

async function start() {
  setUpTheme();
  try {
    world = await loadWorld();
  } catch (problem) {
    complain(-1, problem.message);
    return;
  }
  wanted = readState(location.search, world);
  stepping = setUpStepping(player, go);
  setUpForm(world, (wish) => {
    stepping.stop();
    change(wish);
  });
  setUpSampler(world, change);
  setUpExport(() => shown ?? { answers: [], position: 0 });
  byId("about").textContent = `World “${world.name}”: ${world.description} `
    + `Answers come from ${world.network}.`;
  byId("examples").open = matchMedia("(min-width: 56rem)").matches;
  fillFields(wanted);
  showSampler(world, wanted);
  await change({});
  followWidth();
}

start();

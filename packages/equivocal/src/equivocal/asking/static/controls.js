// controls.js: sampler time, prior variance, and stepping through the words.

import { byId, html } from "./dom.js";
import { tauOf } from "./look.js";

const PAUSE = 60; // ms; the slider asks once it rests this long
const BEAT = 1500; // ms per word while playing

let resting = null; // a timer while the slider moves

// The slider's positions are the kept steps and, last, "converged". `worldOf` gives the world shown.
export function setUpSampler(worldOf, change) {
  const slider = byId("slider");
  slider.addEventListener("input", () => {
    const world = worldOf();
    const step = world.steps[Number(slider.value)]?.step ?? "converged";
    nameStep(world, step, chosenPrior());
    clearTimeout(resting);
    resting = setTimeout(() => { resting = null; change({ step }); }, PAUSE);
  });
  byId("priors").addEventListener("change", (event) => change({ prior: Number(event.target.value) }));
}

// The stops and prior variances of a world.
export function fitSampler(world) {
  byId("slider").max = world.steps.length;
  markPaper(world);
  byId("slider-hint").textContent = "Comprehenders start at the prior, centred on the trained last "
    + `layer, and the data move them. “Converged” is the posterior itself; the paper stops before, at ${
      stepName(world, world.paper_step, world.prior_variance)}.`;
  for (const label of byId("priors").querySelectorAll("label")) label.remove();
  byId("priors").append(...world.prior_variances.map((value) =>
    html("label", {}, html("input", { type: "radio", name: "prior", value }), ` ${value}`)));
}

function markPaper(world) {
  const share = world.steps.findIndex((entry) => entry.step === world.paper_step) / world.steps.length;
  const mark = byId("paper-mark");
  mark.hidden = share < 0;
  // a thumb's middle runs from half its width to the track's width less that
  mark.style.left = `calc(${share} * (100% - 1rem) + 0.5rem)`;
}

const chosenPrior = () => Number(document.querySelector("input[name=prior]:checked")?.value);

export function showSampler(world, state) {
  if (resting !== null) return; // an answer at an earlier stop must not move the slider back
  const index = world.steps.findIndex((entry) => entry.step === state.step);
  byId("slider").value = index < 0 ? world.steps.length : index;
  for (const radio of document.querySelectorAll("input[name=prior]")) {
    radio.checked = Number(radio.value) === state.prior;
  }
  nameStep(world, state.step, state.prior);
  byId("at").textContent = explainStep(world, state);
}

// Names the sampler step of the answers on the page.
function explainStep(world, { step, prior }) {
  if (step === "converged") return "The converged posterior.";
  return step === 0 ? "Before any data: the prior." : `At ${stepName(world, step, prior)}${
    step === world.paper_step ? ", where the paper stops" : ""}.`;
}

function nameStep(world, step, prior) {
  const name = stepName(world, step, prior);
  byId("slider-label").textContent = step === world.paper_step ? `${name} (the paper’s)` : name;
  byId("slider").setAttribute("aria-valuetext", name);
}

function stepName(world, step, prior) {
  if (step === "converged") return "converged";
  if (step === 0) return "prior";
  const { times } = world.steps.find((entry) => entry.step === step);
  const [, time] = Object.entries(times).find(([value]) => Number(value) === prior) ?? [];
  return time === undefined ? `step ${step}` : `step ${step}, ${tauOf(time)}`;
}

// `player` knows { position, count }; `go` shows a position.
export function setUpStepping(player, go) {
  const play = byId("play");
  let beat = null;

  function playing(on) {
    clearInterval(beat);
    beat = on ? setInterval(advance, BEAT) : null;
    play.textContent = on ? "Pause" : "Play";
  }
  function advance() {
    const { position, count } = player();
    if (position + 1 < count) go(position + 1);
    if (position + 2 >= count) playing(false);
  }
  function step(by) {
    const { position, count } = player();
    playing(false);
    go(Math.max(0, Math.min(count - 1, position + by)));
  }

  byId("previous").addEventListener("click", () => step(-1));
  byId("next").addEventListener("click", () => step(1));
  play.addEventListener("click", () => {
    const { position, count } = player();
    if (beat === null && position + 1 >= count) go(0);
    playing(beat === null && count > 1);
  });
  document.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const plain = !event.altKey && !event.ctrlKey && !event.metaKey && !event.shiftKey;
    if (!by || !plain || event.target.closest?.("input, select")) return;
    event.preventDefault();
    step(by);
  });
  return { stop: () => playing(false) };
}

export function showStepping({ position, count }, word) {
  byId("previous").disabled = position === 0;
  byId("next").disabled = position + 1 >= count;
  byId("where").textContent = `Word ${position + 1} of ${count}: ${word}`;
}

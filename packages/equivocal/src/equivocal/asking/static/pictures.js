// pictures.js: the picture of one sentence in each step of the story (story.js).

import { formatTime, html, percent, svg } from "dom";
import { BOTH, lane, legend, panel } from "view";
import { splitDoubt } from "summary";

const WHO = ["agent", "patient"]; // the question is who acts
const PARTS = { words: "in the words", between: "between networks", within: "within each network" };

// `stops` are answers to the same sentence at the stops that the step needs.
export const PICTURES = {
  certainty: (answer) => believed(answer, ["mle"]),
  doubt: (answer, _stops, most) => [doubt(answer, most), ...believed(answer, BOTH)],
  prior: (answer) => believed(answer, ["bayes"]),
  along: (answer, stops) => [path(stops, answer.step)],
  truth: (answer, stops) => [againstTruth(stops), legend(answer.networks.length)],
};

// The beliefs that a heard word is agent or patient, and the strongest about the other roles.
function believed(answer, kinds) {
  const last = answer.words.length - 1;
  const { roles } = answer.words[last];
  const kind = kinds.at(-1);
  const others = Object.entries(roles).filter(([role]) => !WHO.includes(role)).map(([, all]) =>
    all.reduce((a, b) => (b[kind] > a[kind] ? b : a))).map((best) => `${best.filler} ${percent(best[kind])}`);
  return [...WHO.map((role) => panel(answer, last, role, { kinds, kept: ({ said }) => said })),
    html("p", { class: "note" }, `Other roles: ${others.join(", ")}.`),
    legend(answer.networks.length, kinds)];
}

// One bar, as long as the uncertainty: how much of it lies in the words, between networks and within.
function doubt(answer, most) {
  const shares = splitDoubt(answer, answer.words.length - 1);
  return html("div", { class: "doubt" },
    html("h4", {}, `doubt: ${shares.total.toFixed(2)} nats, mean over roles`),
    html("div", { class: "stack" }, ...Object.keys(PARTS).map((name) => html("i", { class: name,
      "--to": (shares[name] * shares.total) / most, "data-value": shares[name] }))),
    html("ul", { class: "legend" }, ...Object.entries(PARTS).map(([name, text]) =>
      html("li", {}, html("span", { class: `sign ${name}` }), `${percent(shares[name])} ${text}`))));
}

// The belief that is followed: in the word that syntax makes the agent.
const followed = ({ words, indicated, networks }) => {
  const find = (voice) => voice.at(-1).roles.agent.find(({ filler }) => filler === indicated.agent);
  return { ...find(words), networks: networks.map((one) => find(one.words)) };
};

// [{ name, time, kind, belief, value, nearest }, …]: trained and at some stops, against the exact truth.
export function compareWithTruth(answers) {
  const beliefs = answers.map(followed);
  const rivals = [
    { name: "trained", time: null, kind: "mle", belief: beliefs[0] },
    ...answers.map(({ step, time }, i) => ({ belief: beliefs[i], kind: "bayes", time,
      name: time === null ? step : `step ${step}` })),
  ].map((rival) => ({ ...rival, value: rival.belief[rival.kind] }));
  const distance = ({ value, belief }) => Math.abs(value - belief.truth);
  const least = Math.min(...rivals.map(distance));
  return rivals.map((rival) => ({ ...rival, nearest: distance(rival) === least }));
}

function againstTruth(stops) {
  const rivals = compareWithTruth(stops);
  const { filler, truth } = rivals[0].belief;
  return html("div", { class: "against" },
    html("h4", {}, `the ${filler} as agent`, html("span", { class: "note syntax" }, `exact ${percent(truth, 1)}`)),
    ...rivals.map(({ name, time, kind, belief, value, nearest }) => html("div", { class: nearest ? "row nearest" : "row",
      "data-name": name, "data-value": value },
      html("span", { class: "filler" }, name, time === null ? null : html("span", { class: "note" }, `τ = ${formatTime(time)}`)),
      html("div", { class: "track" }, lane(kind, value, kind === "bayes" ? belief : null, belief.networks.map((one) => one[kind])),
        html("i", { class: "truth", "--at": truth })),
      html("span", { class: "numbers" }, html("span", { class: kind }, percent(value, 1))))));
}

const [HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [260, 44, 16, 12, 44];

// One belief along sampler time, from the prior to the converged posterior: a line for each network,
// their mean with its 90 % interval, and the exact truth.
function path(answers, chosen) {
  const beliefs = answers.map(followed);
  const { filler, truth } = beliefs[0];
  const width = matchMedia("(max-width: 40rem)").matches ? 340 : 560;
  const x = (i) => LEFT + ((width - LEFT - RIGHT) * i) / (answers.length - 1);
  const y = (value) => HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * value;
  const points = (of) => beliefs.map((belief, i) => `${x(i)},${y(of(belief))}`);
  const line = (name, of) => svg("polyline", { class: name, points: points(of).join(" ") });
  const text = (words, at, from, anchor = "middle") => svg("text", { x: at, y: from, "text-anchor": anchor }, words);
  const band = [...points(({ high }) => high), ...points(({ low }) => low).reverse()];
  const at = answers.findIndex(({ step }) => step === chosen);
  const drawing = svg("svg", { class: "path", role: "img", viewBox: `0 0 ${width} ${HEIGHT}`,
    "aria-label": `The ${filler} as agent: ${percent(beliefs[0].bayes)} at the prior, ${
      percent(beliefs.at(-1).bayes)} converged; exactly ${percent(truth, 1)}.` },
    ...[0, 0.5, 1].flatMap((value) => [text(`${100 * value} %`, LEFT - 6, y(value) + 4, "end"),
      svg("line", { class: "rule", x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) })]),
    svg("polygon", { class: "band", points: band.join(" ") }),
    ...beliefs[0].networks.map((_, n) => line("network", ({ networks }) => networks[n].bayes)),
    line("mean", ({ bayes }) => bayes),
    svg("line", { class: "exact", x1: LEFT, x2: width - RIGHT, y1: y(truth), y2: y(truth) }),
    svg("circle", { cx: x(at), cy: y(beliefs[at].bayes), r: 5 }),
    ...answers.flatMap(({ step, time }, i) => [text(time === null ? "∞" : step, x(i), HEIGHT - BOTTOM + 18),
      time ? text(formatTime(time), x(i), HEIGHT - BOTTOM + 34) : null].filter(Boolean)));
  return html("div", {}, html("h4", {}, `the ${filler} as agent`,
    html("span", { class: "note" }, " by step, and τ below it; dashed: exact truth")), drawing);
}

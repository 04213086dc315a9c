// slides.js: the picture of one sentence in each step of the story; and one belief along sampler time,
// from the prior to the converged posterior: a line for each network, their mean with its 90 % interval,
// and the exact truth.

import { svg } from "./dom.js";
import { fit, FONT, percent, short, shortTime, tauOf, wrap } from "./look.js";
import { dots, interval, keyLine, swatch } from "./panel.js";
import { draw, FIRST, panels, textLines } from "./picture.js";
import { compareWithTruth } from "./story.js";
import { splitDoubt } from "./summary.js";

const BAR = 26; // thick
const ROW = 44; // of the comparison with the truth
const TALL = 250; // the path along τ

// `stops` are answers to the same sentence at the stops that the view needs.
export function drawSlide(view, answer, stops, look) {
  const position = answer.words.length - 1;
  if (view === "along") return path(stops, position, answer.step, { ...look, height: TALL });
  const partsOf = {
    certainty: (width) => beliefs(answer, position, width, { ...look, kinds: ["mle"] }),
    doubt: (width) => [doubt(answer, position, width, look),
      ...beliefs(answer, position, width, { ...look, kinds: ["mle", "bayes"] })],
    prior: (width) => beliefs(answer, position, width, { ...look, kinds: ["bayes"] }),
    truth: (width) => [truth(stops, position, width, look)],
  }[view];
  return draw("picture slide", answer, position, look, partsOf);
}

// The beliefs that a heard word is agent or patient: the question is who acts.
function beliefs(answer, position, width, look) {
  const { roles } = answer.words[position];
  const [kind] = look.kinds.slice(-1);
  const others = Object.entries(roles).filter(([role]) => !FIRST.includes(role)).map(([, all]) =>
    all.reduce((a, b) => (b[kind] > a[kind] ? b : a))).map((best) => `${best.filler} ${percent(best[kind])}`);
  const lines = wrap(`Other roles: ${others.join(", ")}.`, width, 12.5);
  const key = keyLine(width, look.colours, roles.agent[0].networks.length, look.kinds);
  const rows = Object.fromEntries(FIRST.map((role) => [role, roles[role].filter(isHeard).length]));
  return [
    panels(answer, position, width, { ...look, only: FIRST, kept: isHeard, rows }),
    { node: svg("g", {}, textLines(lines, 14, 17, { "font-size": 12.5, fill: look.colours.muted })),
      height: 17 * lines.length + 8 },
    key,
  ];
}

const isHeard = ({ said }) => said;

// One bar, as long as the uncertainty: how much of it lies in the words, between networks and within.
function doubt(answer, position, width, { colours, doubtTop }) {
  const shares = splitDoubt(answer, position);
  const parts = [
    ["words", "in the words", colours.words],
    ["between", "between networks", colours.between],
    ["within", "within each network", colours.bayes],
  ];
  let x = 0;
  const bars = parts.map(([name, , fill]) => {
    const wide = (width * shares[name] * shares.total) / doubtTop;
    const bar = svg("rect", { class: `doubt-${name}`, "data-value": shares[name], x, y: 22, width: wide,
      height: BAR, fill });
    x += wide;
    return bar;
  });
  const key = swatch(width, parts.map(([name, text, fill]) => [`${percent(shares[name])} ${text}`,
    [svg("rect", { y: 3, width: 14, height: 14, fill })]]), 20);
  key.node.setAttribute("transform", `translate(0 ${BAR + 28})`);
  const title = `doubt: ${short(shares.total)} nats, mean over roles`;
  return { node: svg("g", { class: "doubt" },
    svg("text", { y: 14, "font-size": 13, "font-weight": 600 }, fit(title, width, 13, 600)), ...bars,
    key.node), height: BAR + 28 + key.height + 16 };
}

// Trained, at the paper's step and converged, beside the exact truth.
function truth(stops, position, width, { colours }) {
  const { role, filler } = chooseTracked(stops.at(-1), position);
  const rivals = compareWithTruth(stops, role, filler);
  const { truth: exact } = rivals[0].belief;
  const [left, right] = [86, 62];
  const at = (value) => left + (width - left - right) * value;
  const height = ROW * rivals.length;
  const rows = rivals.map(({ name, time, kind, belief, value, nearest }, i) => {
    const y = 48 + ROW * i;
    const weight = nearest ? 700 : 400;
    return svg("g", { class: "rival", "data-name": name, "data-value": value },
      svg("text", { y: y + BAR / 2 + 5, "font-size": 13, "font-weight": weight }, name),
      time === null ? null : svg("text", { y: y + BAR / 2 + 18, "font-size": 11, fill: colours.muted }, tauOf(time)),
      svg("rect", { x: left, y, width: Math.max(0, width - left - right), height: BAR, fill: colours.track }),
      svg("rect", { x: left, y, width: at(value) - left, height: BAR, fill: colours[kind] }),
      ...(kind === "bayes" ? interval(at(belief.low), at(belief.high), y + BAR / 2, colours) : []),
      ...dots(belief, kind, at, y + BAR / 2, colours),
      svg("text", { x: width, y: y + BAR / 2 + 5, "text-anchor": "end", "font-size": 13, "font-weight": weight,
        fill: colours[`${kind}Text`] }, percent(value, 1)));
  });
  const label = `exact ${percent(exact, 1)}`;
  const anchor = exact > 0.8 ? "end" : "middle";
  const line = [
    svg("text", { x: at(exact), y: 34, "text-anchor": anchor, "font-weight": 700 }, label),
    svg("rect", { class: "truth", x: at(exact) - 1.1, y: 39, width: 2.2, height, fill: colours.ink }),
  ];
  const key = keyLine(width, colours, rivals[0].belief.networks.length, ["mle", "bayes"], false);
  key.node.setAttribute("transform", `translate(0 ${height + 50})`);
  return { node: svg("g", { class: "against-truth" },
    svg("text", { y: 13, "font-size": 14, "font-weight": 700 }, `the ${filler} as ${role}`), ...rows, ...line,
    key.node), height: height + 56 + key.height };
}

const HEIGHT = 150;
const [TOP, LEFT, RIGHT] = [26, 40, 12];

// `answers` are those of one sentence at the stops of a world, `chosen` is the stop on the slider.
export function path(answers, position, chosen, look) {
  const { colours } = look;
  const width = look.width / look.unit;
  const height = look.height ?? HEIGHT;
  const bottom = height - 40;
  const { role, filler } = chooseTracked(answers.at(-1), position);
  const beliefs = answers.map((answer) => answer.words[position].roles[role]
    .find((belief) => belief.filler === filler));
  if (beliefs.some((belief) => belief === undefined)) return null;
  const x = (i) => LEFT + ((width - LEFT - RIGHT) * i) / (answers.length - 1);
  const y = (value) => bottom - (bottom - TOP) * value;
  const at = answers.findIndex((answer) => answer.step === chosen);
  const points = (of) => beliefs.map((belief, i) => `${x(i)},${y(of(belief))}`);
  const band = [...points((belief) => belief.high), ...points((belief) => belief.low).reverse()];
  const lines = (beliefs[0].networks).map((_, k) => svg("polyline", {
    class: "network", points: points((belief) => belief.networks[k].bayes).join(" "), fill: "none",
    stroke: colours.bayes, "stroke-width": 1, "stroke-opacity": 0.8 }));
  const { truth } = beliefs[0];
  const title = `the ${filler} as ${role}, along τ`;
  return svg("svg", { class: "path", role: "img", width: look.width, height: height * look.unit,
    viewBox: `0 0 ${width} ${height}`, "font-family": FONT, "font-size": 12, fill: colours.ink,
    "aria-label": `Belief in ${title}: ${percent(beliefs[0].bayes)} at the prior, ${
      percent(beliefs.at(-1).bayes)} converged${truth === null ? "" : `; exactly ${percent(truth)}`}.` },
    svg("text", { y: 13, "font-weight": 600 }, fit(title, width, 12, 600)),
    ...[0, 0.5, 1].flatMap((value) => [
      svg("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end", "font-size": 11,
        fill: colours.muted }, percent(value)),
      svg("rect", { x: LEFT, y: y(value), width: Math.max(0, width - LEFT - RIGHT), height: 1,
        fill: colours.line }),
    ]),
    svg("polygon", { class: "band", points: band.join(" "), fill: colours.bayes, "fill-opacity": 0.2 }),
    ...lines,
    svg("polyline", { points: points((belief) => belief.bayes).join(" "), fill: "none",
      stroke: colours.bayes, "stroke-width": 2.6 }),
    truth === null ? null : svg("line", { class: "truth", x1: LEFT, x2: width - RIGHT, y1: y(truth),
      y2: y(truth), stroke: colours.ink, "stroke-width": 2, "stroke-dasharray": "6 4" }),
    svg("circle", { cx: x(at), cy: y(beliefs[at].bayes), r: 5, fill: colours.bayes,
      stroke: colours.paper, "stroke-width": 1.5 }),
    ...answers.map(({ step }, i) => svg("text", { x: x(i), y: bottom + 16, "font-size": 11,
      "text-anchor": i + 1 < answers.length ? "middle" : "end",
      "font-weight": i === at ? 700 : 400, fill: colours.muted }, step === "converged" ? "∞" : step)),
    ...answers.map(({ time }, i) => (time === null ? null : svg("text", { x: x(i), y: bottom + 29, "font-size": 10,
      "text-anchor": i ? "middle" : "start", fill: colours.muted }, i ? shortTime(time) : tauOf(time)))));
}

// The belief that is followed: in the word that syntax makes the agent, as soon as it has been heard.
function chooseTracked(answer, position) {
  const { roles } = answer.words[position];
  const role = "agent" in roles ? "agent" : Object.keys(roles)[0];
  const said = roles[role].find((belief) => belief.said && belief.filler === answer.indicated[role]);
  return { role, filler: (said ?? roles[role][0]).filler };
}

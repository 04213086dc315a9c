// slides.js: the picture of one sentence in a step of the story. Each step has a picture of its own.

import { compareWithTruth } from "./chapters.js";
import { svg } from "./dom.js";
import { percent, short } from "./format.js";
import { fit, wrap } from "./look.js";
import { dots, interval, keyLine, swatch } from "./panel.js";
import { path, tracked } from "./path.js";
import { FIRST, draw, panels, textLines } from "./picture.js";
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

// Of the agent and the patient, those that were heard: who acts is the question.
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
  const { role, filler } = tracked(stops.at(-1), position);
  const rivals = compareWithTruth(stops, role, filler);
  const { truth: exact } = rivals[0].belief;
  const [left, right] = [86, 62];
  const at = (value) => left + (width - left - right) * value;
  const height = ROW * rivals.length;
  const rows = rivals.map(({ name, kind, belief, value, nearest }, i) => {
    const y = 48 + ROW * i;
    const weight = nearest ? 700 : 400;
    return svg("g", { class: "rival", "data-name": name, "data-value": value },
      svg("text", { y: y + BAR / 2 + 5, "font-size": 13, "font-weight": weight }, name),
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

// panel.js: the bars of one role, the legend, and how bars slide from one picture to the next.
//
// Everything in a row is a <rect>, so that each can slide from its old place to its new.

import { reducedMotion, svg } from "./dom.js";
import { fit, measure, percent } from "./look.js";

const HEAD = 30;
const ROW = 28;
const BAR = 10; // thick
const NUMBER = measure("> 99.9 %", 11.5) + 9; // room for the longest
const SLIGHT = 0.005; // a truth below is marked by a triangle alone
const BOTH = ["mle", "bayes"];
const GLOSSES = {
  agent: "who does it", action: "what is done", patient: "what it is done to",
  location: "where", situation: "when", recipient: "who gets it", manner: "how",
};

export const panelHeight = (rows) => HEAD + ROW * rows;

// `kinds` are the beliefs that are drawn: "mle", "bayes" or both; `kept` says which fillers have a row.
export function panel(answer, position, role, width, { colours, kinds = BOTH, kept = () => true }) {
  const beliefs = answer.words[position].roles[role].filter(kept);
  const names = answer.words.flatMap((entry) => entry.roles[role].map((each) => each.filler));
  const size = width < 260 ? 12 : 13;
  const widest = Math.max(...names.map((name) => measure(name, size, 700)));
  const label = Math.min(widest + 8, 0.37 * width);
  const room = { label, size, bar: Math.max(8, width - label - NUMBER) };
  return svg("g", { class: "role" },
    ...head(answer, role, beliefs, width, colours),
    ...beliefs.map((belief, i) => row(belief, role, HEAD + ROW * i, room, { colours, kinds })));
}

function head(answer, role, beliefs, width, colours) {
  const indicated = answer.indicated[role];
  const heard = beliefs.some((belief) => belief.said && belief.filler === indicated);
  const syntax = heard ? `syntax: ${indicated}` : "";
  const after = measure(role, 14, 700) + 8;
  const free = width - after - measure(syntax, 12) - 10;
  const gloss = GLOSSES[role] ?? "";
  const small = { y: 14, "font-size": 12, fill: colours.muted };
  return [
    svg("text", { y: 14, "font-size": 14, "font-weight": 700 }, role),
    measure(gloss, 12) < free ? svg("text", { x: after, ...small }, gloss) : null,
    syntax ? svg("text", { x: width, "text-anchor": "end", ...small }, syntax) : null,
    svg("rect", { y: 21, width, height: 1, fill: colours.line }),
  ].filter(Boolean);
}

function row(belief, role, y, room, { colours, kinds }) {
  const weight = belief.said ? 700 : 400;
  const data = { "data-role": role, "data-filler": belief.filler };
  const at = (value) => room.label + room.bar * Math.max(0, Math.min(1, value));
  const high = kinds.length > 1 ? BAR : 2 * BAR + 1;
  const lanes = kinds.map((name, i) => ({ name, top: 1 + i * (BAR + 1), middle: 1 + i * (BAR + 1) + high / 2 }));
  const bar = ({ name, top }) => svg("rect", {
    class: name, ...data, "data-value": belief[name], x: at(0), y: top,
    width: at(belief[name]) - at(0), height: high, fill: colours[name],
  });
  const number = ({ name, middle }) => svg("text", {
    x: room.label + room.bar + NUMBER, y: middle + 4, "text-anchor": "end", "font-size": 11.5,
    fill: colours[`${name}Text`],
  }, percent(belief[name]));
  const bayesian = lanes.filter(({ name }) => name === "bayes");
  return svg("g", { class: "row", "data-key": `${role} ${belief.filler}`, "data-y": y,
    transform: `translate(0 ${y})` },
    svg("title", {}, describeBelief(belief, role)),
    svg("text", { y: 16.5, "font-size": room.size, "font-weight": weight },
      fit(belief.filler, room.label - 6, room.size, weight)),
    svg("rect", { x: at(0), y: 1, width: room.bar, height: 2 * BAR + 1, fill: colours.track }),
    ...lanes.map(bar),
    ...bayesian.flatMap(({ middle }) => interval(at(belief.low), at(belief.high), middle, colours)),
    ...(belief.truth === null ? [] : mark(at(belief.truth), colours, { slight: belief.truth < SLIGHT })),
    ...lanes.flatMap(({ name, middle }) => dots(belief, name, at, middle, colours)),
    ...lanes.map(number));
}

// A plain line without ends, so that a very short one is not taken for the truth; its rim keeps it
// visible on the bar.
export function interval(low, high, y, colours) {
  const piece = (rim, fill) => svg("rect", { class: rim ? "rim" : "interval", x: low - rim,
    y: y - 1 - rim, width: Math.max(0, high - low) + 2 * rim, height: 2 + 2 * rim, fill });
  return [piece(0.8, colours.paper), piece(0, colours.ink)];
}

// One dot for each network, which shows whether the networks agree.
export function dots(belief, name, at, y, colours) {
  const each = belief.networks.length > 1 ? belief.networks : [];
  return each.map((one) => svg("circle", { class: "network", cx: at(one[name]), cy: y, r: 3.1,
    fill: colours[`${name}Dot`], stroke: colours.paper, "stroke-width": 1.2 }));
}

// A line through both bars under a triangle; the triangle alone where the truth is next to nothing.
function mark(x, colours, { top = -1, long = 2 * BAR + 5, slight = false } = {}) {
  const height = slight ? 4 : long;
  const width = slight ? 0 : 2.2;
  return [
    svg("rect", { x: x - width, y: top, width: 2 * width, height, fill: colours.paper }),
    svg("rect", { class: "truth", x: x - width / 2, y: top, width, height, fill: colours.ink }),
    svg("path", { d: `M${x - 5.5} ${top - 3}h11l-5.5 7z`, fill: colours.ink, stroke: colours.paper }),
  ];
}

function describeBelief(belief, role) {
  const truth = belief.truth === null ? "" : `, truth ${percent(belief.truth)}`;
  return `${belief.filler} as ${role}: trained ${percent(belief.mle)}, Bayesian ${
    percent(belief.bayes)} (90 % between ${percent(belief.low)} and ${percent(belief.high)})${truth}`;
}

// [[text, signs], …]: the entries of the legend.
function keysOf(colours, networks, kinds, line = true) {
  const dot = (x, name) => svg("circle", { cx: x, cy: 10, r: 3.1, fill: colours[`${name}Dot`],
    stroke: colours.paper, "stroke-width": 1.2 });
  const bar = (name) => [svg("rect", { y: 5, width: 34, height: BAR, fill: colours[name] })];
  const names = { mle: "trained (MLE), mean", bayes: "Bayesian, mean" };
  return [
    ...kinds.map((name) => [names[name], bar(name)]),
    ...(networks > 1 ? [["each network", [6, 17, 28].map((x) => dot(x, kinds.at(-1)))]] : []),
    ...(kinds.includes("bayes") ? [["90 % interval", interval(2, 32, 10, colours)]] : []),
    ...(line ? [["exact truth in this world", mark(17, colours, { top: 4, long: 15 })],
      ["a word that was heard", [svg("text", { y: 14.5, "font-weight": 700 }, "bold")]]] : []),
  ];
}

// The legend in lines, beside or below a picture.
export const keyLine = (width, colours, networks, kinds, line = true) =>
  swatch(width, keysOf(colours, networks, kinds, line), 40);

// Signs of some width with their texts, one after the other, in as many lines as they need.
export function swatch(width, entries, wide) {
  let [x, y] = [0, 0];
  const placed = entries.map(([text, sign]) => {
    const shown = fit(text, width - wide, 12.5);
    const room = wide + measure(shown, 12.5);
    if (x > 0 && x + room > width) [x, y] = [0, y + 21];
    const node = svg("g", { transform: `translate(${x} ${y})` },
      ...sign, svg("text", { x: wide, y: 14.5, "font-size": 12.5 }, shown));
    x += room + 18;
    return node;
  });
  return { node: svg("g", { class: "key" }, ...placed), height: y + 24 };
}

export function legend(width, colours, networks) {
  const entries = keysOf(colours, networks, BOTH);
  const lines = entries.map(([text, sign], i) => svg("g", { transform: `translate(0 ${28 + 23 * i})` },
    ...sign, svg("text", { x: 44, y: 14.5, "font-size": 12.5 }, fit(text, width - 44, 12.5))));
  const name = svg("text", { y: 14, "font-size": 14, "font-weight": 700 }, "legend");
  const rule = svg("rect", { y: 21, width, height: 1, fill: colours.line });
  return { node: svg("g", { class: "legend" }, name, rule, ...lines), height: 28 + 23 * entries.length };
}

const TIMING = { duration: 260, easing: "ease-out" };

export function slide(old, fresh) {
  if (!old || old.classList.contains("slide") || reducedMotion()) return;
  const before = new Map([...old.querySelectorAll("g.row")].map((row) => [row.dataset.key, row]));
  for (const row of fresh.querySelectorAll("g.row")) {
    const was = before.get(row.dataset.key);
    if (!was) {
      row.animate([{ opacity: 0 }, { opacity: 1 }], TIMING);
      continue;
    }
    if (was.dataset.y !== row.dataset.y) {
      row.animate([was, row].map((each) => ({ transform: `translate(0, ${each.dataset.y}px)` })), TIMING);
    }
    const rects = was.querySelectorAll("rect");
    row.querySelectorAll("rect").forEach((rect, i) => slideRect(rects[i], rect));
  }
}

function slideRect(was, rect) {
  if (!was) return;
  const place = (each) => ({
    x: `${each.getAttribute("x")}px`, width: `${each.getAttribute("width")}px`,
  });
  const [from, to] = [place(was), place(rect)];
  if (from.x !== to.x || from.width !== to.width) rect.animate([from, to], TIMING);
}

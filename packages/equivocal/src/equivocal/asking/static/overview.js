// overview.js: all words at once, a column for each.
//
// First a row for each role; in every cell the fillers believed most: name and Bayesian belief, and below
// them thin bars of the trained and the Bayesian belief, with a tick at the exact truth. Then lines of
// the semantic update and of uncertainty. On the page the names of the rows stay in place while a long
// sentence scrolls.

import { svg } from "./dom.js";
import { fit, measure, percent, short, wrap } from "./look.js";

const TITLE = 24; // height of the title
const WORDS = TITLE + 40; // and of the words below it
const NAME = 15; // height of a role's name
const LINE = 24; // height of one filler
const BAR = 2.5; // thick
const GAP = 3; // below a role
const EDGE = 4; // on both sides of a column
const SLIGHT = 0.005; // a truth below is not marked
const NARROW = 90; // a column with smaller type
const FILLERS = 2; // of a role in one cell
const STEP = NAME + FILLERS * LINE + GAP;

const rolesOf = (answer) => Object.keys(answer.words[0].roles);
const heightOf = (answer) => WORDS + 6 + rolesOf(answer).length * STEP;

export function overview(answer, position, width, look) {
  const columns = { count: answer.words.length, wide: width / answer.words.length };
  const height = heightOf(answer);
  const node = svg("g", { class: "overview" },
    svg("rect", { x: position * columns.wide, y: TITLE, width: columns.wide, height: height - TITLE, rx: 6,
      fill: look.colours.chosen }),
    ...answer.words.map((entry, i) =>
      word(entry.word, i, position, columns, look.colours)),
    ...rolesOf(answer).flatMap((role, r) => answer.words.flatMap((entry, i) =>
      cell(entry.roles[role], i, WORDS + 6 + r * STEP + NAME, columns, look))),
    ...(look.titled ? [rowNames(answer, width, look).node] : []));
  return { node, height };
}

// The names of the rows, and in the first of them what the bars are.
export function rowNames(answer, width, { colours }) {
  const small = { "font-size": 11, fill: colours.muted };
  const node = svg("g", { class: "names" },
    svg("text", { y: 16, "font-size": 14, "font-weight": 600 }, "All words at once"),
    ...rolesOf(answer).map((role, r) => svg("text", { x: EDGE, y: WORDS + 17 + r * STEP, ...small }, role)));
  let x = width - EDGE;
  for (const [text, name] of [["truth", "ink"], ["Bayesian", "bayes"], ["trained", "mle"]]) {
    x -= measure(text, 11);
    node.append(svg("text", { x, y: WORDS + 17, ...small }, text));
    const tick = name === "ink";
    node.append(svg("rect", { x: x - (tick ? 7 : 15), y: WORDS + (tick ? 9 : 12), width: tick ? 2 : 12,
      height: tick ? 9 : 3, fill: colours[name] }));
    x -= tick ? 18 : 26;
  }
  return { node, height: heightOf(answer) };
}

function word(text, i, position, columns, colours) {
  const weight = i === position ? 700 : 400;
  const room = columns.wide - 6;
  const size = text.split(" ").every((part) => measure(part, 14, weight) <= room) ? 14 : 11.5;
  const lines = wrap(text, room, size, weight).slice(0, 2);
  const middle = (i + 0.5) * columns.wide;
  const first = (TITLE + WORDS) / 2 + 5 - 8.5 * (lines.length - 1);
  return svg("text", { "text-anchor": "middle", "font-size": size, "font-weight": weight,
    fill: i <= position ? colours.ink : colours.muted },
    ...lines.map((part, k) => svg("tspan", { x: middle, y: first + 17 * k }, part)));
}

function cell(beliefs, i, top, columns, { colours }) {
  const shown = [...beliefs].sort((a, b) => b.bayes - a.bayes).slice(0, FILLERS);
  const x = i * columns.wide + EDGE;
  const room = Math.max(1, columns.wide - 2 * EDGE);
  const size = room < NARROW ? 11 : 12;
  return shown.flatMap((belief, k) => {
    const y = top + k * LINE;
    const weight = belief.said ? 700 : 400;
    const value = percent(belief.bayes);
    const bar = (share, under, fill) => svg("rect", { x, y: y + under, width: room * share, height: BAR, fill });
    const place = x + room * belief.truth - 1;
    return [
      svg("text", { class: "filler", x, y: y + 10.5, "font-size": size, "font-weight": weight },
        fit(belief.filler, Math.max(8, room - measure(value, size - 1) - 3), size, weight)),
      svg("text", { class: "share", x: x + room, y: y + 10.5, "font-size": size - 1, "text-anchor": "end" }, value),
      svg("rect", { x, y: y + 14, width: room, height: 2 * BAR + 0.5, fill: colours.track }),
      bar(belief.mle, 14, colours.mle), bar(belief.bayes, 14.5 + BAR, colours.bayes),
      belief.truth >= SLIGHT ? svg("rect", { class: "tick", x: place, y: y + 13, width: 2, height: 9,
        fill: colours.ink }) : null,
    ].filter(Boolean);
  });
}

const COURSE = 69; // height of one line with its name and numbers
const HIGH = 37; // the largest value, from the top of its line
const LOW = 65; // zero
const TITLES = ["semantic update", "uncertainty in nats, shaded: epistemic"];

export function timeline(answer, position, width, look) {
  const columns = { count: answer.words.length, wide: width / answer.words.length };
  const surprise = answer.words.map((entry) => entry.semantic_update);
  const entropy = answer.words.map((entry) => entry.entropy);
  const { colours } = look;
  const height = 6 + 2 * COURSE;
  const node = svg("g", { class: "timeline" },
    svg("rect", { x: position * columns.wide, width: columns.wide, height, rx: 6,
      fill: colours.chosen }),
    line(surprise, surprise.map(short), look.surpriseTop, {
      y: 2, columns, width, position, colours, colour: colours.ink, name: "surprise",
    }),
    line(entropy, labelUncertainty(answer, columns), look.entropyTop, {
      y: 2 + COURSE, columns, width, position, colours, colour: colours.bayes,
      name: "uncertainty", shaded: answer.words.map((entry) => entry.epistemic),
    }),
    ...(look.titled ? [lineNames(width, look).node] : []));
  return { node, height: height + 8 };
}

// The names of the lines, which stay in place while a long sentence scrolls.
export function lineNames(width, { colours }) {
  return { height: 14 + 2 * COURSE, node: svg("g", { class: "names" }, ...TITLES.map((title, i) =>
    svg("text", { x: 3, y: 14 + COURSE * i, "font-size": 12, fill: colours.muted }, fit(title, width - 6, 12)))) };
}

function labelUncertainty(answer, columns) {
  return answer.words.map(({ entropy, epistemic }) => {
    const share = `${short(entropy)} (${percent(entropy > 0 ? epistemic / entropy : 0)})`;
    return measure(share, 12, 700) < columns.wide - 4 ? share : short(entropy);
  });
}

function line(values, labels, top, style) {
  const { columns, colours, colour, position } = style;
  const x = (i) => (i + 0.5) * columns.wide;
  const y = (value) => LOW - (LOW - HIGH) * Math.min(1, value / top);
  const points = values.map((value, i) => `${x(i)},${y(value)}`).join(" ");
  return svg("g", { class: style.name, transform: `translate(0 ${style.y})` },
    svg("rect", { y: LOW, width: style.width, height: 1, fill: colours.line }),
    style.shaded ? shade(style.shaded.map(y), x, style.width, colour) : null,
    svg("polyline", { points, fill: "none", stroke: colour, "stroke-width": 2 }),
    ...values.map((value, i) => svg("circle", { cx: x(i), cy: y(value), r: i === position ? 5 : 3.2,
      fill: colour, stroke: colours.paper, "stroke-width": 1.2 })),
    ...values.map((value, i) => svg("text", { x: x(i), y: y(value) - 7, "text-anchor": "middle",
      "font-size": 12, "font-weight": i === position ? 700 : 400 }, labels[i])));
}

// Runs flat to both edges, so that one word alone has an area too.
function shade(heights, x, width, colour) {
  const over = heights.map((height, i) => `${x(i)},${height}`);
  const points = [`0,${LOW}`, `0,${heights[0]}`, ...over, `${width},${heights.at(-1)}`, `${width},${LOW}`];
  return svg("polygon", { class: "epistemic", points: points.join(" "), fill: colour,
    "fill-opacity": 0.45 });
}

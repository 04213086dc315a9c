// timeline.js: the words in equal columns, and under them semantic update and uncertainty.
//
// On the page buttons stand where a saved picture has its words (answer.js).

import { svg } from "./dom.js";
import { percent, short } from "./format.js";
import { fit, measure, wrap } from "./look.js";

const WORDS = 44; // height of the words; style.css gives .words the same
const LINE = 69; // height of one line with its name and numbers
const HIGH = 37; // the largest value, from the top of its line
const LOW = 65; // zero

export function timeline(answer, position, width, look) {
  const columns = { count: answer.words.length, wide: width / answer.words.length };
  const surprise = answer.words.map((entry) => entry.semantic_update);
  const entropy = answer.words.map((entry) => entry.entropy);
  const { colours } = look;
  const height = WORDS + 8 + 2 * LINE;
  const node = svg("g", { class: "timeline" },
    svg("rect", { x: position * columns.wide, width: columns.wide, height, rx: 6,
      fill: colours.chosen }),
    ...(look.titled ? answer.words : []).map((entry, i) =>
      word(entry.word, i, position, columns, colours)),
    line("semantic update", surprise, surprise.map(short), look.surpriseTop, {
      y: WORDS + 8, columns, width, position, colours, colour: colours.ink, name: "surprise",
    }),
    line("uncertainty in nats, shaded: epistemic", entropy, doubts(answer, columns), look.entropyTop, {
      y: WORDS + 8 + LINE, columns, width, position, colours, colour: colours.bayes,
      name: "uncertainty", shaded: answer.words.map((entry) => entry.epistemic),
    }));
  return { node, height };
}

function word(text, i, position, columns, colours) {
  const weight = i === position ? 700 : 400;
  const lines = wrap(text, columns.wide - 6, 14, weight).slice(0, 2);
  const middle = (i + 0.5) * columns.wide;
  const first = WORDS / 2 + 5 - 8.5 * (lines.length - 1);
  return svg("text", { "text-anchor": "middle", "font-size": 14, "font-weight": weight,
    fill: i <= position ? colours.ink : colours.muted },
    ...lines.map((part, k) => svg("tspan", { x: middle, y: first + 17 * k }, part)));
}

function doubts(answer, columns) {
  return answer.words.map(({ entropy, epistemic }) => {
    const share = `${short(entropy)} (${percent(entropy > 0 ? epistemic / entropy : 0)})`;
    return measure(share, 12, 700) < columns.wide - 4 ? share : short(entropy);
  });
}

function line(title, values, labels, top, style) {
  const { columns, colours, colour, position } = style;
  const x = (i) => (i + 0.5) * columns.wide;
  const y = (value) => LOW - (LOW - HIGH) * Math.min(1, value / top);
  const points = values.map((value, i) => `${x(i)},${y(value)}`).join(" ");
  return svg("g", { class: style.name, transform: `translate(0 ${style.y})` },
    svg("text", { y: 12, "font-size": 12, fill: colours.muted }, fit(title, style.width, 12)),
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

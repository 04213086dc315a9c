// timeline.js: semantic update and uncertainty over the words, in the columns of the overview.

import { svg } from "./dom.js";
import { percent, short } from "./format.js";
import { fit, measure } from "./look.js";

const LINE = 69; // height of one line with its name and numbers
const HIGH = 37; // the largest value, from the top of its line
const LOW = 65; // zero
const TITLES = ["semantic update", "uncertainty in nats, shaded: epistemic"];

export function timeline(answer, position, width, look) {
  const columns = { count: answer.words.length, wide: width / answer.words.length };
  const surprise = answer.words.map((entry) => entry.semantic_update);
  const entropy = answer.words.map((entry) => entry.entropy);
  const { colours } = look;
  const height = 6 + 2 * LINE;
  const node = svg("g", { class: "timeline" },
    svg("rect", { x: position * columns.wide, width: columns.wide, height, rx: 6,
      fill: colours.chosen }),
    line(surprise, surprise.map(short), look.surpriseTop, {
      y: 2, columns, width, position, colours, colour: colours.ink, name: "surprise",
    }),
    line(entropy, doubts(answer, columns), look.entropyTop, {
      y: 2 + LINE, columns, width, position, colours, colour: colours.bayes,
      name: "uncertainty", shaded: answer.words.map((entry) => entry.epistemic),
    }),
    ...(look.titled ? [lineNames(width, look).node] : []));
  return { node, height: height + 8 };
}

// The names of the lines, which stay in place while a long sentence scrolls.
export function lineNames(width, { colours }) {
  return { height: 14 + 2 * LINE, node: svg("g", { class: "names" }, ...TITLES.map((title, i) =>
    svg("text", { x: 3, y: 14 + LINE * i, "font-size": 12, fill: colours.muted }, fit(title, width - 6, 12)))) };
}

function doubts(answer, columns) {
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

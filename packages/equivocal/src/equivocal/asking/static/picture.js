// picture.js: the picture of one answer at one word, an SVG that stands alone.
//
// From above: the chosen word large, as a panel of bars for each role (panel.js) with the legend, all
// words at once with semantic update and uncertainty (overview.js). A part is
// { node, height }; `stack` puts parts below each other.

import { svg } from "./dom.js";
import { FONT, measure, percent, tauOf, wrap } from "./look.js";
import { lineNames, overview, rowNames, timeline } from "./overview.js";
import { legend, panel, panelHeight } from "./panel.js";

const GAP = 24; // between panels
const NARROWEST = 190; // a panel
const MOST_COLUMNS = 3;
export const FIRST = ["agent", "patient"]; // side by side, as the roles that matter most
const LONGEST = 6; // words in a heading
const IMPOSSIBLE = "Impossible in this world, so there is no truth to compare with.";

// look: { colours, unit, width, margin } and what `shared` of answer.js gives; the width is in pixels.
// On the page the parts with a column for each word scroll, and the beliefs after one word do not.
export function picture(answer, position, look) {
  return draw("picture", answer, position, look, (width) => [
    title(answer, width, look.colours),
    heading(answer, position, width, look),
    panels(answer, position, width, look),
    overview(answer, position, width, { ...look, titled: true }),
    timeline(answer, position, width, { ...look, titled: true }),
  ]);
}

export const beliefs = (answer, position, look) => draw("picture", answer, position, look, (width) =>
  [heading(answer, position, width, look), panels(answer, position, width, look)]);

export const allWords = (answer, position, look) => draw("columns", answer, position, look, (width) =>
  [overview(answer, position, width, look), timeline(answer, position, width, look)]);

// The names of the rows, which stay in place while the columns scroll.
export const allNames = (answer, look) => draw("names", answer, 0, { ...look, clear: true }, (width) => [
  rowNames(answer, width, look), lineNames(width, look)]);

export function draw(name, answer, position, look, partsOf) {
  const margin = look.margin ?? 0;
  const all = stack(partsOf(look.width / look.unit - 2 * margin), margin);
  const height = Math.ceil(all.height + margin);
  const label = name.startsWith("picture") ? { role: "img", "aria-label": describePicture(answer, position) }
    : { "aria-hidden": "true" }; // the table has its numbers
  return svg("svg", {
    class: name, ...label,
    width: look.width, height: height * look.unit,
    viewBox: `0 0 ${look.width / look.unit} ${height}`,
    "font-family": FONT, "font-size": 13, fill: look.colours.ink,
  }, look.clear ? null : svg("rect", { width: "100%", height: "100%", fill: look.colours.paper }), all.node);
}

function stack(parts, margin) {
  const node = svg("g");
  let height = margin;
  for (const part of parts) {
    part.node.setAttribute("transform", `translate(${margin} ${height})`);
    node.append(part.node);
    height += part.height;
  }
  return { node, height };
}

// The sentence as the title of a saved picture; on the page it stands in its field.
function title(answer, width, colours) {
  const lines = wrap(answer.sentence, width, 18, 700);
  const source = `Equivocal, world ${answer.world}. Prior variance ${answer.prior_variance}, ${
    answer.time === null ? "converged" : `sampler step ${answer.step}, ${tauOf(answer.time)}`}.`;
  const node = svg("g", {}, textLines(lines, 16, 22, { "font-size": 18, "font-weight": 700 }));
  node.append(textLines([source], 16 + 22 * lines.length, 16, {
    "font-size": 12, fill: colours.muted,
  }));
  return { node, height: 22 * lines.length + 30 };
}

export function headingOf(answer, position) {
  const said = answer.words.slice(0, position + 1).map((entry) => entry.word);
  const last = said.length > LONGEST ? ["…", ...said.slice(-LONGEST)] : said;
  return `Beliefs after “${last.join(" · ")}”`;
}

function heading(answer, position, width, look) {
  const linesOf = (text) => wrap(text, width, 14, 600);
  const lines = linesOf(headingOf(answer, position));
  const node = svg("g", {}, textLines(lines, 26, 19, { "font-size": 14, "font-weight": 600 }));
  const longest = Math.max(...look.headings.map((text) => linesOf(text).length));
  const widest = Math.max(...look.headings.map((text) => measure(text, 14, 600)));
  const beside = widest + measure(IMPOSSIBLE, 13) + 24 < width;
  const notes = wrap(IMPOSSIBLE, width, 13);
  if (answer.words[position].possible === false) {
    node.append(beside
      ? svg("text", { class: "impossible", x: width, y: 26, "text-anchor": "end" }, IMPOSSIBLE)
      : textLines(notes, 26 + 19 * lines.length, 17, { class: "impossible" }));
  }
  return { node, height: 19 * longest + (look.noted && !beside ? 17 * notes.length : 0) + 20 };
}

export function textLines(lines, y, step, attributes) {
  const tspans = lines.map((line, i) => svg("tspan", { x: 0, y: y + step * i }, line));
  return svg("text", attributes, ...tspans);
}

// With `look.only`, these roles alone, below each other and without the legend.
export function panels(answer, position, width, look) {
  const { only } = look;
  const roles = Object.keys(answer.words[position].roles).filter((role) => !only || only.includes(role))
    .sort((a, b) => FIRST.includes(b) - FIRST.includes(a));
  const columns = only ? 1 : Math.max(1, Math.min(MOST_COLUMNS, roles.length + 1,
    Math.floor((width + GAP) / (NARROWEST + GAP))));
  const room = (width - GAP * (columns - 1)) / columns;
  const cells = [
    ...roles.map((role) => ({
      node: panel(answer, position, role, room, look), height: panelHeight(look.rows[role]),
    })),
    ...(only ? [] : [legend(room, look.colours, answer.words[0].roles[roles[0]][0].networks.length)]),
  ];
  const node = svg("g");
  let y = 0;
  for (let start = 0; start < cells.length; start += columns) {
    const row = cells.slice(start, start + columns);
    row.forEach((cell, i) => {
      cell.node.setAttribute("transform", `translate(${i * (room + GAP)} ${y})`);
      node.append(cell.node);
    });
    y += Math.max(...row.map((cell) => cell.height)) + 10;
  }
  return { node, height: y };
}

function describePicture(answer, position) {
  const { word, roles } = answer.words[position];
  const best = Object.entries(roles).map(([role, [first]]) =>
    `${role}: ${first.filler}, ${percent(first.mle)} trained, ${percent(first.bayes)} Bayesian`);
  return `Beliefs after “${word}” in “${answer.sentence}”. ${best.join("; ")}.`;
}

// path.js: one belief along sampler time, from the prior to the converged posterior: a line for each
// network, their mean with its 90 % interval, and the exact truth.

import { svg } from "./dom.js";
import { percent } from "./format.js";
import { FONT, fit } from "./look.js";

const HEIGHT = 150;
const [TOP, LEFT, RIGHT] = [26, 40, 12];

// `answers` are those of one sentence at the stops of a world, `chosen` is the stop on the slider.
export function path(answers, position, chosen, look) {
  const { colours } = look;
  const width = look.width / look.unit;
  const height = look.height ?? HEIGHT;
  const bottom = height - 26;
  const { role, filler } = tracked(answers.at(-1), position);
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
      "font-weight": i === at ? 700 : 400, fill: colours.muted }, step === "converged" ? "∞" : step)));
}

// What is followed: the word that word order makes the agent, as soon as it has been heard.
export function tracked(answer, position) {
  const { roles } = answer.words[position];
  const role = "agent" in roles ? "agent" : Object.keys(roles)[0];
  const said = roles[role].find((belief) => belief.said && belief.filler === answer.indicated[role]);
  return { role, filler: (said ?? roles[role][0]).filler };
}

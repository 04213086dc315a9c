// view.js: what is shown of one answer: its summary, its words as buttons, and for each role the fillers
// with their bars. A bar's length and the places of its marks are variables, which style.css draws.

import { capital, formatPercent, html, percent, unbroken } from "dom";

const GLOSSES = {
  agent: "who does it", action: "what is done", patient: "what it is done to",
  location: "where", situation: "when", recipient: "who gets it", manner: "how",
};
const KINDS = { mle: "trained", bayes: "Bayesian" };
export const BOTH = ["mle", "bayes"];
const NOTABLE = 0.01; // fillers that are believed less and less probable have no row, unless heard

// The section of an answer after one word; `choose` is called with the position of a clicked word.
export function showAnswer(answer, position, choose) {
  const at = Math.min(position, answer.words.length - 1);
  const { word, possible, roles } = answer.words[at];
  const learned = Object.values(roles).flat().some(({ warranted }) => warranted);
  const note = [possible === false ? " Impossible in this world, so there is no truth to compare with." : "",
    learned ? "" : " No warranted belief (△): it needs the verb, and an order of words that the world has."];
  return section(answer, false,
    summarySection(answer.words[at].summary),
    wordList(answer, at, choose),
    html("h4", {}, `Beliefs after “${word}”`, html("span", { class: "note" }, ...note)),
    html("div", { class: "panels" }, ...Object.keys(roles).map((role) => panel(answer, at, role))),
    legend(answer.networks.length),
    table(answer, at));
}

export function section(answer, titled, ...parts) {
  return html("section", { class: "answer card", "aria-label": answer.sentence },
    html("h3", { class: titled ? null : "unseen" }, answer.sentence), ...parts);
}

// The reading first.
function summarySection(text) {
  return html("div", { class: "summary", "aria-live": "polite" }, ...unbroken(text).split("\n").map((line, i) =>
    html("p", i ? {} : { class: "reading" }, line)));
}

// A button for each word, above its semantic update and its uncertainty, both as bars, too.
function wordList(answer, at, choose) {
  const most = (name) => Math.max(...answer.words.map((entry) => entry[name])) || 1;
  const [surprise, doubt] = [most("semantic_update"), most("entropy")];
  const measure = (name, value, share, more = {}) => html("span", { class: `measure ${name}`, "--to": share, ...more },
    value.toFixed(name === "update" ? 1 : 2));
  const items = answer.words.map(({ word, semantic_update: update, entropy, epistemic, possible }, i) => html("li", {},
    html("button", { type: "button", class: i > at ? "ahead" : null, "aria-current": i === at ? "step" : null,
      "data-possible": String(possible), title: possible === false ? "impossible in this world" : null,
      click: () => choose(i) }, word),
    measure("update", update, update / surprise),
    measure("doubt", entropy, entropy / doubt, { "--epistemic": entropy > 0 ? epistemic / entropy : 0,
      title: `${formatPercent(entropy > 0 ? epistemic / entropy : 0)} epistemic` })));
  return html("div", {},
    html("ol", { class: "words" }, ...items),
    html("p", { class: "note" }, "Under each word: semantic update, and uncertainty in nats (dark: the epistemic part)."));
}

// The beliefs about one role. `kinds` are those that are drawn, `kept` says which fillers have a row.
export function panel(answer, position, role, { kinds = BOTH, kept = isNotable } = {}) {
  const beliefs = answer.words[position].roles[role];
  const voices = answer.networks.map(({ words }) => words[position].roles[role]);
  const indicated = beliefs.some(({ said, filler }) => said && filler === answer.indicated[role]);
  return html("div", { class: "panel", "data-role": role },
    html("h4", {}, role, " ", html("span", { class: "note" }, GLOSSES[role] ?? ""),
      indicated ? html("span", { class: "note syntax" }, `syntax: ${answer.indicated[role]}`) : null),
    ...beliefs.map((belief, i) => (kept(belief, i)
      ? row(belief, voices.map((voice) => voice[i]), kinds) : null)));
}

const isNotable = ({ said, mle, bayes, truth }, i) => i === 0 || said || Math.max(mle, bayes, truth ?? 0) >= NOTABLE;

function row(belief, voices, kinds) {
  const { filler, said, truth, warranted } = belief;
  return html("div", { class: "row", "data-filler": filler, title: describeBelief(belief), "aria-hidden": "true" },
    html("span", { class: said ? "filler said" : "filler" }, filler),
    html("div", { class: "track" },
      ...kinds.map((kind) => lane(kind, belief[kind], kind === "bayes" ? belief : null, voices.map((voice) => voice[kind]))),
      ...mark(warranted),
      truth === null ? null : html("i", { class: "truth", "--at": truth, "data-value": truth })),
    html("span", { class: "numbers" }, ...kinds.map((kind) => html("span", { class: kind }, percent(belief[kind])))));
}

// A bar, perhaps with an interval, and a dot for each network, which shows whether they agree.
export function lane(kind, value, interval, dots) {
  return html("div", { class: `lane ${kind}` }, html("i", { class: "bar", "--to": value, "data-value": value }),
    interval && html("i", { class: "interval", "--at": interval.low, "--to": interval.high }),
    ...(dots.length > 1 ? dots.map((at) => html("i", { class: "dot", "--at": at })) : []));
}

// What the sentences heard warrant, with its interval.
const mark = (warranted) => (warranted ? [
  html("i", { class: "warranted", "--at": warranted[1], "--to": warranted[2] }),
  html("i", { class: "warranted mark", "--at": warranted[0], "data-value": warranted[0] })] : []);

function describeBelief({ filler, mle, bayes, low, high, truth, warranted }) {
  return `${filler}: trained ${formatPercent(mle)}, Bayesian ${formatPercent(bayes)} (90 % between ${
    formatPercent(low)} and ${formatPercent(high)})${warranted ? `, warranted ${formatPercent(warranted[0])} (${
    formatPercent(warranted[1])} to ${formatPercent(warranted[2])})` : ""}${truth === null ? "" : `, truth ${formatPercent(truth, 1)}`}`;
}

export function legend(networks, kinds = BOTH) {
  const sign = (...parts) => html("span", { class: "sign", "aria-hidden": "true" }, ...parts);
  const key = (text, ...parts) => html("li", {}, sign(...parts), text);
  return html("ul", { class: "legend" },
    ...kinds.map((kind) => key(KINDS[kind], lane(kind, 1, null, []))),
    networks > 1 ? key("each network", lane(kinds.at(-1), 0, null, [0.2, 0.5, 0.8])) : null,
    kinds.includes("bayes") ? key("90 % interval", lane("bayes", 0, { low: 0.05, high: 0.95 }, [])) : null,
    key("warranted by the sentences heard, 90 % interval", ...mark([0.5, 0.1, 0.9])),
    key("exact truth", html("i", { class: "truth", "--at": 0.5 })));
}

// The numbers for those who cannot see the bars.
export function table(answer, position) {
  const { word, possible, roles } = answer.words[position];
  const head = ["role", "filler", "trained", "Bayesian", "90 % from", "90 % to", "warranted", "truth", "said"];
  const rows = Object.entries(roles).flatMap(([role, beliefs]) => beliefs.map((belief) => [role, belief.filler,
    ...["mle", "bayes", "low", "high"].map((name) => formatPercent(belief[name])),
    ...[belief.warranted?.[0], belief.truth].map((value) => (value == null ? "none" : formatPercent(value))),
    belief.said ? "yes" : "no"]));
  const note = possible === false ? " The words are impossible in this world." : "";
  return html("div", { class: "unseen" }, html("table", {},
    html("caption", {}, `Beliefs after “${word}” in “${answer.sentence}”.${note}`),
    html("thead", {}, html("tr", {}, ...head.map((name) => html("th", { scope: "col" }, capital(name))))),
    html("tbody", {}, ...rows.map((cells) => html("tr", {}, ...cells.map((cell, i) =>
      html(i < 2 ? "th" : "td", i < 2 ? { scope: "row" } : {}, cell)))))));
}

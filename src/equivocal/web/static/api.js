// api.js: asks the server, and remembers its latest answers.

const TOP = 4; // fillers of a role; more would not fit beside each other without scrolling
const KEPT = 200; // answers; a slider dragged to and fro over two sentences needs some 80

const kept = new Map();

export async function loadWorld() {
  return (await request("api/world")).json();
}

export async function comprehend(sentence, { step, prior }, signal) {
  const query = String(queryOf(sentence, step, prior));
  if (!kept.has(query)) {
    const answer = await (await request(`api/comprehend?${query}&top=${TOP}`, signal)).json();
    kept.set(query, answer);
    if (kept.size > KEPT) kept.delete(kept.keys().next().value);
  }
  return kept.get(query);
}

export async function csvOf(answer) {
  const query = queryOf(answer.sentence, answer.step, answer.prior_variance);
  return (await request(`api/comprehend.csv?${query}`)).text();
}

const queryOf = (sentence, step, prior) =>
  new URLSearchParams({ sentence, prior_variance: prior, step });

async function request(address, signal) {
  let response;
  try {
    response = await fetch(address, { signal });
  } catch (problem) {
    if (problem.name === "AbortError") throw problem;
    throw new Error("The server does not answer. Is “equivocal serve” still running?");
  }
  if (response.ok) return response;
  const { error } = await response.json().catch(() => ({}));
  throw new Error(error ?? `The server answers with status ${response.status}.`);
}

// parsing.js: parses text into constituents, as equivocal/world/spelling.py does; finds the roles that
// syntax gives them, and the exact truth about them.
//
// A world's `grammar` holds { tokens, spellings, markers, usual, limits }: spellings of words and of
// markers, and the words that usually follow a marker. Any order of known words is accepted. `truth` is
// the tree of all beginnings: `next` maps "node word marker" to a node (-1 is silence), and
// `beliefs[node]` maps a role's number to [filler, probability, filler, probability, …].

const SKIPPED = new Set(("a an the this that these those some my your his her its our their").split(" "));
const PASSIVE = new Set("am are be been being by is was were".split(" "));

// Returns [{ text, word, marker }], or throws an Error that says what is wrong and the way out.
export function parse(text, grammar) {
  check(text);
  let heard = splitWords(text);
  const constituents = [];
  let waiting = null; // the spelling of a marker that waits for its word
  while (heard.length) {
    const size = matchPhrase(heard, grammar);
    if (size === 0) {
      if (!SKIPPED.has(heard[0])) throw new Error(explainUnknown(heard[0], grammar));
      heard = heard.slice(1);
      continue;
    }
    const phrase = heard.slice(0, size).join(" ");
    heard = heard.slice(size);
    if (Object.hasOwn(grammar.spellings, phrase)) {
      constituents.push(constituent(phrase, waiting, grammar));
      waiting = null;
    } else if (waiting !== null) {
      throw new Error(`“${waiting}” is followed by “${phrase}”; put a word between them.`);
    } else waiting = phrase;
  }
  if (waiting !== null) throw new Error(`“${waiting}” is the last word; add the word it belongs to.`);
  if (!constituents.length) throw new Error("The sentence is empty; write at least one word.");
  if (constituents.length > grammar.limits.words) {
    throw new Error(`The sentence has ${constituents.length} words, at most ${
      grammar.limits.words}; shorten it.`);
  }
  return constituents;
}

function check(text) {
  const odd = text.trim().match(/\p{C}/u)?.[0];
  if (odd) {
    const code = odd.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
    throw new Error(`The sentence has a control character, U+${code}; leave it out.`);
  }
}

// No capitals or punctuation, hyphens as blanks: letters, marks, numbers and apostrophes are kept.
function splitWords(text) {
  const folded = text.normalize("NFC").toLowerCase().replaceAll("ß", "ss").replaceAll("’", "'");
  return folded.replace(/[^\p{L}\p{M}\p{N}']+/gu, " ").split(" ")
    .map((part) => part.replace(/^'+|'+$/g, "")).filter(Boolean);
}

function matchPhrase(heard, { spellings, markers, limits }) {
  for (let size = Math.min(limits.phrase, heard.length); size > 0; size -= 1) {
    const phrase = heard.slice(0, size).join(" ");
    if (Object.hasOwn(spellings, phrase) || Object.hasOwn(markers, phrase)) return size;
  }
  return 0;
}

// "at" may stand before a time or a place; the word that follows decides.
function constituent(phrase, waiting, { spellings, markers, usual }) {
  const word = spellings[phrase];
  if (waiting === null) return { text: phrase, word, marker: null };
  const candidates = markers[waiting];
  const marker = candidates.find((each) => (usual[each] ?? []).includes(word)) ?? candidates[0];
  return { text: `${waiting} ${phrase}`, word, marker };
}

function explainUnknown(word, { spellings, markers, name }) {
  if (PASSIVE.has(word)) {
    return `Unknown word “${word}”: the world ${name} has active sentences only. For passives, run `
      + "“equivocal page --world sg2018”; its networks are trained first, which takes some minutes.";
  }
  const known = [...new Set(Object.values(spellings)), ...Object.keys(markers)];
  const near = findClosest(word, known, 3);
  const hint = near.length ? `Did you mean ${near.map((each) => `“${each}”`).join(" or ")}?`
    : "“Build a sentence from words” lists those it knows.";
  return `Unknown word “${word.length > 80 ? `${word.slice(0, 80)}…` : word}”. ${hint}`;
}

const CUTOFF = 0.6; // of likeness, as Python's difflib has it
const MOST_LETTERS = 200;

// The `most` words of `known` that are most alike, best first.
function findClosest(word, known, most) {
  if (word.length > MOST_LETTERS) return [];
  return known.map((each) => [each, likeness(each.toLowerCase(), word)])
    .filter(([, like]) => like >= CUTOFF)
    .sort(([first, a], [second, b]) => b - a || (first < second ? 1 : -1))
    .slice(0, most).map(([each]) => each);
}

// Ratcliff and Obershelp: twice the letters in common blocks, over all letters.
const likeness = (a, b) => (2 * matching(a, b)) / (a.length + b.length);

function matching(a, b) {
  const [i, j, size] = longestBlock(a, b);
  if (size === 0) return 0;
  return size + matching(a.slice(0, i), b.slice(0, j)) + matching(a.slice(i + size), b.slice(j + size));
}

function longestBlock(a, b) {
  let best = [0, 0, 0];
  let before = new Array(b.length + 1).fill(0); // lengths of blocks that end at a's previous letter
  for (let i = 0; i < a.length; i += 1) {
    const here = new Array(b.length + 1).fill(0);
    for (let j = 0; j < b.length; j += 1) {
      if (a[i] !== b[j]) continue;
      here[j + 1] = before[j] + 1;
      if (here[j + 1] > best[2]) best = [i + 1 - here[j + 1], j + 1 - here[j + 1], here[j + 1]];
    }
    before = here;
  }
  return best;
}

// One entry per constituent: { roles, joint }, or null from where on the words are impossible. `roles`
// has a Map(filler number → probability) by role number; `joint` gives the probability of several fillers
// together, { role number: filler number }. Undefined in a world that is too large to be enumerated.
export function findTruths(pairs, truth) {
  if (!truth) return undefined;
  let node = -1;
  return pairs.map(([word, marker]) => {
    if (node !== undefined) node = truth.next[`${node} ${word} ${marker}`];
    if (node === undefined) return null;
    const heard = node;
    return { roles: readBeliefs(truth.beliefs[heard]), joint: (fillers) => addUp(truth, heard, fillers) };
  });
}

function readBeliefs(listed) {
  const roles = {};
  for (const [role, flat] of Object.entries(listed)) {
    roles[role] = new Map();
    for (let i = 0; i < flat.length; i += 2) roles[role].set(flat[i], flat[i + 1]);
  }
  return roles;
}

// The share of the events with these fillers among all whose sentences pass through a node.
function addUp({ parents, events }, node, fillers) {
  const wanted = Object.entries(fillers);
  let [heard, found] = [0, 0];
  for (const [end, ...event] of events) {
    let at = end;
    while (at > node) at = parents[at]; // a node's parent has a smaller number
    if (at === node) {
      const weight = event.at(-1);
      heard += weight;
      if (wanted.every(([role, filler]) => event[role] === filler)) found += weight;
    }
  }
  return found / heard;
}

// { role: word } by syntax alone: word order and markers. Plausibility does not count.
export function findIndicated(constituents, pairs, world) {
  for (const construction of world.grammar.constructions.slice(0, world.grammar.plain)) {
    const places = placeRoles(construction, pairs, world.grammar.actions);
    if (places) {
      return Object.fromEntries(places.map((role, i) => [world.roles[role], constituents[i].word]));
    }
  }
  return {};
}

function placeRoles({ order, required, markers, action }, pairs, actions) {
  const fits = (role, [word, marker]) =>
    marker === markers[role][word] && actions.includes(word) === (role === action);

  function place(index, rest) {
    if (index === pairs.length) return [];
    for (let at = 0; at < rest.length; at += 1) {
      if (fits(rest[at], pairs[index])) {
        const after = place(index + 1, rest.slice(at + 1));
        if (after) return [rest[at], ...after];
      }
      if (required[rest[at]]) return null; // may not be left out
    }
    return null;
  }
  return place(0, order);
}

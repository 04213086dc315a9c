// parsing.js: running text to constituents, as equivocal/world/spelling.py reads it.
//
// A world's `grammar` holds { tokens, spellings, markers, usual, limits }: spellings of words and of
// markers, and the words that usually follow a marker. Any order of known words is accepted.

import { closest } from "./spelling.js";

const SKIPPED = new Set(("a an the this that these those some my your his her its our their").split(" "));
const PASSIVE = new Set("am are be been being by is was were".split(" "));

// Returns [{ text, word, marker }], or throws an Error that says what is wrong and the way out.
export function parse(text, grammar) {
  check(text, grammar.limits);
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

function check(text, limits) {
  if (text.length > limits.characters) {
    throw new Error(`The sentence has ${text.length} characters, at most ${
      limits.characters}; shorten it.`);
  }
  const odd = text.trim().match(/\p{C}|\p{So}|\p{Sc}|\p{Sk}/u)?.[0];
  if (odd) {
    const name = /\p{C}/u.test(odd)
      ? `the control character U+${odd.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`
      : `“${odd}”`;
    throw new Error(`The sentence has ${name}, which is no word; leave it out.`);
  }
}

// No capitals or punctuation, hyphens as blanks: letters, marks, numbers and apostrophes are kept.
export function splitWords(text) {
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
  if (PASSIVE.has(word)) return explainPassive(word, name);
  const known = [...new Set(Object.values(spellings)), ...Object.keys(markers)];
  const near = closest(word, known, 3);
  const hint = near.length ? `Did you mean ${near.map((each) => `“${each}”`).join(" or ")}?`
    : "“Build a sentence from words” lists those it knows.";
  return `Unknown word “${word.length > 80 ? `${word.slice(0, 80)}…` : word}”. ${hint}`;
}

export function explainPassive(word, name) {
  return `Unknown word “${word}”: the world ${name} has active sentences only. For passives, run `
    + "“equivocal serve --world sg2018”.";
}

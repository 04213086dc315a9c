// format.js: numbers and text for people.

const SPACE = "\u00a0";

// A probability, never 0 % or 100 % unless it is; `most` is the number of digits of those in between.
export function percent(value, most = 0) {
  if (value === 0 || value === 1) return `${100 * value}${SPACE}%`;
  if (value < 0.001) return `<${SPACE}0.1${SPACE}%`;
  if (value > 0.999) return `>${SPACE}99.9${SPACE}%`;
  const digits = value < 0.0095 || value > 0.9905 ? 1 : most;
  return `${(100 * value).toFixed(digits)}${SPACE}%`;
}

export function short(value) {
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

// Keeps a number and its sign on one line.
export const unbroken = (text) => text.replace(/([<>\d]) (?=[\d%])/g, `$1${SPACE}`);

export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

// A sentence as part of a file name.
export const slug = (text) =>
  text.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 60);

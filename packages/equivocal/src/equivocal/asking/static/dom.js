// dom.js: builds HTML and SVG elements, and puts numbers into words; nothing here knows about sentences.

export const byId = (id) => document.getElementById(id);

export function html(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

// A function is an event's listener; a name that begins with "--" is a variable of the style sheet.
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (name.startsWith("--")) element.style.setProperty(name, value);
    else if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

// A probability as equivocal/asking/summary.py words it: a logistic unit is never quite certain, so
// nothing is 100 %.
export function formatPercent(value, digits = 0) {
  if (value === 0) return "0 %";
  if (value < 0.0001) return "< 0.01 %";
  if (value > 0.999) return "> 99.9 %";
  if (value < 0.01) return `${Number((100 * value).toPrecision(2))} %`;
  return `${roundEven(100 * value, value > 0.99 ? 1 : digits)} %`;
}

// Rounds as Python does: ties go to the even digit.
function roundEven(value, digits) {
  const scaled = value * 10 ** digits;
  const below = Math.floor(scaled);
  return scaled - below === 0.5 && below % 2 === 0 ? (below / 10 ** digits).toFixed(digits)
    : value.toFixed(digits);
}

// The same in little room, with its sign on the same line.
export const percent = (value, digits = 0) => unbroken(
  value > 0 && value < 0.001 ? "< 0.1 %" : formatPercent(value, digits));

// Keeps a number and its sign on one line.
export const unbroken = (text) => text.replace(/([<>\d]) (?=[\d%])/g, "$1\u00a0");

// Sampler time, which spans many orders of magnitude.
export const formatTime = (time) => (time > 0 && time < 1e-3 ? time.toExponential(1)
  : String(Number(time.toPrecision(2))));

export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

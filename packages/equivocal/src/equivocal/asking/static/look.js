// look.js: colours and type of the pictures, and numbers and text for people.
//
// A saved picture has no style sheet, so colours are attributes in the SVG; the page's own colours in
// style.css are the same.

export const FONT = "system-ui, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";

// Okabe and Ito's blue and vermilion, which colour-blind readers can tell apart; texts are darker (or
// lighter) for a contrast of 4.5 : 1 with the paper.
const LIGHT = {
  paper: "#ffffff", ink: "#16202b", muted: "#55606c", line: "#cfd6dd", track: "#eceff2",
  chosen: "#e2edf6", mle: "#0072B2", bayes: "#D55E00", mleText: "#00649c", bayesText: "#ad4b00",
  mleDot: "#00405f", bayesDot: "#7a3500", words: "#8d99a5", between: "#a8508a",
};
const DARK = {
  paper: "#181f27", ink: "#e9eef3", muted: "#a6b2be", line: "#3a4652", track: "#27313b",
  chosen: "#243648", mle: "#56B4E9", bayes: "#F5924E", mleText: "#7cc6f0", bayesText: "#f9ad7a",
  mleDot: "#c9e9fb", bayesDot: "#fde0cc", words: "#6c7986", between: "#e0a0cb",
};

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

// Names the button and draws anew when the theme changes.
export function setUpTheme(draw) {
  const button = document.getElementById("theme");
  const name = () => { button.textContent = isDark() ? "Light theme" : "Dark theme"; draw(); };
  button.addEventListener("click", () => {
    const theme = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = theme;
    try { localStorage.setItem("equivocal-theme", theme); } catch { /* then for this visit only */ }
    name();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", name);
  name();
}

// Draws anew when the width changes, not the height, which may grow while bars slide.
export function followWidth(element, draw) {
  let width = element.clientWidth;
  new ResizeObserver(() => {
    if (element.clientWidth === width) return;
    width = element.clientWidth;
    draw();
  }).observe(element);
}

export const colours = () => (isDark() ? DARK : LIGHT);

// Pictures are drawn in units of a 16-pixel type size, and grow with the page's type.
export const unit = () => parseFloat(getComputedStyle(document.documentElement).fontSize) / 16;

const pen = document.createElement("canvas").getContext("2d");

export function measure(text, size, weight = 400) {
  pen.font = `${weight} ${size}px ${FONT}`;
  return pen.measureText(text).width;
}

export function fit(text, room, size, weight = 400) {
  if (measure(text, size, weight) <= room) return text;
  let end = text.length - 1;
  while (end > 1 && measure(`${text.slice(0, end)}…`, size, weight) > room) end -= 1;
  return `${text.slice(0, end)}…`;
}

export function wrap(text, room, size, weight = 400) {
  const lines = [];
  for (const word of text.split(" ")) {
    const longer = lines.length ? `${lines.at(-1)} ${word}` : word;
    if (lines.length && measure(longer, size, weight) <= room) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines.map((line) => fit(line, room, size, weight));
}

const SPACE = "\u00a0";

// A probability; 0 % and 100 % only if it is exactly that; `most` is the number of decimals in between.
export function percent(value, most = 0) {
  if (value === 0 || value === 1) return `${100 * value}${SPACE}%`;
  if (value < 0.001) return `<${SPACE}0.1${SPACE}%`;
  if (value > 0.999) return `>${SPACE}99.9${SPACE}%`;
  const digits = value < 0.0095 || value > 0.9905 ? 1 : most;
  return `${(100 * value).toFixed(digits)}${SPACE}%`;
}

// Sampler time, which spans many orders of magnitude.
export const tauOf = (time) => `τ${SPACE}=${SPACE}${shortTime(time)}`;

export const shortTime = (time) => (time > 0 && time < 1e-3 ? time.toExponential(1)
  : String(Number(time.toPrecision(2))));

export function short(value) {
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

// Keeps a number and its sign on one line.
export const unbroken = (text) => text.replace(/([<>\d]) (?=[\d%])/g, `$1${SPACE}`);

export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

// A sentence as part of a file name.
export const slug = (text) =>
  text.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 60);

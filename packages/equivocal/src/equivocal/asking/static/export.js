// export.js: the picture as SVG or PNG, the numbers as CSV, and the link.

import { columnOf, shared } from "./answer.js";
import { csvOf } from "./api.js";
import { byId, html, saveAs, svg } from "./dom.js";
import { colours, slug } from "./look.js";
import { picture } from "./picture.js";

const WIDTH = 1000; // a saved picture's width depends on its words, not on the window
const MARGIN = 24;
const SHARP = 2; // pixels of the PNG for each unit of the picture

// `shown` gives { answers, position }.
export function setUpExport(shown) {
  const on = (id, save) => byId(id).addEventListener("click", () => {
    const { answers, position } = shown();
    if (answers.length) save(answers, position).catch((problem) => notify(problem.message));
  });
  on("export-svg", async (answers, position) => {
    saveAs(fileName(answers, position, "svg"), svgFile(answers, position));
  });
  on("export-png", async (answers, position) => {
    saveAs(fileName(answers, position, "png"), await pngFile(answers, position));
  });
  on("export-csv", async (answers) => {
    const texts = await Promise.all(answers.map(csvOf));
    const text = answers.length === 1 ? texts[0] : joinTables(answers, texts);
    saveAs(fileName(answers, null, "csv"), new Blob([text], { type: "text/csv" }));
  });
  byId("copy-link").addEventListener("click", copyLink);
}

// Names beside the buttons what they save: after a refused sentence, not what was typed last.
export function nameExports(answers) {
  byId("exported").textContent = `Save ${answers.map((answer) => `“${answer.sentence}”`).join(" and ")}:`;
}

function fileName(answers, position, ending) {
  const sentences = answers.map((answer) => slug(answer.sentence)).join("-and-");
  const word = position === null ? "" : `-word-${position + 1}`;
  return `equivocal-${sentences}${word}.${ending}`;
}

function drawStandalone(answers, position) {
  const width = Math.max(WIDTH, ...answers.map(({ words }) => 2 * MARGIN + columnOf(words) * words.length));
  const look = { colours: colours(), unit: 1, width, margin: MARGIN, ...shared(answers) };
  let height = 0;
  const pictures = answers.map((answer) => {
    const each = picture(answer, Math.min(position, answer.words.length - 1), look);
    each.setAttribute("y", height);
    height += Number(each.getAttribute("height"));
    return each;
  });
  return svg("svg", { width, height, viewBox: `0 0 ${width} ${height}` }, ...pictures);
}

function svgFile(answers, position) {
  const text = new XMLSerializer().serializeToString(drawStandalone(answers, position));
  return new Blob([text], { type: "image/svg+xml" });
}

async function pngFile(answers, position) {
  const drawing = drawStandalone(answers, position);
  const text = new XMLSerializer().serializeToString(drawing);
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const canvas = html("canvas", {
    width: SHARP * Number(drawing.getAttribute("width")),
    height: SHARP * Number(drawing.getAttribute("height")),
  });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

// Two tables in one file: a first column says which sentence a row belongs to.
function joinTables(answers, texts) {
  const rows = texts.flatMap((text, i) => {
    const [head, ...body] = text.trimEnd().split(/\r?\n/);
    const name = `"${answers[i].sentence.replaceAll('"', '""')}"`;
    return [...(i ? [] : [`sentence,${head}`]), ...body.map((line) => `${name},${line}`)];
  });
  return `${rows.join("\n")}\n`;
}

async function copyLink() {
  try {
    await navigator.clipboard.writeText(location.href);
    notify("Link copied");
  } catch {
    // the clipboard needs https or localhost, and permission to use it
    notify("Copy it from the address bar");
  }
}

let fading;
function notify(text) {
  byId("notice").textContent = text;
  clearTimeout(fading);
  fading = setTimeout(() => { byId("notice").textContent = ""; }, 4000);
}

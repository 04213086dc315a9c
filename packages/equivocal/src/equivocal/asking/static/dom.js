// dom.js: builds HTML and SVG elements; nothing here knows about sentences.

export const byId = (id) => document.getElementById(id);

export function html(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== null && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

export const reducedMotion = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

export function saveAs(name, blob) {
  const link = html("a", { href: URL.createObjectURL(blob), download: name });
  document.body.append(link); // Firefox ignores clicks on links outside the page
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

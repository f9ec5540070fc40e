// Small helpers to build a page. Text is always set as text, never parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, listener] of Object.entries(value)) node.addEventListener(event, listener);
    else if (name === "style") Object.assign(node.style, value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

export const el = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);

export const svg = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

export const byId = (id) => document.getElementById(id);

/** Show a share as people read it, as the server does: what is not all is never shown as 100 %. */
export function percent(share) {
  if (share >= 1 || share <= 0) return `${100 * share} %`;
  if (share > 0.9995) return "> 99.9 %";
  return share < 0.0005 ? "< 0.1 %" : `${(100 * share).toFixed(1)} %`;
}

/** Show a number with three significant digits, never in powers of ten unless it is small; what is tiny is 0. */
export function number(value) {
  if (Math.abs(value) < 1e-6) return "0";
  return Math.abs(value) < 0.001 ? value.toExponential(1) : String(Number(value.toPrecision(3)));
}

/** A bar with a number beside it; `marks` are places on it, in the same unit as `value` and `most`. */
export function bar({ name, value, most, shown, kind = "", marks = [] }) {
  const width = (share) => `${100 * Math.max(0, Math.min(1, most ? share / most : 0))}%`;
  return el(
    "div",
    { class: `bar ${kind}` },
    el("span", { class: "bar-name" }, name),
    el(
      "span",
      { class: "bar-track", "aria-hidden": "true" },
      el("span", { class: "bar-fill", style: { width: width(value) } }),
      marks.map((mark) => el("span", { class: "bar-mark", title: mark.title, style: { left: width(mark.value) } })),
    ),
    el("span", { class: "bar-value" }, shown),
  );
}

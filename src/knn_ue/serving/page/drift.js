// Do the last inputs lie among the training data as the validation rows do?

import { byId, el, number, percent, svg } from "./dom.js";

const WIDTH = 320;
const HEIGHT = 96;
const MARKS = { off: "–", collecting: "…", steady: "✓", moving: "⚠" };

export function showDrift(report, task) {
  const card = byId("drift");
  const tagging = task === "token-classification";
  const rows = tagging ? "words" : "inputs"; // neighbors are those of words
  const sides = [
    report.familiarity && side("Familiarity", report.familiarity, tagging ? "sentences" : "inputs", "below"),
    report.distance && side("Distance to the neighbors", report.distance, rows, "above"),
    report.agreement && side("Agreement of the neighbors", report.agreement, rows, "below"),
  ].filter(Boolean);
  card.replaceChildren(
    card.querySelector("h2"),
    el("p", { class: `drift-${report.level}` }, el("strong", {}, `${MARKS[report.level]} `), report.message),
    ...sides,
    ...(sides.length ? [el("p", { class: "soft" }, `Outlined: validation rows. Filled: the last ${report.n} inputs that anyone sent to this server.`)] : []),
  );
  card.hidden = false;
}

function side(title, found, unit, direction) {
  const says = `Median ${show(found.live_median)}, on validation ${show(found.validation_median)}. ${percent(found.beyond)} of the ${unit} are ${direction} ${show(found.limit)}; at most 5 % of those of validation are.`;
  return el("div", {}, el("h3", {}, title), histogram(found, `${title}: ${says}`), el("p", { class: "soft" }, says));
}

const show = (value) => (value === null ? "none" : number(value));

function histogram(found, label) {
  const most = Math.max(...found.live, ...found.validation, 1e-9);
  const step = WIDTH / found.live.length;
  const box = (share, place, kind, edge) => {
    const height = (share / most) * (HEIGHT - 18);
    return svg("rect", { x: place * step + edge, y: HEIGHT - 14 - height, width: step - 2 * edge, height, class: kind });
  };
  return svg(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label, class: "histogram" },
    found.live.map((share, place) => box(share, place, "live", 5)),
    found.validation.map((share, place) => box(share, place, "usual", 2)),
    svg("text", { x: 0, y: HEIGHT - 2, class: "axis" }, number(found.edges[0])),
    svg("text", { x: WIDTH, y: HEIGHT - 2, "text-anchor": "end", class: "axis" }, number(found.edges.at(-1))),
  );
}

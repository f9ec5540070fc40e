// The neighborhood in two dimensions. Shapes tell agreeing and differing examples apart, color only helps.

import { el, percent, svg } from "./dom.js";

const SIZE = 320;
const EDGE = 24;

/** A card with the map, and a function that points out one neighbor. */
export function map(found, predicted) {
  const all = [found, ...found.points];
  const reach = Math.max(...all.flatMap(({ x, y }) => [Math.abs(x - found.x), Math.abs(y - found.y)]), 1e-9);
  const scale = (SIZE / 2 - EDGE) / reach;
  const at = ({ x, y }) => [SIZE / 2 + scale * (x - found.x), SIZE / 2 - scale * (y - found.y)];
  const shapes = new Map(found.points.map((point) => [point.id, shape(point, at(point))]));
  const agreeing = found.points.filter((point) => point.agrees).length;
  const summary =
    `Map of the input and its ${found.points.length} nearest training examples: ` +
    `${agreeing} circles are labeled ${predicted}, ${found.points.length - agreeing} crosses are not.`;
  const drawing = svg(
    "svg",
    { viewBox: `0 0 ${SIZE} ${SIZE}`, role: "img", "aria-label": summary, class: "map" },
    svg("rect", { width: SIZE, height: SIZE, class: "map-ground" }),
    [...shapes.values()],
    star(at(found)),
  );
  const card = el(
    "section",
    { class: "card", "aria-labelledby": "map-title" },
    el("h2", { id: "map-title" }, "The neighborhood"),
    drawing,
    el(
      "p",
      { class: "soft" },
      `★ your input, ● labeled ${predicted}, ✗ has another label. The map shows ${percent(found.shown)} of the variation, so examples that look close may be far apart.`,
    ),
  );
  return { card, highlight: (id, on) => shapes.get(id)?.classList.toggle("pointed", on) };
}

function shape(point, [x, y]) {
  const title = svg("title", {}, `${point.label}, id ${point.id}: ${point.agrees ? "agrees" : "differs"}`);
  if (point.agrees) return svg("g", { class: "point same" }, svg("circle", { cx: x, cy: y, r: 6 }), title);
  return svg("g", { class: "point other" }, svg("path", { d: `M${x - 5} ${y - 5}L${x + 5} ${y + 5}M${x + 5} ${y - 5}L${x - 5} ${y + 5}` }), title);
}

function star([x, y]) {
  const corners = Array.from({ length: 10 }, (_, corner) => {
    const angle = (Math.PI * corner) / 5 - Math.PI / 2;
    const reach = corner % 2 ? 5 : 12;
    return `${x + reach * Math.cos(angle)},${y + reach * Math.sin(angle)}`;
  });
  return svg("polygon", { points: corners.join(" "), class: "star" }, svg("title", {}, "your input"));
}

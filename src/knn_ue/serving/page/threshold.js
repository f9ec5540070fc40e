// A slider: the minimum confidence to answer, how often the model then answers, and how often it is wrong.

import { get } from "./api.js";
import { byId, el, percent, svg } from "./dom.js";

const WIDTH = 320;
const HEIGHT = 180;
const LEFT = 52;
const BOTTOM = 34;
const TOP = 10;

export async function buildThreshold(info, moved) {
  const curve = await get("/validation");
  const last = curve.thresholds.length - 1;
  // A risk was promised and no threshold keeps it: then nothing is answered.
  const first = info.threshold ?? (info.promise ? 1 : 0);
  const place = { now: Math.max(curve.thresholds.indexOf(first), 0) };
  const slider = el("input", { type: "range", id: "threshold-slider", min: 0, max: last, step: 1, value: place.now, "aria-describedby": "threshold-says" });
  const says = el("p", { id: "threshold-says" });
  const dot = svg("circle", { r: 6, class: "curve-dot" });
  const value = () => curve.thresholds[place.now];
  const show = () => {
    says.textContent = sentence(curve, place.now, value());
    slider.setAttribute("aria-valuetext", `${value().toFixed(3)}: ${says.textContent}`);
    const risk = curve.risk[place.now];
    dot.setAttribute("visibility", risk === null ? "hidden" : "visible");
    if (risk !== null) position(dot, curve.coverage[place.now], risk, most(curve));
  };
  slider.oninput = () => {
    place.now = Number(slider.value);
    show();
    moved();
  };
  const card = byId("threshold");
  card.replaceChildren(
    card.querySelector("h2"),
    el("label", { for: slider.id }, "Minimum confidence to answer"),
    slider,
    says,
    picture(curve, dot),
    el("p", { class: "soft" }, origin(curve, info)),
  );
  card.hidden = false;
  show();
  return { value };
}

function sentence(curve, step, threshold) {
  const risk = curve.risk[step];
  if (risk === null) return `At ${threshold.toFixed(3)} nothing is answered.`;
  return `At ${threshold.toFixed(3)}, ${percent(curve.coverage[step])} of the validation ${curve.unit} are answered, and ${percent(risk)} of those answers are wrong.`;
}

function origin(curve, info) {
  const rows = curve.kept_apart
    ? `Measured on ${curve.n} validation ${curve.unit}${curve.as_new ? ", each scored as if it were new." : " that the method was not fitted on."}`
    : `Measured on the ${curve.n} validation ${curve.unit} the method was fitted on: expect slightly worse results on new data.`;
  return info.promise ? `${rows} Fitted: ${info.promise}.` : rows;
}

const most = (curve) => Math.max(...curve.risk.filter((risk) => risk !== null), 0.01);
const across = (coverage) => LEFT + coverage * (WIDTH - LEFT - 10);
const up = (risk, top) => HEIGHT - BOTTOM - (risk / top) * (HEIGHT - BOTTOM - TOP);

function position(dot, coverage, risk, top) {
  dot.setAttribute("cx", across(coverage));
  dot.setAttribute("cy", up(risk, top));
}

function picture(curve, dot) {
  const top = most(curve);
  const points = curve.coverage
    .map((coverage, step) => [coverage, curve.risk[step]])
    .filter(([, risk]) => risk !== null)
    .map(([coverage, risk]) => `${across(coverage).toFixed(1)},${up(risk, top).toFixed(1)}`);
  const text = (x, y, content, anchor) => svg("text", { x, y, "text-anchor": anchor, class: "axis" }, content);
  return svg(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": "Risk against coverage on the validation rows; the sentence beside the slider gives the numbers.", class: "curve" },
    svg("path", { d: `M${LEFT} ${TOP}V${HEIGHT - BOTTOM}H${WIDTH - 10}`, class: "axis-line" }),
    svg("polyline", { points: points.join(" "), class: "curve-line" }),
    dot,
    text(LEFT, HEIGHT - BOTTOM + 15, "0 %", "middle"),
    text(WIDTH - 10, HEIGHT - BOTTOM + 15, "100 %", "end"),
    text((LEFT + WIDTH) / 2, HEIGHT - 4, "answered", "middle"),
    text(LEFT - 5, up(top, top) + 9, percent(top), "end"),
    text(LEFT - 5, HEIGHT - BOTTOM, "0 %", "end"),
    text(LEFT - 5, (HEIGHT - BOTTOM + TOP) / 2 + 4, "wrong", "end"),
  );
}

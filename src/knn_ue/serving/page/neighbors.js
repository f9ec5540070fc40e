// The nearest training examples: as a list, and on a map.

import { remove } from "./api.js";
import { el } from "./dom.js";
import { map } from "./map.js";

/** The cards of the neighbors of one text or word: a list, and a map where there is one. */
export function neighborhood(why, note, context) {
  if (!why.neighbors.length) {
    const text = note ?? "No training example was found near this input.";
    return { list: el("section", { class: "card", "aria-labelledby": "near-title" }, title(), el("p", {}, text)) };
  }
  const drawn = why.map ? map(why.map, why.label) : null;
  const items = why.neighbors.map((near) => item(near, drawn, context));
  const judged = context.page.info.judges_answers;
  const agreeing = why.n_agreeing === null ? "" : ` ${why.n_agreeing} of the ${why.n_neighbors} nearest agree.`;
  const list = el(
    "section",
    { class: "card", "aria-labelledby": "near-title" },
    title(judged),
    el("p", {}, `✓ agrees: labeled ${why.label}, as ${judged ? "answered" : "predicted"}. ✗ differs: has another label.${agreeing}`),
    el("ol", { class: "neighbors" }, items),
  );
  return { list, map: drawn?.card };
}

const title = (judged) => el("h2", { id: "near-title", tabindex: -1 }, judged ? "The nearest labeled rows" : "The nearest training examples");

function item(near, drawn, context) {
  const mark = near.agrees ? el("span", { class: "tag agrees" }, "✓ agrees") : el("span", { class: "tag differs" }, "✗ differs");
  const point = (on) => drawn?.highlight(near.id, on);
  return el(
    "li",
    {
      class: near.agrees ? "near" : "near other",
      on: {
        mouseenter: () => point(true),
        mouseleave: () => point(false),
        focusin: () => point(true),
        focusout: () => point(false),
      },
    },
    el(
      "div",
      { class: "near-head" },
      mark,
      el("strong", {}, near.given === undefined ? near.label : `right: ${near.label}`),
      near.given === undefined ? null : el("span", {}, `the model said ${near.given}`),
      el("span", { class: "soft" }, `distance ${near.distance.toFixed(3)}, id ${near.id}`),
      context.page.info.read_only || context.page.info.n_stored === null ? null : forget(near, context),
    ),
    text(near),
  );
}

function text(near) {
  if (near.text === null) return el("p", { class: "soft" }, "Its text was not stored.");
  if (near.text.length < 240) return el("p", { dir: "auto" }, near.text);
  return el(
    "details",
    { class: "long" },
    el("summary", { dir: "auto" }, el("span", { class: "short" }, `${near.text.slice(0, 200)}…`), el("span", { class: "more" }, " more")),
    el("p", { dir: "auto" }, near.text),
  );
}

/** A button that asks once more before it forgets an example: this cannot be undone. */
function forget(near, context) {
  const name = `example ${near.id}`;
  const box = el("div", { class: "forget" });
  const ask = el("button", { type: "button", class: "quiet", "aria-label": `Forget ${name}` }, "Forget");
  const sure = el("button", { type: "button", class: "danger" }, `Remove ${name} permanently`);
  const keep = el("button", { type: "button", class: "quiet" }, "Keep it");
  ask.onclick = () => {
    box.replaceChildren(sure, keep);
    keep.focus();
  };
  keep.onclick = () => {
    box.replaceChildren(ask);
    ask.focus();
  };
  sure.onclick = () =>
    context.attempt(async () => {
      sure.disabled = true;
      try {
        await remove(`/examples/${near.id}`);
      } finally {
        sure.disabled = false;
      }
      await context.again("near-title");
    });
  box.append(ask);
  return box;
}

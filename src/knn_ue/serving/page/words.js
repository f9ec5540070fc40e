// A tagged sentence: entities highlighted with their scores, and every word a button that shows why.

import { el, percent } from "./dom.js";

export function sentenceWithEntities(answer, why, chosen, threshold, choose) {
  const least = threshold?.value() ?? 0;
  const starts = new Map(answer.entities.map((entity) => [entity.start, entity]));
  const parts = [];
  for (let place = 0; place < answer.words.length; ) {
    const entity = starts.get(place);
    const end = entity ? entity.end : place + 1;
    const inside = answer.words.slice(place, end).map((word, offset) => wordButton(word, place + offset, why, chosen, choose));
    parts.push(entity ? highlighted(entity, inside, least) : inside[0]);
    place = end;
  }
  return el(
    "section",
    { class: "card", "aria-labelledby": "sentence-title" },
    el("h2", { id: "sentence-title" }, "The sentence"),
    el("p", { class: "sentence", dir: "auto" }, parts),
    table(answer.entities, least),
    el("p", { class: "soft" }, "Choose a word to see why it is tagged as it is. An entity's score is the product over its words."),
  );
}

const kind = (entity) => entity.type ?? entity.would_be;

function wordButton(word, place, why, chosen, choose) {
  const name = `${word.word}: ${why[place].predicted}, ${percent(why[place].score)}`;
  return el(
    "button",
    { type: "button", class: "word", "data-word": place, "aria-label": name, "aria-pressed": String(place === chosen.word), on: { click: () => choose(place) } },
    word.word,
  );
}

function highlighted(entity, inside, least) {
  const unsure = entity.score < least;
  return el(
    "mark",
    { class: unsure ? "entity unsure" : "entity" },
    inside,
    el("span", { class: "entity-type" }, `${kind(entity)} ${percent(entity.score)}${unsure ? " ✗ unsure" : ""}`),
  );
}

function table(entities, least) {
  if (!entities.length) return el("p", {}, "No entity was found.");
  const rows = entities.map((entity) =>
    el(
      "tr",
      {},
      el("th", { scope: "row", dir: "auto" }, entity.text),
      el("td", { class: "text" }, kind(entity)),
      el("td", {}, percent(entity.raw_score)),
      el("td", {}, percent(entity.score)),
      el("td", { class: "text" }, entity.score < least ? "✗ too unsure" : "✓ answered"),
    ),
  );
  const heads = ["Entity", "Type", "Model says", "Should say", "Threshold"];
  return el(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": "Entities and their scores" },
    el("table", {}, el("thead", {}, el("tr", {}, heads.map((head, place) => el("th", { scope: "col", class: place === 0 || place === 1 || place === 4 ? "text" : null }, head)))), el("tbody", {}, rows)),
  );
}

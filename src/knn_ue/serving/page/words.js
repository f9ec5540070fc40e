// A tagged sentence: entities highlighted with their scores, what may be missed, and every word a button that shows why.

import { el, percent } from "./dom.js";
import { shownP } from "./familiarity.js";
import { reasonLines } from "./reasons.js";

export function sentenceWithEntities(answer, why, chosen, threshold, choose) {
  const least = threshold?.value() ?? 0;
  const spans = new Map([
    ...answer.entities.map((entity) => [entity.start, { end: entity.end, show: (inside) => highlighted(entity, inside, least) }]),
    ...(answer.missed ?? []).map((missed) => [missed.start, { end: missed.end, show: (inside) => underlined(missed, inside) }]),
  ]);
  const parts = [];
  for (let place = 0; place < answer.words.length; ) {
    const span = spans.get(place);
    const end = span ? span.end : place + 1;
    const inside = answer.words.slice(place, end).map((word, offset) => (word.word.trim() ? wordButton(word, place + offset, why, chosen, choose) : " ")); // some tokenizers keep line breaks
    parts.push(span ? span.show(inside) : inside[0]);
    place = end;
  }
  return el(
    "section",
    { class: "card", "aria-labelledby": "sentence-title" },
    el("h2", { id: "sentence-title" }, "The sentence"),
    el("p", { class: "sentence", dir: "auto" }, parts),
    scoresItself(answer) ? el("p", { class: "whole" }, wholeSentence(answer)) : null,
    table(answer.entities, least),
    reasons(answer),
    el("p", { class: "soft" }, meaning(answer)),
  );
}

/** Some methods score entities and sentences themselves; the others have words only. */
const scoresItself = (answer) => answer.none_missed !== undefined;

/** What the sentence as a whole is worth, in words; empty where the method does not say. */
export function wholeSentence(answer) {
  if (!scoresItself(answer)) return "";
  return `Everything right and nothing missed: ${percent(answer.score)}. Nothing missed: ${percent(answer.none_missed)}.`;
}

function meaning(answer) {
  const choose = "Choose a word to see the reasons for its score.";
  if (!scoresItself(answer)) return `${choose} An entity's score is the product over its words.`;
  const missed = answer.missed.length ? " A dashed underline marks words that may hide an entity the model missed, with its most likely type." : "";
  return `${choose} An entity's score is the probability that its type, its start and its end are all right. It is fitted on whole entities and is not the product over its words.${missed}`;
}

const kind = (entity) => entity.type ?? entity.would_be;

function wordButton(word, place, why, chosen, choose) {
  const name = `${word.word}: ${why[place].label}, ${percent(why[place].score)}`;
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

function underlined(missed, inside) {
  return el(
    "span",
    { class: "missed" },
    el("span", { class: "missed-words" }, inside),
    el("span", { class: "entity-type" }, `missed ${missed.type}? ${percent(missed.score)}`),
  );
}

function table(entities, least) {
  if (!entities.length) return el("p", {}, "No entity was found.");
  const known = entities[0].familiarity !== undefined;
  const rows = entities.map((entity) =>
    el(
      "tr",
      {},
      el("th", { scope: "row", dir: "auto" }, entity.text),
      el("td", { class: "text" }, kind(entity)),
      el("td", {}, entity.raw_score === null ? "" : percent(entity.raw_score)),
      el("td", {}, percent(entity.score)),
      known ? el("td", { class: entity.unfamiliar ? "differs" : null }, `${entity.unfamiliar ? "⚠ " : ""}p = ${shownP(entity.familiarity)}`) : null,
      least > 0 ? el("td", { class: "text" }, entity.score < least ? "✗ below" : "✓ above") : null,
    ),
  );
  const heads = ["Entity", "Type", "Model says", "Calibrated", ...(known ? ["Familiarity"] : []), ...(least > 0 ? ["Threshold"] : [])];
  const numbers = new Set(["Model says", "Calibrated", "Familiarity"]);
  return el(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": "Entities and their scores" },
    el("table", {}, el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col", class: numbers.has(head) ? null : "text" }, head)))), el("tbody", {}, rows)),
  );
}

function reasons(answer) {
  if (!scoresItself(answer) || !answer.entities.length) return null;
  const items = answer.entities.map((entity) =>
    el("li", {}, el("strong", { dir: "auto" }, entity.text), `, ${kind(entity)} ${percent(entity.score)}`, el("ul", { class: "reasons" }, reasonLines(entity, "Nothing stands out.").map((text) => el("li", {}, text)))),
  );
  return el("ul", { class: "entity-reasons", "aria-label": "Why each entity has its score" }, items);
}

// Whether the input is like the training data, what the model says, its calibrated score, and why.

import { bar, byId, el, number, percent } from "./dom.js";
import { familiarityCard } from "./familiarity.js";
import { feedback } from "./feedback.js";
import { neighborhood } from "./neighbors.js";
import { sentenceWithEntities, wholeSentence } from "./words.js";

/** Show an explanation; returns what to call when the threshold moves. */
export function showAnswer(found, context) {
  const { answer, why, familiarity_in_words: known } = found.explanations[0];
  const place = el("div");
  const tagging = "words" in answer;
  const chosen = { word: tagging ? (answer.entities[0]?.start ?? 0) : 0 };
  const correction = feedback(answer, why, context); // made once: what is chosen in it must outlive the next drawing
  const draw = () => {
    const opened = place.querySelector("details.classes")?.open;
    const numbers = place.querySelector("details.terms")?.open;
    const parts = tagging
      ? [sentenceWithEntities(answer, why, chosen, context.page.threshold, (word) => choose(word))]
      : [];
    const near = neighborhood(why[chosen.word], found.note, context);
    byId("side").replaceChildren(...(near.map ? [near.map] : []));
    place.replaceChildren(
      ...[familiarityCard(answer, known, context.page.info)].filter(Boolean),
      ...parts,
      answerCard(why[chosen.word], tagging ? answer.words[chosen.word].word : null, context, answer, opened),
      reasonsCard(why[chosen.word], found.note, numbers),
      correction,
      near.list,
    );
  };
  const choose = (word) => {
    chosen.word = word;
    draw();
    place.querySelector(`[data-word="${word}"]`)?.focus();
  };
  draw();
  byId("answer").replaceChildren(place);
  byId("status").textContent = spoken(found.explanations[0]);
  return draw;
}

function spoken({ answer, why, familiarity_in_words: known }) {
  const strange = answer.unfamiliar ? `${known} ` : "";
  if ("words" in answer) return `${strange}${answer.entities.length} entities in ${answer.words.length} words. ${wholeSentence(answer)}`;
  return `${strange}The answer is ${why[0].label}. The calibrated score is ${percent(why[0].score)}. ${alone(why[0])}`;
}

function answerCard(why, word, context, answer, opened) {
  const tagging = word !== null;
  const least = context.page.threshold?.value() ?? 0;
  return el(
    "section",
    { class: "card", "aria-labelledby": "answer-title" },
    el("h2", { id: "answer-title" }, word === null ? "The answer" : `The word “${word}”`),
    el("p", { class: "predicted" }, el("strong", {}, why.label), " ", el("span", { class: "score" }, percent(why.score)), " ", answer.unfamiliar && !why.adapted_to ? el("span", { class: "tag differs" }, "⚠ do not rely on this score") : null, " ", tagging ? null : badge(why, least, answer.unfamiliar)),
    el("p", { class: "soft" }, basis(why, answer, context.page.info)),
    tagging ? null : el("p", { class: "cut" }, cutNote(context.input, context.page.info)),
    distribution(why, tagging ? 0 : least, opened),
  );
}

/** Above or below the threshold, where there is one; in tagging whole entities are answered or not, as the sentence shows. */
function badge(why, least, unfamiliar) {
  if (least <= 0) return null;
  if (why.score < least) return el("span", { class: "tag differs" }, `✗ below the threshold ${number(least)}: it abstains`);
  // Above it, but the threshold was fitted on other inputs: nothing to be reassured by.
  if (unfamiliar) return el("span", { class: "tag" }, `above the threshold ${number(least)}, which does not apply to such inputs`);
  return el("span", { class: "tag agrees" }, `✓ above the threshold ${number(least)}`);
}

/** How sure the model itself is. */
function alone({ raw_score: stated }) {
  return stated === null ? "The model did not say how sure it is." : `The model alone says ${percent(stated)}.`;
}

/** What the score was calibrated on; never that it is right. */
function basis(why, answer, info) {
  const said = alone(why);
  if (why.adapted_to) return `${said} The score is adapted with labels of the domain ${why.adapted_to}: it holds on average for inputs like those, not for every single one.`;
  const where = `${said} The score is calibrated on ${info.n_fitted} ${info.judges_answers ? "labeled answers" : "validation rows"}: it holds on average for inputs like them`;
  return answer.unfamiliar ? `${where}, and this one is not like them.` : `${where}, not for every single one.`;
}

/** That the end of a long input was not read. A word is at least one sub-word, so more words than `max_length` are always cut; sentences are tagged to their end. */
function cutNote(input, { max_length: most }) {
  const n = Object.values(input).join(" ").split(/\s+/u).length;
  return most && n > most ? `Only the beginning was read: at most ${most} sub-words of ${n} words.` : "";
}

const FIRST = 5;

/** The likeliest labels: calibrated above, the model's own below it. */
function distribution(why, least, opened) {
  const rows = why.classes.map((one) => classRow(one, one.label === why.label ? least : 0));
  const rest = rows.splice(FIRST);
  return el(
    "div",
    { class: "distribution", role: "group", "aria-label": "Scores of the labels" },
    el("p", { class: "soft legend" }, el("span", { class: "swatch calibrated" }), "calibrated ", ...(why.raw_score === null ? [] : [el("span", { class: "swatch raw" }), "the model alone"])),
    rows,
    rest.length ? el("details", { class: "classes", open: opened }, el("summary", {}, `${rest.length} more labels`), rest) : null,
  );
}

function classRow(one, least) {
  const fill = (kind, share) => el("span", { class: `fill ${kind}`, style: { width: `${100 * share}%` } });
  return el(
    "div",
    { class: "class-row" },
    el("span", { class: "bar-name" }, one.label),
    el(
      "span",
      { class: "two-tracks", "aria-hidden": "true" },
      fill("calibrated", one.score),
      one.raw_score === null ? null : fill("raw", one.raw_score),
      least > 0 ? el("span", { class: "bar-mark", title: `threshold ${number(least)}`, style: { left: `${100 * least}%` } }) : null,
    ),
    el("span", { class: "bar-value" }, el("strong", {}, percent(one.score)), one.raw_score === null ? null : el("span", { class: "soft" }, ` model ${percent(one.raw_score)}`)),
  );
}

function reasonsCard(why, note, opened) {
  const card = el("section", { class: "card", "aria-labelledby": "why-title" }, el("h2", { id: "why-title" }, "Why this score"));
  const steps = [
    ["Model alone", why.raw_score, "raw"],
    ["Model-wide", why.usual_score, "step"],
    ["This input", why.score, "calibrated"],
  ];
  if (why.usual_score !== undefined) card.append(...steps.map(([name, value, kind]) => bar({ name, value, most: 1, shown: percent(value), kind })));
  const said = ["calibration", "neighborhood", "neighbors", "verdict", "for", "against", "own"].map((part) => why.in_words[part]).filter(Boolean);
  card.append(el("ul", { class: "said" }, said.map((text) => el("li", { dir: "auto" }, text))));
  if (why.distance_term === null) {
    if (note) card.append(el("p", { class: "soft" }, note));
    return card;
  }
  card.append(terms(why, opened));
  return card;
}

function terms(why, open) {
  const rows = [
    ["Nearness", why.distance_term, why.usual_distance_term],
    ["Agreement", why.label_term, why.usual_label_term],
  ];
  const most = Math.max(...rows.flatMap(([, value, usual]) => [value, usual ?? 0]), 1e-9);
  const bars = rows.map(([name, value, usual]) => {
    const marks = usual === null ? [] : [{ value: usual, title: `usual: ${number(usual)}` }];
    return bar({ name, value, most, shown: usual === null ? number(value) : `${number(value)} (usual ${number(usual)})`, kind: "term", marks });
  });
  const usual = why.usual_weight === undefined ? "" : `; in a typical neighborhood by ${number(why.usual_weight)}`;
  return el("details", { class: "terms", open }, el("summary", {}, "The numbers behind it"), el("p", { class: "soft" }, `The logits are multiplied by ${number(why.weight)}, the sum of two terms${usual}. A line marks the usual value.`), bars);
}

// Whether the input is like the training data, what the model says, its calibrated score, and why.

import { bar, byId, el, number, percent } from "./dom.js";
import { familiarityCard, familiarityWords } from "./familiarity.js";
import { feedback } from "./feedback.js";
import { neighborhood } from "./neighbors.js";
import { reasonLines } from "./reasons.js";
import { sentenceWithEntities, wholeSentence } from "./words.js";

/** Show an explanation; returns what to call when the threshold moves. */
export function showAnswer(found, context) {
  const { answer, why } = found.explanations[0];
  const place = el("div");
  const tagging = "words" in answer;
  const chosen = { word: tagging ? (answer.entities[0]?.start ?? 0) : 0 };
  const correction = feedback(answer, why, context); // made once: what is chosen in it must outlive the next drawing
  const draw = () => {
    const opened = place.querySelector("details.classes")?.open;
    const parts = tagging
      ? [sentenceWithEntities(answer, why, chosen, context.page.threshold, (word) => choose(word))]
      : [];
    const near = neighborhood(why[chosen.word], found.note, context);
    byId("side").replaceChildren(...(near.map ? [near.map] : []));
    place.replaceChildren(
      ...[familiarityCard(answer)].filter(Boolean),
      ...parts,
      confidenceCard(why[chosen.word], tagging ? answer.words[chosen.word].word : null, context, answer, opened),
      reasonsCard(why[chosen.word], found.note),
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
  byId("status").textContent = spoken(answer, why);
  return draw;
}

function spoken(answer, why) {
  const strange = answer.unfamiliar ? `${familiarityWords(answer)} ` : "";
  if ("words" in answer) return `${strange}${answer.entities.length} entities in ${answer.words.length} words. ${wholeSentence(answer)}`;
  return `${strange}The answer is ${why[0].label}: the model is ${percent(why[0].raw_score)} sure, the calibrated score is ${percent(why[0].score)}.`;
}

function confidenceCard(why, word, context, answer, opened) {
  const tagging = word !== null;
  const least = context.page.threshold?.value() ?? 0;
  const abstains = why.score < least;
  // In tagging whole entities are answered or not; the sentence above shows which.
  const verdict = abstains ? el("span", { class: "tag differs" }, "✗ too unsure to answer") : el("span", { class: "tag agrees" }, "✓ sure enough to answer");
  const marks = least > 0 && !tagging ? [{ value: least, title: `threshold ${number(least)}` }] : [];
  return el(
    "section",
    { class: "card", "aria-labelledby": "answer-title" },
    el("h2", { id: "answer-title" }, word === null ? "The answer" : `The word “${word}”`),
    el("p", { class: "predicted" }, el("strong", {}, why.label), " ", tagging ? null : verdict),
    bar({ name: "The model says", value: why.raw_score, most: 1, shown: percent(why.raw_score), kind: "raw", marks }),
    bar({ name: "Calibrated", value: why.score, most: 1, shown: percent(why.score), kind: "calibrated", marks }),
    el("p", {}, comparison(why, answer, context.page.info)),
    otherClasses(why, opened),
  );
}

/** What the score was calibrated on; never that it is right. */
function comparison(why, answer, info) {
  const points = 100 * (why.score - why.raw_score);
  const change = Math.abs(points) < 1 ? "leaves the model's confidence as it is" : `${points < 0 ? "lowers" : "raises"} the model's confidence by ${Math.abs(points).toFixed(1)} points`;
  const doubt = answer.unfamiliar ? " This input does not resemble them, so neither number can be relied on." : "";
  return `Calibration ${change}. It was fitted on ${info.n_validation} validation rows.${doubt}`;
}

function otherClasses(why, open) {
  if (why.classes.length < 3) return null;
  return el(
    "details",
    { class: "classes", open },
    el("summary", {}, "All likely labels"),
    why.classes.map((one) => bar({ name: one.label, value: one.score, most: 1, shown: percent(one.score), kind: "calibrated" })),
  );
}

function reasonsCard(why, note) {
  const card = el("section", { class: "card", "aria-labelledby": "why-title" }, el("h2", { id: "why-title" }, "Why"));
  card.append(el("p", {}, weightSentence(why)));
  if (why.distance_term === null) {
    if (note) card.append(el("p", { class: "soft" }, note));
    return card;
  }
  const terms = [
    ["Nearness", why.distance_term, why.usual_distance_term],
    ["Agreement", why.label_term, why.usual_label_term],
  ];
  const most = Math.max(...terms.flatMap(([, value, usual]) => [value, usual ?? 0]), 1e-9);
  for (const [name, value, usual] of terms) {
    const marks = usual === null ? [] : [{ value: usual, title: `usual: ${number(usual)}` }];
    const shown = usual === null ? number(value) : `${number(value)} (usual ${number(usual)})`;
    card.append(bar({ name, value, most, shown, kind: "term", marks }));
  }
  card.append(el("ul", { class: "reasons" }, reasonLines(why, "Both are as usual.").map((text) => el("li", {}, text))));
  return card;
}

function weightSentence(why) {
  if (why.weight === null) return "This method does not multiply the logits by a weight.";
  const effect = why.weight < 0.995 ? "less sure" : why.weight > 1.005 ? "surer" : "exactly as sure";
  const parts = why.distance_term === null ? "" : `, ${number(why.distance_term)} from nearness and ${number(why.label_term)} from agreement`;
  return `The logits are multiplied by ${number(why.weight)}${parts}: that makes the answer ${effect}.`;
}

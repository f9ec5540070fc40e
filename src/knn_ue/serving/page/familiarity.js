// How much an input is like the training data: the first thing to know about a strange one.

import { el } from "./dom.js";

/** A p-value as people read it: 0.0009990 is "0.001". */
export const shownP = (value) => (value < 0.01 ? value.toFixed(Math.min(6, Math.max(3, -Math.floor(Math.log10(value))))) : value.toFixed(2));

/** What to say of an answer or entity; empty where the model has no views to compare. */
export function familiarityWords(answer) {
  if (answer.familiarity === undefined) return "";
  const p = shownP(answer.familiarity);
  if (answer.unfamiliar) return `Unlike anything in the training data: p = ${p}. The score was calibrated on other inputs and may be far off here.`;
  return `Like the validation inputs: p = ${p}. Of them, ${percentOf(answer.familiarity)} are at least as unusual as this one.`;
}

const percentOf = (share) => `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;

/** A card above the answer where the input is strange, one quiet line where it is not. */
export function familiarityCard(answer) {
  const words = familiarityWords(answer);
  if (!words) return null;
  if (!answer.unfamiliar) return el("p", { class: "familiar soft", id: "familiarity" }, words);
  const [first, ...rest] = words.split(". The");
  return el("section", { class: "card unfamiliar", id: "familiarity" }, el("p", {}, el("strong", {}, `⚠ ${first}.`), ` The${rest.join(". The")}`));
}

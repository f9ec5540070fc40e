// How much an input is like the training data: the first thing to know about a strange one. The server words it.

import { el } from "./dom.js";

/** A p-value as people read it: 0.0009990 is "0.001". */
export const shownP = (value) => (value < 0.01 ? value.toFixed(Math.min(6, Math.max(3, -Math.floor(Math.log10(value))))) : value.toFixed(2));

/** A card above the answer where the input is strange, one quiet line where it is not; null where nothing is known. */
export function familiarityCard(answer, words, info) {
  if (!words) return null;
  if (!answer.unfamiliar) return el("p", { class: "familiar soft", id: "familiarity" }, words);
  const cut = words.indexOf(". ") + 1;
  const promise = info.threshold === null ? "" : " The fitted threshold does not cover such inputs either.";
  return el(
    "section",
    { class: "card unfamiliar", id: "familiarity", "aria-labelledby": "familiarity-title" },
    el("h2", { id: "familiarity-title" }, `⚠ ${words.slice(0, cut)}`),
    el("p", {}, `${words.slice(cut + 1)}${promise}`),
  );
}

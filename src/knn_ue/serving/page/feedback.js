// "This is wrong, it is ...": a correction becomes a stored example at once.

import { post, remove } from "./api.js";
import { el } from "./dom.js";

export function feedback(answer, why, context) {
  const { info } = context.page;
  const card = el("section", { class: "card", "aria-labelledby": "feedback-title" }, el("h2", { id: "feedback-title" }, "Is this wrong?"));
  if (info.read_only) return append(card, "This server stores no corrections: it was started with --read-only.");
  if (info.judges_answers) return append(card, "Add this row with its right label to your labeled answers, and fit again.");
  if (info.n_stored === null) return append(card, `The method ${info.method} stores no examples, so it cannot learn from a correction.`);
  const tagging = "words" in answer;
  const selects = (tagging ? answer.words : [answer]).map((word, place) => select(info.labels, why[place].label, word.word, place));
  const button = el("button", { type: "submit" }, "Store it as an example");
  const told = context.page.told ?? el("p", { role: "status", class: "told", id: "told", tabindex: -1 });
  context.page.told = told;
  const form = el(
    "form",
    { on: { submit: (event) => store(event, selects, button, told, context, tagging ? answer.words : null) } },
    el("div", { class: tagging ? "tags" : "row" }, selects.map(({ box }) => box)),
    el("div", { class: "row" }, button),
  );
  const change = tagging ? el("details", {}, el("summary", {}, "Correct the tags"), form) : form;
  card.append(el("p", {}, tagging ? "Give each word its right tag." : "Choose the right label. Confirming a right answer helps, too."), change, told, refit(info, told, context));
  return card;
}

function append(card, sentence) {
  card.append(el("p", {}, sentence));
  return card;
}

function select(labels, predicted, word, place) {
  const id = `right-${place}`;
  const options = labels.map((label) => el("option", { value: label, selected: label === predicted }, label));
  const field = el("select", { id }, options);
  return { field, box: el("div", { class: "field" }, el("label", { for: id, dir: "auto" }, word ?? "It is"), field) };
}

async function store(event, selects, button, told, context, words) {
  event.preventDefault();
  const { input } = context; // the one this answer is for: another may have been asked since
  const labels = selects.map(({ field }) => field.value);
  button.disabled = true;
  await context.attempt(async () => {
    const example = words ? { tokens: words.map(({ word }) => word), tags: labels } : { ...input, label: labels[0] };
    const { ids, n_stored } = await post("/examples", { examples: [example] });
    const undo = el("button", { type: "button", class: "quiet" }, "Undo");
    undo.onclick = () => context.attempt(() => takeBack(ids[0], told, context));
    const name = ids[0].length > 1 ? `examples ${ids[0][0]} to ${ids[0].at(-1)}` : `example ${ids[0][0]}`;
    told.replaceChildren(`Stored as ${name}. ${n_stored} examples are stored; the next answer uses them. `, undo);
    await context.again("told");
  });
  button.disabled = false;
}

async function takeBack(ids, told, context) {
  for (const id of ids) await remove(`/examples/${id}`);
  told.textContent = "Undone: the example is removed.";
  await context.again("told");
}

function refit(info, told, context) {
  const button = el("button", { type: "button", class: "quiet" }, "Refit the calibration");
  button.onclick = () =>
    context.attempt(async () => {
      button.disabled = true;
      told.textContent = "Fitting on the validation rows …";
      try {
        await post("/refit");
        told.textContent = "Refitted: parameters, threshold and drift now use every stored example.";
        await context.again("told");
      } catch (error) {
        told.textContent = "";
        throw error;
      } finally {
        button.disabled = false;
      }
    });
  return el("p", { class: "soft" }, "After many corrections: ", button);
}

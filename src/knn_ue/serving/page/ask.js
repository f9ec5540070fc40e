// The form: one text, a pair, or a sentence whose words are tagged; and what another model answered, where that is judged.

import { byId, el } from "./dom.js";

const PLACEHOLDERS = {
  "text-classification": "Type a text, for example: It has its moments, I suppose.",
  "token-classification": "Type a sentence, for example: Ada Lovelace went to Paris.",
};

/** Fill the form for the task; `ask` is called with what the API calls an input. */
export function buildForm(info, ask) {
  const form = byId("ask");
  const texts = info.task === "text-pair" ? pairFields() : [field("text", "Text", PLACEHOLDERS[info.task])];
  const given = info.judges_answers ? [answerField(info.labels), confidenceField()] : [];
  const fields = [...texts, ...given];
  const hint = el("p", { class: "soft hint" }, "Press Enter to ask, Shift+Enter for a new line.");
  const samples = (info.samples ?? []).map((sample) => sampleButton(sample, fields, form));
  form.replaceChildren(
    ...texts.map(({ box }) => box),
    ...(given.length ? [el("div", { class: "row given" }, given.map(({ box }) => box))] : []),
    el("div", { class: "row" }, el("button", { type: "submit", class: "main" }, "How sure?"), hint),
    el("div", { class: "row", id: "ask-domain" }),
    ...(samples.length ? [el("p", { class: "samples" }, el("span", { class: "soft" }, "Or try: "), samples)] : []),
  );
  form.onsubmit = (event) => {
    event.preventDefault();
    const values = fields.map(({ area }) => area.value.trim());
    const empty = texts.find((_, place) => !values[place]); // a model may well answer nothing
    if (empty) return miss(empty);
    ask(input(info, values));
  };
  form.onkeydown = (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.target.tagName !== "TEXTAREA") return;
    event.preventDefault();
    form.requestSubmit();
  };
}

/** Offer the domains whose scores may be asked for, where there are any; what is chosen stays chosen. */
export function buildDomains({ domains }) {
  const chosen = chosenDomain() ?? "";
  const named = domains.filter((name) => name !== "default");
  const first = domains.includes("default") ? "default" : "general";
  const options = [["", first], ...(first === "default" ? [["general", "general"]] : []), ...named.map((name) => [name, name])];
  const field = el("select", { id: "ask-domain-name" }, options.map(([value, name]) => el("option", { value, selected: value === chosen }, name)));
  byId("ask-domain").replaceChildren(...(domains.length ? [el("label", { for: field.id }, "Scores of the domain"), field] : []));
}

/** The domain to ask for; null where the server shall choose. */
export const chosenDomain = () => byId("ask-domain-name")?.value || null;

function miss({ area, label }) {
  const old = byId("answer-title") ? " The answer below is still the last one." : "";
  byId("problem").textContent = `${label} is empty: type something first.${old}`;
  byId("problem").hidden = false;
  area.focus();
}

function input({ task, splits_texts: itself, judges_answers: judged }, values) {
  const given = {};
  if (judged) {
    given.answer = values.at(-2);
    if (values.at(-1)) given.confidence = Number(values.at(-1)) / 100;
  }
  if (task === "text-pair") return { premise: values[0], hypothesis: values[1], ...given };
  if (judged) return { text: values[0], ...given };
  return task === "token-classification" && !itself ? { tokens: words(values[0]) } : { text: values[0] };
}

/** Part a sentence as tagged corpora do: words, and each sign of punctuation by itself. */
export function words(text) {
  return text.match(/[\p{L}\p{M}\p{N}]+(?:['’.\-][\p{L}\p{M}\p{N}]+)*|[^\s]/gu) ?? [];
}

function pairFields() {
  return [
    field("premise", "Premise", "For example: A man sleeps on the grass."),
    field("hypothesis", "Hypothesis", "For example: He is awake."),
  ];
}

function field(id, label, placeholder) {
  const area = el("textarea", { id: `ask-${id}`, rows: 3, placeholder, dir: "auto", "aria-required": "true", enterkeyhint: "go" });
  return { area, label, box: el("div", { class: "field" }, el("label", { for: area.id }, label), area) };
}

/** What the model answered; its labels are offered, anything may be typed. */
function answerField(labels) {
  const area = el("input", { id: "ask-answer", type: "text", list: "ask-labels", placeholder: labels[0], dir: "auto", autocomplete: "off" });
  const known = el("datalist", { id: "ask-labels" }, labels.map((label) => el("option", { value: label })));
  return { area, label: "Answer", box: el("div", { class: "field" }, el("label", { for: area.id }, "The model answered"), area, known) };
}

function confidenceField() {
  const area = el("input", { id: "ask-confidence", type: "number", min: 0, max: 100, step: "any", inputmode: "decimal", placeholder: "not stated" });
  return { area, label: "Confidence", box: el("div", { class: "field" }, el("label", { for: area.id }, "It said it is sure by, in %"), area) };
}

function sampleButton(sample, fields, form) {
  const parts = Array.isArray(sample) ? sample : [sample];
  const shown = parts.join(" → ");
  const use = () => {
    fields.forEach(({ area }, place) => (area.value = parts[place] ?? ""));
    form.requestSubmit();
  };
  return el(
    "button",
    { type: "button", class: "sample", dir: "auto", on: { click: use } },
    shown.length > 60 ? `${shown.slice(0, 57)}…` : shown,
  );
}

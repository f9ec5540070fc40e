// The form: one text, a pair, or a sentence whose words are tagged.

import { byId, el } from "./dom.js";

const PLACEHOLDERS = {
  "text-classification": "Type a text, for example: It has its moments, I suppose.",
  "token-classification": "Type a sentence, for example: Ada Lovelace went to Paris.",
};

/** Fill the form for the task; `ask` is called with what the API calls an input. */
export function buildForm(info, ask) {
  const form = byId("ask");
  const fields = info.task === "text-pair" ? pairFields() : [field("text", "Text", PLACEHOLDERS[info.task])];
  const hint = el("p", { class: "soft hint" }, "Press Enter to ask, Shift+Enter for a new line.");
  const samples = (info.samples ?? []).map((sample) => sampleButton(sample, fields, form));
  form.replaceChildren(
    ...fields.map(({ box }) => box),
    el("div", { class: "row" }, el("button", { type: "submit", class: "main" }, "How sure?"), hint),
    el("div", { class: "row", id: "ask-domain" }),
    ...(samples.length ? [el("p", { class: "samples" }, el("span", { class: "soft" }, "Or try: "), samples)] : []),
  );
  form.onsubmit = (event) => {
    event.preventDefault();
    const values = fields.map(({ area }) => area.value.trim());
    const empty = fields.find((_, place) => !values[place]);
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

function input({ task, splits_texts: itself }, values) {
  if (task === "text-pair") return { premise: values[0], hypothesis: values[1] };
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

function sampleButton(sample, fields, form) {
  const parts = Array.isArray(sample) ? sample : [sample];
  const shown = parts.join(" → ");
  const use = () => {
    fields.forEach(({ area }, place) => (area.value = parts[place]));
    form.requestSubmit();
  };
  return el(
    "button",
    { type: "button", class: "sample", dir: "auto", on: { click: use } },
    shown.length > 60 ? `${shown.slice(0, 57)}…` : shown,
  );
}

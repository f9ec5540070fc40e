// "Label 50": one input at a time, keyboard first, then adapt, with the reliability picture before and after.

import { get, post, remove } from "./api.js";
import { byId, el, percent, svg } from "./dom.js";

const WANTED = 50;
const LEAST = 10;
const SIZE = 150;
const EDGE = 34;

/** Fill the card; `attempt` runs something and says what went wrong, `changed` is called when the scores are others.
    Returns what to call with new facts of the server: it changes the card only where nobody is labeling. */
export function buildLabeling(info, { attempt, changed }) {
  const card = byId("label");
  const state = { info, attempt, changed, rows: [], answers: [], body: el("div", { id: "label-body" }) };
  card.replaceChildren(card.querySelector("h2"), state.body);
  card.hidden = false;
  showStart(state);
  return (now) => {
    state.info = now;
    if (state.idle) showStart(state, state.told);
  };
}

function showStart(state, told = []) {
  Object.assign(state, { idle: true, told });
  const { info } = state;
  const where = {
    file: `from the ${info.pool.n} texts that the operator of this server provided`,
    recent: `from the last ${info.pool.n} inputs of all users of this server, which are kept in memory only`,
  };
  if (info.read_only) return say(state, "This server is read-only: it was started with --read-only.");
  if (info.pool.source === "none") {
    return say(state, "Scores are calibrated on the validation rows. To recalibrate for another domain, start the server with --ask POOL or --keep-recent N, then label some inputs here.", told);
  }
  const begin = el("button", { type: "button", id: "label-begin", disabled: !info.pool.n }, `Label ${Math.min(WANTED, info.pool.n || WANTED)}`);
  begin.onclick = () => state.attempt(() => start(state));
  say(state, `Scores are calibrated on the validation rows. To recalibrate for other inputs, label some of them, drawn at random ${where[info.pool.source]}.`, told);
  state.body.append(el("div", { class: "row" }, begin), ...domains(state));
}

function say(state, sentence, told = []) {
  state.body.replaceChildren(el("p", {}, sentence), ...told);
}

function domains(state) {
  const buttons = state.info.domains.map((name) => {
    const button = el("button", { type: "button", class: "quiet" }, `Undo ${name}`);
    button.onclick = () =>
      state.attempt(async () => {
        await remove(`/domains/${encodeURIComponent(name)}`);
        await finish(state, [el("p", { role: "status" }, `Removed the domain ${name}. Its inputs get the general scores again.`)]);
      });
    return button;
  });
  return buttons.length ? [el("p", { class: "soft" }, "Adapted to: ", ...buttons)] : [];
}

async function start(state) {
  state.rows = (await post("/sample", { n: WANTED })).inputs;
  state.answers = [];
  state.idle = false;
  next(state);
}

/** Show the next input; the model's own answer is not shown, since it sways people. */
function next(state) {
  const number = state.answers.length;
  if (number >= state.rows.length) return review(state);
  const row = state.rows[number];
  const done = `${number} of ${state.rows.length} labeled`;
  const form = "tokens" in row ? tagForm(state, row) : choices(state, row);
  const back = el("button", { type: "button", class: "quiet", disabled: !number }, "Back (Backspace)");
  back.onclick = () => step(state, null);
  const skip = el("button", { type: "button", class: "quiet" }, "Skip (s)");
  skip.onclick = () => step(state, { skipped: true });
  const enough = el("button", { type: "button", class: "quiet", disabled: usable(state).length < LEAST }, `Stop here and adapt`);
  enough.onclick = () => review(state);
  state.body.replaceChildren(
    el("progress", { max: state.rows.length, value: number, "aria-label": done }),
    el("p", { class: "soft", role: "status", id: "label-progress" }, done),
    shown(row),
    form,
    el("div", { class: "row" }, back, skip, enough),
  );
  form.focus();
}

function shown(row) {
  const texts = "tokens" in row ? [row.tokens.join(" ")] : "premise" in row ? [row.premise, row.hypothesis] : [row.text];
  return el("blockquote", { id: "label-input", dir: "auto" }, texts.map((text) => el("p", {}, text)));
}

function choices(state, row) {
  const { labels } = state.info;
  const buttons = labels.map((label, place) => {
    const button = el("button", { type: "button" }, place < 9 ? `${place + 1} ${label}` : label);
    button.onclick = () => step(state, { ...row, label });
    return button;
  });
  const group = el("div", { class: "row", id: "label-choices", role: "group", tabindex: -1, "aria-label": "What is it? Press the number of a label." }, buttons);
  group.onkeydown = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const label = labels[Number(event.key) - 1];
    if (/^[1-9]$/.test(event.key) && label !== undefined) step(state, { ...row, label });
    else if (event.key === "Backspace" && state.answers.length) step(state, null);
    else if (event.key === "s") step(state, { skipped: true });
    else return;
    event.preventDefault();
  };
  return group;
}

function tagForm(state, row) {
  const outside = state.info.labels.includes("O") ? "O" : state.info.labels[0];
  const fields = row.tokens.map((word, place) => {
    const options = state.info.labels.map((label) => el("option", { value: label, selected: label === outside }, label));
    const field = el("select", { id: `tag-${place}` }, options);
    return { field, box: el("div", { class: "field" }, el("label", { for: field.id, dir: "auto" }, word), field) };
  });
  const form = el("form", { tabindex: -1, id: "label-tags" }, el("div", { class: "tags" }, fields.map(({ box }) => box)), el("div", { class: "row" }, el("button", { type: "submit" }, "Next (Enter)")));
  form.onsubmit = (event) => {
    event.preventDefault();
    step(state, { ...row, tags: fields.map(({ field }) => field.value) });
  };
  return form;
}

function step(state, answer) {
  if (answer === null) state.answers.pop();
  else state.answers.push(answer);
  next(state);
}

const usable = (state) => state.answers.filter((answer) => !answer.skipped);

function review(state) {
  const labeled = usable(state);
  const name = el("input", { id: "label-domain", value: "default", maxlength: 64, required: true });
  const button = el("button", { type: "submit" }, "Adapt");
  const form = el(
    "form",
    { id: "label-adapt" },
    el("p", { role: "status" }, `${labeled.length} labeled. Name this domain. "default" is used for inputs that name no domain.`),
    el("div", { class: "row" }, el("label", { for: name.id }, "Domain"), name, button),
  );
  form.onsubmit = (event) => {
    event.preventDefault();
    button.disabled = true;
    state.attempt(() => adapt(state, labeled, name.value.trim())).finally(() => (button.disabled = false));
  };
  state.body.replaceChildren(form);
  button.focus();
}

async function adapt(state, examples, domain) {
  const found = await post("/adapt", { examples, domain });
  const unit = found.units.entities ?? found.units.rows;
  const told = el(
    "div",
    { id: "adapted", role: "status", tabindex: -1 },
    el("p", {}, found.applied ? `Adapted: scores for the domain ${domain} have changed.` : `No scale was applied${found.kept ? "" : ", and nothing was changed"}.`),
    el("p", {}, `${percent(unit.accuracy)} of the labeled inputs were right; the mean score was ${percent(unit.confidence_before)} and ${found.applied ? "is" : "would be"} ${percent(unit.confidence_after)} ${found.applied ? "now" : "after adapting"}. ECE ${percent(unit.ece_before)} before, ${percent(unit.ece_after)} after, cross-validated; ${percent(unit.ece_by_chance)} would be chance alone.`),
    found.doubts.map((doubt) => el("p", { class: "note" }, `${doubt[0].toUpperCase()}${doubt.slice(1)}.`)),
    found.before && el("div", { class: "row" }, picture(found.before, "before"), picture(found.after, "after")),
  );
  await finish(state, [told]);
  told.focus();
}

async function finish(state, told) {
  state.info = await get("/info");
  showStart(state, told);
  await state.changed(state.info);
}

const across = (share) => EDGE + share * (SIZE - EDGE - 6);
const up = (share) => SIZE - EDGE - share * (SIZE - EDGE - 6);

/** Score against share right: dots on the line are right as often as they say; larger dots hold more labels. */
function picture(bins, name) {
  const most = Math.max(...bins.count);
  const dots = bins.confidence.map((score, place) =>
    svg("circle", { cx: across(score), cy: up(bins.accuracy[place]), r: 3 + 6 * Math.sqrt(bins.count[place] / most), class: "reliability-dot" }),
  );
  const sentence = bins.confidence.map((score, place) => `score ${percent(score)}, right ${percent(bins.accuracy[place])}`).join("; ");
  return svg(
    "svg",
    { viewBox: `0 0 ${SIZE} ${SIZE}`, width: SIZE, height: SIZE, role: "img", "aria-label": `Reliability ${name}: ${sentence}`, class: "reliability" },
    svg("path", { d: `M${across(0)} ${up(1)}V${up(0)}H${across(1)}`, class: "axis-line" }),
    svg("path", { d: `M${across(0)} ${up(0)}L${across(1)} ${up(1)}`, class: "reliability-ideal" }),
    dots,
    svg("text", { x: across(0.5), y: SIZE - 6, "text-anchor": "middle", class: "axis" }, `score, ${name}`),
    svg("text", { x: 4, y: up(1) + 8, class: "axis" }, "right"),
  );
}

// The page: asks, and hands what comes back to those who show it.

import { get, offerToken, post } from "./api.js";
import { showAnswer } from "./answer.js";
import { buildDomains, buildForm, chosenDomain, words } from "./ask.js";
import { byId } from "./dom.js";
import { showDrift } from "./drift.js";
import { buildLabeling } from "./label.js";
import { buildThreshold } from "./threshold.js";

const TOP = 10;
const MOST_NEIGHBORS = 2000;
const DRIFT_SECONDS = 15;

const page = { info: null, threshold: null, latest: 0 };

async function begin() {
  await attempt(async () => {
    page.info = await get("/info");
    describe(page.info);
    buildForm(page.info, (input) => ask(input, true));
    page.labeling = buildLabeling(page.info, { attempt, changed });
    buildDomains(page.info);
    await refreshDrift();
  });
  // On a large validation set this takes a while the first time; asking need not wait for it.
  if (page.info) await attempt(buildSlider);
}

/** After adapting: what is shown was answered by other scores, so it is asked again. */
async function changed(info) {
  page.info = info;
  describe(info);
  buildDomains(info);
  if (page.input) await ask(page.input, false);
}

async function buildSlider() {
  page.threshold = await buildThreshold(page.info, () => page.shown?.());
  page.shown?.();
}

function describe(info) {
  const stored = info.n_stored === null ? "" : `, ${info.n_stored} training examples stored`;
  const kinds = { "text-classification": "texts", "text-pair": "pairs of texts", "token-classification": "words" };
  byId("about").textContent =
    `${info.judges_answers ? "This folder judges what another model answered about" : "This model labels"} ${kinds[info.task]}: ${list(info.labels)}. Method ${info.method}${stored}.` +
    (info.note ? ` ${info.note}` : "");
  byId("version").textContent = `knn-ue ${info.library}, folder ${info.folder}`;
}

function list(labels) {
  return labels.length > 8 ? `${labels.slice(0, 8).join(", ")} and ${labels.length - 8} more` : labels.join(", ");
}

/** Ask about an input; what comes back after a later question is thrown away. */
async function ask(input, isNew) {
  const number = ++page.latest;
  byId("answer").setAttribute("aria-busy", "true");
  byId("status").textContent = "Waiting for the model.";
  await attempt(async () => {
    // In tagging every word has neighbors of its own, and one answer holds so many only.
    const tagged = page.info.task === "token-classification";
    const n_words = input.tokens?.length ?? (tagged ? 2 * words(input.text).length : 1); // a tokenizer may make more
    const top = Math.min(TOP, Math.floor(MOST_NEIGHBORS / n_words));
    const found = await post("/explain", { inputs: [input], top, domain: chosenDomain() }).catch((error) => {
      if (number === page.latest) throw error;
    });
    if (number !== page.latest) return;
    if (isNew) page.told = null; // what was told of another input is old
    page.input = input;
    page.shown = showAnswer(found, { page, input, again: (place) => refresh(input, place), attempt });
    await refreshDrift();
    if (page.info.pool.source === "recent") page.labeling((page.info = await get("/info"))); // the pool has grown
  });
  if (number === page.latest) byId("answer").removeAttribute("aria-busy");
}

/** After the stored examples changed: ask again, count again, and go on at a place whoever uses the keyboard. */
async function refresh(input, place) {
  await attempt(async () => {
    const before = page.info.generation;
    page.info = await get("/info");
    describe(page.info);
    if (page.info.generation !== before) await buildSlider();
  });
  await ask(input, false);
  byId(place)?.focus({ preventScroll: true });
}

async function refreshDrift() {
  showDrift(await get("/drift"), page.info.task);
}

/** Run something; if it fails, say why where people look. */
async function attempt(work) {
  byId("problem").hidden = true;
  try {
    await work();
  } catch (error) {
    byId("status").textContent = "";
    byId("problem").textContent = error.message;
    byId("problem").hidden = false;
  }
}

offerToken(begin);
begin();
setInterval(() => {
  if (page.info && !document.hidden) refreshDrift().catch(() => {});
}, 1000 * DRIFT_SECONDS);

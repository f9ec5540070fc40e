// Renders /openapi.json: every address with what it takes and gives, and a command to try it.

import { getIfAllowed } from "./api.js";
import { byId, el } from "./dom.js";

const INPUTS = {
  "text-classification": { text: "a warm and funny film" },
  "text-pair": { premise: "A man sleeps on the grass.", hypothesis: "He is awake." },
  "token-classification": { tokens: ["Ada", "Lovelace", "went", "to", "Paris", "."] },
};
const TAGS = ["B-PER", "I-PER", "O", "O", "B-LOC", "O"];

/** Bodies that the model behind this server can answer; without a token it is not known which one it is. */
function examples(info) {
  const { task, labels } = info ?? { task: "text-classification", labels: ["pos"] };
  const input = INPUTS[task];
  const right = input.tokens ? { tags: TAGS.map((tag) => (labels.includes(tag) ? tag : labels[0])) } : { label: labels[0] };
  return {
    "post /predict": { inputs: [input], top: 3 },
    "post /explain": { inputs: input },
    "post /examples": { examples: [{ ...input, ...right }] },
  };
}

async function begin() {
  try {
    const api = await (await fetch("/openapi.json")).json();
    const bodies = examples(await getIfAllowed("/info"));
    const asksForToken = Boolean(api.components.securitySchemes);
    byId("about").textContent = `${api.info.description.replaceAll("`", "")} Version ${api.info.version}.`;
    const operations = Object.entries(api.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
    );
    byId("contents").append(...operations.map(({ path, method }) => el("li", {}, el("a", { href: `#${method}${path}` }, `${method.toUpperCase()} ${path}`))));
    byId("operations").append(...operations.map((one) => described(one, bodies, asksForToken)));
    byId("schemas").append(...Object.entries(api.components.schemas).map(schema));
  } catch {
    byId("problem").textContent = "The server does not answer. Is it still running?";
    byId("problem").hidden = false;
  }
}

function described({ path, method, operation }, bodies, asksForToken) {
  const sent = operation.requestBody?.content["application/json"]?.schema;
  return el(
    "section",
    { class: "card", id: `${method}${path}` },
    el("h2", {}, el("span", { class: "method" }, method.toUpperCase()), el("code", {}, path)),
    el("p", {}, operation.description ?? operation.summary),
    sent ? el("p", {}, "Send ", type(sent), " as application/json.") : null,
    el("pre", { tabindex: 0 }, command(path, method, bodies, asksForToken && operation.security)),
    el("details", {}, el("summary", {}, "Answers"), answers(operation.responses)),
  );
}

function command(path, method, bodies, withToken) {
  const body = bodies[`${method} ${path}`];
  const address = location.origin + path.replace(/\{.*\}/, "7396");
  const verb = method === "get" || body ? "" : ` -X ${method.toUpperCase()}`;
  const token = withToken ? " \\\n  -H 'Authorization: Bearer TOKEN'" : "";
  const json = body ? ` \\\n  -H 'Content-Type: application/json' \\\n  -d '${JSON.stringify(body).replaceAll("'", "'\\''")}'` : "";
  return `curl${verb} ${address}${token}${json}`;
}

function answers(responses) {
  const rows = Object.entries(responses).map(([status, found]) => {
    const given = found.content?.["application/json"]?.schema;
    return el("tr", {}, el("th", { scope: "row" }, status), el("td", { class: "text" }, found.description), el("td", { class: "text" }, given ? type(given) : ""));
  });
  const heads = ["Status", "Meaning", "Object"].map((head) => el("th", { scope: "col", class: "text" }, head));
  return el("div", { class: "scroll", tabindex: 0 }, el("table", {}, el("thead", {}, el("tr", {}, heads)), el("tbody", {}, rows)));
}

/** Name a type, with links to the objects it is made of. */
function type(schema) {
  if (schema.$ref) {
    const name = schema.$ref.split("/").at(-1);
    return el("a", { href: `#${name}` }, name);
  }
  const options = schema.anyOf ?? schema.oneOf;
  if (options) return el("span", {}, options.flatMap((option, place) => [place ? " or " : null, type(option)]));
  if (schema.type === "array") return el("span", {}, "list of ", schema.items ? type(schema.items) : "anything");
  return el("span", {}, schema.type ?? "anything");
}

function schema([name, found]) {
  const rows = Object.entries(found.properties ?? {}).map(([key, property]) => {
    const needed = found.required?.includes(key) ? "needed" : property.default === undefined ? "optional" : `default ${JSON.stringify(property.default)}`;
    return el("tr", {}, el("th", { scope: "row" }, el("code", {}, key)), el("td", { class: "text" }, type(property)), el("td", { class: "text" }, needed), el("td", { class: "text" }, property.description ?? ""));
  });
  const heads = ["Key", "Type", "", "Meaning"].map((head) => el("th", { scope: "col", class: "text" }, head));
  return el(
    "section",
    { class: "card", id: name },
    el("h3", {}, name),
    el("p", {}, found.description ?? ""),
    el("div", { class: "scroll", tabindex: 0 }, el("table", {}, el("thead", {}, el("tr", {}, heads)), el("tbody", {}, rows))),
  );
}

begin();

// Talks to the server. What goes wrong is thrown as an Error whose message is a sentence for people.

import { byId } from "./dom.js";

const KEY = "knn-ue-token";
let token = sessionStorage.getItem(KEY) ?? "";

async function call(method, path, body) {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch {
    throw new Error("The server does not answer. Is it still running? Start it again, then try once more.");
  }
  const found = await response.json().catch(() => null);
  if (response.ok && found !== null) return found;
  if (response.status === 401) await askForToken();
  throw new Error(sentence(found?.error ?? `the server answered with status ${response.status}`));
}

function sentence(text) {
  const ended = /[.!?]$/.test(text) ? text : `${text}.`;
  return ended[0].toUpperCase() + ended.slice(1);
}

function askForToken() {
  byId("token").hidden = false;
  byId("token-value").focus();
}

/** Let people give a token; it is kept until the tab is closed. `again` is called when there is one. */
export function offerToken(again) {
  byId("token").addEventListener("submit", (event) => {
    event.preventDefault();
    token = byId("token-value").value.trim();
    sessionStorage.setItem(KEY, token);
    byId("token").hidden = true;
    again();
  });
}

export const get = (path) => call("GET", path);
export const post = (path, body) => call("POST", path, body);
export const remove = (path) => call("DELETE", path);

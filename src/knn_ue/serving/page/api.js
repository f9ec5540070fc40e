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
    throw new Error("The server does not answer. Check that it is running, then try again.");
  }
  const found = await response.json().catch(() => null);
  if (response.ok && found !== null) return found;
  if (response.status === 401) await askForToken();
  throw new Error(sentence(found?.error ?? `the server answered with status ${response.status}`));
}

/** The page sends one input at a time: what the API calls inputs[0] is all that people have typed. */
function sentence(text) {
  const told = text.replace(/^(inputs|examples)\[0\]/, "your text");
  const ended = /[.!?]$/.test(told) ? told : `${told}.`;
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

/** What is at an address, or null where there is no token for it or no answer. */
export async function getIfAllowed(path) {
  const response = await fetch(path, { headers: token ? { Authorization: `Bearer ${token}` } : {} }).catch(() => null);
  return response?.ok ? response.json() : null;
}

export const get = (path) => call("GET", path);
export const post = (path, body) => call("POST", path, body);
export const remove = (path) => call("DELETE", path);

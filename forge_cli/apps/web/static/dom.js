// Small tools that every part of the page uses: elements, requests to the server, and what a screen reader is told.

import { send } from "./access.js";

export const $ = (id) => document.getElementById(id);

/** An element with properties and children; text is always text, never markup. */
export function el(tag, props = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name.includes("-") || name === "for" || name === "role") made.setAttribute(name, value);
    else if (value !== undefined) made[name] = value;
  }
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}

/** What the server drew; it has escaped everything that others wrote. */
export function drawn(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content;
}

/** A refusal of the server, with its sentence. */
export class Refusal extends Error {
  constructor(status, body) {
    super(body.error || `the server answered ${status}`);
    this.status = status;
    this.fields = body.fields || {};
    this.by = body.by;
  }
}

async function request(path, options) {
  let answer;
  try {
    answer = await send(path, options);
  } catch {
    throw new Refusal(0, { error: "The server cannot be reached; nothing was sent." });
  }
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refusal(answer.status, body);
  return body;
}

export const get = (path) => request(path, {});
export const post = (path, body = {}) =>
  request(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
/** A file of the server, saved under the name that the server gives it. */
export async function download(path) {
  const answer = await send(path);
  if (!answer.ok) throw new Refusal(answer.status, await answer.json().catch(() => ({})));
  const [, name] = answer.headers.get("Content-Disposition").match(/filename="(.*)"/);
  const href = URL.createObjectURL(await answer.blob());
  el("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 60_000); // a browser may still be asking where to save it
}

export const session = (id, part) => `/api/sessions/${encodeURIComponent(id)}/${part}`;

let saying;
/** Tell a screen reader one thing; several in a moment become one, so that it is never flooded. */
export function announce(text) {
  const place = $("announce");
  saying = saying ? `${saying}. ${text}` : text;
  if (saying !== text) return;
  setTimeout(() => {
    place.textContent = saying.slice(0, 500);
    saying = undefined;
  }, 150);
}

/** Run an action of a button: it is off meanwhile, and a refusal is shown where it belongs. */
export async function act(button, place, action) {
  if (button.getAttribute("aria-disabled") === "true") return;
  button.setAttribute("aria-disabled", "true");
  place.textContent = "";
  try {
    await action();
  } catch (error) {
    place.textContent = error.message;
  } finally {
    button.removeAttribute("aria-disabled");
  }
}

export const counted = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;

/** Seconds as people say them: 4 s, 2 min 05 s, 1 h 03 min. */
export function lasted(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${String(seconds % 60).padStart(2, "0")} s`;
  return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
}

export function moment(iso) {
  const date = new Date(iso);
  if (Number.isNaN(date.getTime())) return iso || "";
  return date.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
}

// Helpers for all parts of the page: elements, requests and announcements for screen readers.

import { send } from "./access.js";

export const $ = (id) => document.getElementById(id);

/** Make an element with properties and children; text is never markup. */
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

/** Parse HTML from the server, which has escaped all untrusted text. */
export function drawn(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content;
}

/** An error answer of the server. */
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
    throw new Refusal(0, { error: "The server cannot be reached. Nothing was sent." });
  }
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refusal(answer.status, body);
  return body;
}

export const get = (path) => request(path, {});
export const post = (path, body = {}) =>
  request(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
/** Save a file of the server under the name that the server gives. */
export async function download(path) {
  const answer = await send(path);
  if (!answer.ok) throw new Refusal(answer.status, await answer.json().catch(() => ({})));
  const [, name] = answer.headers.get("Content-Disposition").match(/filename="(.*)"/);
  const href = URL.createObjectURL(await answer.blob());
  el("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 60_000); // the browser may still be asking where to save it
}

export const session = (id, part) => `/api/sessions/${encodeURIComponent(id)}/${part}`;

let saying;
/** Announce a text to screen readers; several texts in a moment become one. */
export function announce(text) {
  const place = $("announce");
  saying = saying ? `${saying}. ${text}` : text;
  if (saying !== text) return;
  setTimeout(() => {
    place.textContent = saying.slice(0, 500);
    saying = undefined;
  }, 150);
}

/** Run the action of a button, which is disabled meanwhile; show an error in `place`. */
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

/** Format a duration as 4 s, 2 min 05 s or 1 h 03 min. */
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

// The conversation: entries by key, streamed texts, and a scroll position that never jumps.

import { $, announce, drawn, el } from "./dom.js";

const NEAR = 48; // pixels from the end that count as the end
const CHUNK = 50;

/** Make drawn HTML usable: wide parts scroll by keys, and code can be copied. */
export function dress(place) {
  for (const wide of place.querySelectorAll("pre, .table")) {
    wide.tabIndex = 0;
    if (!wide.matches("pre") || !navigator.clipboard) continue;
    const frame = el("div", { className: "copyable" });
    wide.replaceWith(frame);
    frame.append(wide, copyButton("Copy", () => textOf(wide)));
  }
}

/** Return code or a diff without line numbers. */
function textOf(code) {
  const plain = code.cloneNode(true);
  for (const number of plain.querySelectorAll(".gutter")) number.remove();
  return plain.textContent;
}

function copyButton(label, read) {
  const copy = async () => {
    await navigator.clipboard.writeText(read().replace(/\n+$/, ""));
    button.classList.add("done");
    announce("Copied");
    setTimeout(() => button.classList.remove("done"), 1500);
  };
  const button = el("button", { type: "button", className: "copy icon", title: label, "aria-label": label, onclick: copy });
  return button;
}

/** The scroll position: it follows the end, or stays where the person has scrolled. */
class Reader {
  constructor() {
    this.page = document.scrollingElement;
    this.atEnd = true;
    this.last = 0;
    addEventListener("scroll", () => this.moved(), { passive: true });
    new ResizeObserver(() => this.follow()).observe($("log"));
    $("newer").addEventListener("click", () => {
      this.jump();
      $("message").focus({ preventScroll: true });
    });
  }

  isNear() {
    return this.page.scrollHeight - innerHeight - scrollY < NEAR;
  }

  moved() {
    // New content below is no scrolling by the person.
    if (this.isNear()) this.atEnd = true;
    else if (scrollY < this.last - 1) this.atEnd = false;
    this.last = scrollY;
    if (this.atEnd) $("newer").hidden = true;
  }

  follow() {
    if ($("talk").hidden) return;
    if (this.atEnd) scrollTo({ top: this.page.scrollHeight, behavior: "instant" });
  }

  /** Stay at the beginning of a high element until it is removed. */
  hold() {
    this.isHeld = this.atEnd;
    this.atEnd = false;
  }

  jump() {
    this.isHeld = false;
    this.atEnd = true;
    $("newer").hidden = true;
    this.follow();
  }
}

export class Log {
  constructor() {
    this.place = $("log");
    this.reader = new Reader();
    this.clear();
  }

  clear() {
    this.entries = new Map();
    this.growing = new Map();
    this.texts = new Map();
    this.place.replaceChildren();
    $("empty").hidden = true;
    this.reader.atEnd = true;
    $("newer").hidden = true;
    this.isLoading = true;
    this.place.setAttribute("aria-busy", "true");
    delete this.place.dataset.ready;
  }

  /** Show the loaded history at once; laying it out for each piece would be slow. */
  show() {
    this.isLoading = false;
    this.place.removeAttribute("aria-busy");
    this.place.dataset.ready = "true";
    $("empty").hidden = Boolean(this.place.querySelector(".entry:not(.note)"));
  }

  /** Add an entry, or replace the one with its key; opened parts stay open. */
  put({ key, html, kind, parent, before, source, open, level = "", retry = false }) {
    const known = this.entries.get(key);
    const entry = known || this.add(key, parent, before);
    if (kind === "answer") this.forgetVoid();
    const opened = known && [...entry.querySelectorAll(":scope > .inside details")].map((each) => each.open);
    entry.className = `entry ${kind} ${level}${open ? " busy" : ""}`;
    if (kind !== "note") $("empty").hidden = true;
    const inside = entry.querySelector(":scope > .inside");
    inside.replaceChildren(drawn(html));
    inside.querySelectorAll("details").forEach((each, index) => {
      if (opened?.[index]) each.open = true;
    });
    for (const media of inside.querySelectorAll("img")) media.addEventListener("load", () => this.reader.follow());
    dress(inside);
    if (source?.trim() && navigator.clipboard) inside.append(copyButton("Copy the answer", () => source));
    if (retry) inside.append((this.retry = el("button", { type: "button", className: "retry", onclick: (event) => this.onRetry(event.currentTarget) }, "Retry")));
    this.growing.delete(key);
    this.texts.delete(key);
    this.changed = true;
    if (!open) entry.querySelector(":scope > .output")?.remove();
    return entry;
  }

  /** Show the output of a command, which only this tab gets. */
  note(text) {
    this.chunk().append(el("article", { className: "entry shown" }, el("pre", { tabIndex: 0 }, text)));
    $("empty").hidden = true;
    this.reader.jump();
  }

  /** Add a card below its call. */
  attach(card, key) {
    (this.entries.get(key) || this.chunk()).append(card);
    $("empty").hidden = true;
    this.reader.follow();
  }

  /** Insert a new entry: into its parent, before another, or at the end. */
  add(key, parent, before) {
    this.retry?.remove(); // only the last entry can be retried
    const entry = el("article", { "data-key": key }, el("div", { className: "inside" }));
    const above = parent && this.entries.get(parent);
    const below = before && this.entries.get(before);
    if (above) this.children(above).append(entry);
    else if (below) below.before(entry);
    else this.chunk().append(entry);
    this.entries.set(key, entry);
    return entry;
  }

  /** Group entries in chunks, so that the browser lays out only visible ones. */
  chunk() {
    const last = this.place.lastElementChild;
    if (last && last.childElementCount < CHUNK) return last;
    const made = el("div", { className: "chunk" });
    this.place.append(made);
    return made;
  }

  children(entry) {
    const found = entry.querySelector(":scope > .children");
    if (found) return found;
    const made = el("div", { className: "children" });
    entry.append(made);
    return made;
  }

  /** Grow an answer by complete blocks and the incomplete rest; it is drawn once per frame. */
  grow({ key, whole = false, done, rest }) {
    const piece = !whole && this.texts.get(key);
    this.texts.set(key, piece ? { ...piece, done: piece.done + done, rest } : { whole, done, rest });
  }

  /** Mark an answer as dropped; it stays until the next one. */
  void({ key }) {
    this.texts.delete(key);
    this.growing.delete(key);
    this.entries.get(key)?.classList.add("void");
  }

  forgetVoid() {
    for (const [key, entry] of this.entries) {
      if (!entry.matches(".void")) continue;
      entry.remove();
      this.entries.delete(key);
    }
  }

  /** Show the last output lines of a running call. */
  output({ key, text }) {
    const entry = this.entries.get(key);
    if (!entry) return;
    const pre = entry.querySelector(":scope > .output") || el("pre", { className: "output", tabIndex: 0 });
    pre.setAttribute("aria-label", "Output so far");
    pre.textContent = text;
    if (!pre.parentNode) entry.querySelector(":scope > .inside").after(pre);
  }

  /** Drop the streamed text: after a reconnect the server sends it again as a whole. */
  restart() {
    for (const { words } of this.growing.values()) words.replaceChildren();
    this.texts.clear();
  }

  /** Draw the texts after a piece of events and keep the scroll position. */
  settle() {
    for (const [key, piece] of this.texts) this.write(key, piece);
    const changed = this.changed || this.texts.size;
    this.changed = false;
    this.texts.clear();
    if (this.isLoading) return;
    this.reader.follow();
    if (changed && !this.reader.atEnd && !this.reader.isHeld) $("newer").hidden = false;
  }

  /** Replace the rest by new complete blocks and the new rest. */
  write(key, { whole, done, rest }) {
    const growing = this.growing.get(key) || this.begin(key);
    if (whole) growing.words.replaceChildren();
    else for (const node of growing.rest) node.remove();
    const [certain, open] = [done, rest].map(drawn);
    dress(certain);
    dress(open);
    growing.rest = [...open.childNodes];
    const last = open.lastElementChild;
    growing.words.append(certain, open);
    for (const code of last?.querySelectorAll("pre") || []) code.scrollTop = code.scrollHeight; // its end grows
  }

  begin(key) {
    this.forgetVoid();
    const entry = this.entries.get(key) || this.add(key, null);
    entry.className = "entry answer busy";
    const words = el("div", { className: "words" });
    entry.querySelector(":scope > .inside").replaceChildren(el("h2", { className: "who" }, this.worker), words);
    const growing = { words, rest: [] };
    this.growing.set(key, growing);
    return growing;
  }
}

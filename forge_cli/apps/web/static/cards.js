// Cards for requests and questions, in the conversation and in the inbox. Only an explicit answer counts as one.

import { $, act, announce, drawn, el, post, session } from "./dom.js";
import { dress } from "./entries.js";

const GRACE = 500; // milliseconds before a card takes keys: earlier ones were meant for something else
const MIN_VISIBLE = 60; // pixels of a card that make it visible
const TYPING = "input, textarea, select, [contenteditable]";

/** The open cards of the session, oldest first. */
export class Cards {
  constructor(log) {
    this.log = log;
    this.waiting = new Map();
    for (const event of ["scroll", "resize"]) addEventListener(event, () => this.point(), { passive: true });
    $("review").addEventListener("click", () => this.show([...this.waiting.values()][0]));
    $("message").addEventListener("keydown", ({ key }) => (this.typed = key === "Enter" ? undefined : performance.now()));
  }

  clear() {
    for (const card of this.waiting.values()) card.remove();
    this.waiting.clear();
    this.doubted = null;
    this.tell();
  }

  /** After a reconnect, the server sends the open requests again; `confirm` drops all others. */
  doubt() {
    this.doubted = new Set(this.waiting.keys());
  }

  confirm() {
    for (const id of this.doubted || []) this.settle(id, "decided meanwhile");
    this.doubted = null;
  }

  /** Add a card for a request; a new one gets the focus unless the person is writing. */
  ask(request, isNew) {
    this.doubted?.delete(request.request);
    if (this.waiting.has(request.request)) return;
    const send = (part, body) => post(session(this.id, part), { request: request.request, ...body });
    const card =
      request.type === "question"
        ? questionCard(request, (content) => send("reply", { content }))
        : requestCard(request, (choice, feedback) => send("answer", { choice, feedback }));
    this.waiting.set(request.request, card);
    this.log.attach(card, request.entry);
    announce(card.querySelector("h2").textContent);
    if (isNew) this.lead();
    this.tell();
  }

  /** Focus the only card, unless another element has the focus. */
  lead() {
    const isFree = !$("message").value && !(performance.now() - this.typed < 2 * GRACE);
    const [card] = this.waiting.values();
    if (this.waiting.size === 1 && isFree && this.log.reader.atEnd && !document.querySelector("dialog[open]")) this.show(card);
  }

  /** Remove a card that was decided here, in another tab or on a terminal. */
  settle(id, text) {
    const card = this.waiting.get(id);
    if (!card) return;
    this.waiting.delete(id);
    const hadFocus = card.contains(document.activeElement);
    card.remove();
    if (text) announce(text);
    const [next] = this.waiting.values();
    if (this.log.reader.isHeld) this.log.reader.jump();
    if (hadFocus && next) this.show(next);
    else if (hadFocus) $("message").focus({ preventScroll: true });
    this.tell();
  }

  show(card) {
    const call = card?.closest(".entry") || card; // with the line of the call
    const isHigh = call?.offsetHeight > innerHeight * 0.5;
    if (isHigh) this.log.reader.hold();
    call?.scrollIntoView({ block: isHigh ? "start" : "nearest" });
    // Not a button: an Enter meant for the message must not decide anything.
    (card?.querySelector("input[data-reply]") || card)?.focus({ preventScroll: true });
  }

  /** Show a bar that leads to the card if no card is visible. */
  point() {
    const cards = [...this.waiting.values()];
    $("waiting").hidden = !cards.length || cards.some(isInSight);
  }

  tell() {
    const cards = [...this.waiting.values()];
    this.point();
    if (cards.length) $("waiting-text").textContent = cards.length > 1 ? `${cards.length} calls are waiting for you` : cards[0].querySelector("h2").textContent;
    document.documentElement.classList.toggle("asked", cards.length > 0);
    dispatchEvent(new CustomEvent("forge-waiting", { detail: cards.length }));
  }
}

const isInSight = (card) => {
  const { top, bottom } = card.getBoundingClientRect();
  const covered = document.querySelector("#composer").offsetHeight + MIN_VISIBLE;
  return card.checkVisibility() && bottom > MIN_VISIBLE && top < innerHeight - covered;
};

// The keys of the terminal, for the focused card or the first visible one.
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || event.target.matches(TYPING)) return;
  if (document.querySelector("dialog[open]")) return;
  const card = event.target.closest(".card") || [...document.querySelectorAll(".card")].find(isInSight);
  const key = CSS.escape(event.key.toLowerCase());
  const button = card?.querySelector(`[data-key="${key}"]`);
  if (!button || performance.now() - card.shownAt < GRACE) return;
  const { behind } = button.dataset;
  if (behind && card.dataset.chosen !== behind) return;
  event.preventDefault();
  if (!card.querySelector(`[data-behind="${key}"]`)) return button.click();
  // This key has wider grants: Enter takes the narrow one, a digit another.
  card.dataset.chosen = key;
  button.focus();
});

const keyed = (key) => ({ "data-key": key, "aria-keyshortcuts": key });
const kbd = (key) => el("kbd", { "aria-hidden": "true" }, key);

let made = 0;
function newCard(title, about, ...inside) {
  const id = `card-${++made}`;
  const head = el("div", { className: "card-head" }, el("h2", { id }, title), ...about);
  const card = el("section", { className: "card", tabIndex: -1, role: "group", "aria-labelledby": id }, head, ...inside);
  card.shownAt = performance.now();
  return card;
}

/** Make the card of a request; `answer` is called with the choice of the person. */
export function requestCard({ title, tool, path = [], risk, html, choices }, answer) {
  const said = el("p", { className: "error", role: "alert" });
  const inside = el("div", { className: "drawn" }, drawn(html));
  dress(inside);
  const give = (button, choice, feedback = "") => act(button, said, () => answer(choice, feedback));
  const newButton = ({ value, key, label, about, rule, behind }) => {
    const kind = value === "no" ? "no" : value === "once" ? "primary" : "";
    const choose = (event) => {
      // The second click of a double click was meant for the card before.
      if (event.detail < 2) give(event.currentTarget, value);
    };
    const hint = [about && `for this session: ${about}`, rule].filter(Boolean).join(" – ");
    const keys = behind ? { "data-key": key, "data-behind": behind } : keyed(key);
    return el("button", { type: "button", className: kind, onclick: choose, title: hint, "data-choice": value, ...keys }, label, kbd(`${behind || ""}${key}`));
  };
  const buttons = choices.filter((each) => !each.behind).map(newButton);
  const offers = choices
    .filter((each) => each.about)
    .map((each) => el("li", {}, `${each.behind ? "or" : each.label}: ${each.about}, until the session ends `, each.behind ? newButton(each) : ""));
  const reason = el("input", { "aria-label": "Reason for the model", placeholder: "Reason for the model", autocomplete: "off" });
  const form = el("form", { className: "why-not", hidden: true }, reason, el("button", { type: "submit", className: "no" }, "Deny"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    give(form.lastElementChild, "no", reason.value.trim());
  });
  const tell = () => {
    form.hidden = !form.hidden;
    (form.hidden ? card : reason).focus();
  };
  form.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    event.preventDefault(); // Esc must not stop the worker here
    tell();
  });
  buttons.push(el("button", { type: "button", className: "plain", onclick: tell, ...keyed("t") }, "Deny with a reason", kbd("t")));
  const about = [path.length > 1 ? el("span", { className: "path" }, path.join(" › ")) : "", risk ? el("span", { className: `risk ${risk}` }, `risk: ${risk}`) : ""];
  const card = newCard(title || `${tool} asks`, about, inside);
  card.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !card.dataset.chosen) return;
    event.preventDefault(); // Esc goes back here, and must not stop the worker
    delete card.dataset.chosen;
    card.focus();
  });
  if (offers.length) card.append(el("ul", { className: "offers" }, ...offers));
  card.append(el("div", { className: "decide" }, form, said, el("div", { className: "choices" }, ...buttons)));
  return card;
}

/** Make the card of a question: a text field, or a button for each option. */
function questionCard({ html, options }, reply) {
  const said = el("p", { className: "error", role: "alert" });
  const give = (text) => (event) => act(event.currentTarget, said, () => reply(text));
  const input = el("input", { autocomplete: "off", "aria-label": "Your answer", "data-reply": "" });
  const send = el("button", { type: "submit", className: "primary" }, "Answer");
  const answers = options.length ? options.map((each) => el("button", { type: "button", "data-reply": each, onclick: give(each) }, each)) : [send];
  const decline = el("button", { type: "button", className: "plain", "data-act": "decline", onclick: give(null) }, "Decline");
  const form = el("form", { className: "decide" }, options.length ? "" : input, said, el("div", { className: "choices" }, ...answers, decline));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    act(send, said, () => reply(input.value));
  });
  return newCard("A tool asks you", [], el("div", { className: "drawn" }, drawn(html)), form);
}

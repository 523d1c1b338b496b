// Requests that wait for a person: one dialog at a time, the same in every tab, and no answer but an answer.

import { $, act, announce, drawn, el, post, session } from "./dom.js";

/** What waits in the session that is open, oldest first; asked again and again until it is decided somewhere. */
export class Approvals {
  constructor() {
    this.waiting = new Map();
    this.shown = null;
    this.postponed = new Set();
    for (const id of ["approval", "question", "tool"]) $(id).addEventListener("close", () => this.closed());
    $("approval").querySelector("form").addEventListener("submit", (event) => event.preventDefault());
    $("question").querySelector("form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.reply(event.submitter, $("reply").value);
    });
    $("decline").addEventListener("click", (event) => this.reply(event.currentTarget, null));
    $("review").addEventListener("click", () => {
      this.postponed.clear();
      this.next();
    });
  }

  clear() {
    this.waiting.clear();
    this.postponed.clear();
    this.shown = this.doubted = null;
    for (const id of ["approval", "question"]) if ($(id).open) $(id).close();
    this.tell();
  }

  /** After a break the server names again what waits; what it does not name was decided meanwhile. */
  doubt() {
    this.doubted = new Set(this.waiting.keys());
  }

  confirm() {
    for (const id of this.doubted || []) this.settle(id, "decided meanwhile");
    this.doubted = null;
  }

  ask(request) {
    this.doubted?.delete(request.request);
    const known = this.waiting.has(request.request);
    this.waiting.set(request.request, request);
    if (!known) announce(request.type === "question" ? "A tool asks you" : `${request.tool} asks for approval`);
    this.next();
  }

  /** Decided here, in another tab or in a terminal: nobody has to decide it any more. */
  settle(id, text) {
    if (!this.waiting.delete(id)) return;
    this.postponed.delete(id);
    if (text) announce(text);
    if (this.shown?.request === id) {
      this.shown = null;
      for (const each of ["approval", "question"]) if ($(each).open) $(each).close();
    }
    this.next();
  }

  next() {
    this.tell();
    if (this.shown || document.querySelector("dialog[open]")) return;
    const request = [...this.waiting.values()].find((each) => !this.postponed.has(each.request));
    if (!request) return;
    this.shown = request;
    if (request.type === "question") this.showQuestion(request);
    else this.showRequest(request);
    this.tell();
  }

  /** After Escape nothing is decided: the request stays, with a button that leads back to it. */
  closed() {
    // The event comes after the fact: what stands open is the next request, which nobody has left.
    if (this.shown && !$(this.shown.type === "question" ? "question" : "approval").open) {
      this.postponed.add(this.shown.request);
      this.shown = null;
      this.tell();
      if (!$("waiting").hidden) $("review").focus();
    }
    this.next();
  }

  tell() {
    const rest = [...this.waiting.values()].filter((each) => each !== this.shown);
    $("waiting").hidden = !rest.length;
    if (rest.length) {
      const first = rest[0].type === "question" ? "A tool asks you something" : `${rest[0].tool} waits for approval`;
      $("waiting-text").textContent = rest.length > 1 ? `${first}, and ${rest.length - 1} more` : first;
    }
    document.documentElement.classList.toggle("asked", this.waiting.size > 0);
    dispatchEvent(new CustomEvent("forge-waiting", { detail: this.waiting.size }));
  }

  showRequest(request) {
    openRequest(request, async (choice, feedback) => {
      await post(session(this.id, "answer"), { request: request.request, choice, feedback });
      this.settle(request.request);
    });
  }

  showQuestion({ html, secret, default: value }) {
    $("question-html").replaceChildren(drawn(html));
    $("question-error").textContent = "";
    $("reply").type = secret ? "password" : "text";
    $("reply").value = value ?? "";
    $("question").showModal();
    $("reply").focus();
  }

  reply(button, content) {
    const request = this.shown.request;
    act(button, $("question-error"), async () => {
      await post(session(this.id, "reply"), { request, content });
      this.settle(request);
    });
  }
}

/** The dialog for a call, of this session or of the inbox; `answer` is called with what the person chose. */
export function openRequest({ tool, path = [], risk, html, choices }, answer) {
  $("approval-title").textContent = `${tool} asks for approval`;
  $("approval-about").replaceChildren(
    ...(path.length ? [el("span", { className: "path" }, path.join(" › ")), " "] : []),
    ...(risk ? [el("span", { className: `risk ${risk}` }, `risk: ${risk}`)] : []),
  );
  $("approval-html").replaceChildren(drawn(html));
  for (const wide of $("approval-html").querySelectorAll("pre, .table")) wide.tabIndex = 0;
  $("approval-error").textContent = "";
  $("feedback").value = "";
  $("approval-choices").replaceChildren(...choices.map((choice) => choiceButton(choice, answer)));
  $("approval").showModal();
  $("approval").scrollTop = 0;
  // Not a button: an Enter that was meant for the message must not decide anything.
  $("approval-title").focus();
}

function choiceButton({ value, label, rule }, answer) {
  const choose = (event) => {
    // The second half of a double click was meant for the request before this one.
    if (event.detail > 1) return;
    act(event.currentTarget, $("approval-error"), async () => {
      try {
        await answer(value, value === "no" ? $("feedback").value.trim() : "");
      } catch (refusal) {
        if (refusal.status === 409) announce(refusal.message);
        throw refusal;
      }
    });
  };
  const kind = value === "no" ? "no" : value === "once" ? "primary" : "";
  return el("button", { type: "button", className: kind, onclick: choose, "data-choice": value }, label, rule ? el("code", { className: "rule" }, rule) : "");
}

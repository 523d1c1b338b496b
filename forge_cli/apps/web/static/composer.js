// The message box with its attachments, the state of the worker, and the Stop button.

import { $, act, announce, el, lasted, post, session } from "./dom.js";
import { Completions } from "./completions.js";

const MAX_ATTACHED = 14_000_000; // bytes of all attachments: base64 adds a third, and the server accepts 20 MB
const BUSY = new Set(["connecting", "thinking", "writing", "running", "retrying", "waiting"]);
const WORDS = {
  idle: "Ready",
  connecting: "Connecting to the model",
  thinking: "Thinking",
  writing: "Writing",
  running: "Running",
  retrying: "Waiting to try again",
  waiting: "Waiting for an answer",
  ended: "The session has ended",
};

export class Composer {
  /** `answered` gets the answer of the server to a line, such as the output of a command. */
  constructor(answered) {
    this.answered = answered;
    this.completions = new Completions($("message"), $("completions"), () => session(this.id, "complete"));
    for (const id of ["mode", "model"]) $(id).addEventListener("change", ({ target }) => this.enter(`/${id} ${target.value}`));
    this.drafts = new Map(); // unsent text and attachments by session
    this.draft = { text: "", attachments: [] };
    this.sent = []; // lines that the server has not accepted yet
    this.status = { state: "idle", queued: [] };
    $("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.send();
    });
    $("message").addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.defaultPrevented) return;
      event.preventDefault();
      this.send();
    });
    addEventListener("keydown", (event) => {
      if (event.key === "Escape" && !event.defaultPrevented && !document.querySelector("dialog[open]")) this.stop();
    });
    $("stop").addEventListener("click", () => this.stop());
    $("attach").addEventListener("change", (event) => {
      this.attach(event.target.files);
      event.target.value = "";
    });
    $("message").addEventListener("paste", (event) => {
      if (!event.clipboardData.files.length) return;
      event.preventDefault();
      this.attach(event.clipboardData.files);
    });
    this.takeDrops($("talk"));
    setInterval(() => this.tick(), 1000);
  }

  open(id) {
    this.draft.text = $("message").value;
    this.draft = this.drafts.get(id) || { text: "", attachments: [] };
    this.drafts.set(id, this.draft);
    this.id = id;
    $("message").value = this.draft.text;
    this.showAttachments();
    $("composer-error").textContent = "";
    this.show({ state: "connecting", detail: "", since: Date.now(), queued: [] });
  }

  takeDrops(place) {
    const isOpen = () => !$("composer").hidden;
    place.addEventListener("dragover", (event) => {
      if (!isOpen() || !event.dataTransfer.types.includes("Files")) return;
      event.preventDefault();
      place.classList.add("dropping");
    });
    place.addEventListener("dragleave", (event) => {
      if (!place.contains(event.relatedTarget)) place.classList.remove("dropping");
    });
    place.addEventListener("drop", (event) => {
      place.classList.remove("dropping");
      if (!isOpen() || !event.dataTransfer.files.length) return;
      event.preventDefault();
      this.attach(event.dataTransfer.files);
    });
  }

  async attach(files) {
    const place = $("composer-error");
    const { draft } = this;
    place.textContent = "";
    for (const file of files) {
      const size = draft.attachments.reduce((sum, each) => sum + each.size, file.size);
      if (size > MAX_ATTACHED) {
        place.textContent = `${file.name} is too large: attachments have at most ${MAX_ATTACHED / 1e6} MB together.`;
        continue;
      }
      const name = file.name || "pasted";
      draft.attachments.push({ name, media_type: file.type || "text/plain", size: file.size, data: await base64(file) });
    }
    this.showAttachments();
    $("message").focus();
  }

  showAttachments() {
    $("attached").hidden = !this.draft.attachments.length;
    $("attached").replaceChildren(
      ...this.draft.attachments.map((each) =>
        el(
          "li",
          {},
          el("span", { className: "path" }, each.name),
          el("button", { type: "button", "aria-label": `Remove ${each.name}`, onclick: () => this.drop(each) }, "×"),
        ),
      ),
    );
  }

  drop(attachment) {
    this.draft.attachments = this.draft.attachments.filter((each) => each !== attachment);
    this.showAttachments();
    $("message").focus();
  }

  send() {
    const box = $("message");
    const text = box.value;
    const { attachments } = this.draft;
    if (!text.trim() && !attachments.length) return;
    box.value = "";
    this.draft.attachments = [];
    this.showAttachments();
    this.completions.close();
    this.enter(text, attachments);
    box.focus();
  }

  /** Send a line, also for a control such as the mode. */
  enter(text, attachments = []) {
    this.sent.push({ id: this.id, draft: this.draft, text, attachments });
    act($("send"), $("composer-error"), () => this.deliver());
  }

  /** Send the lines in order; after a refusal, put it and the lines after it back into the box. */
  async deliver() {
    while (this.sent.length) {
      const { id, text, attachments } = this.sent[0];
      const files = attachments.map(({ name, media_type, data }) => ({ name, media_type, data }));
      const columns = Math.max(30, Math.floor($("log").clientWidth / 8) - 6);
      try {
        this.answered(await post(session(id, "input"), { text, attachments: files, columns }));
        this.sent.shift();
      } catch (refusal) {
        for (const each of this.sent.splice(0).reverse()) this.giveBack(each);
        throw refusal;
      }
    }
  }

  giveBack({ draft, text, attachments }) {
    draft.attachments = [...attachments, ...draft.attachments];
    if (draft === this.draft) this.edit(text);
    else draft.text = joined(text, draft.text);
    this.showAttachments();
  }

  /** Send the last message again; the server still has it. */
  retry(button) {
    act(button, $("composer-error"), () => post(session(this.id, "retry")));
  }

  stop() {
    if ($("stop").hidden) return;
    act($("stop"), $("composer-error"), async () => {
      for (const each of this.sent.splice(1).reverse()) this.giveBack(each);
      const { text, shown } = await post(session(this.id, "interrupt"));
      this.edit(text);
      this.answered({ shown });
      announce("Stopping");
    });
  }

  /** Insert a text before the typed text for editing. */
  edit(text) {
    $("message").value = joined(text, $("message").value);
  }

  show(status) {
    const before = this.status.state;
    this.status = status;
    const { state, detail, queued = [] } = status;
    $("status").dataset.state = state;
    $("status-text").textContent = [WORDS[state] || state, detail].filter(Boolean).join(": ");
    $("stop").hidden = !BUSY.has(state) || $("composer").hidden;
    $("queued").hidden = !queued.length;
    $("queued").replaceChildren(...queued.map((text) => el("li", {}, text)));
    if (state === "idle" && BUSY.has(before) && document.activeElement === document.body) $("message").focus({ preventScroll: true });
    this.tick();
  }

  tick() {
    const { state, since } = this.status;
    $("elapsed").textContent = BUSY.has(state) && since ? lasted(Date.now() - since) : "";
  }

  /** Show the mode and the model, with the other choices once they are known. */
  offer({ mode, modes, model, models }) {
    choose($("mode"), mode, modes.map(({ name, title }) => [name, title]));
    $("mode").closest("label").hidden = modes.length < 2;
    choose($("model"), model, byProvider([...new Set([model, ...models])].filter(Boolean)));
  }

  /** Show the message box in a live session, else the buttons to resume or fork it. */
  allow(live) {
    const focused = document.activeElement;
    const isFree = focused === document.body || $("reading").contains(focused);
    const becomesLive = live && $("composer").hidden;
    $("composer").hidden = !live;
    $("reading").hidden = live;
    $("status").hidden = !live;
    if (!live) $("stop").hidden = true;
    if (becomesLive && isFree) $("message").focus({ preventScroll: true });
  }
}

/** Set the options of a select, some in groups; an unchanged select may be open and is left alone. */
export function choose(select, value, options) {
  if (JSON.stringify(options) !== select.dataset.options) {
    select.dataset.options = JSON.stringify(options);
    const groups = Map.groupBy(options, ([, , group]) => group || "");
    const drawn = [...groups].map(([group, members]) => {
      const made = members.map(([name, title]) => el("option", { value: name }, title));
      return group ? [el("optgroup", { label: group }, ...made)] : made;
    });
    select.replaceChildren(...drawn.flat());
  }
  select.value = value;
}

/** Return models as options without their provider, which is the group; narrow windows lack the room. */
export const byProvider = (names) =>
  names.map((name) => {
    const [, provider, model] = name.match(/^([^:]+):(.+)$/) || [name, "", name];
    return [name, model, provider];
  });

const joined = (...texts) => texts.filter(Boolean).join("\n");

function base64(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}

// Completions of the text before the cursor: commands, tools and files, as on a terminal.

import { el, get } from "./dom.js";

const WANTED = /^\/[^\n]*$|(^|[\s(])@[^\s]*$/;

export class Completions {
  /** `address` returns the path of the API. */
  constructor(box, list, address) {
    Object.assign(this, { box, list, address, found: [], at: -1, asked: 0 });
    box.addEventListener("input", () => this.ask());
    box.addEventListener("blur", () => this.close());
    box.addEventListener("keydown", (event) => this.press(event));
  }

  async ask() {
    const before = this.box.value.slice(0, this.box.selectionStart);
    const turn = ++this.asked;
    if (!WANTED.test(before)) return this.close();
    const found = await get(`${this.address()}?text=${encodeURIComponent(before)}`).catch(() => []);
    if (turn !== this.asked) return;
    this.before = before;
    this.show(found.slice(0, 50));
    const index = this.pressed === "Tab" ? Math.max(this.at, 0) : this.at; // a key that was pressed before the answer came
    if (this.pressed && this.found[index]) this.take(index);
    this.pressed = "";
  }

  /** Show completions; keep the selection if it is still one of them. */
  show(found) {
    const chosen = this.found[this.at]?.text;
    this.found = found;
    this.list.hidden = !found.length;
    this.list.replaceChildren(...found.map((each, index) => this.option(each, index)));
    this.select(found.findIndex(({ text }) => text === chosen));
  }

  option({ text, summary }, index) {
    const take = (event) => {
      event.preventDefault(); // keep the focus in the box
      this.take(index);
    };
    return el("li", { id: `completion-${index}`, role: "option", onmousedown: take }, el("b", {}, text), summary ? el("span", { className: "quiet" }, summary) : "");
  }

  select(index) {
    this.at = index;
    [...this.list.children].forEach((each, number) => each.setAttribute("aria-selected", String(number === index)));
    this.list.children[index]?.scrollIntoView({ block: "nearest" });
    if (index < 0) this.box.removeAttribute("aria-activedescendant");
    else this.box.setAttribute("aria-activedescendant", `completion-${index}`);
  }

  press(event) {
    if (this.list.hidden || event.isComposing) return;
    const isStale = this.before !== this.box.value.slice(0, this.box.selectionStart); // the answer has not come yet
    const moves = { ArrowDown: 1, ArrowUp: -1 };
    const from = event.key === "ArrowUp" ? Math.max(this.at, 0) : this.at;
    if (event.key in moves) this.select((from + moves[event.key] + this.found.length) % this.found.length);
    else if ((event.key === "Tab" && !event.shiftKey) || (event.key === "Enter" && this.at >= 0)) {
      if (isStale) this.pressed = event.key;
      else this.take(Math.max(this.at, 0));
    } else if (event.key === "Escape") this.close();
    else return;
    event.preventDefault();
  }

  take(index) {
    const { text, length } = this.found[index];
    const end = this.box.selectionStart;
    this.box.setRangeText(/[/=]$/.test(text) ? text : `${text} `, end - length, end, "end");
    this.close();
    this.ask();
  }

  close() {
    this.asked++;
    this.pressed = "";
    this.show([]);
  }
}

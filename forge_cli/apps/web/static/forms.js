// Tools for people: a menu by category, and forms from their fields.

import { $, act, announce, el, post, session } from "./dom.js";

/** Show the menu of the tools of the session `id`. */
export function showTools({ categories }, id) {
  $("tools-part").hidden = !categories.some((category) => category.tools.length);
  const lists = categories.map(({ name, tools }) => {
    const list = el("ul", { className: "menu" }, ...tools.map((tool) => toolItem(tool, id)));
    return name ? el("details", { open: categories.length === 1 }, el("summary", {}, name), list) : list;
  });
  $("tools").replaceChildren(...lists);
  openTool = (name, given) => {
    const tool = categories.flatMap((category) => category.tools).find((each) => each.name === name);
    const fields = tool.fields.map((field) => (field.name in given ? { ...field, default: given[field.name] } : field));
    openForm({ ...tool, fields }, id);
  };
}

/** Open the form of a tool by its name, with given values. */
export let openTool;

function toolItem(tool, id) {
  const open = () => openForm(tool, id);
  return el("li", {}, el("button", { type: "button", onclick: open, title: tool.description || "" }, tool.label || tool.name));
}

function openForm(tool, id) {
  const inputs = tool.fields.map((field, index) => new Field(field, `field-${index}`));
  $("tool-title").textContent = tool.label || tool.name;
  $("tool-about").textContent = tool.description || "";
  $("tool-fields").replaceChildren(...inputs.map((input) => input.element));
  $("tool-error").textContent = "";
  $("tool-cancel").onclick = () => $("tool").close();
  $("tool-form").onkeydown = (event) => {
    const isMeant = event.ctrlKey || event.metaKey || (event.target === $("tool-title") && !event.repeat); // a form without fields
    if (event.key === "Enter" && isMeant) $("tool-form").requestSubmit();
  };
  $("tool-form").onsubmit = (event) => {
    event.preventDefault();
    const button = event.submitter || $("tool-form").querySelector("[type=submit]");
    act(button, $("tool-error"), () => callTool(tool, inputs, id));
  };
  $("tool").showModal();
  (inputs[0]?.input || $("tool-title")).focus();
}

async function callTool(tool, inputs, id) {
  inputs.forEach((input) => input.complain(""));
  const input = {};
  for (const field of inputs) if (!field.read(input)) return point(inputs);
  try {
    await post(session(id, "invoke"), { tool: tool.name, input });
  } catch (refusal) {
    const named = inputs.filter((each) => refusal.fields[each.name]);
    named.forEach((each) => each.complain(refusal.fields[each.name]));
    if (!named.length) throw refusal;
    return point(inputs);
  }
  $("tool").close();
  announce(`${tool.name} was called`);
}

function point(inputs) {
  inputs.find((each) => each.input.getAttribute("aria-invalid") === "true").input.focus();
}

/** A field with its label, input, description and error. */
class Field {
  constructor(field, id) {
    Object.assign(this, { id, name: field.name, field });
    this.input = this.makeInput();
    this.error = el("p", { id: `${id}-error`, className: "error" });
    const about = field.description ? el("p", { id: `${id}-about`, className: "quiet" }, field.description) : null;
    this.input.setAttribute("aria-describedby", `${about ? about.id : ""} ${this.error.id}`.trim());
    if (field.required) this.input.setAttribute("aria-required", "true");
    const words = [field.label || field.name, field.required ? el("span", { className: "quiet" }, " (required)") : null];
    const label = el("label", { for: id }, ...words);
    const parts = field.type === "boolean" ? [el("div", { className: "check" }, this.input, label)] : [label, this.input];
    this.element = el("div", { className: "field" }, ...parts, about, this.error);
  }

  makeInput() {
    const { type, default: value, choices = [] } = this.field;
    const has = value !== null && value !== undefined;
    const id = this.id;
    switch (type) {
      case "boolean":
        return el("input", { id, type: "checkbox", checked: value === true });
      case "choice":
      case "select": {
        const options = choices.map((each, index) => el("option", { value: String(index), selected: has && same(each, value) }, text(each)));
        const empty = has ? [] : [el("option", { value: "" }, "choose")];
        return el("select", { id }, ...empty, ...options);
      }
      case "multiline":
        return el("textarea", { id, rows: 4, value: has ? String(value) : "" });
      case "list":
        return el("textarea", { id, rows: 3, value: has ? value.join("\n") : "", placeholder: "one per line" });
      case "json":
        return el("textarea", { id, rows: 3, className: "code", spellcheck: false, value: has ? JSON.stringify(value, null, 2) : "", placeholder: "JSON" });
      case "number":
        return el("input", { id, inputMode: "decimal", autocomplete: "off", value: has ? String(value) : "" });
      default:
        return el("input", { id, autocomplete: "off", value: has ? String(value) : "" });
    }
  }

  /** Add the value to the args; an empty one is left out, so that the schema decides. */
  read(args) {
    const typed = this.input.value;
    const { type } = this.field;
    if (type === "boolean") {
      if (this.input.checked || this.field.required || this.field.default === true) args[this.name] = this.input.checked;
    } else if (typed === "" && this.field.default !== "") {
      return true;
    } else if (type === "choice" || type === "select") {
      args[this.name] = this.field.choices[Number(typed)];
    } else if (type === "number") {
      // The server parses numbers that are invalid or too large here.
      args[this.name] = typed.trim() !== "" && Math.abs(Number(typed)) <= Number.MAX_SAFE_INTEGER ? Number(typed) : typed;
    } else if (type === "list") {
      args[this.name] = typed.split("\n").filter((line) => line !== "");
    } else if (type === "json") {
      try {
        args[this.name] = JSON.parse(typed);
      } catch (error) {
        this.complain(`not valid JSON: ${error.message}`);
        return false;
      }
    } else {
      args[this.name] = typed;
    }
    return true;
  }

  complain(why) {
    this.error.textContent = why;
    if (why) this.input.setAttribute("aria-invalid", "true");
    else this.input.removeAttribute("aria-invalid");
  }
}

const text = (value) => (typeof value === "string" ? value : JSON.stringify(value));
const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);

// The margin of a conversation: what it has used, its tree of workers, and what can be done with the session.

import { $, act, el, get, post, session } from "./dom.js";

const number = (value) => value.toLocaleString("en");

/** As the terminal says it: $0, $1,234.50, and two digits where there are no cents. */
function dollars(cost) {
  const cents = { minimumFractionDigits: 2, maximumFractionDigits: 2 };
  return `$${cost.toLocaleString("en", cost >= 0.01 ? cents : { maximumSignificantDigits: 2 })}`;
}

export function showUsage({ turns, calls, input, cached, output, cost, used, window: size }) {
  const rows = [
    ["Turns", number(turns)],
    ["Calls", number(calls)],
    ["Tokens in", number(input)],
    ...(cached ? [["of these cached", number(cached)]] : []),
    ["Tokens out", number(output)],
    ["Cost", cost === null || cost === undefined ? "unknown" : dollars(cost)],
  ];
  const list = rows.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]);
  if (used && size) {
    const share = Math.round((100 * used) / size);
    const meter = el("meter", { max: size, value: used, high: size * 0.8, "aria-label": "Context used" });
    list.push(el("dt", {}, "Context"), el("dd", { title: `${number(used)} of ${number(size)} tokens` }, meter, ` ${share} %`));
  }
  $("usage").replaceChildren(...list);
}

/** Workers as a nested list; a tree of one is not worth showing. */
export function showTree({ workers }) {
  $("tree-part").hidden = workers.length < 2;
  const below = (parent) => workers.filter((each) => each.parent === parent).map(item);
  const item = (worker) => {
    const children = below(worker.id);
    const state = el("span", { className: "quiet" }, ` ${worker.status || ""}`);
    return el("li", { "data-status": worker.status || "" }, worker.name, state, children.length ? el("ul", {}, ...children) : "");
  };
  $("tree").replaceChildren(...below(null));
}

/** The actions of a session, live or not; `go` opens another session. */
export function showActions({ id, live, mode, modes }, go) {
  const said = $("session-said");
  said.textContent = "";
  const doing = { resume: () => move(id, "resume", go), fork: () => move(id, "fork", go), close: () => post(session(id, "close")) };
  doing.compact = () => post(session(id, "command"), { name: "compact" });
  doing.verify = async () => {
    const { ok, text } = await get(session(id, "verify"));
    said.textContent = text || (ok ? "The log is whole." : "The log was changed.");
    said.classList.toggle("error", !ok);
  };
  const button = (name, label) => el("button", { type: "button", "data-act": name, onclick: (event) => act(event.currentTarget, said, doing[name]) }, label);
  const exports = ["html", "markdown", "jsonl"].map((format) =>
    el("a", { href: session(id, `export?format=${format}`), download: "" }, format),
  );
  const chosen = document.activeElement?.id === "mode";
  $("session-actions").replaceChildren(
    ...(live && modes.length > 1 ? [modeChoice(id, mode, modes, said)] : []),
    ...(live ? [button("compact", "Compact"), button("fork", "Fork"), button("verify", "Verify"), button("close", "End session")] : [button("verify", "Verify")]),
    el("p", { className: "exports" }, "Export: ", ...exports.flatMap((link, index) => (index ? [", ", link] : [link]))),
  );
  if (chosen) $("mode")?.focus();
  for (const each of $("reading").querySelectorAll("[data-act]")) each.onclick = () => act(each, said, doing[each.dataset.act]);
}

function modeChoice(id, mode, modes, said) {
  const change = ({ currentTarget }) => act(currentTarget, said, () => post(session(id, "command"), { name: "mode", args: [currentTarget.value] }));
  const choices = modes.map(({ name, title }) => el("option", { value: name, selected: name === mode }, title));
  return el("label", {}, "Mode ", el("select", { id: "mode", onchange: change }, ...choices));
}

async function move(id, action, go) {
  go((await post(session(id, action))).id);
}

// The margin of a conversation: usage, the tree of workers, and the actions of the session.

import { $, act, download, el, get, post, session } from "./dom.js";

const number = (value) => value.toLocaleString("en");

/** Format a cost as on a terminal: $0, $1,234.50, and two digits below a cent. */
function dollars(cost) {
  const cents = { minimumFractionDigits: 2, maximumFractionDigits: 2 };
  return `$${cost.toLocaleString("en", cost >= 0.01 ? cents : { maximumSignificantDigits: 2 })}`;
}

export function showUsage({ turns, calls, input, cached, output, cost, used, window: size }) {
  $("usage-part").hidden = !turns;
  const rows = [
    ["Cost", cost === null || cost === undefined ? "unknown" : dollars(cost)],
    ["Turns, calls", `${number(turns)}, ${number(calls)}`],
    ["Tokens in", number(input)],
    ...(cached ? [["cached", number(cached)]] : []),
    ["Tokens out", number(output)],
  ];
  const list = rows.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]);
  if (used && size) {
    const share = Math.round((100 * used) / size);
    const meter = el("meter", { max: size, value: used, high: size * 0.8, "aria-label": "Context used" });
    list.unshift(el("dt", {}, "Context"), el("dd", { title: `${number(used)} of ${number(size)} tokens` }, meter, ` ${share} %`));
  }
  $("usage").replaceChildren(...list);
}

/** Show workers as a nested list if there is more than one. */
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

const ACTIONS = {
  undo: ["Undo changes", "Restore the files that changed since your last message"],
  compact: ["Compact", "Replace the history by a summary"],
  fork: ["Fork", "Continue in a copy of this session"],
  verify: ["Check the log", "Check that the log of this session was not changed"],
  close: ["End session", "The session is kept and can be resumed"],
};

/** The actions of a session, live or not; `go` opens another session, `enter` sends a line. */
export function showActions({ id, live }, go, enter) {
  const said = $("session-said");
  said.textContent = "";
  const move = async (action) => go((await post(session(id, action))).id);
  const doing = { resume: () => move("resume"), fork: () => move("fork"), close: () => post(session(id, "close")) };
  doing.undo = () => enter("/undo");
  doing.compact = () => enter("/compact");
  doing.verify = async () => {
    const { ok, text } = await get(session(id, "verify"));
    said.textContent = text;
    said.classList.toggle("error", !ok);
  };
  const button = (name) => {
    const [label, title] = ACTIONS[name];
    return el("button", { type: "button", title, "data-act": name, onclick: (event) => act(event.currentTarget, said, doing[name]) }, label);
  };
  // A plain link would be refused: an export needs the token.
  const save = (event, format) => {
    event.preventDefault();
    act(event.currentTarget, said, () => download(session(id, `export?format=${format}`)));
  };
  const exports = ["html", "markdown", "jsonl"].map((format) => el("a", { href: location.hash, onclick: (event) => save(event, format) }, format));
  $("session-actions").replaceChildren(
    ...(live ? ["undo", "compact", "fork", "verify", "close"] : ["verify"]).map(button),
    el("p", { className: "exports" }, "Export: ", ...exports.flatMap((link, index) => (index ? [", ", link] : [link]))),
  );
  for (const each of $("reading").querySelectorAll("[data-act]")) each.onclick = () => act(each, said, doing[each.dataset.act]);
}

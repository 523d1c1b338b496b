// The pages around a conversation: the start page, the list of sessions, and the inbox.

import { $, act, counted, el, get, moment, post, session } from "./dom.js";
import { requestCard } from "./cards.js";
import { byProvider, choose } from "./composer.js";

const MAX_RECENT = 5;
const POLL_INTERVAL = 3000; // milliseconds
const TRIES = [
  ["Look around", "What is in this folder? Give me a short tour."],
  ["Find something to fix", "Find one thing that is wrong or unfinished here, and propose the smallest change."],
  ["Ask what it may do", "What can you do here, and what will you ask me before?"],
];
const go = (id) => (location.hash = `#/session/${encodeURIComponent(id)}`);

/** Show three examples; each fills the box. */
export function showTries(list, box) {
  const take = (text) => {
    box.value = text;
    box.focus();
  };
  list.replaceChildren(
    ...TRIES.map(([title, text]) => el("li", {}, el("button", { type: "button", onclick: () => take(text) }, el("b", {}, title), el("span", {}, text)))),
  );
}

export function showHome({ workers, folder, worker }) {
  const short = (path) => (path?.startsWith(`${folder}/`) ? path.slice(folder.length + 1) : "");
  const ready = workers.filter((each) => !each.error);
  const first = ready.find((each) => each.name === worker) || ready.find((each) => short(each.path) === "worker.yaml") || ready.find((each) => each.name === "coder") || ready[0];
  const chosen = ready.find((each) => (each.path || each.name) === $("begin-worker").value) || first;
  choose($("begin-worker"), chosen?.path || chosen?.name, ready.map((each) => [each.path || each.name, each.name]));
  $("begin-send").disabled = !ready.length;
  $("workers").replaceChildren(...workers.map((each) => workerTile(each, short(each.path))));
  if (!workers.length) $("workers").append(el("li", { className: "quiet" }, "There are no workers in this folder."));
}

/** Show the usable models, or how to get one. */
export function showModels({ models, ready, missing }) {
  choose($("begin-model"), $("begin-model").value, [["", "default model"], ...byProvider(models)]);
  $("home-models").textContent = ready.length ? `Ready: ${ready.join(", ")}` : missing;
  $("home-models").className = ready.length ? "quiet" : "notice warning";
}

/** Watch the start page; `begun` gets the id of a new session and its first message. */
export function watchHome(begun) {
  const begin = (event) => {
    event.preventDefault();
    const [worker, model, text] = ["begin-worker", "begin-model", "begin-text"].map((id) => $(id).value);
    act($("begin-send"), $("begin-error"), async () => {
      const { id } = await post("/api/sessions", { worker, model });
      $("begin-text").value = "";
      begun(id, text.trim());
      go(id);
    });
  };
  $("begin").addEventListener("submit", begin);
  $("begin-text").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) begin(event);
  });
  let timer;
  $("search").addEventListener("submit", (event) => event.preventDefault());
  $("search-text").addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      const search = $("search-text").value.trim();
      history.replaceState(null, "", `#/sessions${search && `/${encodeURIComponent(search)}`}`); // so that Back returns to the search
      showSessions(search);
    }, 200);
  });
  setInterval(() => $("inbox").hidden || document.hidden || showInbox(), POLL_INTERVAL);
}

function workerTile({ name, path, description, error }, place) {
  if (error) return el("li", {}, el("b", {}, name), " ", el("span", { className: "quiet path" }, place), el("p", { className: "notice error" }, error));
  const said = el("p", { className: "error", role: "alert" });
  const start = (event) => act(event.currentTarget, said, async () => go((await post("/api/sessions", { worker: path || name })).id));
  const inside = [el("b", {}, el("span", { className: "unseen" }, "Start "), name), " ", place ? el("span", { className: "quiet path" }, place) : "", " ", el("span", {}, description || "")];
  return el("li", {}, el("button", { type: "button", onclick: start }, ...inside), said);
}

let asked = 0;
/** Show the sessions that contain the text, newest first; only the answer to the last search counts. */
export async function showSessions(search = "") {
  const turn = ++asked;
  let rows;
  try {
    rows = await get(`/api/sessions?search=${encodeURIComponent(search)}`);
  } catch (refusal) {
    $("found").textContent = refusal.message;
    return;
  }
  if (turn !== asked) return;
  $("found").textContent = search ? `${counted(rows.length, "session")} found` : rows.length ? "" : "There are no sessions yet.";
  $("session-list").replaceChildren(...byFolder(rows, search));
  $("recent-part").hidden = !rows.length;
  $("recent").replaceChildren(...rows.slice(0, MAX_RECENT).map((row) => sessionRow(row)));
}

/** Group rows by folder if there is more than one. */
function byFolder(rows, search) {
  const folders = new Map();
  for (const row of rows) folders.set(row.folder, [...(folders.get(row.folder) || []), row]);
  return [...folders].flatMap(([folder, found]) => [
    ...(folders.size > 1 ? [el("li", { className: "folder quiet" }, folder || "Unknown folder")] : []),
    ...found.map((row) => sessionRow(row, search)),
  ]);
}

function sessionRow({ id, title, worker, model, started, status, live, waits, parked, match }, search = "") {
  const [look, word] = waits ? ["parked", "waiting for you"] : live ? ["live", "live"] : parked ? ["parked", "parked"] : [status, status];
  return el(
    "li",
    {},
    el("a", { href: `#/session/${encodeURIComponent(id)}` }, title || id),
    el("span", { className: `badge ${look}` }, word),
    el("p", { className: "quiet" }, [worker, model, moment(started)].filter(Boolean).join(" · ")),
    match ? el("p", { className: "match" }, ...marked(match, search)) : "",
  );
}

/** Mark the matches of a search in a text. */
function marked(text, search) {
  const at = text.toLowerCase().indexOf(search.toLowerCase());
  if (!search || at < 0) return [text];
  const end = at + search.length;
  return [text.slice(0, at), el("mark", {}, text.slice(at, end)), ...marked(text.slice(end), search)];
}

export async function showInbox() {
  const list = $("parked");
  let rows;
  try {
    rows = await get("/api/inbox");
  } catch (refusal) {
    list.replaceChildren(el("p", { className: "notice error" }, refusal.message));
    return;
  }
  countInbox(rows.filter((row) => !row.answer).length);
  // Existing rows stay as they are: the person may be about to press a button.
  const shown = new Map([...list.children].map((each) => [each.dataset.row, each]));
  const drawn = rows.map((row) => shown.get(`${row.request} ${row.answer}`) || waitingRow(row));
  const same = drawn.length === list.children.length && drawn.every((each, index) => each === list.children[index]);
  if (!same || !rows.length) list.replaceChildren(...(rows.length ? drawn : [el("p", { className: "quiet" }, "Nothing is waiting for you.")]));
}

export function countInbox(number) {
  $("inbox-count").hidden = !number;
  $("inbox-count").replaceChildren(String(number), el("span", { className: "unseen" }, " waiting"));
}

function waitingRow(row) {
  const where = el("a", { href: `#/session/${encodeURIComponent(row.session)}` }, row.about || "session");
  const about = el("p", { className: "quiet" }, [row.worker, moment(row.asked), row.answer ? `answered: ${row.answer}` : ""].filter(Boolean).join(" · "), " · ", where);
  const place = `/api/inbox/${encodeURIComponent(row.session)}/${encodeURIComponent(row.request)}`;
  const answer = async (choice, feedback) => {
    await post(place, { choice, feedback });
    await showInbox();
    $("parked").querySelector("button, .card")?.focus();
  };
  const inside = row.answer ? [el("b", {}, row.title), about, resumeButton(row)] : [about, requestCard(row, answer)];
  return el("div", { className: "inbox-row", "data-row": `${row.request} ${row.answer}` }, ...inside);
}

/** Make a button to resume a session, which takes the answer. */
function resumeButton(row) {
  const said = el("p", { className: "error", role: "alert" });
  const resume = (event) => act(event.currentTarget, said, async () => go((await post(session(row.session, "resume"))).id));
  return el("div", {}, el("button", { type: "button", onclick: resume, "aria-label": `Resume ${row.worker} with ${row.tool}` }, "Resume"), said);
}

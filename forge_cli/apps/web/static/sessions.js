// The pages around a conversation: workers to start, sessions to find, and the inbox of what was parked.

import { $, act, counted, el, get, moment, post, session } from "./dom.js";
import { openRequest } from "./approvals.js";

const go = (id) => (location.hash = `#/session/${encodeURIComponent(id)}`);

export function showWorkers(workers, folder) {
  const short = (path) => (path?.startsWith(`${folder}/`) ? path.slice(folder.length + 1) : "");
  $("workers").replaceChildren(...workers.map((worker) => workerCard(worker, short(worker.path))));
  if (!workers.length) $("workers").append(el("li", { className: "quiet" }, "There are no workers in this folder."));
}

function workerCard({ name, path, description, error }, place) {
  const said = el("p", { className: "error", role: "alert" });
  const start = (event) => act(event.currentTarget, said, async () => go((await post("/api/sessions", { worker: path || name })).id));
  const button = error ? null : el("button", { type: "button", onclick: start, "aria-label": `Start ${name}` }, "Start");
  return el(
    "li",
    {},
    el("div", {}, el("b", {}, name), " ", el("span", { className: "quiet path" }, place)),
    error ? el("p", { className: "error" }, error) : el("p", {}, description || ""),
    button,
    said,
  );
}

let asked = 0;
/** Every session that holds the text, newest first; only the answer to the last question is shown. */
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
  $("sessions").replaceChildren(...rows.map(sessionRow));
}

function sessionRow({ id, title, worker, model, started, status, live, parked, match }) {
  return el(
    "li",
    {},
    el("a", { href: `#/session/${encodeURIComponent(id)}` }, title || id),
    live ? el("span", { className: "badge live" }, "live") : "",
    parked ? el("span", { className: "badge parked" }, "parked") : "",
    el("p", { className: "quiet" }, [worker, model, moment(started), live ? "" : status].filter(Boolean).join(" · ")),
    match ? el("p", { className: "match" }, match) : "",
  );
}

export function watchSearch() {
  let timer;
  $("search").addEventListener("submit", (event) => event.preventDefault());
  $("search-text").addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => showSessions($("search-text").value.trim()), 200);
  });
}

export async function showInbox() {
  let rows;
  try {
    rows = await get("/api/inbox");
  } catch (refusal) {
    $("parked").replaceChildren(el("li", { className: "error" }, refusal.message));
    return;
  }
  countInbox(rows.filter((row) => !row.answer).length);
  $("parked").replaceChildren(...rows.map(parkedRow));
  if (!rows.length) $("parked").append(el("li", { className: "quiet" }, "Nothing waits."));
}

export function countInbox(number) {
  $("inbox-count").hidden = !number;
  $("inbox-count").textContent = number ? ` ${number}` : "";
  $("nav-inbox").setAttribute("aria-label", number ? `Inbox, ${number} waiting` : "Inbox");
}

function parkedRow(row) {
  const about = [row.worker, moment(row.asked), row.answer ? `answered: ${row.answer}` : ""].filter(Boolean).join(" · ");
  const said = el("p", { className: "error", role: "alert" });
  return el(
    "li",
    {},
    el("b", {}, row.tool),
    el("p", { className: "quiet" }, about, " · ", el("a", { href: `#/session/${encodeURIComponent(row.session)}` }, "session")),
    row.answer ? resumeButton(row, said) : reviewButton(row),
    said,
  );
}

function reviewButton(row) {
  const answer = async (choice, feedback) => {
    await post(`/api/inbox/${encodeURIComponent(row.session)}/${encodeURIComponent(row.request)}`, { choice, feedback });
    $("approval").close();
    await showInbox();
    $("parked").querySelector("button")?.focus();
  };
  const open = () => openRequest(row, answer);
  return el("button", { type: "button", onclick: open, "aria-label": `Review ${row.tool} of ${row.worker}` }, "Review");
}

/** An answer is taken when the session is resumed. */
function resumeButton(row, said) {
  const resume = (event) => act(event.currentTarget, said, async () => go((await post(session(row.session, "resume"))).id));
  return el("button", { type: "button", onclick: resume, "aria-label": `Resume ${row.worker} with ${row.tool}` }, "Resume");
}

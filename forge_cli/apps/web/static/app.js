// The page: which view is shown, and what each event of the session in view does to it.

import { $, announce, get } from "./dom.js";
import { Approvals } from "./approvals.js";
import { Composer } from "./composer.js";
import { Crowd } from "./crowd.js";
import { Log } from "./entries.js";
import { showTools } from "./forms.js";
import { showActions, showTree, showUsage } from "./margin.js";
import { countInbox, showInbox, showSessions, showWorkers, watchSearch } from "./sessions.js";
import { Stream } from "./stream.js";

const GONE = {
  open: "",
  gone: "The server cannot be reached. This page reconnects by itself.",
  stranger: "The server was started again and does not know this page any more: open the address that forge web printed.",
};

const log = new Log();
const composer = new Composer();
const approvals = new Approvals();
const crowd = new Crowd({
  pause: () => stream?.pause(),
  resume: () => {
    if (!stream) return;
    crowd.enter();
    stream.resume();
  },
});
let stream = null;
let shown = null; // the id of the session in view
let isNew = false; // events of the past are not announced
let title = "forge";
let workerName = "";

/** Go to a session; in the one that is open already its stream tells what has changed. */
const go = (id) => {
  if (id !== shown) location.hash = `#/session/${encodeURIComponent(id)}`;
};

const takers = {
  connected: () => {
    isNew = false;
    log.restart();
    approvals.doubt();
  },
  ready: () => {
    isNew = true;
    log.show();
    approvals.confirm();
  },
  entry: (event) => {
    const entry = log.put(event);
    if (isNew && event.kind === "answer" && !event.open) announce(entry.textContent.trim());
  },
  delta: (event) => log.grow(event),
  output: (event) => log.output(event),
  status: (event) => composer.show(event),
  usage: showUsage,
  request: (event) => approvals.ask(event),
  question: (event) => approvals.ask(event),
  decided: ({ request, verdict, by }) => approvals.settle(request, `${verdict}${by ? ` by ${by}` : ""}`),
  answered: ({ request }) => approvals.settle(request, "answered"),
  tools: (event) => showTools(event, shown),
  tree: showTree,
  title: (event) => setTitle(event.title),
  session: showSession,
};

function showSession({ id, worker, model, folder, live, mode, modeTitle, modes }) {
  $("talk-about").textContent = [worker, model, folder, live && modeTitle].filter(Boolean).join(" · ");
  composer.allow(live);
  showActions({ id, live, mode, modes }, go);
  workerName = worker;
}

function setTitle(text) {
  title = text || workerName || "Session";
  $("talk-title").textContent = title;
  nameTab(approvals.waiting.size);
}

function nameTab(waiting) {
  document.title = `${waiting ? `(${waiting}) ` : ""}${title} – forge`;
}

function leaveSession() {
  stream?.close();
  stream = null;
  crowd.leave();
  shown = null;
  approvals.clear();
}

function openSession(id) {
  leaveSession();
  shown = approvals.id = id;
  isNew = false;
  log.clear();
  composer.open(id);
  workerName = "";
  setTitle("");
  for (const part of ["usage", "tree", "tools", "session-actions"]) $(part).replaceChildren();
  for (const part of ["tree-part", "tools-part"]) $(part).hidden = true;
  stream = new Stream(id, {
    take: (event) => takers[event.type]?.(event),
    done: () => log.settle(),
    state: tellState,
    loading: () => log.isLoading,
  });
  crowd.enter();
}

function tellState(state) {
  $("gone").hidden = state === "open";
  if ($("gone").textContent !== GONE[state]) $("gone").textContent = GONE[state];
}

function show(view) {
  for (const each of document.querySelectorAll(".view")) each.hidden = each.id !== view;
  for (const [link, of] of [["nav-sessions", "home"], ["nav-inbox", "inbox"]]) {
    if (of === view) $(link).setAttribute("aria-current", "page");
    else $(link).removeAttribute("aria-current");
  }
}

async function route() {
  const [, view, id] = location.hash.match(/^#\/(session|inbox)?(?:\/([^/]+))?$/) || [];
  if (view === "session" && id) {
    show("talk");
    openSession(decodeURIComponent(id));
    $("message").focus();
    return;
  }
  leaveSession();
  show(view === "inbox" ? "inbox" : "home");
  title = view === "inbox" ? "Inbox" : "Sessions";
  nameTab(0);
  scrollTo(0, 0);
  if (view === "inbox") await showInbox();
  await refresh(view !== "inbox");
}

async function refresh(isHome) {
  try {
    const state = await get("/api/state");
    tellState("open");
    $("folder").textContent = state.folder;
    countInbox(state.parked);
    if (!isHome) return state;
    showWorkers(state.workers, state.folder);
    await showSessions($("search-text").value.trim());
    return state;
  } catch (refusal) {
    tellState(refusal.status === 403 ? "stranger" : "gone");
    setTimeout(() => shown || route(), 2000);
    return null;
  }
}

$("skip").addEventListener("click", (event) => {
  event.preventDefault();
  (shown && !$("composer").hidden ? $("message") : $("main")).focus();
});
addEventListener("forge-waiting", (event) => nameTab(event.detail));
addEventListener("hashchange", route);
const wide = matchMedia("(min-width: 60rem)");
const fold = () => ($("margin").open = wide.matches);
wide.addEventListener("change", fold);
fold();
watchSearch();

const first = await refresh(false);
if (!location.hash && first?.session) location.replace(`#/session/${encodeURIComponent(first.session)}`);
else route();

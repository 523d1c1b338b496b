// The page: the current view, and the effects of each event of the open session.

import { enter } from "./access.js";
import { $, announce, get } from "./dom.js";
import { Cards } from "./cards.js";
import { Composer } from "./composer.js";
import { Crowd } from "./crowd.js";
import { Log } from "./entries.js";
import { openTool, showTools } from "./forms.js";
import { countInbox, showHome, showInbox, showModels, showSessions, showTries, watchHome } from "./home.js";
import { showActions, showTree, showUsage } from "./margin.js";
import { Stream } from "./stream.js";

const GONE = {
  open: "",
  gone: "The server cannot be reached. This page reconnects by itself.",
  stranger: "The server was restarted. Open the address that forge web printed.",
};

const log = new Log();
const composer = new Composer(({ shown = "", form }) => {
  if (shown) log.note(shown);
  if (form) openTool(form.tool, form.given);
});
const cards = new Cards(log);
const crowd = new Crowd({
  pause: () => stream?.pause(),
  resume: () => {
    if (!stream) return;
    crowd.enter();
    stream.resume();
  },
});
let stream = null;
let shown = null; // the id of the open session
let isNew = false; // whether events are new; old ones are not announced
let title = "forge";
let workerName = "";
let about = { mode: "", modes: [], model: "" }; // of the open session
let models = []; // models of ready providers
let opening = null; // the first message of a session, typed on the start page

/** Open a session, unless it is open already. */
const go = (id) => {
  if (id !== shown) location.hash = `#/session/${encodeURIComponent(id)}`;
};

const takers = {
  connected: () => {
    isNew = false;
    log.restart();
    cards.doubt();
  },
  ready: () => {
    isNew = true;
    log.show();
    cards.confirm();
    cards.lead();
    if (opening?.id === shown && opening.text) composer.enter(opening.text);
    opening = null;
    recount();
  },
  entry: (event) => {
    const entry = log.put(event);
    if (isNew && event.kind === "answer" && !event.open) announce(entry.textContent.trim());
  },
  delta: (event) => log.grow(event),
  void: (event) => log.void(event),
  output: (event) => log.output(event),
  status: (event) => composer.show(event),
  usage: showUsage,
  request: (event) => cards.ask(event, isNew),
  question: (event) => cards.ask(event, isNew),
  decided: ({ request, verdict, by }) => cards.settle(request, `${verdict}${by ? ` by ${by}` : ""}`),
  answered: ({ request }) => cards.settle(request, "answered"),
  tools: (event) => showTools(event, shown),
  tree: showTree,
  title: (event) => setTitle(event.title),
  session: showSession,
  go: ({ id }) => go(id),
  edit: ({ text }) => $("message").value || composer.edit(text), // unless a message is being typed in this tab
};

function showSession(event) {
  const { id, worker, model, folder, live } = (about = event);
  const elsewhere = folder !== $("folder").textContent && folder;
  $("talk-about").textContent = [worker, !live && model, elsewhere].filter(Boolean).join(" · ");
  $("message").placeholder = `Message ${worker}`;
  composer.offer({ ...about, models });
  composer.allow(live);
  showActions({ id, live }, go, (text) => composer.enter(text));
  workerName = log.worker = worker;
  if (title === "Session") setTitle("");
}

function setTitle(text) {
  title = text || workerName || "Session";
  $("talk-title").textContent = title;
  $("talk-about").hidden = !text;
  nameTab(cards.waiting.size);
}

function nameTab(waiting) {
  document.title = `${waiting ? `(${waiting}) ` : ""}${title} – forge`;
}

function leaveSession() {
  stream?.close();
  stream = null;
  crowd.leave();
  shown = null;
  cards.clear();
}

function openSession(id) {
  leaveSession();
  shown = cards.id = id;
  isNew = false;
  log.clear();
  composer.open(id);
  workerName = "";
  setTitle("");
  for (const part of ["usage", "tree", "tools", "session-actions"]) $(part).replaceChildren();
  for (const part of ["usage-part", "tree-part", "tools-part"]) $(part).hidden = true;
  stream = new Stream(id, {
    take: (event) => takers[event.type]?.(event),
    done: () => log.settle(),
    state: tellState,
    missing: (sentence) => {
      leaveSession();
      showNothing(sentence);
    },
    loading: () => log.isLoading,
  });
  crowd.enter();
}

function tellState(state) {
  $("gone").hidden = state === "open";
  if ($("gone").textContent !== GONE[state]) $("gone").textContent = GONE[state];
}

function show(view, name) {
  for (const each of document.querySelectorAll(".view")) each.hidden = each.id !== view;
  for (const of of ["home", "sessions", "inbox"]) {
    if (of === view) $(`nav-${of}`).setAttribute("aria-current", "page");
    else $(`nav-${of}`).removeAttribute("aria-current");
  }
  if (!name) return;
  title = name;
  nameTab(0);
  scrollTo(0, 0);
}

function showNothing(sentence) {
  show("nothing", "Not found");
  $("nothing-why").textContent = sentence;
}

/** Decode a part of the address; typed text may be invalid. */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

async function route() {
  $("parked").replaceChildren();
  const [, view, id] = location.hash.match(/^#?\/?(?:(sessions|inbox|session)(?:\/([^/]+))?)?$/) || ["", "nothing"];
  if (view === "session" && id) {
    show("talk");
    openSession(decoded(id));
    $("message").focus();
    return;
  }
  leaveSession();
  if (view === "nothing" || view === "session" || (id && view !== "sessions")) showNothing(`Unknown address: ${location.hash}`);
  else show(view || "home", { sessions: "Sessions", inbox: "Inbox" }[view] || "Start");
  if (!view) $("begin-text").focus();
  if (view === "sessions") $("search-text").value = decoded(id || "");
  if (view === "inbox") await showInbox();
  await refresh();
}

async function refresh() {
  try {
    const state = await get("/api/state");
    tellState("open");
    $("folder").textContent = state.folder;
    countInbox(state.parked);
    if ($("home").hidden && $("sessions").hidden) return state;
    showHome(state);
    await showSessions($("search-text").value.trim());
    return state;
  } catch (refusal) {
    tellState(refusal.status === 403 ? "stranger" : "gone");
    setTimeout(() => shown || route(), 2000);
    return null;
  }
}

/** Update the number of waiting calls of all sessions. */
const recount = () => get("/api/state").then(({ parked }) => countInbox(parked), () => null);

$("skip").addEventListener("click", (event) => {
  event.preventDefault();
  (shown && !$("composer").hidden ? $("message") : $("main")).focus();
});
addEventListener("forge-waiting", (event) => {
  nameTab(event.detail);
  if (shown && isNew) refresh();
});
addEventListener("focus", recount);
log.onRetry = (button) => composer.retry(button);
const wide = matchMedia("(min-width: 60rem)");
const fold = () => ($("margin").open = wide.matches);
wide.addEventListener("change", fold);
fold();
watchHome((id, text) => (opening = { id, text }));
showTries($("home").querySelector(".tries"), $("begin-text"));
showTries($("empty").querySelector(".tries"), $("message"));
// The buttons of a card stay above the composer, whose height changes.
new ResizeObserver(([bottom]) => document.documentElement.style.setProperty("--bottom", `${bottom.target.offsetHeight}px`)).observe(document.querySelector(".bottom"));

async function findModels() {
  const found = await get("/api/models").catch(() => null);
  if (!found) return;
  models = found.models;
  showModels(found);
  if (shown) composer.offer({ ...about, models });
}

await enter((hadSecret) => {
  show("locked", "Access denied");
  $("locked-why").hidden = !hadSecret;
});
addEventListener("hashchange", route);
findModels();
const first = await refresh();
if (!location.hash && first?.session) location.replace(`#/session/${encodeURIComponent(first.session)}`);
else route();

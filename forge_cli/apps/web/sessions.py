"""The sessions of a server, live or read-only, the inbox, and the workers that it offers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TypeVar
from weakref import WeakValueDictionary

import anyio
import anyio.lowlevel
from anyio import to_thread
from anyio.abc import TaskGroup

from forge_cli.apps.web.drawing import SessionDrawing
from forge_cli.apps.web.live import LiveSession
from forge_cli.apps.web.view import SessionView
from forge_cli.cli.background.answering import answer_and_resume
from forge_cli.core.approval import ApprovalDecision
from forge_cli.core.errors import ForgeError, UsageError
from forge_cli.core.text import did_you_mean, visible
from forge_cli.core.wire import JsonObject
from forge_cli.engine.runtime.options import RunOptions
from forge_cli.files.home import forge_home
from forge_cli.files.lookup import SUFFIXES, NamedWorker, WorkerOrigin, named_workers
from forge_cli.files.regular import read_regular
from forge_cli.files.settings_files import load_settings
from forge_cli.files.trust import TrustError, TrustStore
from forge_cli.files.worker import load_worker
from forge_cli.inspection.defaults import NO_MODEL
from forge_cli.inspection.model_names import FILES
from forge_cli.inspection.providers import provider_rows
from forge_cli.record.log import Log, find_own_session, read_readable, session_files
from forge_cli.record.overview import fold_batches, session_index, session_overview, session_row
from forge_cli.record.pending import Waiting, waiting_requests
from forge_cli.record.reading import verdict_sentence, verify_session
from forge_cli.record.search import find_hits
from forge_cli.ui.html.entries import page
from forge_cli.ui.html.requests import draw_request, list_choices
from forge_cli.ui.transcript.entries import read_transcript
from forge_cli.ui.transcript.markdown import markdown

T = TypeVar("T")
VIA = "forge web"
"""The ``via`` of answers from this page."""
POLL_INTERVAL = 1.0
"""Seconds between two reads of a log that another process writes."""
MAX_LISTED = 200
"""Sessions in the list of the page; a search looks at all of them."""
MAX_ABOUT = 200
"""Characters of the title of a session in a list."""
MEDIA_TYPES = {"html": "text/html", "markdown": "text/markdown", "jsonl": "application/x-ndjson"}
ENDINGS = {"html": "html", "markdown": "md", "jsonl": "jsonl"}


class SessionNotLive(UsageError):
    """A session that this process does not work on."""

    def __init__(self, session: str) -> None:
        super().__init__(f"session '{visible(session)}' is not running", hint="resume it first")


class WebSessions:
    """The sessions of the page; ``asked`` has the options of the command line for all of them."""

    def __init__(self, asked: RunOptions, tasks: TaskGroup) -> None:
        self._asked = asked
        self._tasks = tasks
        self._find = asked.host().renderer
        self.live: dict[str, LiveSession] = {}
        self._views: WeakValueDictionary[str, SessionView] = WeakValueDictionary()
        """Views, which exist as long as a tab or a live session uses them."""
        self.first: str | None = None
        """The session of the worker that the command line names."""
        self._starting: list[LiveSession] = []

    # --- workers and sessions

    async def state(self) -> JsonObject:
        folder = self._asked.workspace
        parked = await in_thread(_count_waiting)
        return {
            "folder": str(folder),
            "workers": await in_thread(lambda: list_workers(folder)),
            "worker": self._asked.named or None,
            "session": self.first,
            "parked": parked,
        }

    async def listing(self, search: str) -> list[JsonObject]:
        rows = await in_thread(lambda: _listing(search.casefold()))
        here = str(self._asked.workspace)
        rows.sort(key=lambda row: row["folder"] != here)  # sessions of this folder first
        for row in rows:
            live = self.live.get(row["id"])
            row["live"] = live is not None
            row["waits"] = live is not None and bool(live.view.drawing.requests)
        return rows

    async def start(self, worker: str = "", model: str = "") -> str:
        """Start a session; the defaults are the worker and the model of the command line."""
        asked = replace(self._asked, model=model or self._asked.model)
        if not worker or (worker == asked.named and asked.worker):
            return await self._start(asked)
        row = find_listed(asked.workspace, worker)
        return await self._start(replace(asked, worker=str(row["path"]), named=str(row["name"])))

    async def models(self) -> JsonObject:
        """Return the usable models, the ready providers, and how to set up another one."""
        settings = load_settings(forge_home(), self._asked.workspace)
        ready: list[str] = []
        names: list[str] = []
        for row in await provider_rows(with_models=True):
            if row["ready"] and row["provider"] != FILES:
                ready.append(str(row["provider"]))
                names += [f"{row['provider']}:{model['name']}" for model in row["models"]]
        own = []
        for name in (*settings.aliases, *settings.models):
            if settings.resolve(name).partition(":")[0] in (*ready, FILES):
                own.append(name)
        return {"models": list(dict.fromkeys([*own, *names])), "ready": ready, "missing": NO_MODEL}

    async def resume(self, name: str, *, fork: bool = False) -> str:
        """Resume a session, or a copy of it, in its own folder."""
        path = find_own_session(name)
        if path.stem in self.live and not fork:
            return path.stem
        return await self._start(await in_thread(lambda: self._to_resume(path, fork)))

    def _to_resume(self, path: Path, fork: bool) -> RunOptions:
        """Return the options to resume a session with its worker and folder, if they exist."""
        seen = session_overview(path)
        worker = Path(seen.worker_file) if seen.worker_file else None
        if worker is None or not worker.exists():
            worker = Path(str(find_listed(self._asked.workspace, seen.worker)["path"]))
        check_trust(worker)
        folder = Path(seen.workspace)
        workspace = folder if folder.is_dir() else self._asked.workspace
        return replace(
            self._asked,
            worker=str(worker),
            named=seen.worker,
            workspace=workspace,
            resume=path.stem,
            fork=fork,
        )

    async def _start(self, asked: RunOptions) -> str:
        live = LiveSession(asked, self.view)
        self._starting.append(live)
        try:
            session = str(await self._tasks.start(live.run))
        finally:
            self._starting.remove(live)
        self.live[session] = live
        self._tasks.start_soon(self._forget, live)
        sys.stderr.write(f"  {visible(live.worker)}  {session}\n")
        sys.stderr.flush()
        return session

    async def _forget(self, live: LiveSession) -> None:
        await live.ended.wait()
        del self.live[live.id]
        another = live.runtime.next_session if live.runtime else None
        if another:  # the command /resume has chosen it
            with suppress(ForgeError):
                live.view.tell({"type": "go", "id": await self.resume(another)})

    def find_live(self, session: str) -> LiveSession:
        """Return a live session; raise SessionNotLive for others."""
        if session not in self.live:
            raise SessionNotLive(session)
        return self.live[session]

    async def close(self, session: str) -> None:
        """End a session and wait for its end."""
        live = self.find_live(session)
        live.stop()
        await live.ended.wait()

    # --- views

    def view(self, session: str) -> SessionView:
        """Return the view of a session, which its tabs share while work starts or ends."""
        view = self._views.get(session)
        if view is None:
            view = self._views[session] = SessionView(SessionDrawing(session, self._find))
        return view

    async def look(self, name: str) -> SessionView:
        """Return the view of any session, read up to its last line."""
        if name in self.live:
            session = name
        else:
            session = find_own_session(name).stem
        view = self.view(session)
        await self._read_on(view)
        return view

    async def keep_up(self, view: SessionView) -> None:
        """Read lines that another process adds to a session, until cancelled."""
        while True:
            await anyio.sleep(POLL_INTERVAL)
            with suppress(ForgeError):
                await self._read_on(view)

    async def _read_on(self, view: SessionView) -> None:
        session = view.drawing.session
        if session in self.live:  # its runtime passes the lines on
            return
        path = find_own_session(session)
        size, log = await in_thread(lambda: _grown(path, view.size))
        if log is None or session in self.live:  # it may have been resumed during the read
            return
        view.size = size
        for line in log.lines:
            if line.seq > view.drawing.seq:
                view.take(line)

    async def export(self, name: str, format: str) -> tuple[str, str, str]:
        """Return a session as a document: text, media type and file name."""
        if format not in MEDIA_TYPES:
            hint = f"formats: {', '.join(MEDIA_TYPES)}"
            raise UsageError(f"unknown format '{visible(format)}'", hint=hint)
        path = find_own_session(name)
        text = await in_thread(lambda: self._export(path, format))
        return text, MEDIA_TYPES[format], f"{path.stem}.{ENDINGS[format]}"

    def _export(self, path: Path, format: str) -> str:
        lines = read_readable(path).lines
        if format == "jsonl":
            return "".join(line.text() for line in lines)
        draw = page if format == "html" else markdown
        return draw(read_transcript(lines), self._find)

    async def verify(self, name: str) -> JsonObject:
        """Check the chain of a session's log."""
        row = await in_thread(lambda: verify_session(find_own_session(name)))
        return {"ok": row["ok"], "text": visible(verdict_sentence(row))}

    # --- inbox

    async def inbox(self) -> list[JsonObject]:
        """Return the open requests of all sessions."""
        return await in_thread(self._inbox)

    def _inbox(self) -> list[JsonObject]:
        rows = []
        with session_index() as look:
            for path, waiting in waiting_requests(_ignore):
                row = self._waiting_row(path.stem, waiting)
                rows.append({**row, "about": _about(session_row(path, look) or {})})
        return rows

    def _waiting_row(self, session: str, waiting: Waiting) -> JsonObject:
        live = self.live.get(session)
        if live:
            request = live.requests.get(waiting.id, waiting.request)
        else:
            request = waiting.request
        answer = None
        if waiting.answer is not None:
            answer = "yes" if waiting.answer.approved else "no"
        return {
            "session": session,
            "worker": " > ".join(waiting.path),
            "request": waiting.id,
            "tool": request.tool_name,
            "title": visible(request.description),
            "asked": waiting.time,
            "risk": request.risk,
            "answer": answer,
            "html": draw_request(request, self._find),
            "choices": list_choices(request, parked=live is None),
        }

    async def answer_parked(self, session: str, request: str, choice: str, feedback: str) -> None:
        """Answer a request of a live or a parked session."""
        if session in self.live:
            self.live[session].answer(request, choice, feedback)
            return
        if choice not in ("once", "no"):
            raise UsageError(f"unknown choice '{visible(choice)}'", hint="choices: once, no")
        decision = ApprovalDecision(True, via=VIA)
        if choice == "no":
            decision = ApprovalDecision(False, note=" ".join(feedback.split()) or None, via=VIA)
        await in_thread(lambda: answer_and_resume(find_own_session(session), request, decision))

    # --- the end

    def stop(self, reason: str) -> None:
        """Stop all sessions because of a signal."""
        for live in (*self.live.values(), *self._starting):
            live.stop(reason)

    async def wait_until_ended(self) -> None:
        """Wait for the ends of all sessions, then close their tabs."""
        while self.live or self._starting:
            for live in (*self.live.values(), *self._starting):
                await live.ended.wait()
            await anyio.lowlevel.checkpoint()  # _forget removes the ended sessions
        for view in list(self._views.values()):
            view.close()


async def in_thread(function: Callable[[], T]) -> T:
    """Read files in a thread, so that the tabs are not delayed."""
    return await to_thread.run_sync(function)


def _grown(path: Path, size: int) -> tuple[int, Log | None]:
    """Return the size of a log, and its readable lines if the size has changed."""
    now = path.stat().st_size
    return now, None if now == size else read_readable(path)


def _count_waiting() -> int:
    """Return the number of requests without an answer."""
    return sum(waiting.answer is None for _, waiting in waiting_requests(_ignore))


def _ignore(sentence: str) -> None:
    """Ignore a broken log here; its view reports the problem."""


def _listing(wanted: str) -> list[JsonObject]:
    with session_index() as look:
        found: list[JsonObject] = []
        if not wanted:
            rows = (session_row(path, look) for path in session_files())
            for folded in islice(fold_batches(row for row in rows if row), MAX_LISTED):
                found.append(_listed(folded, None))
            return found
        for path, match in _matching(wanted):
            if row := session_row(path, look):
                found.append(_listed(row, match))
            if len(found) == MAX_LISTED:
                break
        return found


def _matching(wanted: str) -> Iterator[tuple[Path, str]]:
    """Yield the sessions that contain a text, with an excerpt."""
    for path in session_files():
        if hit := next(find_hits(path, wanted), None):
            yield path, str(hit["excerpt"])


def _listed(row: JsonObject, match: str | None) -> JsonObject:
    status = row.get("status", "unreadable")
    return {
        "id": row["session"],
        "title": _about(row),
        "worker": row.get("worker", ""),
        "model": row.get("model", ""),
        "started": row.get("started", ""),
        "folder": row.get("workspace", ""),
        "status": status,
        "parked": status == "parked",
        "match": match,
    }


def _about(row: JsonObject) -> str:
    """Return the title of a session, or its task."""
    about = str(row.get("title") or row.get("task") or row.get("error") or "")
    return " ".join(about.split())[:MAX_ABOUT]


MARKS = (b"\ninstructions:", b"\ntoolsets:")
"""Keys of workers that hardly any other YAML file has."""
UNTRUSTED = "it is part of this folder and not trusted; to trust it, run: forge trust"


def list_workers(folder: Path) -> list[JsonObject]:
    """Return the workers that can be started, with the errors of broken ones; execute nothing."""
    rows = []
    for path in _files(folder):
        if row := _row(path.stem, path, is_named=False):
            rows.append(row)
    taken = {row["name"] for row in rows}
    trust = TrustStore(forge_home())
    for named in named_workers(folder, forge_home()):
        if named.name not in taken and (row := _row(named.name, named.path, is_named=True)):
            taken.add(named.name)
            rows.append(row if is_trusted(named, trust) else {**row, "error": UNTRUSTED})
    return rows


def find_listed(folder: Path, wanted: str) -> JsonObject:
    """Return a listed worker by its name or path."""
    rows = list_workers(folder)
    for row in rows:
        if wanted in (row["name"], row["path"]):
            if row["error"] == UNTRUSTED:
                raise TrustError(f"{visible(str(row['path']))}: {UNTRUSTED}")
            return row
    hint = did_you_mean(wanted, [str(row["name"]) for row in rows])
    raise UsageError(f"unknown worker '{visible(wanted)}'", hint=hint)


def check_trust(path: Path) -> None:
    """Raise TrustError for an untrusted worker of a folder."""
    trust = TrustStore(forge_home())
    for folder in path.absolute().parents:
        if not (folder / ".forge").is_dir():
            continue
        for named in named_workers(folder, forge_home()):
            is_same = named.path.resolve() == path.resolve()
            if is_same and not is_trusted(named, trust):
                raise TrustError(f"{visible(str(path))}: {UNTRUSTED}")


def is_trusted(worker: NamedWorker, trust: TrustStore) -> bool:
    """Return True unless the worker is part of a folder that is not trusted."""
    return worker.origin is not WorkerOrigin.PROJECT or trust.holds(worker)


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(
            path for path in folder.iterdir() if path.suffix in SUFFIXES and path.is_file()
        )
    except OSError:
        return []


def _row(name: str, path: Path, *, is_named: bool) -> JsonObject | None:
    try:
        worker = load_worker(path)
    except ForgeError as error:
        if not is_named and not _looks_like_a_worker(path):
            return None  # another YAML file
        return {"name": name, "path": str(path), "description": "", "error": str(error)}
    shown = name if is_named else worker.name
    return {
        "name": shown,
        "path": str(path),
        "description": worker.config.description,
        "error": None,
    }


def _looks_like_a_worker(path: Path) -> bool:
    try:
        text = b"\n" + read_regular(path)  # so that a key on the first line is found, too
    except OSError:
        return False
    return any(mark in text for mark in MARKS)

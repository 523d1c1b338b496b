"""All sessions of a server: worked on, only looked at, or waiting elsewhere; and the workers that it offers."""

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
from forge_cli.record.pending import Waiting, answer_request, waiting_requests
from forge_cli.record.reading import verdict_sentence, verify_session
from forge_cli.record.search import find_hits
from forge_cli.ui.html.entries import page
from forge_cli.ui.html.requests import draw_request, list_choices
from forge_cli.ui.transcript.entries import read_transcript
from forge_cli.ui.transcript.markdown import markdown

T = TypeVar("T")
VIA = "forge web"
"""How answers of this page are called in other sessions."""
POLL = 1.0
"""Seconds between two looks at a log that another process writes."""
LISTED = 200
"""Sessions in the list of the page; a search looks at all of them."""
MEDIA_TYPES = {"html": "text/html", "markdown": "text/markdown", "jsonl": "application/x-ndjson"}
ENDINGS = {"html": "html", "markdown": "md", "jsonl": "jsonl"}


class SessionNotLive(UsageError):
    """This process does not work on the session."""

    def __init__(self, session: str) -> None:
        super().__init__(
            f"the session '{visible(session)}' is only read here", hint="resume it first"
        )


class WebSessions:
    """The sessions of the page; ``asked`` is what the command line says of each."""

    def __init__(self, asked: RunOptions, tasks: TaskGroup) -> None:
        self._asked = asked
        self._tasks = tasks
        self._find = asked.host().renderer
        self.live: dict[str, LiveSession] = {}
        self._views: WeakValueDictionary[str, SessionView] = WeakValueDictionary()
        """Each is there as long as somebody looks at it, or works on it."""
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
        rows.sort(
            key=lambda row: row["folder"] != here
        )  # those of this folder first, the others as they were
        waits = {session for session, live in self.live.items() if live.view.drawing.requests}
        return [
            {**row, "live": row["id"] in self.live, "waits": row["id"] in waits} for row in rows
        ]

    async def start(self, worker: str = "", model: str = "") -> str:
        """A new session; without a name that of the worker of the command line, and with its model."""
        asked = replace(self._asked, model=model or self._asked.model)
        if not worker or (worker == asked.named and asked.worker):
            return await self._start(asked)
        row = find_listed(asked.workspace, worker)
        return await self._start(replace(asked, worker=str(row["path"]), named=str(row["name"])))

    async def models(self) -> JsonObject:
        """The models that can be asked now, by name, with the providers that are ready and what brings another."""
        settings = load_settings(forge_home(), self._asked.workspace)
        rows = [
            row
            for row in await provider_rows(with_models=True)
            if row["ready"] and row["provider"] != FILES
        ]
        ready = [str(row["provider"]) for row in rows]
        own = [*settings.aliases, *settings.models]
        names = [
            name for name in own if settings.resolve(name).partition(":")[0] in (*ready, FILES)
        ]
        for row in rows:
            names += [f"{row['provider']}:{model['name']}" for model in row["models"]]
        return {"models": list(dict.fromkeys(names)), "ready": ready, "missing": NO_MODEL}

    async def resume(self, name: str, *, fork: bool = False) -> str:
        """Work on a session that there is, or on a copy of it, where it was."""
        path = find_own_session(name)
        if path.stem in self.live and not fork:
            return path.stem
        return await self._start(await in_thread(lambda: self._to_resume(path, fork)))

    def _to_resume(self, path: Path, fork: bool) -> RunOptions:
        """The worker of a session in its own folder, as far as they are still there."""
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
        if live.runtime and (
            another := live.runtime.next_session
        ):  # a command wants to continue with another one
            with suppress(ForgeError):
                live.view.tell({"type": "go", "id": await self.resume(another)})

    def find_live(self, session: str) -> LiveSession:
        if session not in self.live:
            raise SessionNotLive(session)
        return self.live[session]

    async def close(self, session: str) -> None:
        live = self.find_live(session)
        live.stop()
        await live.ended.wait()

    # --- looking

    def view(self, session: str) -> SessionView:
        """The view of a session that its tabs share; it stays the same while work on it starts or ends."""
        view = self._views.get(session)
        if view is None:
            view = self._views[session] = SessionView(SessionDrawing(session, self._find))
        return view

    async def look(self, name: str) -> SessionView:
        """The same for a session that may be one of the past."""
        session = name if name in self.live else find_own_session(name).stem
        view = self.view(session)
        await self._read_on(view)
        return view

    async def keep_up(self, view: SessionView) -> None:
        """Read what another process adds to a session, for as long as somebody looks at it."""
        while True:
            await anyio.sleep(POLL)
            with suppress(ForgeError):
                await self._read_on(view)

    async def _read_on(self, view: SessionView) -> None:
        session = view.drawing.session
        if session in self.live:
            return
        path = find_own_session(session)
        size, log = await in_thread(lambda: _grown(path, view.size))
        if log is None or session in self.live:  # somebody may have begun to work on it meanwhile
            return
        view.size = size
        for line in log.lines:
            if line.seq > view.drawing.seq:
                view.take(line)

    async def export(self, name: str, format: str) -> tuple[str, str, str]:
        """A session as a document: its text, its media type, and the name of the file."""
        if format not in MEDIA_TYPES:
            raise UsageError(
                f"there is no format '{visible(format)}'",
                hint=f"there are: {', '.join(MEDIA_TYPES)}",
            )
        path = find_own_session(name)
        text = await in_thread(lambda: self._export(path, format))
        return text, MEDIA_TYPES[format], f"{path.stem}.{ENDINGS[format]}"

    def _export(self, path: Path, format: str) -> str:
        lines = read_readable(path).lines
        if format == "jsonl":
            return "".join(line.text() for line in lines)
        return (page if format == "html" else markdown)(read_transcript(lines), self._find)

    async def verify(self, name: str) -> JsonObject:
        row = await in_thread(lambda: verify_session(find_own_session(name)))
        return {"ok": row["ok"], "text": visible(verdict_sentence(row))}

    # --- what waits

    async def inbox(self) -> list[JsonObject]:
        return await in_thread(self._inbox)

    def _inbox(self) -> list[JsonObject]:
        with session_index() as look:
            return [
                {
                    **self._waiting_row(path.stem, waiting),
                    "about": _about(session_row(path, look) or {}),
                }
                for path, waiting in waiting_requests(_ignore)
            ]

    def _waiting_row(self, session: str, waiting: Waiting) -> JsonObject:
        live = self.live.get(session)
        request = live.requests.get(waiting.id, waiting.request) if live else waiting.request
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
        """Answer what waits, in a session of this page or in another one."""
        if session in self.live:
            self.live[session].answer(request, choice, feedback)
            return
        if choice not in ("once", "no"):
            raise UsageError(
                f"'{visible(choice)}' is not one of the choices", hint="there are: once, no"
            )
        note = " ".join(feedback.split()) or None
        decision = ApprovalDecision(
            choice == "once", note=note if choice == "no" else None, via=VIA
        )
        await in_thread(lambda: answer_request(find_own_session(session), request, decision))

    # --- the end

    def stop(self, reason: str) -> None:
        for live in (*self.live.values(), *self._starting):
            live.stop(reason)

    async def wait_until_ended(self) -> None:
        while self.live or self._starting:
            for live in (*self.live.values(), *self._starting):
                await live.ended.wait()
            await anyio.lowlevel.checkpoint()
        for view in list(self._views.values()):
            view.close()


async def in_thread(function: Callable[[], T]) -> T:
    """Read files without holding up the tabs."""
    return await to_thread.run_sync(function)


def _grown(path: Path, size: int) -> tuple[int, Log | None]:
    """The readable part of a log that is not as large as it was."""
    now = path.stat().st_size
    return (now, None) if now == size else (now, read_readable(path))


def _count_waiting() -> int:
    """Requests that have no answer yet."""
    return sum(waiting.answer is None for _, waiting in waiting_requests(_ignore))


def _ignore(sentence: str) -> None:
    """Say what is wrong with a log where it is looked at."""


def _listing(wanted: str) -> list[JsonObject]:
    with session_index() as look:
        rows = ((session_row(path, look), match) for path, match in _matching(wanted))
        if wanted:
            return list(islice((_listed(row, match) for row, match in rows if row), LISTED))
        return [_listed(row, None) for row in fold_batches(row for row, _ in rows if row)][:LISTED]


def _matching(wanted: str) -> Iterator[tuple[Path, str | None]]:
    """The sessions that have a text, each with what is around it; all of them where there is none."""
    if not wanted:
        yield from ((path, None) for path in session_files())
        return
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
    """The title of a session, or what it began with."""
    return " ".join(str(row.get("title") or row.get("task") or row.get("error") or "").split())[
        :200
    ]


MARKS = (b"\ninstructions:", b"\ntoolsets:")
"""Keys that a worker has, and hardly any other YAML file."""
UNTRUSTED = "it comes with this folder and is not trusted: forge trust shows it and asks"


def list_workers(folder: Path) -> list[JsonObject]:
    """Every worker that can be started here; one that is broken says why, and nothing of any is executed."""
    rows = [row for path in _files(folder) if (row := _row(path.stem, path, is_named=False))]
    taken = {row["name"] for row in rows}
    trust = TrustStore(forge_home())
    for named in named_workers(folder, forge_home()):
        if named.name not in taken and (row := _row(named.name, named.path, is_named=True)):
            taken.add(named.name)
            rows.append(row if is_trusted(named, trust) else {**row, "error": UNTRUSTED})
    return rows


def find_listed(folder: Path, wanted: str) -> JsonObject:
    """A worker by its name or its path, as the page knows them."""
    rows = list_workers(folder)
    for row in rows:
        if wanted in (row["name"], row["path"]):
            if row["error"] == UNTRUSTED:
                raise TrustError(f"{visible(str(row['path']))}: {UNTRUSTED}")
            return row
    hint = did_you_mean(wanted, [str(row["name"]) for row in rows])
    raise UsageError(f"there is no worker '{visible(wanted)}' here", hint=hint)


def check_trust(path: Path) -> None:
    """Refuse a worker that a folder brings, until somebody has agreed to it."""
    for folder in path.absolute().parents:
        for named in named_workers(folder, forge_home()) if (folder / ".forge").is_dir() else ():
            if named.path.resolve() == path.resolve() and not is_trusted(
                named, TrustStore(forge_home())
            ):
                raise TrustError(f"{visible(str(path))}: {UNTRUSTED}")


def is_trusted(worker: NamedWorker, trust: TrustStore) -> bool:
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
        problem = str(error) if is_named or _looks_like_a_worker(path) else None
        return (
            problem and {"name": name, "path": str(path), "description": "", "error": problem}
        ) or None
    shown = name if is_named else worker.name
    return {
        "name": shown,
        "path": str(path),
        "description": worker.config.description,
        "error": None,
    }


def _looks_like_a_worker(path: Path) -> bool:
    try:
        text = b"\n" + read_regular(path)
    except OSError:
        return False
    return any(mark in text for mark in MARKS)

"""The store of a batch: the results file with a line for each item, and the journal beside it.

Both are append-only, one whole line at a time. The journal names the session of an item before
anything happens in it, so that after a crash it is known which session to resume.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import asdict

from forge_cli.core.errors import ExitCode, ForgeError, Mark, UsageError, WorkerError
from forge_cli.core.messages import Usage
from forge_cli.core.wire import JsonObject, camel_case, camel_keys
from forge_cli.files.lock import FileSpoilt, LineFile, hold_file_lock
from forge_cli.files.regular import open_regular

ItemState = Literal["completed", "failed", "parked", "interrupted"]
BatchEventType = Literal["batchStart", "itemStarted", "itemFinished", "batchEnd"]


@dataclass
class BatchCounts:
    """The number of items in each state.

    Those that were not begun, or were interrupted, are ``waiting``.
    """

    total: int = 0
    completed: int = 0
    failed: int = 0
    parked: int = 0
    running: int = 0

    @property
    def waiting(self) -> int:
        return max(0, self.total - self.completed - self.failed - self.parked - self.running)

    def add(self, state: ItemState, number: int = 1) -> None:
        if state != "interrupted":
            setattr(self, state, getattr(self, state) + number)

    def wire(self) -> JsonObject:
        return {**vars(self), "waiting": self.waiting}

    def exit_code(self, *, spent: bool) -> ExitCode:
        """Return the exit code of the batch; ``spent`` is True if its budget is used up."""
        if spent and self.waiting:
            return ExitCode.LIMIT
        if self.failed or self.waiting or self.running or not self.total:
            return ExitCode.FAILED
        return ExitCode.PARKED if self.parked else ExitCode.DONE


@dataclass
class Spending:
    """The usage of items, from their results."""

    usage: Usage = field(default_factory=Usage)
    cost: float | None = None
    """In dollars; None if a part of it is unknown, or nothing was used."""
    unknown: bool = False
    """True if the cost of some usage is unknown."""

    @property
    def tokens(self) -> int:
        return sum(asdict(self.usage).values())

    def add(self, result: Mapping[str, Any]) -> None:
        used = camel_keys(result.get("usage") or {})
        cost = result.get("cost")
        usage = Usage(**{name: used.get(camel_case(name), 0) for name in asdict(Usage())})
        self.usage += usage
        self.unknown = self.unknown or (cost is None and usage != Usage())
        if self.unknown:
            self.cost = None
        elif cost is not None:
            self.cost = (self.cost or 0.0) + cost


class BatchEvent(Struct, frozen=True):
    """Something that happened in a batch; ``counts`` are the counts after it."""

    type: BatchEventType
    counts: BatchCounts
    spending: Spending
    key: str | None = None
    session: str | None = None
    attempt: int | None = None
    result: Mapping[str, Any] | None = None
    retry_in: float | None = None
    """Seconds until a failed item is retried."""
    exit_code: int | None = None

    def wire(self) -> JsonObject:
        """Return a line of ``--json``."""
        found: JsonObject = {"type": self.type}
        named: JsonObject = {
            "key": self.key,
            "session_id": self.session,
            "attempt": self.attempt,
            "result": self.result,
        }
        named |= {"retry_in": self.retry_in, "exit_code": self.exit_code}
        found |= {name: value for name, value in named.items() if value is not None}
        usage = camel_keys(asdict(self.spending.usage))
        return camel_keys(
            {**found, "counts": self.counts.wire(), "usage": usage, "cost": self.spending.cost}
        )


VERSION = 1
JOURNAL = ".journal"
PROVIDER_EXIT = 7
"""The exit code of an item that the model did not answer: a retry resumes it."""
_LOCK_TIMEOUT = 1.0
"""Seconds that ``forge batch status``, or children of a killed batch, may still hold the lock."""
_text = json.JSONEncoder(ensure_ascii=False).encode


@dataclass(slots=True)
class ItemRecord:
    """The state of an item that was begun."""

    session: str
    digest: str
    state: ItemState = "interrupted"
    resumes: bool = True
    """True if a retry resumes its session."""
    error: str | None = None
    removed: bool = False
    """True if its row was missing from the last inputs."""


@dataclass
class BatchRecord:
    """The state of a batch, read from its two files."""

    worker: str = ""
    worker_digest: str = ""
    total: int = 0
    exit_code: int | None = None
    """The exit code of the last run; None while it runs, or if it was killed."""
    pid: int | None = None
    """The process of the last run."""
    items: dict[str, ItemRecord] = field(default_factory=dict)
    spending: Spending = field(default_factory=Spending)

    def in_state(self, state: ItemState) -> list[str]:
        return [key for key, item in self.current.items() if item.state == state]

    @property
    def current(self) -> dict[str, ItemRecord]:
        """The items that were among the last inputs."""
        return {key: item for key, item in self.items.items() if not item.removed}


def journal_of(results: Path) -> Path:
    """Return the journal of a results file."""
    return Path(f"{results}{JOURNAL}")


def has_content(file: Path) -> bool:
    """Return True if the file exists and is not empty."""
    try:
        return file.stat().st_size > 0
    except OSError:
        return False


def item_state(result: Mapping[str, Any], *, cut: bool = False) -> ItemState:
    """Return the state for the result of an item.

    ``cut`` is True if the budget of the batch was spent.
    """
    match result.get("status"):
        case "completed":
            return "completed"
        case "parked":
            return "parked"
        case "interrupted":
            return "interrupted"
        case "limit" if cut:
            return "interrupted"
        case _:
            return "failed"


def is_resumed(result: Mapping[str, Any]) -> bool:
    """Return True if a retry resumes the session of an item instead of starting over."""
    return (
        result.get("status") in ("parked", "interrupted", "limit")
        or result.get("exitCode") == PROVIDER_EXIT
    )


def read_record(results: Path) -> BatchRecord:
    """Return the state of a batch; an empty one if there is no journal."""
    record = BatchRecord()
    all_from = 0
    key_from: dict[str, int] = {}
    cut: set[str] = set()
    for line, _ in _lines(journal_of(results)):
        match line:
            case {"type": "batch"}:
                record.worker = str(line.get("worker"))
                record.worker_digest = str(line.get("digest"))
                record.total = int(line.get("total") or 0)
                record.exit_code = None
                record.pid = line.get("pid")
                for known in record.items.values():
                    known.removed = False
            case {"type": "removed", "keys": [*removed]}:
                for key in removed:
                    if key in record.items:
                        record.items[key].removed = True
            case {"type": "restart", "offset": int(offset)}:
                if (keys := line.get("keys")) is None:
                    all_from = offset
                    record.items.clear()
                for key in keys or ():
                    key_from[key] = offset
                    record.items.pop(key, None)
            case {"type": "start", "key": str(key), "session": str(session), "input": str(digest)}:
                record.items[key] = ItemRecord(session, digest)
                cut.discard(key)
            case {"type": "cut", "key": str(key)}:
                cut.add(key)
            case {"type": "end"}:
                record.exit_code = line.get("exit_code")
    for line, offset in _lines(results):
        key = line.get("key")
        result = line.get("result")
        problem = WorkerError(Mark(str(results)), "this is not a results file of forge batch")
        if not isinstance(key, str) or not isinstance(result, dict):
            raise problem
        # Before all checks below, because the spending of items that started over counts, too.
        if not _is_counted(record.spending, result):
            raise problem
        # Version 0.2 wrote keys in both spellings, and 0.1 only with underscores.
        result = camel_keys(result)
        item = record.items.get(key)
        if item is None or item.session != result.get("sessionId"):
            continue
        # A result from before its item started over.
        if offset < max(all_from, key_from.get(key, 0)):
            continue
        item.state = item_state(result, cut=key in cut)
        item.resumes = is_resumed(result)
        item.error = result.get("error")
    return record


def _is_counted(spending: Spending, result: JsonObject) -> bool:
    try:
        spending.add(result)
    except (AttributeError, TypeError):
        return False
    return True


def _lines(file: Path) -> Iterator[tuple[JsonObject, int]]:
    """Yield the complete lines of a file with their offsets."""
    try:
        opened = open_regular(file)
    except FileNotFoundError:
        return
    except OSError as error:
        raise WorkerError(Mark(str(file)), f"it cannot be read: {error.strerror}") from None
    offset = 0
    with opened:
        for number, line in enumerate(opened, 1):
            if not line.endswith(b"\n"):  # a crash cut the last line off
                return
            try:
                found = json.loads(line)
            except (ValueError, RecursionError):
                found = None
            if not isinstance(found, dict):
                raise WorkerError(Mark(str(file), number), "not a line that forge batch wrote")
            yield found, offset
            offset += len(line)


class BatchStore:
    """The two files, open for one process at a time."""

    def __init__(self, journal: LineFile, results: LineFile) -> None:
        self._journal = journal
        self._results = results

    @property
    def unsynced(self) -> bool:
        """True if the disk may not have everything that was written."""
        return self._journal.unsynced or self._results.unsynced

    def begin(
        self, worker: str, digest: str, total: int, time: str, removed: Sequence[str] = ()
    ) -> None:
        """Record what this run works on.

        ``removed`` are the items that are missing from its inputs.
        """
        head = {"type": "batch", "v": VERSION, "worker": worker, "digest": digest}
        self._note({**head, "total": total, "time": time, "pid": os.getpid()})
        if removed:
            self._note({"type": "removed", "keys": list(removed)})

    def restart(self, keys: list[str] | None) -> None:
        """Forget what was done so far, for these keys or for all if None."""
        self._note({"type": "restart", "keys": keys, "offset": self._results.size})

    def start(self, key: str, session: str, digest: str) -> None:
        """Record that an item begins, or is resumed, in this session."""
        self._note({"type": "start", "key": key, "session": session, "input": digest})

    def end(self, exit_code: int) -> None:
        self._note({"type": "end", "exit_code": exit_code})
        self.sync()

    def finish(self, key: str, fields: JsonObject, result: JsonObject, *, cut: bool) -> None:
        """Write the result of an item, which may be reported only after ``sync``."""
        if cut:
            self._note({"type": "cut", "key": key})
        self._append(self._results, {"key": key, "input": fields, "result": result})

    def sync(self) -> None:
        """Flush both files, the journal first.

        A result counts only if the journal names its session.
        """
        for file in (self._journal, self._results):
            if file.unsynced:
                file.sync()

    def _note(self, line: JsonObject) -> None:
        self._append(self._journal, line)

    def _append(self, file: LineFile, line: JsonObject) -> None:
        results = self._results.path
        try:
            file.append(_encode(line))
        except FileSpoilt as error:
            raise ForgeError(
                f"{results}: {file.path.name} was {error.what} while it was written"
            ) from None
        except OSError as error:
            hint = "free some space, then run the same command again"
            raise ForgeError(
                f"{results}: cannot write a result: {error.strerror}", hint=hint
            ) from None


@contextmanager
def open_store(results: Path) -> Iterator[BatchStore]:
    """Open the store of a batch.

    If nothing begins, for example because the inputs are unreadable, remove the files that this
    created.
    """
    journal = journal_of(results)
    if has_content(results) and not has_content(journal):
        hint = f"name a new file with -o, or restore {journal.name} if these are results"
        raise UsageError(
            f"{results}: the file exists, but the journal of a batch does not", hint=hint
        )
    made = [file for file in (results, journal) if not os.path.lexists(file)]
    with ExitStack() as stack:
        try:
            stack.enter_context(hold_file_lock(journal, wait=_LOCK_TIMEOUT))
            stack.callback(_remove_unused, journal, made)
            files = [
                stack.enter_context(closing(LineFile(file, mode=0o666)))
                for file in (journal, results)
            ]
        except BlockingIOError:
            # The journal still names the last run if the process with the lock has not begun.
            record = read_record(results)
            who = ""
            if record.pid and record.exit_code is None:
                who = f" (pid {record.pid})"
            raise ForgeError(
                f"{results} is in use by another forge batch{who}", hint="wait for it to end"
            ) from None
        except OSError as error:
            raise UsageError(f"-o {results}: it cannot be written: {error.strerror}") from None
        yield BatchStore(*files)


def _remove_unused(journal: Path, made: Sequence[Path]) -> None:
    if not has_content(journal):
        for file in made:
            file.unlink(missing_ok=True)


def _encode(line: JsonObject) -> bytes:
    """Encode a line; a lone surrogate becomes an escape, which is valid JSON."""
    return f"{_text(line)}\n".encode("utf-8", "backslashreplace")

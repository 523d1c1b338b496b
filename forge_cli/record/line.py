"""Lines of a session log: one event each, with its place in the session."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from forge_cli.core.actions import ApprovalResponse
from forge_cli.core.errors import Mark, WorkerError
from forge_cli.core.events import VERSION, ApprovalDecided, Event
from forge_cli.core.wire import JsonObject, Unreadable
from forge_cli.files.places import place_of

if TYPE_CHECKING:
    from forge_cli.core.event_kinds import AnyEvent
    from forge_cli.sandbox.secrets import Redactor

_ENVELOPE = (("time", str), ("session", str), ("worker", str), ("depth", int), ("delegation", str))
_line_text = json.JSONEncoder(ensure_ascii=False).encode
_sorted_text = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode
"""The serialization that the hash of a line covered in earlier versions."""
Prove = Callable[[str], str | None]
"""Returns the proof of a text, or None if there is no key."""
NOWHERE = Mark("-")
"""The place of a line that was not read from a file."""


class BadLine(WorkerError):
    """A line that forge did not write, with its place in the log."""

    def __init__(self, where: Mark, problem: str | None = None) -> None:
        sentence = "not a line of a session log"
        hint = "forge sessions show shows what can be read of it"
        super().__init__(where, f"{sentence}: {problem}" if problem else sentence, hint=hint)


class Line(Struct):
    """One recorded event, redacted, as a line of a log.

    Keys of ``data`` that this version of forge does not know come from a newer one. They are
    ignored, and kept wherever the line is copied. In a damaged line, properties such as ``time``
    and ``worker`` are empty, and ``event`` raises BadLine.
    """

    data: JsonObject
    """The JSON object in the log."""
    where: Mark = NOWHERE
    _written: str | None = None
    # Any instead of AnyEvent, which is not imported: inspect.signature evaluates this type.
    _event: Any = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Line) and (self.data, self.where) == (other.data, other.where)

    @classmethod
    def of(
        cls,
        event: Event,
        *,
        session: str,
        worker: str,
        depth: int,
        redactor: Redactor,
        after: Line | None = None,
        prove: Prove | None = None,
    ) -> Line:
        """Return the line of an event.

        ``after`` is the previous line of the chain. ``prove`` proves the line if it is consent.
        """
        data: JsonObject = {"v": VERSION}
        if not event.transient:
            data["seq"] = after.seq + 1 if after else 1
        data["time"] = _now()
        data["session"] = session
        origin = event.origin
        data["worker"] = origin.worker if origin else worker
        data["depth"] = origin.depth if origin else depth
        if origin:
            data["delegation"] = origin.delegation
        data["type"] = event.type
        data |= redactor.redact(event.payload())
        if event.transient:
            return cls(data, _written=f"{_line_text(data)}\n")
        if not _is_consent(data):
            prove = None
        return cls(data, _written=_seal(data, after, prove))

    @classmethod
    def read(cls, piece: bytes, where: Mark = NOWHERE) -> Line:
        """Return the line in ``piece``, which has no newline; raise BadLine for other text."""
        try:
            # With a lone surrogate the line can still be shown, but is never ``intact``.
            data = json.loads(piece.decode("utf-8", "surrogatepass"))
        except (ValueError, RecursionError) as error:
            raise BadLine(place_of(error, where)) from None
        if (
            not isinstance(data, dict)
            # Only what reading a log needs: the rest is checked when the event is read.
            or not isinstance(data.get("seq"), int)
            or not isinstance(data.get("type"), str)
        ):
            raise BadLine(where)
        return cls(data, where)

    def text(self) -> str:
        """Return the line as written to a file, with its newline."""
        return self._written or f"{_line_text(self.data)}\n"

    def copied(self, session: str, after: Line | None) -> Line:
        """Return a copy for another session, with its own chain and without proofs."""
        data = {**self.data, "session": session}
        _seal(data, after)
        return Line(data, self.where)

    @property
    def event(self) -> AnyEvent:
        """The event of the line; raises BadLine if the line does not contain one."""
        # Lists of sessions read few events of a log, and the other views of it share them.
        event: AnyEvent | None = self._event
        if event is None:
            event = self._event = self._read_event()
        return event

    def _read_event(self) -> AnyEvent:
        for key, kind in _ENVELOPE:
            # The exact type, because isinstance would accept True as an int.
            if type(self.data.get(key)) is not kind and (key in self.data or key != "delegation"):
                expected = "text" if kind is str else "whole number"
                raise BadLine(self.where, f"{key}: not a {expected}")
        try:
            from forge_cli.core.event_kinds import read_event

            return read_event(self.type, self.data)
        except Unreadable as problem:
            raise BadLine(self.where, f"{self.type}.{problem}") from None

    @property
    def version(self) -> Any:
        """The version of the log format."""
        return self.data.get("v")

    @property
    def transient(self) -> bool:
        """True if the event is only sent to listeners and not recorded."""
        return "seq" not in self.data

    @property
    def seq(self) -> int:
        """The sequence number in the session; 0 for a transient line."""
        return int(self.data.get("seq", 0))

    @property
    def type(self) -> str:
        """The type of the event on the wire."""
        return str(self.data["type"])

    @property
    def time(self) -> str:
        """The time of writing, in UTC."""
        return self._text("time")

    @property
    def seconds(self) -> float | None:
        """The time of writing in seconds since the epoch; None for a damaged time."""
        try:
            return datetime.fromisoformat(self.time).timestamp()
        except ValueError:
            return None

    @property
    def session(self) -> str:
        """The ID of the session."""
        return self._text("session")

    @property
    def worker(self) -> str:
        """The worker that the event is about."""
        return self._text("worker")

    @property
    def depth(self) -> int:
        """The depth of the worker; 0 for the root."""
        depth = self.data.get("depth")
        return depth if isinstance(depth, int) else 0

    @property
    def delegation(self) -> str | None:
        """The ID of the task that a child worker was given; None for the root."""
        return self._text("delegation") or None

    @property
    def prev(self) -> Any:
        """The hash of the previous line; None in the first line."""
        return self.data.get("prev")

    @property
    def hash(self) -> Any:
        """The hash of everything else in the line."""
        return self.data.get("hash")

    @property
    def is_consent(self) -> bool:
        """True if the line may allow a call: an approved verdict, or a person's answer."""
        return _is_consent(self.data)

    def unproven_text(self) -> str:
        """Return the text that a proof covers."""
        return _line_text(
            {key: value for key, value in self.data.items() if key not in ("proof", "hash")}
        )

    @property
    def intact(self) -> bool:
        """True if the hash matches the content.

        A lone surrogate never matches, because forge writes none.
        """
        data = {key: value for key, value in self.data.items() if key != "hash"}
        try:
            return any(self.hash == _hash(write(data)) for write in (_line_text, _sorted_text))
        except UnicodeEncodeError:
            return False

    def _text(self, key: str) -> str:
        value = self.data.get(key)
        return value if isinstance(value, str) else ""


def _is_consent(data: Mapping[str, Any]) -> bool:
    if data["type"] == ApprovalDecided.type:
        return data.get("approved") is True
    return bool(data["type"] == ApprovalResponse.type)


def _seal(data: JsonObject, after: Line | None, prove: Prove | None = None) -> str:
    """Chain a line to the one before it, add its hash, and return its text with the newline."""
    # A copied line has the hash and the proof of another chain.
    data.pop("hash", None)
    data.pop("proof", None)
    data["prev"] = after.hash if after else None
    if prove and (proof := prove(_line_text(data))):
        data["proof"] = proof
    # Encoded once: the text with the hash is the text that was hashed, with one key more.
    text = _line_text(data)
    data["hash"] = seal = _hash(text)
    return f'{text[:-1]}, "hash": "{seal}"}}\n'


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"

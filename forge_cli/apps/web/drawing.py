"""The state of a session for its tabs, updated from log lines and drawn on demand."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence

from forge_cli.apps.web.objects import (
    PendingChanges,
    PlacedEntry,
    draw_question,
    draw_request_object,
    draw_tools,
    draw_usage,
    is_again,
    settled_by,
)
from forge_cli.core import events
from forge_cli.core.actions import Interrupt, UserInput
from forge_cli.core.approval import MODE_TITLES, GrantOffer
from forge_cli.core.event_kinds import AnyEvent
from forge_cli.core.trial import CommandTried
from forge_cli.core.wire import JsonObject
from forge_cli.record.line import BadLine, Line
from forge_cli.record.state import Recorded
from forge_cli.ui.facts import Facts
from forge_cli.ui.html.entries import draw_entry
from forge_cli.ui.html.markdown import GrowingMarkdown
from forge_cli.ui.transcript.entries import Called, Noted, Said, TranscriptEntry, TranscriptReader
from forge_cli.ui.views import FindRenderer, no_renderers

ROOT = "root"
"""The id of the root in the tree of workers."""
STATES = ("session", "title", "status", "usage", "tools", "tree")
"""The kinds of state objects."""
Delegation = str | None


class SessionDrawing:
    """The drawing of a session: ``drain`` returns changes, ``state`` the whole current state."""

    def __init__(self, session: str, find: FindRenderer = no_renderers) -> None:
        self.session = session
        self.find = find
        self.live = False
        """Whether this process works on the session."""
        self.busy = False
        """Whether an interrupt would stop something."""
        self.queued: Sequence[str] = ()
        self.ending = ""
        """The error that ended the work; empty if there was none."""
        self.seq = 0
        self.started = ""
        self.facts = Facts(session=session)
        self._reader = TranscriptReader()
        self._placed: dict[str, PlacedEntry] = {}
        self._keys: dict[int, str] = {}
        self._answers: Counter[Delegation] = Counter()
        self._growing: GrowingMarkdown | None = None
        self._begun = False
        self._stream = ""
        self._activity = ""
        self._running: dict[tuple[Delegation, str], str] = {}
        self._questions: dict[str, events.InputPrompt] = {}
        self._calls = 0
        self._since = time.time()
        self._pending = PendingChanges()

    @property
    def requests(self) -> dict[str, Recorded[events.ApprovalRequired]]:
        """Requests that wait for an answer; empty unless this process works on the session."""
        if self.live:
            return self._reader.state.waiting
        return {}

    # --- lines in

    def take(self, line: Line) -> None:
        """Update the drawing from a line, recorded or transient."""
        if line.transient:
            self._take_transient(line)
            return
        self.seq = line.seq
        asked = list(self.requests)  # before the reader settles some of them
        touched = self._reader.read(line)
        try:
            event = line.event
        except BadLine:  # the reader has added a note about it
            event = None
        match event:
            case events.ApprovalDecided(grant=GrantOffer(text=text), approved=True, cached=False):
                self._reader.add(Noted(f"allowed for the session: {text}"))
        for entry in touched:
            if id(entry) not in self._keys:
                self._place(entry, line, event)
            self._touch(self._keys[id(entry)])
        if event is not None:
            self._note(line, event)
            for request in asked:
                if request not in self.requests:
                    self._close_request(request, *settled_by(event))

    def _place(self, entry: TranscriptEntry, line: Line, event: AnyEvent | None) -> None:
        """Set the key and place of a new entry; an answer has the key of its streamed text."""
        key = f"e{len(self._placed)}"
        kind = "call" if isinstance(entry, Called) else "note"
        grown = False
        if isinstance(event, events.SessionUpdate) and event.title:
            kind = "title"
        elif isinstance(entry, Said):
            kind = "user"
            if isinstance(event, events.MessageEvent) and event.message.role == "assistant":
                kind = "answer"
        if kind == "answer":
            key = self._answer_key(line.delegation)
            self._answers[line.delegation] += 1
            if line.delegation is None:
                grown = self._begun
                self._begun = False
                self._growing = None
        last = next(reversed(self._placed.values()), None)
        # It replaces that note.
        if last and isinstance(entry, Noted) and is_again(last.entry, entry):
            key = last.key
        worker = self._reader.state.workers.get(line.delegation)
        update = worker.update if worker else None
        parent = None
        if update:
            parent = self._key_of(update.within, update.tool_call_id)
        if isinstance(event, events.ToolStarted) and event.parent_call_id:
            parent = self._key_of(line.delegation, event.parent_call_id) or parent
        elif isinstance(event, CommandTried | events.ApprovalDecided):
            parent = self._key_of(line.delegation, event.tool_call_id) or parent
        self._keys[id(entry)] = key
        of_command = bool(self._reader.command)
        before = self._key_after(entry)
        self._placed[key] = PlacedEntry(
            key, entry, kind, parent, line.seq, grown, of_command, before
        )

    def _key_after(self, entry: TranscriptEntry) -> str | None:
        """Return the key of the entry after a new one; a cut-off answer comes before its reason."""
        last = self._reader.told.entries[-1]
        if last is entry:
            return None
        return self._keys.get(id(last))

    def _key_of(self, delegation: Delegation, call: str) -> str | None:
        """Return the key of the entry of a call."""
        return self._keys.get(id(self._reader.entry_of(delegation, call)))

    def _answer_key(self, delegation: Delegation) -> str:
        return f"a{delegation or ''}.{self._answers[delegation]}"

    def _touch(self, key: str) -> None:
        placed = self._placed[key]
        placed.seq = self.seq
        placed.html = None
        self._pending.entries[key] = None

    def _take_transient(self, line: Line) -> None:
        match line.event:
            case events.Streaming() as event if line.delegation is None and not event.done:
                if self._stream != event.request_id:  # the request before failed
                    self._give_up_answer(line)
                self._stream = event.request_id
                self._begun = True
                self._growing = self._growing or GrowingMarkdown()
                self._growing.add(event.delta)
                self._pending.grown = True
                self._set_activity("writing")
            case events.ToolOutput(tool_call_id=call, text=text):
                if place := self._key_of(line.delegation, call):
                    self._pending.outputs[place] = text
            case _:
                pass

    def _give_up_answer(self, line: Line) -> None:
        """Drop the streamed text; after a recorded line, the next text is another entry."""
        if line.delegation is not None:
            return
        if self._growing:
            self._pending.void[self._answer_key(None)] = None
        self._growing = None
        self._begun = False
        self._pending.grown = False
        self._answers[None] += not line.transient

    def _note(self, line: Line, event: AnyEvent) -> None:
        self.facts.take(line)
        match event:
            case events.SessionStart():
                self.facts.worker = line.worker
                self.started = self.started or line.time
                self._running.clear()
                self._changed("session", "title", "tools", "usage", "tree")
            case events.SessionUpdate():
                self._changed("session", "title", "usage")
            case events.ModeChanged():
                self._changed("session")
            case events.ManualToolsAvailable():
                self._changed("tools")
            case events.ContextUsage():
                self._changed("usage")
            case events.WorkerUpdate():
                self._changed("tree")
            case events.StatusEvent(about="retry"):
                self._give_up_answer(line)
                self._set_activity("retrying")
            case events.StatusEvent(level="error"):
                self._give_up_answer(line)
            case events.TurnStart():
                self._set_activity("thinking")
            case events.TurnEndEvent():
                self._changed("usage")
            case events.ToolStarted():
                self._running[line.delegation, event.tool_call_id] = event.tool_name
                self._changed("status")
            case events.ToolResult():
                self._calls += 1
                self._running.pop((line.delegation, event.tool_call_id), None)
                self._set_activity("thinking")
                self._changed("usage", "status")
            case _:
                self._note_question(line, event)

    def _note_question(self, line: Line, event: AnyEvent) -> None:
        match event:
            case events.ApprovalRequired() if self.live:
                self._pending.others.append(self._draw_request(Recorded(event, line)))
                self._changed("status")
            case events.InputPrompt() if self.live:
                self._questions[event.request_id] = event
                self._pending.others.append(draw_question(event))
                self._changed("status")
            case UserInput(request_id=request_id):
                self._close_question(request_id)
            case Interrupt():
                for request_id in list(self._questions):
                    self._close_question(request_id)
            case _:
                pass

    def _close_request(self, request: str, verdict: str, by: str) -> None:
        self._pending.others.append(
            {"type": "decided", "request": request, "verdict": verdict, "by": by}
        )
        self._changed("status")

    def _close_question(self, request_id: str) -> None:
        if self._questions.pop(request_id, None) is not None:
            self._pending.others.append({"type": "answered", "request": request_id})
            self._changed("status")

    # --- state of the queue

    def set_busy(self, busy: bool, queued: Sequence[str] = ()) -> None:
        """Set whether a message is worked on, and the waiting messages."""
        if busy and not self.busy:
            self._since = time.time()
            self._activity = "thinking"
        changes = busy != self.busy
        self.busy = busy
        self.queued = tuple(queued)
        if changes:
            self._redraw_open_calls()
        self._changed("status")

    def set_live(self, live: bool) -> None:
        """Set whether this process works on the session."""
        asked = list(self.requests)
        self.live = live
        self.busy = False
        self.queued = ()
        if live:
            self.ending = ""
        self._running.clear()
        self._redraw_open_calls()
        self._changed("session", "tools")
        for request in asked:  # no call waits for an answer any longer
            self._close_request(request, "ended", "session")
        for request_id in list(self._questions):
            self._close_question(request_id)
        self._changed("status")

    @property
    def _is_at_work(self) -> bool:
        """Return True if a call without a result may still be running."""
        return self.live and (self.busy or bool(self._running))

    def _redraw_open_calls(self) -> None:
        """Redraw calls without a result: they run or are unfinished, depending on the session."""
        for placed in self._placed.values():
            if placed.is_open:
                placed.html = None
                self._pending.entries[placed.key] = None

    def _set_activity(self, activity: str) -> None:
        if activity != self._activity:
            self._activity = activity
            self._changed("status")

    def _changed(self, *states: str) -> None:
        self._pending.states |= dict.fromkeys(states)  # a set that keeps its order

    # --- objects out

    def forget_pending(self) -> None:
        """Drop pending changes, because no tab is open."""
        self._pending = PendingChanges()

    def drain(self) -> list[JsonObject]:
        """Return the changes since the last call, entries first."""
        pending = self._pending
        self._pending = PendingChanges()
        objects: list[JsonObject] = []
        for key in pending.entries:
            if self._placed[key].is_shown:
                objects.append(self._draw_entry(self._placed[key]))
        for key in pending.void:
            objects.append({"type": "void", "key": key})
        if pending.grown:
            objects += self._draw_growing()
        for key, text in pending.outputs.items():
            objects.append({"type": "output", "key": key, "text": text})
        objects += pending.others
        objects += map(self._draw_state, pending.states)
        return objects

    def history(self, after: int) -> Iterator[JsonObject]:
        """Yield the entries that changed after a line, in order; each is drawn when needed."""
        # A list, because new lines can change the entries between two of them.
        keys = [self._keys[id(entry)] for entry in self._reader.told.entries]
        for key in dict.fromkeys(keys):
            placed = self._placed[key]
            # A tab may still show an unfinished call as running.
            is_stale = placed.is_open and not self._is_at_work
            if (placed.seq > after or is_stale) and placed.is_shown:
                yield self._draw_entry(placed)

    def state(self) -> list[JsonObject]:
        """Return the current state without the entries."""
        objects = list(map(self._draw_state, STATES))
        objects += map(self._draw_request, self.requests.values())
        objects += map(draw_question, self._questions.values())
        return [*objects, *self._draw_growing(whole=True)]

    def _draw_growing(self, *, whole: bool = False) -> Iterator[JsonObject]:
        """Yield the answer being written: new or all complete blocks, and the incomplete one."""
        if growing := self._growing:
            is_first = not growing.done
            certain, rest = growing.draw()
            delta: JsonObject = {"type": "delta", "key": self._answer_key(None), "rest": rest}
            if whole or is_first:
                yield {**delta, "whole": True, "done": growing.done}
            else:
                yield {**delta, "done": certain}

    def _draw_entry(self, placed: PlacedEntry) -> JsonObject:
        entry = placed.entry
        if placed.html is None:
            placed.html = draw_entry(entry, self.find, live=self._is_at_work)
        return {
            "type": "entry",
            "key": placed.key,
            "html": placed.html,
            "kind": placed.kind,
            "parent": placed.parent,
            "open": placed.is_open and self._is_at_work,
            "level": f"{placed.level} passing" if placed.passes else placed.level,
            "before": placed.before,
            "source": placed.source,
            "retry": placed.level == "error" and not placed.of_command and self.live,
        }

    def _draw_request(self, asked: Recorded[events.ApprovalRequired]) -> JsonObject:
        request = asked.event.request
        state = self._reader.state
        task = asked.line.delegation
        call = state.requests.get(request.request_id)
        tried = call.tried if call else None
        entry = self._key_of(task, request.tool_call_id)
        return draw_request_object(
            request, list(state.path(task)), self.find, tried=tried, entry=entry
        )

    def _draw_children(self) -> Iterator[JsonObject]:
        for task, worker in self._reader.state.workers.items():
            if update := worker.update:
                parent = update.within or ROOT
                yield {"id": task, "name": worker.name, "parent": parent, "status": update.status}

    def _draw_state(self, state: str) -> JsonObject:
        facts = self.facts
        match state:
            case "session":
                found = {
                    "id": self.session,
                    "worker": facts.worker,
                    "model": facts.model,
                    "folder": facts.workspace,
                }
                modes = [{"name": mode, "title": MODE_TITLES[mode]} for mode in facts.modes]
                mode = {"mode": facts.mode, "modeTitle": facts.mode_title, "modes": modes}
                return {
                    "type": "session",
                    **found,
                    **mode,
                    "live": self.live,
                    "started": self.started,
                }
            case "title":
                return {"type": "title", "title": facts.title}
            case "status":
                return self._draw_status()
            case "usage":
                return draw_usage(facts, self._calls)
            case "tools":
                return draw_tools(list(facts.manual_tools.values()) if self.live else [])
            case _:
                root = {
                    "id": ROOT,
                    "name": facts.worker,
                    "parent": None,
                    "status": self._status()[0],
                }
                return {"type": "tree", "workers": [root, *self._draw_children()]}

    def _draw_status(self) -> JsonObject:
        state, detail = self._status()
        since = round(self._since * 1000)
        return {
            "type": "status",
            "state": state,
            "detail": detail,
            "since": since,
            "queued": list(self.queued),
        }

    def _status(self) -> tuple[str, str]:
        if not self.live:
            return "ended", self.ending
        if self.requests or self._questions:
            tools = [asked.event.request.tool_name for asked in self.requests.values()]
            return "waiting", ", ".join(dict.fromkeys(tools))
        if self._running and self.busy:
            return "running", ", ".join(dict.fromkeys(self._running.values()))
        if self.busy:
            return self._activity or "thinking", ""
        return "idle", ""

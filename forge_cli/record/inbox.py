"""Everything that waits for a person: questions of all sessions, drafts, and ended runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from forge_cli.core.errors import ForgeError
from forge_cli.core.text import cut
from forge_cli.core.wire import JsonObject, wire
from forge_cli.record.overview import read_overview
from forge_cli.record.pending import Waiting, waiting_requests
from forge_cli.record.places import lock_holder, session_file
from forge_cli.record.runs import BackgroundRun, background_runs, looked_at
from forge_cli.record.states import ended_state
from forge_cli.sandbox.drafts.draft import SessionDraft, all_drafts

MAX_ARG = 80
"""Characters of the first arg of a call that asks."""
Kind = Literal["question", "draft", "ended"]


class InboxItem(Struct, frozen=True):
    """One thing that waits for a person."""

    kind: Kind
    session: str
    worker: str
    time: str
    about: str
    """The question, the task of the session, or the end of a run."""
    request: str | None = None
    """The ID of a question."""
    tool: str | None = None
    draft: str | None = None
    """The ID of a draft."""
    state: str | None = None
    """The state of an ended run: ``done`` or ``failed``."""

    @property
    def key(self) -> tuple[str, ...]:
        """The identity of the item, whatever its place in the list."""
        return self.kind, self.session, self.request or self.draft or ""

    def wire(self) -> JsonObject:
        """Return the item as a JSON object."""
        return wire(self)


def inbox_items(warn: Callable[[str], None]) -> list[InboxItem]:
    """Return everything that waits, the newest first."""
    found = [
        _question(path.stem, waiting)
        for path, waiting in waiting_requests(warn)
        if waiting.answer is None
    ]
    drafts = [draft for draft in all_drafts() if _waits(draft)]
    found += [_draft(draft) for draft in drafts]
    drafted = {draft.session for draft in drafts}
    looked = looked_at()
    for run in background_runs().values():
        item = None
        if run.session not in drafted and lock_holder(run.log) is None:
            item = _ended(run)
        if item is not None and item.time > looked:
            found.append(item)
    return sorted(found, key=lambda item: item.time, reverse=True)


def _question(session: str, waiting: Waiting) -> InboxItem:
    request = waiting.request
    first = next((str(value) for value in request.args.values()), "")
    return InboxItem(
        "question",
        session,
        " > ".join(waiting.path),
        waiting.time,
        f"{request.tool_name} {cut(first, MAX_ARG, 'end')}: {request.reason}",
        request=waiting.id,
        tool=request.tool_name,
    )


def _waits(draft: SessionDraft) -> bool:
    if draft.state == "open":
        return not draft.is_in_use
    return draft.state == "ready"


def _draft(draft: SessionDraft) -> InboxItem:
    about, time = "", draft.began_at
    if draft.session:
        try:
            seen = read_overview(session_file(draft.session))
            about, time = seen.title or seen.task, seen.ended
        except ForgeError:  # the session was deleted; its draft waits all the same
            pass
    return InboxItem("draft", draft.session, draft.worker, time, about, draft=draft.id)


def _ended(run: BackgroundRun) -> InboxItem | None:
    """Return the end of a run; None if it waits for an answer instead."""
    try:
        seen = read_overview(run.log)
    except ForgeError:
        about = f"did not begin: {run.task}"
        return InboxItem("ended", run.session, run.worker, run.started, about, state="failed")
    if seen.status == "parked":
        return None
    state = ended_state(seen.status, has_draft=False)
    why = "" if state == "done" else f"{seen.status}: "
    return InboxItem(
        "ended", run.session, run.worker, seen.ended, f"{why}{seen.title or seen.task}", state=state
    )

"""Calls of past sessions, judged again by today's policy."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from forge_cli.core.approval import GrantOffer, GrantRule
from forge_cli.core.calls import ToolCall
from forge_cli.core.errors import ForgeError
from forge_cli.core.phrases import MARKS, has_mark
from forge_cli.core.text import counted
from forge_cli.core.wire import JsonObject
from forge_cli.engine.gate.outlook import Outlook, VerdictAnswer, answer_of
from forge_cli.engine.gate.steps import Caller
from forge_cli.files.trust import with_children
from forge_cli.files.worker import load_worker
from forge_cli.inspection.gate import judging
from forge_cli.record.calls import PastCall, PastVerdict, PastWork, past_work

Warn = Callable[[str], None]
CHANGES = {
    "blocked": "newly_blocked",
    "preApproved": "newly_allowed",
    "ask": "newly_asking",
    "refused": "newly_refused",
}


async def judge_past(
    worker: str, workspace: Path, calls: Sequence[PastCall], user_text: str | None = None
) -> list[Outlook]:
    """Judge calls again, without executing or asking anything.

    ``user_text`` replaces the content of the user's config.yaml.
    """
    async with judging(worker, workspace, user_text) as judge:
        return [
            await judge(past.call.name, _given(past), {}, _caller(past).value) for past in calls
        ]


def _given(past: PastCall) -> dict[str, object] | str:
    if past.call.unreadable is None:
        return past.call.args
    return past.call.unreadable


def _caller(past: PastCall) -> Caller:
    if past.by_model:
        return Caller.MODEL
    return Caller.OPERATOR if past.call.parent else Caller.PERSON


@dataclass
class MadeCall:
    """A distinct call of the past, with the number of approvals and denials that it got."""

    past: PastCall
    yes: int = 0
    no: int = 0
    granted: bool = False
    offers: Sequence[GrantOffer] = ()
    """The grants that the prompt offers if the call asks today."""

    @property
    def rules(self) -> tuple[GrantRule, ...]:
        """The narrowest rules in the user's config.yaml that would allow the call."""
        for offer in self.offers:  # from the narrowest to the widest
            if offer.rules and all(rule.user_at for rule in offer.rules):
                return offer.rules
        return ()


@dataclass
class PastGate:
    """A worker in a folder, with the distinct calls that it made there.

    ``file`` is None if the worker is gone.
    """

    worker: str
    file: str | None
    workspace: Path
    calls: dict[str, MadeCall] = field(default_factory=dict)

    def add(self, past: PastCall, *, yes_counts: bool) -> None:
        """Count a call.

        A redacted secret is replaced by a plain word, because its brackets would be read as a glob.
        """
        if has_mark(past.call.args):
            args = json.loads(MARKS.sub("redacted", json.dumps(past.call.args)))
            past = replace(past, call=replace(past.call, args=args))
        key = json.dumps([past.call.name, _given(past), _caller(past).value], sort_keys=True)
        made = self.calls.setdefault(key, MadeCall(past))
        # a denial counts however old it is: a rule must not allow what the user once refused
        made.yes += past.answer is True and yes_counts
        made.no += past.answer is False
        made.granted |= past.remembered

    async def judge(self, calls: Sequence[PastCall], user_text: str | None = None) -> list[Outlook]:
        """Judge calls as if they were made here now."""
        if self.file is None:
            raise ForgeError(f"the worker '{self.worker}' was deleted, or cannot be read")
        if calls:
            return await judge_past(self.file, self.workspace, calls, user_text)
        return []


def past_gates(warn: Warn, since: str = "") -> list[PastGate]:
    """Return every worker that has made calls.

    Approvals count in sessions that worked after ``since``; denials always count.
    """
    gates: dict[tuple[str, str | None, Path], PastGate] = {}
    for work in past_work(warn):
        place = work.worker, _file_of(work), _folder_of(work)
        gate = gates.setdefault(place, PastGate(*place))
        for past in work.calls:
            gate.add(past, yes_counts=work.time >= since)
    return list(gates.values())


def _file_of(work: PastWork) -> str | None:
    """Return the file of the worker that did the work; children are found through their parents."""
    try:
        root = load_worker(work.root_file or "")
        if work.is_root:
            workers = [root]
        else:
            workers = [each for each in with_children(root) if each.name == work.worker]
    except (ForgeError, OSError):
        return None
    return str(workers[0].path) if workers else None


def _folder_of(work: PastWork) -> Path:
    """Return the folder of the work, or the current one if that is gone."""
    # an empty path would be the current folder, which is a folder, too
    there = bool(work.workspace) and Path(work.workspace).is_dir()
    return Path(work.workspace if there else ".").resolve()


Judged = list[tuple[PastGate, list[tuple[MadeCall, Outlook]]]]


async def judge_gates(gates: Sequence[PastGate], warn: Warn) -> tuple[Judged, list[MadeCall]]:
    """Judge every past call by today's policy.

    Also return the calls of workers that cannot be opened, after a warning about each worker.
    """
    judged: Judged = []
    lost: list[MadeCall] = []
    for gate in gates:
        made = list(gate.calls.values())
        try:
            now = await gate.judge([each.past for each in made])
        except ForgeError as error:
            reason = str(error).partition("\n")[0]
            warn(f"not judged: {counted(len(made), 'call')}: {reason}")
            lost += made
        else:
            judged.append((gate, list(zip(made, now, strict=True))))
    return judged, lost


class Rejudged(Struct, frozen=True):
    """A past call with its verdict then and its verdict today."""

    call: ToolCall
    before: VerdictAnswer
    after: VerdictAnswer
    remembered: bool

    @property
    def change(self) -> str | None:
        if self.before["verdict"] != self.after["verdict"]:
            return CHANGES[self.after["verdict"]]
        return None

    def prompts(self, answer: VerdictAnswer) -> bool:
        return answer["verdict"] == "ask" and not self.remembered

    def wire(self) -> JsonObject:
        found: JsonObject = {
            "tool": self.call.name,
            "input": self.call.args,
            "before": self.before,
            "after": self.after,
        }
        if has_mark(self.call.args):
            return {**found, "redacted": True}
        return found


async def rejudge(worker: str, workspace: Path, calls: Sequence[PastCall]) -> list[Rejudged]:
    """Return each past call that had a verdict, with today's verdict."""
    settled = [(past, past.verdict) for past in calls if past.verdict]
    after = await judge_past(worker, workspace, [past for past, _ in settled])
    return [
        Rejudged(past.call, _before(past, said), now.answer, past.remembered)
        for (past, said), now in zip(settled, after, strict=True)
    ]


def _before(past: PastCall, said: PastVerdict) -> VerdictAnswer:
    where = str(said.where) if said.where else None
    return answer_of(
        past.call.name, said.verdict, said.reason, rule=said.rule, where=where, by=said.by
    )

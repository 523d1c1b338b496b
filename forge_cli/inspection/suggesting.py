"""Rules that would have answered the questions of past sessions with yes."""

from __future__ import annotations

from collections.abc import Sequence, Set

from forge_cli.core.approval import GrantRule
from forge_cli.core.errors import ForgeError
from forge_cli.engine.gate.suggest import LeftOut, PastQuestion, Suggestion, suggest_rules
from forge_cli.files.edit import CannotEditError, FileEdit, lines_to_paste, plan_edit
from forge_cli.files.home import forge_home
from forge_cli.inspection.past import MadeCall, PastGate, Warn, judge_gates, past_gates
from forge_cli.record.calls import PastCall


async def suggest_from_past(since: str, warn: Warn) -> tuple[list[PastQuestion], list[Suggestion], list[LeftOut]]:
    """The questions that would come up again, and what would answer them.

    What was denied to a worker that cannot be opened any more must not be allowed to another.
    """
    judged, lost = await judge_gates(past_gates(warn, since), warn)
    denied = [MadeCall(made.past, no=made.no) for made in lost if made.no]
    questions: list[PastQuestion] = []
    asking: list[tuple[PastGate, dict[int, PastCall]]] = []
    for gate, calls in judged:
        elsewhere = zip(denied, await gate.judge([made.past for made in denied]), strict=True)
        found = [(made, now) for made, now in (*calls, *elsewhere) if now.verdict == "ask"]
        asking.append((gate, {len(questions) + place: made.past for place, (made, _) in enumerate(found)}))
        questions += [PastQuestion(made.past.call, made.yes, made.no, now.offers, made.granted) for made, now in found]

    async def newly_allowed(rules: Sequence[GrantRule], before: Set[int]) -> set[int]:
        text, allowed = _planned(rules).after.decode(), set[int]()
        for gate, calls in asking:
            left = {place: past for place, past in calls.items() if place not in before}
            now = zip(left, await gate.judge([*left.values()], text), strict=True)
            allowed |= {place for place, each in now if each.verdict == "preApproved"}
        return allowed

    return questions, *await suggest_rules(questions, newly_allowed)


def _planned(rules: Sequence[GrantRule]) -> FileEdit:
    """The user's file with the rules."""
    try:
        return plan_edit(forge_home() / "config.yaml", rules, user=True)
    except CannotEditError as error:
        by_hand = lines_to_paste(rules, user=True)
        raise ForgeError(f"{error}; add it by hand:\n{by_hand}") from None


def write_rules(rules: Sequence[GrantRule]) -> FileEdit:
    edit = _planned(rules)
    try:
        edit.write()
    except CannotEditError as error:
        raise ForgeError(str(error)) from None
    return edit

"""What a yes may be remembered as: a numbered list of rules, for the session or to be written into a file."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from rich.console import Console

from forge_cli.core.approval import ApprovalDecision, ApprovalRequest
from forge_cli.core.grants import THIS_CALL, GrantOffer
from forge_cli.core.text import counted, visible
from forge_cli.files.edit import CannotEditError, FileEdit, lines_to_paste, plan_edit
from forge_cli.ui.terminal.input import QuestionLeft
from forge_cli.ui.terminal.render import Indented, plain, render

AskLine = Callable[[str], Awaitable[str | None]]
"""Asks one question and gives the line that was typed; None where the input ends."""
TRIES = 3
"""Answers in a row that nobody understands; the last one is a no."""
Choice = TypeVar("Choice")
_FILES = {"user": "[u]ser", "worker": "[w]orker"}
_BACK: dict[str, None] = dict.fromkeys(("n", "no", ""))


def session_offers(request: ApprovalRequest) -> Sequence[GrantOffer]:
    """What ``s`` may remember, the narrowest first."""
    return request.offers if request.offers is not None else () if request.once else (THIS_CALL,)


def lasting_offers(request: ApprovalRequest) -> Sequence[GrantOffer]:
    """What ``a`` may write into a file: rules, where there is a file for them."""
    return [offer for offer in request.offers or () if any(True for _ in _files(request, offer))]


def explain_grants(request: ApprovalRequest) -> Iterator[str]:
    """What ``s`` and ``a`` would do, a line each."""
    offers = session_offers(request)
    if not offers:
        yield "(a yes to this call is good for once, and cannot be remembered)"
    elif all(offer.rules == () for offer in offers):
        yield "s       yes, and for identical calls in this session"
    else:
        yield "s       yes, and from now on in this session: you choose what, from"
        yield from (f"          {offer.text}" for offer in offers)
    if lasting_offers(request):
        yield "a       yes, and always: the rule is shown, and written where you say"


async def choose_grant(
    request: ApprovalRequest, ask_line: AskLine, console: Console, *, always: bool = False
) -> ApprovalDecision | None:
    """Let a person choose what a yes stands for; None goes back to the question, the end of input is a no."""
    offers = lasting_offers(request) if always else session_offers(request)
    shown = always or len(offers) > 1
    if shown:
        _list(offers, console)
    if shown and len(offers) > 1:
        numbers = {str(number): offer for number, offer in enumerate(offers, 1)}
        question = f"which? Enter takes 1, n goes back [1-{len(offers)}] > "
        known = {**numbers, "": offers[0], "n": None, "no": None}
        chosen = await _choose(question, known, f"1 to {len(offers)}, or n", ask_line, console)
        if not isinstance(chosen, GrantOffer):
            return chosen
        offers = [chosen]
    if always:
        return await _write(request, offers[0], ask_line, console)
    return ApprovalDecision(True, remember="session", grant=offers[0] if offers[0].rules else None)


def _list(offers: Sequence[GrantOffer], console: Console) -> None:
    for number, offer in enumerate(offers, 1):
        covered = f" (would have covered {counted(offer.covers, 'call')} so far)" if offer.covers else ""
        _say(console, f"  {number}  {offer.text}{covered}")
        for rule in offer.rules:
            _say(console, f"     {rule}", "dim")


async def _write(
    request: ApprovalRequest, offer: GrantOffer, ask_line: AskLine, console: Console
) -> ApprovalDecision | None:
    """Ask where the rules are to stand, show the difference, and write it."""
    edits: dict[str, FileEdit] = {}
    for name, file in _files(request, offer):
        try:
            edits[name] = plan_edit(Path(file), offer.rules, user=name == "user")
        except CannotEditError as error:
            _say(console, f"  not in {file}: {error}", "yellow")
            _say(console, "  to add it by hand:")
            for line in lines_to_paste(offer.rules, user=name == "user").split("\n"):
                _say(console, f"    {line}")
    if not edits:
        return None
    question = " or ".join(f"{_FILES[name]} ({visible(edit.file.name)})" for name, edit in edits.items())
    files = {answer: edit for name, edit in edits.items() for answer in (name, name[0])}
    letters = ", ".join(name[0] for name in edits)
    edit = await _choose(f"{question}, n goes back > ", {**files, **_BACK}, f"{letters} or n", ask_line, console)
    if not isinstance(edit, FileEdit):
        return edit
    console.print(Indented(render(edit.diff, exact=True, lines=None), 4, bar=True), end="")
    agreed = await _choose("write this? [y]es, [n]o > ", {"y": edit, "yes": edit, **_BACK}, "y or n", ask_line, console)
    if not isinstance(agreed, FileEdit):
        return agreed
    try:
        edit.write()
    except CannotEditError as error:
        _say(console, f"  {error}", "red")
        return None
    return ApprovalDecision(True, remember="session", grant=replace(offer, written=str(edit.file)))


def _files(request: ApprovalRequest, offer: GrantOffer) -> Iterator[tuple[str, str]]:
    """The files that could hold the rules of an offer."""
    for name, file in (request.policy_files or {}).items():
        if offer.rules and name in _FILES and (name == "worker" or all(rule.user_at for rule in offer.rules)):
            yield name, file


async def _choose(
    question: str, known: Mapping[str, Choice], answers: str, ask_line: AskLine, console: Console
) -> Choice | ApprovalDecision | None:
    """What the answer stands for; the end of input, and the third answer that nobody understands, are a no.

    Esc goes back, which is None.
    """
    for tried in range(1, TRIES + 1):
        try:
            line = await ask_line(question)
        except QuestionLeft as left:
            if left.ctrl_c:
                raise
            return None
        if line is None:
            break
        if (answer := line.strip().lower()) in known:
            return known[answer]
        _say(console, say_misread(answers, tried))
    return ApprovalDecision(False)


def say_misread(answers: str, tried: int) -> str:
    """What is said of an answer that nobody understands, the time that this was tried."""
    return f"not understood: {answers}" + ("; that was the third time, so it is a no" if tried >= TRIES else "")


def _say(console: Console, text: str, style: str = "") -> None:
    console.print(Indented(plain(visible(text), style=style), 0, hang=5), end="")

"""What a yes may be remembered as: a numbered list of rules, for the session or to be written into a file."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from forge_cli.core.approval import ApprovalDecision, ApprovalRequest
from forge_cli.core.grants import THIS_CALL, GrantOffer
from forge_cli.core.text import counted, visible
from forge_cli.files.edit import CannotEditError, FileEdit, lines_to_paste, plan_edit
from forge_cli.ui.terminal.render import Indented, plain, render

AskLine = Callable[[str], Awaitable[str | None]]
"""Asks one question and gives the line that was typed; None where the input ends."""
_FILES = {"user": "[u]ser", "worker": "[w]orker"}


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
    while shown and len(offers) > 1:
        line = await ask_line(f"which? Enter takes 1, n goes back [1-{len(offers)}] > ")
        if line is None:
            return ApprovalDecision(False)
        answer = line.strip().lower()
        if answer in ("n", "no"):
            return None
        if answer == "" or (answer.isdecimal() and 1 <= int(answer) <= len(offers)):
            offers = [offers[int(answer or 1) - 1]]
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
    edit = await _choose_file(edits, ask_line) if edits else None
    if edit is None:
        return None
    console.print(Indented(render(edit.diff, exact=True, lines=None), 4, bar=True), end="")
    if not await _agrees(ask_line):
        return None
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


async def _choose_file(edits: dict[str, FileEdit], ask_line: AskLine) -> FileEdit | None:
    question = " or ".join(f"{_FILES[name]} ({visible(edit.file.name)})" for name, edit in edits.items())
    while True:
        line = await ask_line(f"{question}, n goes back > ")
        answer = "n" if line is None else line.strip().lower()
        if answer in ("n", "no"):
            return None
        if found := [edit for name, edit in edits.items() if answer in (name, name[0])]:
            return found[0]


async def _agrees(ask_line: AskLine) -> bool:
    while True:
        line = await ask_line("write this? [y]es, [n]o > ")
        match "n" if line is None else line.strip().lower():
            case "y" | "yes":
                return True
            case "n" | "no" | "":
                return False


def _say(console: Console, text: str, style: str = "") -> None:
    console.print(Indented(plain(visible(text), style=style), 0, hang=5), end="")

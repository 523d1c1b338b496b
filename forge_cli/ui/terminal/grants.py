"""The grants of a yes: edits in a zone, a rule for the session, or one that is written into a file."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from msgspec.structs import replace
from rich.console import Console

from forge_cli.core.approval import THIS_CALL, ApprovalDecision, ApprovalRequest, GrantOffer
from forge_cli.core.text import counted, visible
from forge_cli.files.edit import CannotEditError, FileEdit, lines_to_paste, plan_edit
from forge_cli.ui.terminal.keys import QuestionLeft
from forge_cli.ui.terminal.render import Indented, plain, render

AskKey = Callable[[str], Awaitable[str | None]]
"""Asks for one key, or for the line that stands for it; None where the input ends."""
_FILES = ("user", "worker")
_ZONES = ("sandbox", "zones")
_WRITE = "Enter writes it, Esc goes back > "


def edits_offer(request: ApprovalRequest) -> GrantOffer | None:
    """The grant of ``e``: edits in a zone."""
    for offer in request.offers or ():
        if offer.rules and all(rule.at[:2] == _ZONES and rule.at[-1] == "write" for rule in offer.rules):
            return offer
    return None


def session_offer(request: ApprovalRequest) -> GrantOffer | None:
    """The grant of ``s``: a folder, else the narrowest rule, or this exact call where there is none."""
    if request.offers is None:
        return None if request.once else THIS_CALL
    others = [offer for offer in request.offers if offer != edits_offer(request) and not offer.lasting]
    return next((offer for offer in others if offer.below or offer.rules), others[0] if others else None)


def lasting_offer(request: ApprovalRequest) -> GrantOffer | None:
    """The rule that ``a`` writes into a file, where there is a file for it."""
    offers = [each for each in (edits_offer(request), session_offer(request), *(request.offers or ())) if each]
    lasting = next((offer for offer in offers if any(True for _ in _files(request, offer))), None)
    return GrantOffer.of(lasting.rules) if lasting else None


def say_offers(request: ApprovalRequest) -> Iterator[str]:
    """The grants of ``e`` and ``s``, a line each."""
    for letter, offer in (("e", edits_offer(request)), ("s", session_offer(request))):
        if offer:
            covered = f" (would have covered {counted(offer.covers, 'call')} so far)" if offer.covers else ""
            yield f"{letter}  for this session: {offer.text}{covered}"


def explain_grants(request: ApprovalRequest) -> Iterator[str]:
    """The effects of ``e``, ``s`` and ``a``, a line each."""
    edits, session, lasting = edits_offer(request), session_offer(request), lasting_offer(request)
    if not (edits or session):
        yield "(a yes to this call is good for once, and cannot be remembered)"
    if edits:
        yield f"e       yes, and for this session: {edits.text}"
    if session:
        yield f"s       yes, and for this session: {session.text}"
    if lasting:
        yield f"a       yes, and always: {lasting.text}; the file and the line are shown first"
        name, _ = next(_files(request, lasting))
        yield from (f"          {line}" for line in lines_to_paste(lasting.rules, user=name == "user").split("\n"))


def grant(offer: GrantOffer, console: Console) -> ApprovalDecision:
    """Give an offer for the session, and say so."""
    _say(console, f"granted for this session: {offer.text}", "dim")
    return ApprovalDecision(True, remember="session", grant=None if offer == THIS_CALL else offer)


async def write_grant(request: ApprovalRequest, ask_key: AskKey, console: Console) -> ApprovalDecision | None:
    """Show where the rule would stand and write it; None goes back to the question, the end of input is a no."""
    offer = lasting_offer(request)
    edit = _planned(request, offer, console) if offer else None
    if offer is None or edit is None:
        return None
    console.print(Indented(render(edit.diff, exact=True, lines=None), 4, bar=True), end="")
    try:
        while (key := await ask_key(_WRITE)) not in ("\n", "", None):
            _say(console, "  only Enter writes it")
    except QuestionLeft as left:
        if left.ctrl_c:
            raise
        return None
    if key is None:
        return ApprovalDecision(False)
    try:
        edit.write()
    except CannotEditError as error:
        _say(console, f"  {error}", "red")
        return None
    _say(console, f"granted always: {offer.text}; written to {edit.file}", "dim")
    return ApprovalDecision(True, remember="session", grant=replace(offer, written=str(edit.file)))


def _planned(request: ApprovalRequest, offer: GrantOffer, console: Console) -> FileEdit | None:
    """The change of the first file that can be changed; of the others, what to add by hand."""
    for name, file in _files(request, offer):
        try:
            return plan_edit(Path(file), offer.rules, user=name == "user")
        except CannotEditError as error:
            _say(console, f"  not in {file}: {error}", "yellow")
            _say(console, "  to add it by hand:")
            for line in lines_to_paste(offer.rules, user=name == "user").split("\n"):
                _say(console, f"    {line}")
    return None


def _files(request: ApprovalRequest, offer: GrantOffer) -> Iterator[tuple[str, str]]:
    """The files that could hold the rules of an offer, that of the user first."""
    files = request.policy_files or {}
    for name in _FILES:
        if name in files and offer.rules and (name == "worker" or all(rule.user_at for rule in offer.rules)):
            yield name, files[name]


def _say(console: Console, text: str, style: str = "") -> None:
    console.print(Indented(plain(visible(text), style=style), 0, hang=5), end="")

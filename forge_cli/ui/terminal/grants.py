"""The grants of a yes: edits in a zone, a rule for the session, or one that is written into a file."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
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
        if offer.rules and all(
            rule.at[:2] == _ZONES and rule.at[-1] == "write" for rule in offer.rules
        ):
            return offer
    return None


def all_offers(request: ApprovalRequest) -> Sequence[GrantOffer]:
    """All grants that a yes may give, the narrowest first."""
    if request.offers is None:
        return () if request.once else (THIS_CALL,)
    return [offer for offer in request.offers if not offer.lasting]


def session_offers(request: ApprovalRequest) -> Sequence[GrantOffer]:
    """The grants of ``s``, the narrowest first: this exact call, then wider ones, which a digit chooses."""
    edits = edits_offer(request)
    return [offer for offer in all_offers(request) if offer != edits]


def lasting_offer(request: ApprovalRequest) -> GrantOffer | None:
    """The rule that ``a`` writes into a file, where there is a file for it."""
    offers = [each for each in (edits_offer(request), *(request.offers or ())) if each]
    lasting = next((offer for offer in offers if any(True for _ in _files(request, offer))), None)
    return (
        GrantOffer.of(replace(rule, title=rule.user_title or rule.title) for rule in lasting.rules)
        if lasting
        else None
    )


def say_offers(request: ApprovalRequest) -> Iterator[str]:
    """The grants of ``e`` and ``s``, a line each, behind the keys that take them."""
    for keys, offer in _keyed_offers(request):
        covered = (
            f" (would have covered {counted(offer.covers, 'call')} so far)" if offer.covers else ""
        )
        yield f"{keys:<3}for this session: {offer.text}{covered}"


def _keyed_offers(request: ApprovalRequest) -> Iterator[tuple[str, GrantOffer]]:
    """Each grant with the keys that take it: ``e``, ``s``, and ``s2`` for the second of ``s``."""
    if edits := edits_offer(request):
        yield "e", edits
    for number, offer in enumerate(session_offers(request), 1):
        yield ("s" if number == 1 else f"s{number}"), offer


def explain_grants(request: ApprovalRequest) -> Iterator[str]:
    """The effects of ``e``, ``s`` and ``a``, a line each."""
    keyed = list(_keyed_offers(request))
    lasting = lasting_offer(request)
    if not keyed:
        yield "(a yes to this call is good for once, and cannot be remembered)"
    for keys, offer in keyed:
        yield f"{keys:<8}yes, and for this session: {offer.text}"
    if lasting:
        yield f"a       yes, and always: {lasting.text}; the file and the line are shown first"
        name, _ = next(_files(request, lasting))
        yield from (
            f"          {line}"
            for line in lines_to_paste(lasting.rules, user=name == "user").split("\n")
        )


def offer_question(offers: Sequence[GrantOffer]) -> str:
    """The question behind ``s`` if there are several grants: Enter takes the first, a digit any of them."""
    first = THIS_CALL.text if offers[0] == THIS_CALL else "the first"
    others = " or ".join(f"[{number}]" for number in range(2, len(offers) + 1))
    return f"for this session: [Enter] {first}, {others} as listed > "


def chosen_offer(key: str, offers: Sequence[GrantOffer]) -> GrantOffer | None:
    """The grant that an answer to that question means; None for one that means nothing."""
    key = key.strip() or "1"
    return (
        offers[int(key) - 1]
        if key.isascii() and key.isdecimal() and 0 < int(key) <= len(offers)
        else None
    )


def grant(offer: GrantOffer, console: Console) -> ApprovalDecision:
    """Give an offer for the session, and say so."""
    _say(console, f"granted for this session: {offer.text}", "dim")
    return ApprovalDecision(True, remember="session", grant=None if offer == THIS_CALL else offer)


async def write_grant(
    request: ApprovalRequest, ask_key: AskKey, console: Console
) -> ApprovalDecision | None:
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
        if left.leaves_all:
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
        if (
            name in files
            and offer.rules
            and (name == "worker" or all(rule.user_at for rule in offer.rules))
        ):
            yield name, files[name]


def _say(console: Console, text: str, style: str = "") -> None:
    console.print(Indented(plain(visible(text), style=style), 0, hang=5), end="")

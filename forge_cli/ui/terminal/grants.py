"""Grants with a yes: edits in a zone, a rule for the session, or a rule written to a file."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace
from rich.console import Console

from forge_cli.core.approval import (
    THIS_CALL,
    ApprovalDecision,
    ApprovalRequest,
    GrantOffer,
    GrantRule,
)
from forge_cli.core.text import counted, visible
from forge_cli.files.edit import CannotEditError, FileEdit, lines_to_paste, plan_edit
from forge_cli.ui.terminal.keys import QuestionLeft
from forge_cli.ui.terminal.render import Indented, plain, render

AskKey = Callable[[str], Awaitable[str | None]]
"""Asks for a key, or a line if there are no keys; None at the end of input."""
_FILES = ("user", "worker")
_ZONES = ("sandbox", "zones")
MAX_LABEL = 44
"""The most characters of an offer in the line of answers."""
_WRITE = "Enter writes it, Esc goes back > "


def edits_offer(request: ApprovalRequest) -> GrantOffer | None:
    """Return the grant of ``e``: edits in a zone."""
    for offer in request.offers or ():
        if offer.rules and all(map(_is_of_edits, offer.rules)):
            return offer
    return None


def _is_of_edits(rule: GrantRule) -> bool:
    return rule.at[:2] == _ZONES and rule.at[-1] == "write"


def mine_offer(request: ApprovalRequest) -> GrantOffer | None:
    """Return the grant of ``k``: values that count as the person's from now on."""
    return next((offer for offer in request.offers or () if offer.mine), None)


def is_short(offer: GrantOffer) -> bool:
    """Return True if a question has room for the text of an offer."""
    return len(offer.text) <= MAX_LABEL


def all_offers(request: ApprovalRequest) -> Sequence[GrantOffer]:
    """Return all grants for the session, the narrowest first."""
    if request.offers is None:
        return () if request.once else (THIS_CALL,)
    return [offer for offer in request.offers if not offer.lasting]


def session_offers(request: ApprovalRequest) -> Sequence[GrantOffer]:
    """Return the grants of ``s``: this exact call, then wider ones, which a digit chooses."""
    edits = edits_offer(request)
    return [offer for offer in all_offers(request) if offer != edits and not offer.mine]


def lasting_offer(request: ApprovalRequest) -> GrantOffer | None:
    """Return the grant that ``a`` writes to a file; None if no file can contain it."""
    for offer in (edits_offer(request), *(request.offers or ())):
        if offer is not None and any(_files(request, offer)):
            rules = [replace(rule, title=rule.user_title or rule.title) for rule in offer.rules]
            return GrantOffer.of(rules)
    return None


def say_offers(request: ApprovalRequest) -> Iterator[str]:
    """Yield a line for each grant of ``k``, ``e`` and ``s``, with its keys."""
    for keys, offer in _keyed_offers(request):
        if offer.mine and is_short(offer):
            continue  # the question itself says it
        line = f"{keys:<3}for this session: {offer.text}"
        if offer.covers:
            line += f" (would have covered {counted(offer.covers, 'call')} so far)"
        yield line


def _keyed_offers(request: ApprovalRequest) -> Iterator[tuple[str, GrantOffer]]:
    """Yield each grant with its keys: ``k``, ``e``, ``s``, and ``s2`` for the second of ``s``."""
    if mine := mine_offer(request):
        yield "k", mine
    if edits := edits_offer(request):
        yield "e", edits
    for number, offer in enumerate(session_offers(request), 1):
        yield ("s" if number == 1 else f"s{number}"), offer


def explain_grants(request: ApprovalRequest) -> Iterator[str]:
    """Yield lines that explain ``k``, ``e``, ``s`` and ``a``."""
    keyed = list(_keyed_offers(request))
    lasting = lasting_offer(request)
    if not keyed:
        yield "(a yes to this call counts once and cannot be remembered)"
    for keys, offer in keyed:
        yield f"{keys:<8}yes, and for this session: {offer.text}"
    if lasting:
        yield f"a       yes, and always: {lasting.text}; the file and the line are shown first"
        name, _ = next(_files(request, lasting))
        for line in lines_to_paste(lasting.rules, user=name == "user").split("\n"):
            yield f"          {line}"


def offer_question(offers: Sequence[GrantOffer]) -> str:
    """Return the question after ``s`` if there are several grants."""
    first = "the first"
    if offers[0] == THIS_CALL:
        first = THIS_CALL.text
    others = " or ".join(f"[{number}]" for number in range(2, len(offers) + 1))
    return f"for this session: [Enter] {first}, {others} as listed > "


def chosen_offer(key: str, offers: Sequence[GrantOffer]) -> GrantOffer | None:
    """Return the grant that the answer chooses; None for an invalid answer."""
    key = key.strip() or "1"  # Enter takes the narrowest
    if key.isascii() and key.isdecimal() and 0 < int(key) <= len(offers):
        return offers[int(key) - 1]
    return None


def grant(offer: GrantOffer, console: Console) -> ApprovalDecision:
    """Grant an offer for the session and print it."""
    _say(console, f"granted for this session: {offer.text}", "dim")
    return ApprovalDecision(True, remember="session", grant=None if offer == THIS_CALL else offer)


async def write_grant(
    request: ApprovalRequest, ask_key: AskKey, console: Console
) -> ApprovalDecision | None:
    """Show the change of the file and write it after Enter; return None to ask again."""
    offer = lasting_offer(request)
    if offer is None:
        return None
    edit = _planned(request, offer, console)
    if edit is None:
        return None
    console.print(Indented(render(edit.diff, exact=True, lines=None), 4, bar=True), end="")
    try:
        # Enter is a newline as a key, and an empty text as a line.
        while (key := await ask_key(_WRITE)) not in ("\n", "", None):
            _say(console, "  press Enter to write it, or Esc to go back")
    except QuestionLeft as left:
        if left.leaves_all:
            raise
        return None
    if key is None:  # the input ended, which is a no
        return ApprovalDecision(False)
    try:
        edit.write()
    except CannotEditError as error:
        _say(console, f"  {error}", "red")
        return None
    _say(console, f"granted always: {offer.text}; written to {edit.file}", "dim")
    return ApprovalDecision(True, remember="session", grant=replace(offer, written=str(edit.file)))


def _planned(request: ApprovalRequest, offer: GrantOffer, console: Console) -> FileEdit | None:
    """Return the change of the first editable file; for others, print the lines to add by hand."""
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
    """Yield the files that can contain the rules of an offer, the user's file first."""
    files = request.policy_files or {}
    for name in _FILES:
        can_hold = name == "worker" or all(rule.user_at for rule in offer.rules)
        if offer.rules and name in files and can_hold:
            yield name, files[name]


def _say(console: Console, text: str, style: str = "") -> None:
    console.print(Indented(plain(visible(text), style=style), 0, hang=5), end="")

"""Approval requests as HTML, with the same content as the prompt on a terminal."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from forge_cli.core.approval import ApprovalRequest, CommandRun, GrantOffer, JudgedPart
from forge_cli.core.results import Diff
from forge_cli.core.text import counted, visible
from forge_cli.core.trial import CommandTried, describe_wanted
from forge_cli.core.wire import JsonObject, jsonable
from forge_cli.ui.html.markdown import draw_code, element, many_lines, one_line
from forge_cli.ui.html.results import draw_view
from forge_cli.ui.terminal.command import HIDDEN
from forge_cli.ui.terminal.grants import edits_offer, mine_offer, session_offers
from forge_cli.ui.terminal.prompts import RISKS, recap_of, tell_origins
from forge_cli.ui.views import FindRenderer, View, no_renderers, short_place, view_of


def draw_request(
    request: ApprovalRequest, find: FindRenderer = no_renderers, tried: CommandTried | None = None
) -> str:
    """Return the call, its trial, its preview and the reason for asking."""
    pieces = list(_draw_args(request))
    if tried:
        pieces.append(_draw_trial(tried))
    pieces += _draw_origins(request)
    return "".join([*pieces, *_draw_preview(request, find), *_draw_why(request)])


def list_choices(request: ApprovalRequest, *, parked: bool = False) -> list[JsonObject]:
    """Return the possible answers with their keys; a ``parked`` call has no grants."""
    yes = "Allow once"
    no = "Deny"
    if request.kept:
        yes = "Allow from now on"
        no = "Deny from now on"
    choices: list[JsonObject] = [{"value": "once", "key": "y", "label": yes}]
    offers = {} if parked else chosen_offers(request)
    for name, offer in offers.items():
        about = {"about": visible(offer.text), **_rules(offer)}
        choices.append({"value": name, **_key_and_label(name), **about})
    return [*choices, {"value": "no", "key": "n", "label": no}]


def chosen_offers(request: ApprovalRequest) -> dict[str, GrantOffer]:
    """Return the grants of a request by choice, such as ``edits`` or ``session2``."""
    offers = {}
    if mine := mine_offer(request):
        offers["mine"] = mine
    if edits := edits_offer(request):
        offers["edits"] = edits
    for number, offer in enumerate(session_offers(request), 1):
        offers["session" if number == 1 else f"session{number}"] = offer
    return offers


def _key_and_label(name: str) -> JsonObject:
    """Return the key and label of a grant; a digit is typed after ``s``, as on a terminal."""
    match name.removeprefix("session"):
        case "mine":
            return {"key": "k", "label": "Allow, these are mine"}
        case "edits":
            return {"key": "e", "label": "Allow edits"}
        case "":
            return {"key": "s", "label": "Allow for session"}
        case number:
            return {"key": number, "label": "Allow this rule", "behind": "s"}


def _rules(offer: GrantOffer) -> JsonObject:
    if not offer.rules:
        return {}
    return {"rule": "; ".join(visible(str(rule)) for rule in offer.rules)}


def _draw_trial(tried: CommandTried) -> str:
    """Return the outcome of a trial; the preview has its changes."""
    seconds = f"{tried.duration_ms / 1000:.1f} s"
    if tried.summary is not None:
        facts = ["Tried and taken back", seconds, tried.summary]
    else:
        facts = ["Tried on a copy", f"exit code {tried.exit_code}", seconds]
        facts.append(counted(len(tried.changed), "change") if tried.changed else "no change")
    for each in describe_wanted(tried.wanted):
        facts.append(f"it wanted {each}")
    if tried.unsure:
        facts.append(tried.unsure)
    shown = "".join(element("li", one_line(fact)) for fact in facts)
    return f'<ul class="trial {tried.outcome}">{shown}</ul>'


def _draw_args(request: ApprovalRequest) -> Iterator[str]:
    """Draw the arguments, except defaults and arguments that the preview shows."""
    command = request.runs.argument if request.runs else None
    if isinstance(line := request.args.get(command or ""), str):
        yield draw_code(line, "sh", exact=True)
        if visible(line, keep="\n\t") != line:  # an attacker may hide a part of the command
            yield element("p", one_line(HIDDEN), "warning")
    else:
        command = None
    if request.runs is not None:
        yield _draw_place(request.runs)
    in_preview: tuple[object, ...] = ()
    if isinstance(request.preview, Diff):
        in_preview = (request.preview.modified, request.preview.path)
    left_out = {command, *(request.previewed or ()), *(request.defaults or ())}
    rows = [
        f"<dt>{one_line(name)}</dt><dd>{_draw_value(value)}</dd>"
        for name, value in request.args.items()
        if name not in left_out and value not in in_preview
    ]
    if rows:
        yield element("dl", "".join(rows), "args")
    if request.parts:
        yield _draw_parts(request.parts)


def _draw_origins(request: ApprovalRequest) -> Iterator[str]:
    """Draw the values that the person did not name, with their origins."""
    for line in tell_origins(request):
        yield element("p", one_line(line), "origin", "warning")


def _draw_value(value: object) -> str:
    if isinstance(value, str) and "\n" in value.rstrip("\n"):
        return element("pre", many_lines(value, exact=True), "text")
    return element("code", one_line(json.dumps(jsonable(value), ensure_ascii=False)))


def _draw_place(runs: CommandRun) -> str:
    if runs.confined:
        return element("p", one_line(f"in {runs.folder}, confined"), "place")
    return element("p", one_line(f"in {runs.folder}, not confined"), "place", "warning")


def _draw_parts(parts: Sequence[JudgedPart]) -> str:
    """Return the verdict on each command with its rule."""
    rows = ""
    for part in parts:
        approval = one_line(part.approval)
        cells = [element("code", one_line(part.text)), approval]
        cells.append(one_line(part.reason) + _where(part.where))
        rows += element("tr", "".join(element("td", each) for each in cells), approval)
    heads = "".join(f'<th scope="col">{name}</th>' for name in ("part", "verdict", "why"))
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"
    return element("div", table, "table", "parts")


def _draw_preview(request: ApprovalRequest, find: FindRenderer) -> Iterator[str]:
    """Draw the effect of the call and its size."""
    if request.preview is None:
        return
    view = view_of(request.preview, find, request.distribution, exact=True)
    yield element("div", draw_view(view, fold=False), "preview")  # whole: a person decides on it
    for each in request.folded or ():
        inside = draw_view(View("diff", each.text, exact=True), fold=False)
        yield f'<details class="fold"><summary>{one_line(each.line)}</summary>{inside}</details>'
    if recap := recap_of(request, view):
        yield element("p", one_line(recap), "recap")


def _draw_why(request: ApprovalRequest) -> Iterator[str]:
    yield element("p", f"why: {one_line(request.reason)}{_where(request.where)}", "why")
    rows = [("rule", request.rule or "none"), ("risk", f"{request.risk} ({RISKS[request.risk]})")]
    for detail in request.details or ():
        rows.append(("", detail))
    for name in request.defaults or ():
        value = json.dumps(jsonable(request.args.get(name)), ensure_ascii=False)
        rows.append((f"{name}, unchanged default", value))
    listed = "".join(f"<dt>{one_line(name)}</dt><dd>{one_line(text)}</dd>" for name, text in rows)
    yield f'<details class="more"><summary>More about this</summary><dl>{listed}</dl></details>'


def _where(where: object) -> str:
    if where:
        return f" ({one_line(short_place(where))})"
    return ""

"""A request as HTML: the same parts as the prompt of a terminal, of which nothing that counts is hidden or cut."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from forge_cli.core.approval import ApprovalRequest, CommandRun, GrantOffer, JudgedPart
from forge_cli.core.results import Diff
from forge_cli.core.text import counted, visible
from forge_cli.core.trial import CommandTried, describe_wanted
from forge_cli.core.wire import JsonObject, jsonable
from forge_cli.files.difference import recap_differences
from forge_cli.ui.html.markdown import draw_code, element, many_lines, one_line
from forge_cli.ui.html.results import draw_view
from forge_cli.ui.terminal.command import HIDDEN
from forge_cli.ui.terminal.grants import edits_offer, session_offers
from forge_cli.ui.terminal.prompts import RISKS
from forge_cli.ui.views import FindRenderer, View, no_renderers, short_place, view_of


def draw_request(
    request: ApprovalRequest, find: FindRenderer = no_renderers, tried: CommandTried | None = None
) -> str:
    """The call, what it would do or did when it was tried, and why it asks."""
    return "".join(
        [
            *_draw_args(request),
            *(_draw_trial(tried) if tried else ()),
            *_draw_preview(request, find),
            *_draw_why(request),
        ]
    )


def list_choices(request: ApprovalRequest, *, parked: bool = False) -> list[JsonObject]:
    """The answers that make sense, by the keys of the terminal; a parked session takes a yes for once."""
    offers = {} if parked else chosen_offers(request)
    return [
        {
            "value": "once",
            "key": "y",
            "label": "Allow from now on" if request.kept else "Allow once",
        },
        *(
            {"value": name, **_key_and_label(name), "about": visible(offer.text), **_rules(offer)}
            for name, offer in offers.items()
        ),
        {"value": "no", "key": "n", "label": "Deny from now on" if request.kept else "Deny"},
    ]


def chosen_offers(request: ApprovalRequest) -> dict[str, GrantOffer]:
    """Grants that a yes may give, by the name of the choice; ``session2`` is a wider one than ``session``."""
    offers = {"edits": edits} if (edits := edits_offer(request)) else {}
    for number, offer in enumerate(session_offers(request), 1):
        offers["session" if number == 1 else f"session{number}"] = offer
    return offers


def _key_and_label(name: str) -> JsonObject:
    """The digit of a wider grant counts behind ``s``, as on a terminal."""
    match name.removeprefix("session"):
        case "edits":
            return {"key": "e", "label": "Allow edits"}
        case "":
            return {"key": "s", "label": "Allow for session"}
        case number:
            return {"key": number, "label": "Allow this rule", "behind": "s"}


def _rules(offer: GrantOffer) -> JsonObject:
    return {"rule": "; ".join(visible(str(rule)) for rule in offer.rules)} if offer.rules else {}


def _draw_trial(tried: CommandTried) -> Iterator[str]:
    """How a trial ended; what it changed is in the preview."""
    facts = [f"exit code {tried.exit_code}", f"{tried.duration_ms / 1000:.1f} s"]
    facts += [counted(len(tried.changed), "change") if tried.changed else "no change"]
    facts += [f"it wanted {each}" for each in describe_wanted(tried.wanted)] + [tried.unsure or ""]
    shown = "".join(element("li", one_line(fact)) for fact in facts if fact)
    yield f'<ul class="trial {tried.outcome}"><li>Tried on a copy</li>{shown}</ul>'


def _draw_args(request: ApprovalRequest) -> Iterator[str]:
    """The args that say something, a command line as it was written."""
    command = request.runs.argument if request.runs else None
    if isinstance(line := request.args.get(command or ""), str):
        yield draw_code(line, "sh", exact=True)
        if visible(line, keep="\n\t") != line:
            yield element("p", one_line(HIDDEN), "warning")
    else:
        command = None
    if request.runs is not None:
        yield _draw_place(request.runs)
    in_preview = (
        (request.preview.modified, request.preview.path)
        if isinstance(request.preview, Diff)
        else ()
    )
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


def _draw_value(value: object) -> str:
    if isinstance(value, str) and "\n" in value.rstrip("\n"):
        return element("pre", many_lines(value, exact=True), "text")
    return element("code", one_line(json.dumps(jsonable(value), ensure_ascii=False)))


def _draw_place(runs: CommandRun) -> str:
    state = "confined" if runs.confined else "not confined"
    return element(
        "p", one_line(f"in {runs.folder}, {state}"), "place", "" if runs.confined else "warning"
    )


def _draw_parts(parts: Sequence[JudgedPart]) -> str:
    """The verdict on each command, by the rule that it met."""
    rows = "".join(
        f'<tr class="{one_line(part.approval)}"><td><code>{one_line(part.text)}</code></td>'
        f"<td>{one_line(part.approval)}</td><td>{one_line(part.reason)}{_where(part.where)}</td></tr>"
        for part in parts
    )
    heads = "".join(f'<th scope="col">{name}</th>' for name in ("command", "verdict", "why"))
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"
    return element("div", table, "table", "parts")


def _draw_preview(request: ApprovalRequest, find: FindRenderer) -> Iterator[str]:
    """The effect of the call, and how much that is."""
    if request.preview is None:
        return
    view = view_of(request.preview, find, request.distribution, exact=True)
    yield element("div", draw_view(view, fold=False), "preview")
    is_difference = isinstance(request.preview, Diff) and view.form == "diff"
    for each in request.folded or ():
        inside = draw_view(View("diff", each.text, exact=True), fold=False)
        yield f'<details class="fold"><summary>{one_line(each.line)}</summary>{inside}</details>'
    if recap := request.recap or (
        recap_differences([view.text.split("\n")]) if is_difference else None
    ):
        yield element("p", one_line(recap), "recap")


def _draw_why(request: ApprovalRequest) -> Iterator[str]:
    yield element("p", f"why: {one_line(request.reason)}{_where(request.where)}", "why")
    rows = [("rule", request.rule or "none"), ("risk", f"{request.risk} ({RISKS[request.risk]})")]
    rows += [("", detail) for detail in request.details or ()]
    rows += [
        (
            f"{name}, unchanged default",
            json.dumps(jsonable(request.args.get(name)), ensure_ascii=False),
        )
        for name in request.defaults or ()
    ]
    listed = "".join(f"<dt>{one_line(name)}</dt><dd>{one_line(text)}</dd>" for name, text in rows)
    yield f'<details class="more"><summary>More about this</summary><dl>{listed}</dl></details>'


def _where(where: object) -> str:
    return f" ({one_line(short_place(where))})" if where else ""

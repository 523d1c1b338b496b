"""The approval prompt: what will run, why it asks, and one line that is read as the answer."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from functools import partial

from rich.console import Console, Group, RenderableType

from forge_cli.core.approval import ApprovalDecision, ApprovalRequest
from forge_cli.core.results import Diff
from forge_cli.core.text import visible
from forge_cli.core.wire import jsonable
from forge_cli.ui.terminal.console import new_console
from forge_cli.ui.terminal.grants import choose_grant, explain_grants, lasting_offers, session_offers
from forge_cli.ui.terminal.lines import LineInput
from forge_cli.ui.terminal.paging import in_pages, print_page, say_above, say_below
from forge_cli.ui.terminal.render import Indented, plain, render
from forge_cli.ui.views import FindRenderer, no_renderers

CHOICES = "[y]es once, [s]ession, [n]o, [?] why > "
CHOICES_ONCE = "[y]es once, [n]o, [?] why > "

_NO = re.compile(r"no?\b[\s,.:;-]*(.*)", re.IGNORECASE | re.DOTALL)
_RISKS = {
    "low": "it says that it only reads",
    "medium": "it says that it writes or reaches the network, and starts no programs",
    "high": "it can start programs, or does not say what it does",
}


def cli_approval_callback(
    console: Console | None = None, find: FindRenderer = no_renderers
) -> Callable[[ApprovalRequest], Awaitable[ApprovalDecision]]:
    """The terminal's own way to ask, for programs that run a WorkerRuntime themselves."""
    shown, lines = console or new_console(), LineInput()

    async def ask(request: ApprovalRequest) -> ApprovalDecision:
        return await ask_on_terminal(request, shown, lines, find)

    return ask


async def ask_on_terminal(
    request: ApprovalRequest, console: Console, lines: LineInput, find: FindRenderer
) -> ApprovalDecision:
    """Show a request whole and read the answer; what was typed before the prompt stood there does not count."""
    refused = await _show_request(request, console, lines, find)
    if refused is not None:
        return refused
    question = _choices(request)
    while True:
        line = await _read_answer(question, console, lines)
        if line is None:
            return ApprovalDecision(False)
        decision = parse_answer(line)
        always = line.strip().lower() in ("a", "always") and "[a]lways" in question
        if always or (decision and decision.remember and "[s]ession" in question):
            ask_line = partial(_read_answer, console=console, lines=lines)
            decision = await choose_grant(request, ask_line, console, always=always)
            if decision is None:
                continue
        if decision is not None:
            return decision
        explain(request, console)


def _choices(request: ApprovalRequest) -> str:
    """The question, with the answers that make sense."""
    question = CHOICES if session_offers(request) else CHOICES_ONCE
    return question.replace("[n]o", "[a]lways, [n]o") if lasting_offers(request) else question


async def _read_answer(question: str, console: Console, lines: LineInput) -> str | None:
    """One line that was typed after the question stood there; None where the input ends before the line does."""
    lines.forget_typed()
    console.print(plain(question), end="")
    console.file.flush()
    line = await lines.read()
    if line is None or not line.endswith("\n"):
        console.print()
        return None
    return line


async def _show_request(
    request: ApprovalRequest, console: Console, lines: LineInput, find: FindRenderer
) -> ApprovalDecision | None:
    """Show all of a request, page by page where it is higher than the terminal; a no counts before its end, too."""
    pages, at_once = in_pages(describe(request, find), console), False
    for number, page in enumerate(pages, 1):
        print_page(page, console)
        if number == len(pages) or at_once:
            continue
        answer = await _turn_page(say_below(pages[number:]), console, lines)
        if isinstance(answer, ApprovalDecision):
            return answer
        at_once = answer
    if len(pages) > 1:
        _line(console, say_above(pages[:-1]), "dim")
    return None


async def _turn_page(question: str, console: Console, lines: LineInput) -> ApprovalDecision | bool:
    """A no, or whether somebody wants all the other pages at once."""
    while True:
        line = await _read_answer(question, console, lines)
        match line and line.strip():
            case None:
                return ApprovalDecision(False)
            case "":
                return False
            case "e" | "E" | "end":
                return True
            case answer if refused := _NO.match(answer):
                return ApprovalDecision(False, note=refused[1] or None)
            case _:
                _line(console, "only n counts before all of it was shown")


def parse_answer(line: str) -> ApprovalDecision | None:
    """None asks for the reasons; Enter and anything unknown are no; text after ``n`` is for the model."""
    answer = line.strip()
    match answer.lower():
        case "y" | "yes":
            return ApprovalDecision(True)
        case "s" | "session":
            return ApprovalDecision(True, remember="session")
        case "?":
            return None
        case _:
            feedback = _NO.match(answer)
            return ApprovalDecision(False, note=feedback[1] or None if feedback else None)


def describe(request: ApprovalRequest, find: FindRenderer) -> RenderableType:
    """What would be called, what it would do, and why it asks."""
    in_preview = request.preview.modified if isinstance(request.preview, Diff) else None
    shown: list[RenderableType] = [_one_line(f"{request.description} (risk: {request.risk})", "bold yellow")]
    for name, value in request.args.items():
        in_diff = in_preview is not None and value == in_preview
        shown.append(
            _one_line(f"  {name}: {'as below' if in_diff else json.dumps(jsonable(value), ensure_ascii=False)}")
        )
    if request.preview is not None:
        shown.append(Indented(render(request.preview, find, request.distribution, lines=None, exact=True), 2))
    shown.append(_one_line(f"why: {request.reason}{f' ({request.where})' if request.where else ''}", "dim"))
    return Group(plain(""), *shown)


def explain(request: ApprovalRequest, console: Console) -> None:
    """Everything behind the question, and what each answer does."""
    _line(console, f"  reason: {request.reason}")
    _line(console, f"  rule:   {request.rule or 'none'}")
    _line(console, f"  where:  {request.where or 'not from a file'}")
    _line(console, f"  risk:   {request.risk} ({_RISKS[request.risk]})")
    for detail in request.details or ():
        _line(console, f"  {detail}")
    _line(console, "  y       yes, this once")
    for line in explain_grants(request):
        _line(console, f"  {line}")
    _line(console, "  n       no; text after it is told to the model, as in: n use another name")


def _one_line(text: str, style: str = "") -> RenderableType:
    """One line, whatever is in it: a newline from outside could imitate the prompt, and so could a line that wraps."""
    return Indented(plain(visible(text), style=style), 0, hang=4)


def _line(console: Console, text: str, style: str = "") -> None:
    console.print(_one_line(text, style), end="")

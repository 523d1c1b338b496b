"""The approval prompt: what will run, why it asks, and one line read from the terminal without a thread."""

from __future__ import annotations

import json
import os
import sys
import termios
from collections.abc import Awaitable, Callable

import anyio
from rich.console import Console
from rich.padding import Padding

from forge_cli.core.approval import ApprovalDecision, ApprovalRequest
from forge_cli.core.results import Diff
from forge_cli.core.text import visible
from forge_cli.ui.render import FindRenderer, no_renderers, plain, render

CHOICES = "[y]es once, [s]ession, [n]o, [?] why > "


def cli_approval_callback(
    console: Console | None = None, find: FindRenderer = no_renderers
) -> Callable[[ApprovalRequest], Awaitable[ApprovalDecision]]:
    """The terminal's own way to ask, for programs that run a WorkerRuntime themselves."""
    shown = console or Console(stderr=True, highlight=False, soft_wrap=True)

    async def ask(request: ApprovalRequest) -> ApprovalDecision:
        return await ask_on_terminal(request, shown, find)

    return ask


async def ask_on_terminal(request: ApprovalRequest, console: Console, find: FindRenderer) -> ApprovalDecision:
    """Show a request whole and read the answer; what was typed before the prompt stood there does not count."""
    show_request(request, console, find)
    while True:
        _forget_typed()
        console.print(plain(CHOICES), end="")
        console.file.flush()
        line = await read_line()
        if line is None:
            console.print()
        decision = parse_answer(line)
        if decision is not None:
            return decision
        explain(request, console)


def parse_answer(line: str | None) -> ApprovalDecision | None:
    """None asks for the reasons; Enter, EOF and anything unknown are no; words after ``n`` are for the model."""
    word, _, rest = (line or "").strip().partition(" ")
    match word.lower():
        case "y" | "yes":
            return ApprovalDecision(not rest)
        case "s" | "session":
            return ApprovalDecision(not rest, remember=None if rest else "session")
        case "n" | "no":
            return ApprovalDecision(False, note=rest.strip() or None)
        case "?":
            return None
        case _:
            return ApprovalDecision(False)


def show_request(request: ApprovalRequest, console: Console, find: FindRenderer) -> None:
    console.print()
    console.print(plain(f"{request.description} (risk: {request.risk})", style="bold yellow"))
    in_preview = request.preview.modified if isinstance(request.preview, Diff) else None
    for name, value in request.args.items():
        if in_preview is None or value != in_preview:
            console.print(plain(f"  {visible(name)}: {_argument(value)}"))
    if request.preview is not None:
        console.print(Padding(render(request.preview, find, lines=None), (0, 0, 0, 2)))
    console.print(plain(f"asks because {_why(request)}", style="dim"))


def explain(request: ApprovalRequest, console: Console) -> None:
    """Everything behind the question."""
    console.print(plain(f"  reason: {request.reason}"))
    console.print(plain(f"  rule:   {request.rule or 'none'}"))
    console.print(plain(f"  where:  {request.where or 'not from a file'}"))
    console.print(plain(f"  risk:   {request.risk} (from the effects that the tool declares)"))
    console.print(
        plain("  y runs it once; s also answers identical calls in this session; n WORDS tells the model why not")
    )


def _why(request: ApprovalRequest) -> str:
    return f"{request.reason} ({request.where})" if request.where else request.reason


def _argument(value: object) -> str:
    return visible(json.dumps(value, ensure_ascii=False))


def _forget_typed() -> None:
    try:
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
    except (termios.error, ValueError, OSError):
        return


async def read_line() -> str | None:
    """One line from standard input, waiting in the event loop; None at the end of input."""
    fd, data = sys.stdin.fileno(), b""
    while not data.endswith(b"\n"):
        await anyio.wait_readable(fd)
        try:
            piece = os.read(fd, 4096)
        except OSError:
            piece = b""
        if not piece:
            return data.decode(errors="replace") if data else None
        data += piece
    return data.decode(errors="replace")

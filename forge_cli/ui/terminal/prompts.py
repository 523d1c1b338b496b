"""The approval prompt: what will run, why it asks, and one key that is the answer."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from io import StringIO
from math import ceil
from typing import Literal, TextIO, cast

from msgspec import Struct
from rich.console import Console, Group, RenderableType
from rich.segment import Segment, Segments

from forge_cli.core.approval import ApprovalDecision, ApprovalRequest, FoldedLine, GrantOffer
from forge_cli.core.phrases import COULD_NOT_ASK, HUNG_UP_AT_QUESTION
from forge_cli.core.results import Diff
from forge_cli.core.text import counted, visible
from forge_cli.core.wire import jsonable
from forge_cli.files.difference import recap_differences
from forge_cli.ui.terminal.command import draw_command, draw_lines, draw_parts, draw_place
from forge_cli.ui.terminal.console import new_console
from forge_cli.ui.terminal.grants import (
    chosen_offer,
    edits_offer,
    explain_grants,
    grant,
    lasting_offer,
    offer_question,
    say_offers,
    session_offers,
    write_grant,
)
from forge_cli.ui.terminal.input import KernelInput, LineReader
from forge_cli.ui.terminal.keys import QuestionLeft
from forge_cli.ui.terminal.render import Indented, plain, render_view
from forge_cli.ui.views import FindRenderer, View, no_renderers, short_place, view_of

Row = list[Segment]
AnswerKind = Literal["yes", "edits", "session", "always", "no", "text", "unfold", "why"]
ANSWERS: dict[AnswerKind, str] = {
    "yes": "[y]es once",
    "edits": "[e]dits",
    "session": "[s]ession",
    "always": "[a]lways",
    "no": "[n]o",
    "text": "[t]ell why not",
    "unfold": "[u]nfold",
    "why": "[?] why",
}
"""Answers as the question offers them: by the letter in brackets, or by the word where lines are read."""
TELL = "no, because > "
TRIES = 3
"""Lines in a row that are not understood; the last one is a no."""
WIDTH = 160
"""Cells of a line where a request is told without a terminal."""
BELL_AFTER = 10.0
"""Seconds of waiting after which the terminal rings, once."""

_NUMBERED = re.compile(r"(s|session) ?([1-9])", re.IGNORECASE)
_NO = re.compile(r"no?(?:[\s,.:;-]+(.*))?", re.IGNORECASE | re.DOTALL)
RISKS = {
    "low": "it only reads, or changed nothing when it was tried",
    "medium": "it can write files or use the network; of a command, that it was tried and the effect is shown",
    "high": "it can start programs, changes protected names, or does not say what it does",
}


class Answer(Struct, frozen=True):
    """The meaning of what was typed at the prompt; a ``note`` is told to the model."""

    kind: AnswerKind
    note: str | None = None
    number: str = ""
    """Of a grant that was chosen on the same line."""


def cli_approval_callback(
    console: Console | None = None, find: FindRenderer = no_renderers
) -> Callable[[ApprovalRequest], Awaitable[ApprovalDecision]]:
    """The terminal's own way to ask, for programs that run a WorkerRuntime themselves.

    In a notebook the kernel asks; where nothing can be read, the answer says that it could not ask.
    """
    stream = cast(TextIO, KernelInput()) if KernelInput.is_needed() else None
    lines = LineReader(console or new_console(), stream)

    async def ask(request: ApprovalRequest) -> ApprovalDecision:
        try:
            decision = await ask_on_terminal(request, lines, find)
            if not decision and lines.nobody_there:
                return ApprovalDecision(False, note=COULD_NOT_ASK, by="headless")
            return decision
        except QuestionLeft as left:
            if left.ctrl_c:
                signal.raise_signal(signal.SIGINT)
            if left.hung_up:
                return ApprovalDecision(False, note=HUNG_UP_AT_QUESTION, by="headless")
            return ApprovalDecision(False)

    return ask


async def ask_on_terminal(
    request: ApprovalRequest, lines: LineReader, find: FindRenderer
) -> ApprovalDecision:
    """Show a request whole and read the answer; what was typed before the prompt stood there does not count.

    QuestionLeft is raised where the person leaves it by Esc or Ctrl+C, and where the terminal is closed.
    """
    with _bell(lines.console):
        return await _Prompt(request, lines, find).decide()


@contextmanager
def _bell(console: Console) -> Iterator[None]:
    """Ring once where somebody is waited for so long."""

    def ring() -> None:
        if console.is_terminal:
            console.file.write("\a")
            console.file.flush()

    waiting = asyncio.get_running_loop().call_later(BELL_AFTER, ring)
    try:
        yield
    finally:
        waiting.cancel()


class _Prompt:
    """One request, until there is an answer."""

    def __init__(self, request: ApprovalRequest, lines: LineReader, find: FindRenderer) -> None:
        self._request = request
        self._lines = lines
        self._console = lines.console
        self._find = find
        self._page: list[Row] = []

    async def decide(self) -> ApprovalDecision:
        refused = await self._show(Group(plain(""), describe(self._request, self._find)))
        if refused is not None:
            return refused
        misread = 0
        offered = offered_answers(self._request)
        question = f"{', '.join(ANSWERS[kind] for kind in offered)} > "
        unsaid = ApprovalDecision(False)
        if self._request.kept:
            question = f"[y]es, {', '.join(ANSWERS[kind] for kind in offered[1:])} > "
            unsaid = ApprovalDecision(False, note=COULD_NOT_ASK)  # no answer, and none is kept
        while misread < TRIES:
            line = await self._ask(question, lambda key: is_answer(key, offered))
            if line is None:
                return unsaid
            answer = parse_answer(line, offered)
            misread = 0 if answer else misread + 1
            if answer is None:
                self._say(_misread(misread, offered))
            elif (decision := await self._take(answer)) is not None:
                return decision
        return unsaid

    async def _take(self, answer: Answer) -> ApprovalDecision | None:
        """The decision of an answer; None where the question is asked again."""
        match answer.kind:
            case "yes":
                return ApprovalDecision(True)
            case "no":
                return ApprovalDecision(False, note=answer.note)
            case "text":
                return await self._tell()
            case "edits" if offer := edits_offer(self._request):
                return grant(offer, self._console)
            case "session":
                return await self._grant_session(answer.number)
            case "always":
                return await write_grant(self._request, self._ask, self._console)
            case "unfold":
                return await self._show(Group(*unfolded(self._request)))
            case _:
                explain(self._request, self._console)
                return None

    async def _grant_session(self, number: str) -> ApprovalDecision | None:
        """Give the only grant at once, or the one that is chosen of several."""
        offers = session_offers(self._request)
        if len(offers) > 1 and not number:
            try:
                chosen = await self._choose(offers)
            except QuestionLeft as left:
                if left.leaves_all:
                    raise
                return None
            if chosen is None:
                return ApprovalDecision(False)
            number = chosen
        if offer := chosen_offer(number, offers):
            return grant(offer, self._console)
        self._say(f"not understood: Enter, or a number from 1 to {len(offers)}")
        return None

    async def _choose(self, offers: Sequence[GrantOffer]) -> str | None:
        """The number of a grant, or an empty line for the first; None at the end of input."""
        question = offer_question(offers)
        if not self._lines.takes_keys:
            return await self._lines.ask(question, self._show_page)

        def means(key: str) -> bool:
            return chosen_offer(key, offers) is not None

        return await self._lines.ask_key(question, self._show_page, means, follows=True)

    async def _tell(self) -> ApprovalDecision | None:
        try:
            line = await self._lines.ask(TELL, self._show_page)
        except QuestionLeft as left:
            if left.leaves_all:
                raise
            return None
        return ApprovalDecision(False, note=_one_note(line))

    async def _show(self, shown: RenderableType) -> ApprovalDecision | None:
        """Show all of it, page by page where it is higher than the terminal; a no counts before its end, too."""
        at_once = False
        pages = in_pages(shown, self._console)
        for number, page in enumerate(pages, 1):
            self._page = page
            self._show_page()
            below = pages[number:]
            if not below or at_once:
                continue
            more = counted(sum(map(len, below)), "more line")
            answer = await self._turn_page(f"{more}: [Enter] next, [e]nd, [n]o > ")
            if isinstance(answer, ApprovalDecision):
                return answer
            at_once = answer
        if len(pages) > 1:
            above = counted(sum(map(len, pages[:-1])), "line")
            self._say(f"({above} above: scroll up to see them again)", "dim")
        return None

    async def _turn_page(self, question: str) -> ApprovalDecision | bool:
        """A no, or whether somebody wants all the other pages at once."""
        while True:
            line = await self._ask(question, lambda key: key.strip().lower() in ("", "e", "n"))
            match line and line.strip():
                case None:
                    return ApprovalDecision(False)
                case "":
                    return False
                case "e" | "E" | "end":
                    return True
                case answer if refused := _NO.fullmatch(answer):
                    return ApprovalDecision(False, note=_one_note(refused[1]))
                case _:
                    self._say("only n counts before all of it was shown")

    async def _ask(self, question: str, means: Callable[[str], bool] = bool) -> str | None:
        """One key that means something, or the line that stands for it where no keys can be read."""
        if self._lines.takes_keys:
            return await self._lines.ask_key(question, self._show_page, means)
        return await self._lines.ask(question, self._show_page)

    def _show_page(self) -> None:
        segments: list[Segment] = []
        for line in self._page:
            segments += (*line, Segment.line())
        self._console.print(Segments(segments), end="")

    def _say(self, text: str, style: str = "") -> None:
        _line(self._console, text, style)


def in_pages(shown: RenderableType, console: Console) -> list[list[Row]]:
    """The lines of something, as many to a page as fit above two lines of ours; all on one page without a terminal."""
    options = console.options.update(no_wrap=True, overflow="ignore")
    lines = list(Segment.split_lines(console.render(shown, options)))
    return list(_pages(lines, *console.size)) if console.is_terminal else [lines]


def _pages(lines: Sequence[Row], width: int, height: int) -> Iterator[list[Row]]:
    most = max(height - 2, 1)
    page: list[Row] = []
    room = most
    for line in lines:
        rows = max(1, ceil(Segment.get_line_length(line) / width))
        if page and rows > room:
            yield page
            page = []
            room = most
        page.append(line)
        room -= rows
    yield page


def offered_answers(request: ApprovalRequest) -> list[AnswerKind]:
    """Answers that make sense."""
    if request.kept:
        return ["yes", "no", "why"]
    offers = {
        "edits": edits_offer,
        "session": session_offers,
        "always": lasting_offer,
        "unfold": _folded,
    }
    return [kind for kind in ANSWERS if kind not in offers or offers[kind](request)]


def _folded(request: ApprovalRequest) -> Sequence[FoldedLine]:
    return request.folded or ()


def parse_answer(line: str, offered: Collection[AnswerKind] = tuple(ANSWERS)) -> Answer | None:
    """The meaning of a key or a line: an empty line is no, text after ``n`` is for the model, None has no meaning."""
    answer = line.strip()
    if not answer:
        return Answer("no")
    if refused := _NO.fullmatch(answer):
        return Answer("no", _one_note(refused[1]))
    if "session" in offered and (numbered := _NUMBERED.fullmatch(answer)):
        return Answer("session", number=numbered[2])
    meant = [kind for kind in offered if answer.lower() in (kind, _letter(kind))]
    return Answer(meant[0]) if meant else None


def is_answer(key: str, offered: Collection[AnswerKind] = tuple(ANSWERS)) -> bool:
    """Does a single key mean something? Enter and blanks, which are a no as a line, may be slips."""
    return bool(key.strip()) and parse_answer(key, offered) is not None


def _letter(kind: AnswerKind) -> str:
    return ANSWERS[kind].partition("[")[2][0]


def _one_note(text: str | None) -> str | None:
    """Feedback as one line, also where several were pasted."""
    return " ".join(filter(None, map(str.strip, (text or "").splitlines()))) or None


def _misread(times: int, offered: Sequence[AnswerKind]) -> str:
    *letters, last = map(_letter, offered)
    third = "; that was the third time, so it is a no" if times >= TRIES else ""
    return f"not understood: {', '.join(letters)} or {last}{third}"


def describe(
    request: ApprovalRequest, find: FindRenderer, lines: int | None = None
) -> RenderableType:
    """The call, what it would do, and why it asks; ``lines`` bounds the preview, None shows all of it."""
    where = f" ({short_place(request.where)})" if request.where else ""
    return Group(
        _one_line(f"{request.description} (risk: {request.risk})", "bold yellow"),
        *_call(request),
        *_preview(request, find, lines),
        _one_line(f"why: {request.reason}{where}", "dim"),
        *(_one_line(f"  {offer}", "dim") for offer in say_offers(request)),
    )


def describe_in_text(request: ApprovalRequest, find: FindRenderer) -> str:
    """The same as plain text, for a client that shows it to its user."""
    page = StringIO()
    console = Console(
        file=page, width=WIDTH, color_system=None, force_terminal=False, highlight=False
    )
    console.print(describe(request, find))
    return "\n".join(line.rstrip() for line in page.getvalue().strip().splitlines())


def _call(request: ApprovalRequest) -> Iterator[RenderableType]:
    """The args that say something, a command line as it was written."""
    command = request.runs.argument if request.runs else None
    if isinstance(line := request.args.get(command or ""), str):
        yield from draw_command(line)
    else:
        command = None
    if request.runs is not None:
        yield draw_place(request.runs)
    in_preview = request.preview.modified if isinstance(request.preview, Diff) else None
    left_out = {command, *(request.previewed or ()), *(request.defaults or ())}
    for name, value in request.args.items():
        if name not in left_out and (in_preview is None or value != in_preview):
            yield from _argument(name, value)
    if request.parts:
        yield from draw_parts(request.parts)


def _argument(name: str, value: object) -> Iterator[RenderableType]:
    """One line of JSON; a text of several lines as it was written, each behind a mark, where all of it can be seen."""
    if (
        not isinstance(value, str)
        or "\n" not in value.rstrip("\n")
        or visible(value, keep="\n\t") != value
    ):
        yield _one_line(f"  {name}: {json.dumps(jsonable(value), ensure_ascii=False)}")
        return
    yield _one_line(f"  {name}:")
    yield from (Indented(row, 2) for row in draw_lines(value, first="|", others="|"))


def _preview(
    request: ApprovalRequest, find: FindRenderer, lines: int | None
) -> Iterator[RenderableType]:
    """The effect of the call, and how much that is."""
    if request.preview is None:
        return
    view = view_of(request.preview, find, request.distribution, exact=True)
    yield Indented(render_view(view, lines=lines), 4, bar=True)
    is_difference = isinstance(request.preview, Diff) and view.form == "diff"
    if recap := request.recap or (
        recap_differences([view.text.split("\n")]) if is_difference else None
    ):
        yield _one_line(f"  {recap}")


def unfolded(request: ApprovalRequest) -> Iterator[RenderableType]:
    """The parts of the preview that stand behind one line each, under that line."""
    for each in _folded(request):
        yield _one_line(f"  {each.line}", "bold")
        yield Indented(render_view(View("diff", each.text, exact=True), lines=None), 4, bar=True)


def explain(request: ApprovalRequest, console: Console) -> None:
    """Everything behind the question, and what each answer does."""
    _line(console, f"  reason: {request.reason}")
    _line(console, f"  rule:   {request.rule or 'none'}")
    _line(console, f"  where:  {request.where or 'built-in default'}")
    _line(console, f"  risk:   {request.risk} ({RISKS[request.risk]})")
    for detail in request.details or ():
        _line(console, f"  {detail}")
    if request.defaults:
        _line(console, "  unchanged defaults:")
        for name in request.defaults:
            console.print(Indented(Group(*_argument(name, request.args[name])), 2), end="")
    if request.kept:
        _line(console, f"  y       yes, from now on: it is written to {request.kept}")
        _line(
            console,
            "  n       no, from now on: that is written there as well, and it is not asked again",
        )
        return
    _line(console, "  y       yes, this once")
    for line in explain_grants(request):
        _line(console, f"  {line}")
    _line(console, "  n       no")
    _line(console, "  t       no, and a text that is told to the model, as in: use another name")
    if _folded(request):
        _line(
            console,
            "  u       shows what is in each folder that is one line, then the question again",
        )


def _one_line(text: str, style: str = "") -> RenderableType:
    """One line, whatever is in it: a newline from outside could imitate the prompt, and so could a line that wraps."""
    return Indented(plain(visible(text), style=style), 0, hang=4)


def _line(console: Console, text: str, style: str = "") -> None:
    console.print(_one_line(text, style), end="")

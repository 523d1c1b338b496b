"""The approval prompt: the call, the reason for asking, and the answer by one key."""

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
    is_short,
    lasting_offer,
    mine_offer,
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
AnswerKind = Literal["yes", "mine", "edits", "session", "always", "no", "text", "unfold", "why"]
ANSWERS: dict[AnswerKind, str] = {
    "yes": "[y]es once",
    "mine": "[k] mine",
    "edits": "[e]dits",
    "session": "[s]ession",
    "always": "[a]lways",
    "no": "[n]o",
    "text": "[t]ell why not",
    "unfold": "[u]nfold",
    "why": "[?] why",
}
"""Answers as the question shows them; the letter in brackets, or the word, chooses one."""
TELL = "no, because > "
MAX_MISREAD = 3
"""Invalid lines in a row after which the answer is no."""
WIDTH = 160
"""Cells of a line if a request is described without a terminal."""
BELL_AFTER = 10.0
"""Seconds of waiting after which the terminal rings once."""

_NUMBERED = re.compile(r"(s|session) ?([1-9])", re.IGNORECASE)
_NO = re.compile(r"no?(?:[\s,.:;-]+(.*))?", re.IGNORECASE | re.DOTALL)
RISKS = {
    "low": "it only reads, or changed nothing in a trial",
    "medium": "it can write files or use the network, or it is a command whose trial is shown",
    "high": "it can start programs, changes protected names, or does not declare its effects",
}


class Answer(Struct, frozen=True):
    """The meaning of a typed answer; the ``note`` is sent to the model."""

    kind: AnswerKind
    note: str | None = None
    number: str = ""
    """The number of a grant that was chosen on the same line."""


def cli_approval_callback(
    console: Console | None = None, find: FindRenderer = no_renderers
) -> Callable[[ApprovalRequest], Awaitable[ApprovalDecision]]:
    """Return an approval callback for programs that run a WorkerRuntime on a terminal.

    In a notebook the kernel asks. If there is no input, the answer is a no with that reason.
    """
    stream = None
    if KernelInput.is_needed():
        stream = cast(TextIO, KernelInput())
    lines = LineReader(console or new_console(), stream)

    async def ask(request: ApprovalRequest) -> ApprovalDecision:
        try:
            decision = await ask_on_terminal(request, lines, find)
            if not decision and lines.nobody_there:
                return ApprovalDecision(False, note=COULD_NOT_ASK, by="headless")
            return decision
        except QuestionLeft as left:
            if left.ctrl_c:
                signal.raise_signal(signal.SIGINT)  # the program decides how Ctrl+C ends it
            if left.hung_up:
                return ApprovalDecision(False, note=HUNG_UP_AT_QUESTION, by="headless")
            return ApprovalDecision(False)

    return ask


async def ask_on_terminal(
    request: ApprovalRequest, lines: LineReader, find: FindRenderer
) -> ApprovalDecision:
    """Show a request whole and read the answer; earlier typed text does not count.

    Raise QuestionLeft at Esc, Ctrl+C and a closed terminal.
    """
    with _bell(lines.console):
        return await _Prompt(request, lines, find).decide()


@contextmanager
def _bell(console: Console) -> Iterator[None]:
    """Ring the bell once if the answer takes long."""

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
    """The dialogue about one request."""

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
        answers = [ANSWERS[kind] for kind in offered]
        unsaid = ApprovalDecision(False)
        if (mine := mine_offer(self._request)) and is_short(mine):
            answers[offered.index("mine")] = f"[k] {visible(mine.text)} for this session"
        if self._request.kept:
            answers[0] = "[y]es"
            unsaid = ApprovalDecision(False, note=COULD_NOT_ASK)  # so that no answer is kept
        question = f"{', '.join(answers)} > "
        while misread < MAX_MISREAD:
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
        """Return the decision of an answer; None to ask again."""
        match answer.kind:
            case "yes":
                return ApprovalDecision(True)
            case "no":
                return ApprovalDecision(False, note=answer.note)
            case "text":
                return await self._tell()
            case "mine" if offer := mine_offer(self._request):
                return grant(offer, self._console)
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
        """Grant the only offer, or the chosen one of several."""
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
        self._say(f"invalid choice: press Enter, or a number from 1 to {len(offers)}")
        return None

    async def _choose(self, offers: Sequence[GrantOffer]) -> str | None:
        """Return the number of a grant, empty for the first; None at the end of input."""
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
        """Show everything, page by page if needed; return a no that comes before the last page."""
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
        """Return a no, or True to show all other pages without a pause."""
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
                    self._say("only n is possible before everything was shown")

    async def _ask(self, question: str, means: Callable[[str], bool] = bool) -> str | None:
        """Read one valid key, or a line if there are no keys."""
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
    """Split lines into pages with room for two more lines; without a terminal, return one page."""
    options = console.options.update(no_wrap=True, overflow="ignore")
    lines = list(Segment.split_lines(console.render(shown, options)))
    if console.is_terminal:
        return list(_pages(lines, *console.size))
    return [lines]


def _pages(lines: Sequence[Row], width: int, height: int) -> Iterator[list[Row]]:
    most = max(height - 2, 1)  # two rows for the question
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
    """Return the answers that are possible for a request."""
    if request.kept:
        return ["yes", "no", "why"]
    offers = {
        "mine": mine_offer,
        "edits": edits_offer,
        "session": session_offers,
        "always": lasting_offer,
        "unfold": _folded,
    }
    return [kind for kind in ANSWERS if kind not in offers or offers[kind](request)]


def _folded(request: ApprovalRequest) -> Sequence[FoldedLine]:
    return request.folded or ()


def parse_answer(line: str, offered: Collection[AnswerKind] = tuple(ANSWERS)) -> Answer | None:
    """Return the meaning of a key or a line; None if it is invalid.

    An empty line is a no. Text after ``n`` is for the model.
    """
    answer = line.strip()
    if not answer:
        return Answer("no")
    if refused := _NO.fullmatch(answer):
        return Answer("no", _one_note(refused[1]))
    if "session" in offered and (numbered := _NUMBERED.fullmatch(answer)):
        return Answer("session", number=numbered[2])
    for kind in offered:
        if answer.lower() in (kind, _letter(kind)):
            return Answer(kind)
    return None


def is_answer(key: str, offered: Collection[AnswerKind] = tuple(ANSWERS)) -> bool:
    """Return True if a single key is an answer.

    Enter and blanks are a no as a line, but as a key they may be typed by mistake.
    """
    return bool(key.strip()) and parse_answer(key, offered) is not None


def _letter(kind: AnswerKind) -> str:
    return ANSWERS[kind].partition("[")[2][0]


def _one_note(text: str | None) -> str | None:
    """Return feedback as one line, also if several lines were pasted."""
    return " ".join(filter(None, map(str.strip, (text or "").splitlines()))) or None


def _misread(times: int, offered: Sequence[AnswerKind]) -> str:
    *letters, last = map(_letter, offered)
    message = f"invalid answer; type {', '.join(letters)} or {last}"
    if times >= MAX_MISREAD:
        message += f" (invalid {MAX_MISREAD} times: taken as no)"
    return message


def describe(
    request: ApprovalRequest, find: FindRenderer, lines: int | None = None
) -> RenderableType:
    """Describe the call, its preview and the reason for asking.

    ``lines`` bounds the preview; None shows all of it.
    """
    if request.where:
        where = f" ({short_place(request.where)})"
    else:
        where = ""
    return Group(
        _one_line(f"{request.description} (risk: {request.risk})", "bold yellow"),
        *_call(request),
        *(_one_line(f"  {line}", "yellow") for line in tell_origins(request)),
        *_preview(request, find, lines),
        _one_line(f"why: {request.reason}{where}", "dim"),
        *(_one_line(f"  {offer}", "dim") for offer in say_offers(request)),
    )


def tell_origins(request: ApprovalRequest) -> Iterator[str]:
    """Yield a line for each value that the person did not name, with its origin."""
    for each in request.provenance or ():
        if each.argument:
            value = json.dumps(each.value, ensure_ascii=False)
            yield f"{each.argument}: {value}   {each.sentence()}"
        else:
            yield each.sentence()


def describe_in_text(request: ApprovalRequest, find: FindRenderer) -> str:
    """Describe a request as plain text, for clients without a terminal."""
    page = StringIO()
    console = Console(
        file=page, width=WIDTH, color_system=None, force_terminal=False, highlight=False
    )
    console.print(describe(request, find))
    return "\n".join(line.rstrip() for line in page.getvalue().strip().splitlines())


def _call(request: ApprovalRequest) -> Iterator[RenderableType]:
    """Draw the arguments, except defaults and arguments that the preview shows."""
    command = request.runs.argument if request.runs else None
    if isinstance(line := request.args.get(command or ""), str):
        yield from draw_command(line)
    else:
        command = None
    if request.runs is not None:
        yield draw_place(request.runs)
    left_out = {command, *(request.previewed or ()), *(request.defaults or ())}
    for name, value in request.args.items():
        is_shown = isinstance(request.preview, Diff) and value == request.preview.modified
        if name not in left_out and not is_shown:
            yield from _argument(name, value)
    if request.parts:
        yield from draw_parts(request.parts)


def _argument(name: str, value: object) -> Iterator[RenderableType]:
    """Draw an argument as JSON, or as marked lines if it is a readable text of several lines."""
    # A text with hidden characters is shown as JSON, with escapes.
    is_text = isinstance(value, str) and visible(value, keep="\n\t") == value
    if not is_text or "\n" not in str(value).rstrip("\n"):
        yield _one_line(f"  {name}: {json.dumps(jsonable(value), ensure_ascii=False)}")
        return
    yield _one_line(f"  {name}:")
    for row in draw_lines(str(value), first="|", others="|"):
        yield Indented(row, 2)


def _preview(
    request: ApprovalRequest, find: FindRenderer, lines: int | None
) -> Iterator[RenderableType]:
    """Draw the effect of the call and its size."""
    if request.preview is None:
        return
    view = view_of(request.preview, find, request.distribution, exact=True)
    yield Indented(render_view(view, lines=lines), 4, bar=True)
    if recap := recap_of(request, view):
        yield _one_line(f"  {recap}")


def recap_of(request: ApprovalRequest, view: View) -> str | None:
    """Return the size of the effect in a few words, such as ``1 file, +2 -0``."""
    if request.recap:
        return request.recap
    if isinstance(request.preview, Diff) and view.form == "diff":
        return recap_differences([view.text.split("\n")])
    return None


def unfolded(request: ApprovalRequest) -> Iterator[RenderableType]:
    """Draw the folded parts of the preview, each below its line."""
    for each in _folded(request):
        yield _one_line(f"  {each.line}", "bold")
        yield Indented(render_view(View("diff", each.text, exact=True), lines=None), 4, bar=True)


def explain(request: ApprovalRequest, console: Console) -> None:
    """Print all details of a request, and the effect of each answer."""
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
        _line(console, f"  y       yes, from now on: written to {request.kept}")
        _line(console, "  n       no, from now on: also written there, so it is not asked again")
        return
    _line(console, "  y       yes, this once")
    for line in explain_grants(request):
        _line(console, f"  {line}")
    _line(console, "  n       no")
    _line(console, "  t       no, with a text for the model, as in: use another name")
    if _folded(request):
        _line(console, "  u       shows the content of folders that are one line, then asks again")


def _one_line(text: str, style: str = "") -> RenderableType:
    """Draw one line: a newline, or a wrapped line, could imitate the prompt."""
    return Indented(plain(visible(text), style=style), 0, hang=4)


def _line(console: Console, text: str, style: str = "") -> None:
    console.print(_one_line(text, style), end="")

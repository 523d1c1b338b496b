"""A tree of workers: its files, a model for several workers, and the events at each depth."""

import json
from collections.abc import AsyncGenerator
from typing import Any

from forge_cli import ApprovalDecision
from forge_cli.core.actions import ApprovalResponse
from forge_cli.core.events import ApprovalDecided, ApprovalRequired, ToolResult, ToolStarted
from forge_cli.events import OnAsk, ToolCall, Usage
from forge_cli.hooks import ModelRequest, TextDelta, TurnEnd
from forge_cli.record.line import Line
from forge_cli.record.resume import Resumed, read_past
from forge_cli.testing import Project, Seen, call, calls

from .lines import lines_of

ASK_HELPER = calls(call("helper", input="do it"))

TOOLS = '''
from pathlib import Path

import anyio

from forge_cli import ToolContext, tool


def note(text: str) -> str:
    """Note something."""
    with open("notes.txt", "a") as file:
        file.write(text + "\\n")
    return f"noted {text}"


def rewrite(path: str, text: str) -> str:
    """Write over a file, whatever it is."""
    Path(path).write_text(text)
    return "written"


@tool(needs_approval=True)
def risky(text: str) -> str:
    """Do something that asks."""
    return note(text)


async def hold(context: ToolContext) -> str:
    """Wait for ever."""
    try:
        context.progress("holding")
        await anyio.sleep_forever()
    finally:
        note("let go")


@tool(timeout=0.5)
async def hasty(context: ToolContext) -> str:
    """Call another worker, and lose patience."""
    return await context.delegate("helper.yaml", "do it")


@tool(read_only=True)
async def look(name: str, context: ToolContext) -> str:
    """Call a worker, and say of oneself that one only reads."""
    return await context.delegate(f"{name}.yaml", "look")


async def both(context: ToolContext) -> str:
    """Call two workers, one after the other."""
    note("both starts")
    one = await context.delegate("one.yaml", "first")
    two = await context.delegate("./two.yaml", "second", instructions="Be quick.")
    return f"{one} and {two}"


async def at_once(context: ToolContext) -> str:
    """Call two workers at the same time."""
    answers = {}

    async def ask(name: str) -> None:
        answers[name] = await context.delegate(f"{name}.yaml", name)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, "one")
        tasks.start_soon(ask, "two")
    return f"{answers['one']} and {answers['two']}"


async def any_worker(path: str, context: ToolContext) -> str:
    """Call whichever worker the model names."""
    return await context.delegate(path, "do it")
'''


def script(*turns: Any) -> str:
    """A script file; a plain string is a turn of text."""
    return json.dumps(
        {"turns": [{"text": turn} if isinstance(turn, str) else turn for turn in turns]}
    )


def custom(*names: str, approval: str = "preApproved") -> str:
    """A section for tools of ``TOOLS``."""
    return f"custom: {{module: ./tools.py, tools: [{', '.join(names)}], approval: {{default: {approval}}}}}"


def allowed(*names: str, approval: str = "preApproved") -> str:
    return f"workers: {{allowed: [{', '.join(names)}], approval: {{default: {approval}}}}}"


class Tree:
    """Workers in a project; ``boss`` may call ``helper`` unless it is written anew."""

    def __init__(self, project: Project) -> None:
        self.project = project
        project.write("tools.py", TOOLS)
        self.boss(allowed("helper"))

    def boss(self, *toolsets: str, more: str = "") -> None:
        self._write("boss", "instructions: You lead.\n" + more, toolsets)

    def worker(
        self, name: str, *turns: Any, toolsets: tuple[str, ...] = (), more: str = ""
    ) -> None:
        """A worker with a script of its own."""
        self.project.write(f"{name}.script.yaml", script(*turns))
        self._write(name, f"model: script:{name}.script.yaml\n{more}", toolsets)

    def _write(self, name: str, more: str, toolsets: tuple[str, ...]) -> None:
        sections = "".join(f"  {section}\n" for section in toolsets)
        self.project.write(
            f"{name}.yaml", f"name: {name}\n{more}\ntoolsets:\n{sections or '  plan:'}\n"
        )

    def run(self, *turns: Any, **options: Any) -> Seen:
        return self.project.run(*turns, **{"worker": "boss.yaml", **options})

    def park(self, *turns: Any, **options: Any) -> Seen:
        return self.run(*turns, on_ask=OnAsk.PARK, **options)

    def go_on(self, seen: Seen, *turns: Any, approved: bool = True, **options: Any) -> Seen:
        """Resume a session after every request was answered; the lines of the whole session come back."""
        lines = recorded(seen)
        decided = {
            event.request_id for line in lines if isinstance(event := line.event, ApprovalDecided)
        }
        asked = [
            event.request.request_id
            for line in lines
            if isinstance(event := line.event, ApprovalRequired)
        ]
        answers = [
            ApprovalResponse(request, ApprovalDecision(approved))
            for request in asked
            if request not in decided
        ]
        resumed = Resumed(read_past([*lines, *lines_of(*answers, after=lines[-1])]), lines[-1])
        again = self.run(*turns, task="", resume=resumed, **options)
        again.record[:0] = lines
        return again

    @property
    def notes(self) -> list[str]:
        """The notes of the tools, in order."""
        file = self.project.folder / "notes.txt"
        return file.read_text().splitlines() if file.exists() else []


def recorded(seen: Seen) -> list[Line]:
    return seen.record


def results(seen: Seen, depth: int = 0) -> list[ToolResult]:
    return [
        event for event in seen.outcomes if (event.origin.depth if event.origin else 0) == depth
    ]


def texts(seen: Seen, depth: int = 0) -> list[str]:
    return [event.value.text() for event in results(seen, depth)]


def unanswered(seen: Seen) -> list[tuple[str, str]]:
    """The calls of the log that have not exactly one result."""
    started = [_call(line) for line in seen.record if line.type == ToolStarted.type]
    ended = [_call(line) for line in seen.record if line.type == ToolResult.type]
    return [
        each
        for each in dict.fromkeys([*started, *ended])
        if started.count(each) > 1 or ended.count(each) != 1
    ]


def _call(line: Line) -> tuple[str, str]:
    return line.delegation or "", line.data["toolCallId"]


class Voices:
    """A model that speaks for every worker without a model of its own: by the first word of its instructions."""

    name = "voices"
    context_window = None

    def __init__(self, **turns: list[Any]) -> None:
        self.turns = turns
        self.heard: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Any, None]:
        self.heard.append(ModelRequest(request.system, list(request.messages), request.tools))
        turn = self.turns[request.system.split()[0]].pop(0)
        if isinstance(turn, str):
            yield TextDelta(turn)
        else:
            yield ToolCall(f"c{len(self.heard)}", *turn)
        yield TurnEnd("end" if isinstance(turn, str) else "tool_use", Usage(10, 5))

    async def aclose(self) -> None:
        """Nothing is open."""

"""A gate with tools, a person who answers, and the recorded events."""

from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from forge_cli import (
    ApprovalDecision,
    ApprovalRequest,
    EventBus,
    InterruptSignal,
    Tool,
    ToolContext,
)
from forge_cli.core.events import ApprovalDecided, ApprovalRequired, Event, ToolResult
from forge_cli.embedding import ApprovalController
from forge_cli.engine.gate.consent import Consent
from forge_cli.engine.gate.guard import Guard
from forge_cli.engine.gate.judge import Judge, JudgedWorker
from forge_cli.engine.gate.offer import Offer
from forge_cli.engine.gate.policy import Policy
from forge_cli.engine.gate.steps import Caller
from forge_cli.engine.gate.toolbox import Toolbox
from forge_cli.events import ToolCall, ToolOutcome
from forge_cli.sandbox.files.sandbox import Sandbox
from forge_cli.sandbox.zones.declared import open_zones
from forge_cli.sandbox.zones.zones import Isolation
from forge_cli.testing import Project
from tests.support.tree import Tree

ANY_TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}

Callback = Callable[[ApprovalRequest], Awaitable[ApprovalDecision]]


class Gate:
    """A gate for some tools; ``answers`` are those of a person, or a callback; without, there is no person."""

    def __init__(
        self,
        folder: Path,
        *tools: Tool,
        answers: Iterable[ApprovalDecision | bool] | Callback | None = None,
        mode: str = "interactive",
        policy: Policy | None = None,
    ) -> None:
        self.events: list[Event] = []
        self.asked: list[ApprovalRequest] = []
        self.bus = EventBus()
        self.bus.subscribe(self.events.append)
        self.interrupt = InterruptSignal()
        self.offers = {tool.name: Offer(tool, "box", policy or Policy()) for tool in tools}
        self._answers = answers if answers is None or callable(answers) else list(answers)
        zones = open_zones(None, workspace=folder, user_home=Path("/nonexistent"), file="-")
        sandbox = Sandbox(zones)
        judge = Judge(
            offers=self.offers,
            open_sandbox=lambda: sandbox,
            worker=JudgedWorker("tester", folder, zones, Isolation()),
        )
        toolbox = Toolbox([], lambda level, sentence: None, offers=self.offers)
        controller = ApprovalController(
            mode, None if answers is None else self._answer, bus=self.bus
        )
        self.guard = Guard(
            judge=judge,
            consent=Consent(judge, controller, self.interrupt, toolbox),
            bus=self.bus,
            interrupt=self.interrupt,
        )
        self._calls = 0

    async def _answer(self, request: ApprovalRequest) -> ApprovalDecision:
        self.asked.append(request)
        if callable(self._answers):
            return await self._answers(request)
        assert self._answers, "asked once more than expected"
        answer = self._answers.pop(0)
        return ApprovalDecision(answer) if isinstance(answer, bool) else answer

    async def __call__(
        self, tool: str, /, caller: Caller = Caller.MODEL, **args: Any
    ) -> ToolOutcome:
        self._calls += 1
        return await self.guard.call(ToolCall(f"c{self._calls}", tool, args), caller)

    @property
    def happened(self) -> list[Event]:
        """The events so far, without times and IDs of calls."""
        return [_plain(event) for event in self.events]

    @property
    def types(self) -> list[str]:
        return [event.type for event in self.events]


def _plain(event: Event) -> Event:
    match event:
        case ToolResult():
            return replace(event, duration_ms=0, distribution=None, traceback=None)
        case ApprovalDecided():
            return replace(event, fingerprint=None)
        case ApprovalRequired(request):
            known = {
                "fingerprint": None,
                "stamp": None,
                "distribution": None,
                "offers": None,
                "policy_files": None,
            }
            return replace(event, request=replace(request, **known))
    return event


OpenGate = Callable[..., Gate]


@pytest.fixture
def gate(tmp_path: Path) -> OpenGate:
    def opened(*tools: Tool, **options: Any) -> Gate:
        return Gate(tmp_path, *tools, **options)

    return opened


@pytest.fixture
def tree(project: Project, monkeypatch: pytest.MonkeyPatch) -> Tree:
    """Workers that call each other, in the current directory."""
    monkeypatch.chdir(project.folder)
    return Tree(project)


class Recorded:
    """A tool that keeps the args with which it was executed."""

    def __init__(self, name: str = "act", **options: Any) -> None:
        self.executed: list[dict[str, Any]] = []
        given: dict[str, Any] = {"description": "Act.", "input_schema": ANY_TEXT, **options}
        self.tool = Tool(name=name, execute=self._execute, **given)

    async def _execute(self, args: dict[str, Any], context: ToolContext) -> str:
        self.executed.append(args)
        return "done"

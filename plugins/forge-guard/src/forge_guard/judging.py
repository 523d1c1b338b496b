"""The answer to a hook: its question, judged by the policy; any failure asks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from forge_cli import ForgeError, load_worker
from forge_cli.embedding import Examined, Gate, open_gate
from forge_guard.answers import REWRITING, Answer, Decision, say
from forge_guard.confined import rewritten
from forge_guard.hooks import HOOKS, read_question
from forge_guard.policy import policy_file
from forge_guard.questions import NotUnderstood, Question

Verdict = Mapping[str, Any]
MAX_OPEN = 16
"""Open gates; the least recently used one is closed."""
STRICTER: tuple[Decision, ...] = ("allow", "ask", "deny")
MEANS: dict[str, Decision] = {
    "preApproved": "allow",
    "ask": "ask",
    "blocked": "deny",
    "refused": "ask",
}
"""The decision for each verdict; a call that the policy cannot judge is left to the person."""


@dataclass(frozen=True)
class Judged:
    """The verdicts on the calls of a question, and the rule sets whose lines run confined."""

    calls: Sequence[Examined]
    confine: frozenset[str] = frozenset()

    @property
    def is_confined(self) -> bool:
        """True if a line needs a rule set whose lines run confined."""
        return any(not self.confine.isdisjoint(call.sets) for call in self.calls)


Judge = Callable[[Question], Awaitable[Judged]]


@dataclass(frozen=True)
class OpenGate:
    """An open gate, and what the toolset ``guard`` says about it."""

    gate: Gate
    stack: AsyncExitStack
    confine: frozenset[str]


@dataclass
class Gates:
    """The open gates by tool, session and folder, each with a session record.

    A gate is replaced when the files of its policy change.
    """

    _open: dict[tuple[str, str, Path], OpenGate] = field(default_factory=dict)

    async def judge(self, question: Question) -> Judged:
        """Judge and record each call of a question."""
        found = await self._gate(question.tool, question.session, question.project)
        calls: list[Examined] = []
        for name, args in question.calls:
            calls.append(await found.gate.examine(name, args, made=question.made))
        return Judged(calls, found.confine)

    async def _gate(self, tool: str, session: str, project: Path) -> OpenGate:
        key = (tool, session, project)
        if key in self._open:
            kept = self._open.pop(key)
            if not kept.gate.stale:
                self._open[key] = kept  # last in the dict: the most recently used
                return kept
            await kept.stack.aclose()
        elif len(self._open) >= MAX_OPEN:
            await self._open.pop(next(iter(self._open))).stack.aclose()
        worker = load_worker(policy_file())
        own = worker.config.toolsets.get("guard")
        async with AsyncExitStack() as stack:
            gate = await stack.enter_async_context(open_gate(worker, workspace=project, maker=tool))
            confine = frozenset(own.get("confine", ()) if isinstance(own, dict) else ())
            if "testing" in confine:
                confine |= {"code"}
            self._open[key] = OpenGate(gate, stack.pop_all(), confine)
        return self._open[key]

    async def aclose(self) -> None:
        """End all sessions."""
        for key in list(self._open):
            await self._open.pop(key).stack.aclose()


async def answer(tool: str, text: str, env: Mapping[str, str], judge: Judge) -> Answer:
    """Return the answer to the hook of a tool."""
    event = HOOKS[tool].event
    try:
        question = read_question(tool, text, env)
        event = question.event
        if not question.calls:
            return say(tool, event, None, "")
        judged = await judge(question)
    except NotUnderstood as doubt:
        return say(tool, event, "ask", f"forge guard: {doubt}")
    except (ForgeError, OSError) as error:
        return say(tool, event, "ask", f"forge guard failed: {' '.join(str(error).split())}")
    except Exception as error:  # even a bug here must not let a call through
        return say(
            tool,
            event,
            "ask",
            f"forge guard failed: {type(error).__name__}: {' '.join(str(error).split())}",
        )
    decision, reason = decide(question, judged)
    if decision == "allow" and judged.is_confined:
        return _confined(question, event, reason)
    if decision == "allow" and any(call.writes for call in judged.calls):
        # The tool's own mode decides on changes, so that the hook loosens nothing.
        return say(tool, event, None, "")
    return say(tool, event, decision, reason)


def _confined(question: Question, event: str, reason: str) -> Answer:
    """Return the answer for a line that is allowed only in the confinement of forge."""
    tool = question.tool
    line = question.given.get("command")
    if tool not in REWRITING or not isinstance(line, str):
        why = "it is to run confined (toolsets.guard.confine), which a hook cannot do here"
        return say(tool, event, "ask", f"forge guard: {why}")
    given = {**question.given, "command": rewritten(line, question.project)}
    return say(tool, event, "allow", f"{reason}; it runs confined", given)


def decide(question: Question, judged: Judged) -> tuple[Decision | None, str]:
    """Return the strictest decision with its reason; None for calls that were made already."""
    if question.made:
        return None, ""
    verdicts: list[Verdict] = [call.answer for call in judged.calls]
    verdict = max(verdicts, key=lambda each: STRICTER.index(MEANS[each["verdict"]]))
    decision = MEANS[verdict["verdict"]]
    if question.doubt and (decision == "allow" or verdict["verdict"] == "refused"):
        return "ask", f"forge guard: {question.doubt}"
    place = ", ".join(str(verdict[key]) for key in ("rule", "where") if verdict.get(key))
    shown = f" ({place})" if place else ""
    return decision, f"forge guard: {verdict['reason']}{shown}"

"""The answer to a hook: its question, judged by the policy; any failure asks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from forge_cli import ForgeError, load_worker
from forge_cli.embedding import Gate, open_gate
from forge_guard.answers import Answer, Decision, say
from forge_guard.hooks import HOOKS, read_question
from forge_guard.policy import policy_file
from forge_guard.questions import NotUnderstood, Question

Verdict = Mapping[str, Any]
Judge = Callable[[Question], Awaitable[list[Verdict]]]
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


@dataclass
class Gates:
    """The open gates by tool, session and folder, each with a session record.

    A gate is replaced when the files of its policy change.
    """

    _open: dict[tuple[str, str, Path], tuple[Gate, AsyncExitStack]] = field(default_factory=dict)

    async def judge(self, question: Question) -> list[Verdict]:
        """Judge and record each call of a question."""
        gate = await self._gate(question.tool, question.session, question.project)
        return [await gate.judge(name, args, made=question.made) for name, args in question.calls]

    async def _gate(self, tool: str, session: str, project: Path) -> Gate:
        key = (tool, session, project)
        if key in self._open:
            kept = self._open.pop(key)
            if not kept[0].stale:
                self._open[key] = kept  # last in the dict: the most recently used
                return kept[0]
            await kept[1].aclose()
        elif len(self._open) >= MAX_OPEN:
            await self._open.pop(next(iter(self._open)))[1].aclose()
        async with AsyncExitStack() as stack:
            gate = await stack.enter_async_context(
                open_gate(load_worker(policy_file()), workspace=project, maker=tool)
            )
            self._open[key] = gate, stack.pop_all()
        return gate

    async def aclose(self) -> None:
        """End all sessions."""
        for key in list(self._open):
            await self._open.pop(key)[1].aclose()


async def answer(tool: str, text: str, env: Mapping[str, str], judge: Judge) -> Answer:
    """Return the answer to the hook of a tool."""
    event = HOOKS[tool].event
    try:
        question = read_question(tool, text, env)
        event = question.event
        if not question.calls:
            return say(tool, event, None, "")
        verdicts = await judge(question)
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
    return say(tool, event, *decide(question, verdicts))


def decide(question: Question, verdicts: list[Verdict]) -> tuple[Decision | None, str]:
    """Return the strictest decision with its reason; None for calls that were made already."""
    if question.made:
        return None, ""
    verdict = max(verdicts, key=lambda each: STRICTER.index(MEANS[each["verdict"]]))
    decision = MEANS[verdict["verdict"]]
    if question.doubt and (decision == "allow" or verdict["verdict"] == "refused"):
        return "ask", f"forge guard: {question.doubt}"
    place = ", ".join(str(verdict[key]) for key in ("rule", "where") if verdict.get(key))
    shown = f" ({place})" if place else ""
    return decision, f"forge guard: {verdict['reason']}{shown}"

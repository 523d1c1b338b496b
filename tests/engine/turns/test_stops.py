"""Ends of a model's turn: a truncated answer continues, and a declined one is an error."""

from collections.abc import AsyncGenerator

import pytest

from forge_cli.core.errors import ExitCode
from forge_cli.core.messages import Delta
from forge_cli.hooks import ModelRequest, TextDelta, TurnEnd
from forge_cli.testing import Project
from tests.support.listener import Listener

WORKER = """
name: teller
toolsets:
  custom: {module: ./tools.py, tools: [count], approval: {default: preApproved}}
"""
TOOLS = """
def count(n: int) -> int:
    return n + 1
"""


def test_answer_cut_at_its_length_is_continued(project: Project) -> None:
    project.write("worker.yaml", WORKER)
    project.write("tools.py", TOOLS)
    model = Listener(
        [TextDelta("once upon "), TurnEnd("max_tokens")], [TextDelta("a time"), TurnEnd()]
    )
    seen = project.run(model=model)
    assert (seen.result.status, seen.result.response, seen.result.turns) == (
        "completed",
        "once upon a time",
        2,
    )
    assert [message.role for message in model.requests[1].messages] == ["user", "assistant", "user"]
    assert "cut off" in model.requests[1].messages[-1].text


@pytest.mark.parametrize(
    "said", [[], [TextDelta("and ")]], ids=["within its first call", "in its text"]
)
def test_always_truncated_model_is_asked_a_limited_number_of_times(
    project: Project, said: list[Delta]
) -> None:
    project.write("worker.yaml", WORKER)
    project.write("tools.py", TOOLS)
    model = Listener(*[[*said, TurnEnd("max_tokens")] for _ in range(9)])
    seen = project.run(model=model)
    assert (seen.result.status, seen.result.exit_code, seen.result.turns) == (
        "failed",
        ExitCode.PROVIDER,
        5,
    )
    assert "cut off at its length limit 5 times in a row" in seen.result.error


def test_declining_model_is_a_provider_error(project: Project) -> None:
    project.write("worker.yaml", WORKER)
    project.write("tools.py", TOOLS)
    seen = project.run(model=Listener([TextDelta("I cannot."), TurnEnd("refusal")]))
    assert (seen.result.status, seen.result.exit_code) == ("failed", ExitCode.PROVIDER)
    assert "listener declined to answer" in seen.result.error
    assert seen.result.response == "I cannot."


def test_broken_provider_is_one_message_and_the_session_ends(project: Project) -> None:
    class Broken(Listener):
        async def answer(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
            yield TextDelta("well")
            raise KeyError("choices")

    project.write("worker.yaml", WORKER)
    project.write("tools.py", TOOLS)
    seen = project.run(model=Broken())
    assert (seen.result.status, seen.result.exit_code) == ("failed", ExitCode.PROVIDER)
    assert seen.result.error == "listener failed: KeyError: 'choices'"
    assert seen.types[-1] == "sessionEnd"

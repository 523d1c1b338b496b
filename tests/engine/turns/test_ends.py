"""How a task ends when it is not simply done: limits, calls that lead nowhere, answers that do not fit."""

import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from forge_cli.core.errors import ExitCode
from forge_cli.core.events import MessageEvent
from forge_cli.core.messages import Delta, TextDelta
from forge_cli.embedding import Limits
from forge_cli.events import ToolCall, Usage
from forge_cli.hooks import ModelRequest, TurnEnd
from forge_cli.testing import Project, Seen, call, calls
from tests.support.listener import Listener

TOOLS = """
import anyio
from forge_cli import Approval, tool

def look(n: int = 0) -> int:
    return n

def act(text: str = "") -> str:
    return text

@tool(needs_approval=Approval.BLOCKED)
def never() -> str:
    return "no"

async def wait() -> None:
    await anyio.sleep_forever()
"""
SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}


@pytest.fixture
def worker(project: Project) -> Project:
    project.write("tools.py", TOOLS)
    approval = "{default: preApproved, tools: {act: ask}}"
    tools = "[look, act, never, wait]"
    project.write(
        "worker.yaml",
        f"name: w\ntoolsets: {{custom: {{module: ./tools.py, tools: {tools}, approval: {approval}}}}}\n",
    )
    return project


def ended(seen: Seen) -> tuple[str, ExitCode, str | None]:
    return seen.result.status, seen.result.exit_code, seen.result.error


def test_third_identical_denied_call_ends_the_work(worker: Project) -> None:
    seen = worker.run(*[calls(call("act", text="x"))] * 9, "never said")
    assert seen.statuses == ["denied"] * 3
    status, code, error = ended(seen)
    assert (status, code) == ("limit", ExitCode.LIMIT)
    assert error is not None
    assert error.startswith("act was denied three times with the same arguments")
    assert seen.result.turns == 3


def test_blocked_calls_count_also_within_one_turn(worker: Project) -> None:
    seen = worker.run(calls(*[call("never")] * 3), "never said")
    assert seen.statuses == ["blocked"] * 3
    assert ended(seen)[:2] == ("limit", ExitCode.LIMIT)


def test_call_with_other_arguments_is_another_call(worker: Project) -> None:
    turns = [calls(call("act", text=text)) for text in "abcdef"]
    assert ended(worker.run(*turns, "done"))[:2] == ("completed", ExitCode.DONE)


def test_third_turn_without_a_valid_call_ends_the_work(worker: Project) -> None:
    seen = worker.run(*[calls(call("look", n="many"))] * 9, "never said")
    assert seen.statuses == ["invalid"] * 3
    assert ended(seen)[:2] == ("limit", ExitCode.LIMIT)


def test_valid_call_resets_the_count(worker: Project) -> None:
    bad, good = calls(call("look", n="many")), calls(call("look", n=1))
    assert ended(worker.run(bad, bad, good, bad, bad, good, "done"))[0] == "completed"


def test_time_limit_ends_a_hanging_tool(worker: Project) -> None:
    seen = worker.run(calls(call("wait"), call("look")), "never said", limits=Limits(max_time=0.3))
    assert seen.statuses == ["interrupted", "interrupted"]
    assert ended(seen) == ("limit", ExitCode.LIMIT, "the limit of 0.3 seconds was reached")


class Talker:
    """A model that never stops calling, and reports its usage."""

    name, context_window = "talker:x", None

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        number = len(request.messages)
        yield ToolCall(f"c{number}", "look", {"n": number})
        yield TurnEnd("tool_use", Usage(input_tokens=100, output_tokens=20, cache_read_tokens=30))

    async def aclose(self) -> None:
        """Nothing is open."""


def test_tokens_are_added_up(worker: Project) -> None:
    seen = worker.run(model=Talker(), limits=Limits(max_tokens=400))
    assert ended(seen) == ("limit", ExitCode.LIMIT, "the limit of 400 tokens was reached")
    assert (seen.result.turns, seen.result.usage) == (3, Usage(300, 60, 90))
    assert seen.result.cost is None


def sayer() -> Listener:
    """A model that answers at once, in two parts, and reports its usage."""
    used = Usage(input_tokens=50, output_tokens=10, cache_read_tokens=15)
    return Listener(
        [TextDelta("The "), TurnEnd("max_tokens", used)],
        [TextDelta("answer."), TurnEnd("end", used)],
    )


@pytest.mark.parametrize(
    ("limits", "error"),
    [
        (
            Limits(max_tokens=149),
            "the last turn exceeded the limit of 149 tokens (150); its answer is kept",
        ),
        (
            Limits(max_cost=0.2),
            "the last turn exceeded the limit of $0.20 ($0.203); its answer is kept",
        ),
    ],
    ids=["tokens", "cost"],
)
def test_limit_exceeded_by_the_last_turn_keeps_the_answer(
    worker: Project, limits: Limits, error: str
) -> None:
    worker.home.mkdir()
    price = "{input: 1000, output: 5000, cache_read: 100}"
    (worker.home / "config.yaml").write_text(f'models: {{"listener": {{price: {price}}}}}\n')
    seen = worker.run(model=sayer(), limits=limits)
    assert ended(seen) == ("limit", ExitCode.LIMIT, error)
    assert seen.result.response == "The answer."


def test_limit_met_exactly_by_the_last_turn_is_not_exceeded(worker: Project) -> None:
    seen = worker.run(model=sayer(), limits=Limits(max_tokens=150))
    assert ended(seen) == ("completed", ExitCode.DONE, None)


def test_cost_uses_the_price_in_the_config(worker: Project) -> None:
    worker.home.mkdir()
    price = "{input: 1000, output: 5000, cache_read: 100}"
    (worker.home / "config.yaml").write_text(f'models: {{"talker:x": {{price: {price}}}}}\n')
    seen = worker.run(model=Talker(), limits=Limits(max_cost=0.5))
    assert ended(seen) == ("limit", ExitCode.LIMIT, "the limit of $0.50 was reached")
    assert seen.result.cost == pytest.approx(3 * (0.1 + 0.1 + 0.003))


def test_cost_limit_requires_a_price(worker: Project) -> None:
    worker.write("s.yaml", "turns: [{text: hi}]\n")
    done = worker.forge("run", "worker.yaml", "go", "-m", "script:s.yaml", "--max-cost", "1")
    assert done.returncode == 3
    assert "the price of script:s.yaml is unknown, so max_cost cannot be enforced" in done.stderr
    assert "Traceback" not in done.stderr


def test_cost_limit_in_the_config_does_not_stop_a_scripted_model(worker: Project) -> None:
    worker.write("s.yaml", "turns: [{text: hi}]\n")
    worker.home.mkdir()
    (worker.home / "config.yaml").write_text("limits: {max_cost: 1}\n")
    done = worker.forge("run", "worker.yaml", "go", "-p", "-m", "script:s.yaml")
    assert (done.returncode, done.stdout) == (0, "hi\n")


def with_schema(worker: Project, *turns: Any, schema: Any = SCHEMA) -> Seen:
    text = worker.read("worker.yaml")
    worker.write("schema.json", json.dumps(schema))
    worker.write("fits.yaml", f"{text}output_schema: ./schema.json\n")
    return worker.run(*turns, worker="fits.yaml")


def test_valid_answer_is_available_as_a_value(worker: Project) -> None:
    seen = with_schema(worker, calls(call("look")), '{"n": 7}')
    assert ended(seen) == ("completed", ExitCode.DONE, None)
    assert (seen.result.output, seen.result.response) == ({"n": 7}, '{"n": 7}')


def test_invalid_answer_may_be_repaired_twice(worker: Project) -> None:
    seen = with_schema(worker, "seven", '{"n": "7"}', '```json\n{"n": 7}\n```')
    assert (seen.result.status, seen.result.output, seen.result.response) == (
        "completed",
        {"n": 7},
        '{"n": 7}',
    )
    told = [event.message.text for event in seen.of(MessageEvent) if event.message.role == "user"]
    assert len(told) == 3
    assert "'7' is not of type 'integer'" in told[2]


def test_third_invalid_answer_ends_the_work(worker: Project) -> None:
    seen = with_schema(worker, "one", "two", "three", '{"n": 7}')
    assert (seen.result.status, seen.result.exit_code) == ("invalid_output", ExitCode.MISFIT)
    assert (seen.result.output, seen.result.turns) == (None, 3)


def test_schema_flag_overrides_the_worker(worker: Project) -> None:
    worker.write("schema.json", json.dumps(SCHEMA))
    worker.write("s.yaml", "turns: [{text: nothing}, {text: nothing}, {text: nothing}]\n")
    words = ("run", "worker.yaml", "go", "-m", "script:s.yaml", "--output-schema", "schema.json")
    done = worker.forge(*words, "--output-format", "json")
    assert done.returncode == 6
    assert json.loads(done.stdout)["status"] == "invalid_output"
    assert "does not match its schema" in done.stderr


@pytest.mark.parametrize("content", [None, "{", '{"type": "nothing"}'])
def test_unusable_schema_is_reported_before_the_model_is_asked(
    worker: Project, content: str | None
) -> None:
    if content is not None:
        worker.write("schema.json", content)
    worker.write("s.yaml", "turns: [{text: nothing}]\n")
    done = worker.forge(
        "run", "worker.yaml", "go", "-m", "script:s.yaml", "--output-schema", "schema.json"
    )
    assert (done.returncode, done.stdout) == (3, "")
    assert "schema.json" in done.stderr
    assert "Traceback" not in done.stderr

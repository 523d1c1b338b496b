"""A worker with one of Anthropic's models, from the command line to the wire and back."""

import json

import pytest

from forge_cli.core.events import StatusEvent, ToolResult
from forge_cli.testing import Project

from .server import Api, Cut, Fails, say, thinking, tool_use

TOOLS = """
def add(a: int, b: int) -> int:
    \"\"\"Add two numbers.\"\"\"
    return a + b
"""
WORKER = """
name: adder
instructions: You add numbers.
model: anthropic:claude-haiku-5-5
toolsets:
  custom: {module: ./tools.py, tools: [add], approval: {default: preApproved}}
"""
CALL = say(thinking("Easy."), "Let me add.", tool_use("toolu_1", "add", a=1, b=2))


@pytest.fixture
def adder(project: Project) -> Project:
    project.write("tools.py", TOOLS)
    project.write("worker.yaml", WORKER)
    return project


def test_worker_uses_a_tool(api: Api, adder: Project) -> None:
    api.will(CALL, say("It is 3."))
    done = adder.forge("run", "worker.yaml", "What is 1 + 2?", "--output-format", "json")
    result = json.loads(done.stdout)
    assert (done.returncode, result["response"], result["turns"]) == (0, "It is 3.", 2)
    assert result["usage"] == {
        "inputTokens": 22,
        "outputTokens": 84,
        "cacheReadTokens": 14,
        "cacheWriteTokens": 10,
    }
    assert api.received[1].data["messages"][2]["content"] == [
        {"type": "tool_result", "tool_use_id": "toolu_1", "content": "3"}
    ]
    (tool,) = api.received[0].data["tools"]
    assert (tool["name"], tool["input_schema"]["required"]) == ("add", ["a", "b"])


def test_attached_file_is_in_the_request(api: Api, adder: Project) -> None:
    adder.write("numbers.txt", "1 and 2")
    api.will(say("It is 3."))
    done = adder.forge("run", "worker.yaml", "Add these.", "-p", "--attach", "numbers.txt")
    assert (done.returncode, done.stdout) == (0, "It is 3.\n")
    (message,) = api.received[0].data["messages"]
    assert message["content"][0]["text"] == "The attached file numbers.txt:\n\n1 and 2"


def test_refused_key_is_exit_7(api: Api, adder: Project) -> None:
    api.will(Fails(401, "authentication_error", "invalid x-api-key"))
    done = adder.forge("run", "worker.yaml", "Add.", "-p")
    assert done.returncode == 7
    assert "refused the key in ANTHROPIC_API_KEY (HTTP 401: invalid x-api-key; " in done.stderr
    assert "Traceback" not in done.stderr


def test_cut_answer_is_reported_and_its_call_is_made_once(
    api: Api, adder: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("random.uniform", lambda low, high: 0.001)
    api.will(Cut(CALL, after=14), CALL, say("It is 3."))
    seen = adder.run(task="What is 1 + 2?")
    assert seen.result is not None
    assert (seen.result.response, seen.result.success) == ("It is 3.", True)
    assert [result.tool_call_id for result in seen.of(ToolResult)] == ["toolu_1"]
    assert [message["content"] for message in api.received[2].data["messages"]][1][1][
        "text"
    ] == "Let me add."
    told = [status.message for status in seen.of(StatusEvent)]
    assert "closed the connection before its answer was complete; trying again in " in told[0]
    assert told[1].startswith(
        f"ignore the partial answer above, it is asked for again: {api.url} closed the connection before its answer"
    )


@pytest.mark.parametrize(
    "arg",
    [
        "--trace=debug",
        pytest.param("-p", marks=pytest.mark.long),
        pytest.param("--json", marks=pytest.mark.long),
    ],
)
def test_password_in_the_address_is_never_printed(
    api: Api, adder: Project, monkeypatch: pytest.MonkeyPatch, arg: str
) -> None:
    place = "http://me:hunter2@127.0.0.1:9/v1?key=hunter2"
    done = adder.forge(
        "run",
        "worker.yaml",
        "Hi",
        arg,
        env={"ANTHROPIC_BASE_URL": place, "ANTHROPIC_API_KEY": "k" * 9},
    )
    assert done.returncode == 7
    assert "http://127.0.0.1:9/v1 cannot be reached" in done.stderr
    for printed in (done, adder.forge("doctor"), adder.forge("models", "list")):
        assert "hunter2" not in printed.stdout + printed.stderr
    odd = adder.forge(
        "run", "worker.yaml", "Hi", "-p", env={"ANTHROPIC_BASE_URL": "me:hunter2@127.0.0.1"}
    )
    assert (odd.returncode, "hunter2" in odd.stderr) == (7, False)


@pytest.mark.parametrize("second", ["toolu_1", ""])
def test_calls_with_duplicate_or_missing_ids_get_new_ones(
    api: Api, adder: Project, second: str
) -> None:
    again = say(tool_use("toolu_1", "add", a=5, b=6))
    api.will(
        say(tool_use("toolu_1", "add", a=1, b=2), tool_use(second, "add", a=3, b=4)),
        again,
        say("Done."),
    )
    seen = adder.run(model="anthropic:claude-haiku-5-5")
    assert (seen.statuses, seen.result.response) == (["success"] * 3, "Done.")
    _, asked, told, asked_again, told_again = api.received[2].data["messages"]
    ids = [block["id"] for message in (asked, asked_again) for block in message["content"]]
    assert len({*ids, ""}) == 4
    results = [
        (block["tool_use_id"], block["content"])
        for message in (told, told_again)
        for block in message["content"]
    ]
    assert results == [(ids[0], "3"), (ids[1], "7"), (ids[2], "11")]


def test_duplicate_key_is_invalid_input(api: Api, adder: Project) -> None:
    api.will(say(tool_use("toolu_1", "add"), raw='{"a": 1, "b": 2, "a": 3}'), say("Sorry."))
    seen = adder.run(model="anthropic:claude-haiku-5-5")
    assert [(each.status, each.error) for each in seen.outcomes] == [
        ("invalid", """the input of add has the key 'a' more than once: {"a": 1, "b": 2, "a": 3}""")
    ]
    assert seen.result.response == "Sorry."

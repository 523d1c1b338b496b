"""The provider's cache stays warm: request after request begins with the same bytes, also in another process."""

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from forge_cli.core.calls import ToolCall
from forge_cli.core.errors import ExitCode
from forge_cli.core.messages import CallResult, Message, ModelRequest
from forge_cli.core.phrases import ELIDED_RESULT
from forge_cli.models.anthropic.encode import Encoder
from forge_cli.record.line import Line
from forge_cli.record.resume import Resumed, read_past
from forge_cli.testing import Project, Seen

from .cache import PromptCache, share_read
from .server import Answer, Api, Fails, Received, say, text, thinking, tool_use

TOOLS = r'''
import sys
from forge_cli import Custom, Json, Text, ToolError, tool
from forge_cli.results import FileList

@tool(read_only=True)
def give(what: str, size: int = 1):
    """Give something of every kind."""
    match what:
        case "text": return "tëxt\n" * size
        case "surrogate": return "half \ud83d a face"
        case "control": return "\x1b[31m\x00 end"
        case "number": return 1e100 / 3
        case "numbers": return {1: 0.1 + 0.2, "b": [None, True, 10**30, float("nan")], "tuple": (1, {2})}
        case "nothing": return None
        case "bytes": return b"\xff\x00ok"
        case "files": return FileList.of("/x", tuple(f"file {n}" for n in range(size)))
        case "json": return Json({"z": 1, "a": ["é", "\u2028"]})
        case "custom": return Custom("box.thing", {"z": 1, "a": 2}, summary="A thing", mime_type="a/b")
        case "own words": return Custom("box.thing", {"z": 1}, model_text="what the model reads\r\n")
        case "error": raise ToolError("it went wrong: ünïcode")
        case "crash": raise RuntimeError("boom")
        case "exit": sys.exit(3)

def ask(a: int) -> int:
    """Nobody answers."""
    return a
'''
WORKER = """
name: giver
instructions: |
  You give: "quotes", {braces} and ünïcode.
model: anthropic:claude-haiku-5-5
toolsets:
  custom: {module: ./tools.py, tools: [give, ask], approval: {tools: {give: preApproved}}}
  filesystem:
  shell:
  plan:
"""
MARK = b',"cache_control":{"type":"ephemeral"}'
KINDS = (
    *(
        "text",
        "surrogate",
        "control",
        "number",
        "numbers",
        "nothing",
        "bytes",
        "files",
        "json",
        "custom",
    ),
    *("own words", "error", "crash", "exit"),
)


@pytest.fixture
def giver(project: Project) -> Project:
    project.write("tools.py", TOOLS)
    project.write("worker.yaml", WORKER)
    project.write("notes/ä.txt", "one\ntwo\n")
    return project


def everything() -> list[Answer]:
    """Turns that together make every kind of call, with every kind of result."""
    gives = [tool_use(f"toolu_{n}", "give", what=kind) for n, kind in enumerate(KINDS)]
    return [
        say(thinking("Hm, «ünï»."), "Let me see.", *gives),
        say(
            tool_use("toolu_a", "ask", a=1), tool_use("toolu_b", "nowhere", x=[1.0, 1e22, "\u2028"])
        ),
        say(
            thinking("More."),
            tool_use("toolu_c", "give", what="text", size=9000),
            tool_use("toolu_d", "give"),
        ),
        say(
            tool_use("toolu_e", "read_file", path="notes/ä.txt"),
            tool_use("toolu_f", "list_files", path="/"),
        ),
        say(tool_use("toolu_g", "update_plan", plan=[{"step": "é", "status": "pending"}])),
        say(tool_use("toolu_h", "give", what="files", size=300), raw="{no json"),
    ]


def begins_with(one: Received, other: Received) -> bool:
    """Is the other request the same one with more messages after it? The cache does not count its marks as content."""
    first, second = (request.raw.replace(MARK, b"") for request in (one, other))
    return second.startswith(first.removesuffix(b"]}") + b",")


def going_on(seen: Seen) -> Resumed:
    """The session as another process would find it."""
    lines = [Line.read(line.text().encode()) for line in seen.record]
    return Resumed(read_past(lines), lines[-1])


@pytest.mark.long
def test_session_resumed_in_another_process_sends_the_same_bytes(api: Api, giver: Project) -> None:
    api.will(
        *everything(),
        say(thinking("Well."), "Done."),
        say(tool_use("toolu_z", "give", what="json")),
        say("Again."),
    )
    first = giver.forge("run", "worker.yaml", "Give, «all» of it.", "--output-format", "json")
    session = json.loads(first.stdout)["session_id"]
    second = giver.forge("run", "worker.yaml", "And again?", "-r", session)
    assert (second.returncode, second.stdout) == (0, "Again.\n")
    assert len(api.received) == 9
    for one, other in pairwise(api.received):
        assert begins_with(one, other)


@pytest.mark.long
def test_interrupted_session_sends_the_same_bytes(api: Api, giver: Project) -> None:
    """The first process ends without an answer; the next one resumes there."""
    turns = everything()
    api.will(*turns[:3], Fails(400, "invalid_request_error", "no more"))
    cut = giver.run(task="Give.")
    assert cut.result.exit_code == ExitCode.PROVIDER
    api.will(*turns[3:], say("Done."))
    assert giver.run(task="", resume=going_on(cut)).result.response == "Done."
    refused, repeated = api.received[3:5]
    assert refused.raw == repeated.raw
    for one, other in pairwise([*api.received[:4], *api.received[5:]]):
        assert begins_with(one, other)


def counted(data: Any, *blocks: Any) -> Answer:
    """An answer that says how many tokens it was asked with."""
    return say(
        *blocks,
        usage={
            "input_tokens": len(json.dumps(data, ensure_ascii=False).encode()) // 3,
            "output_tokens": 42,
        },
    )


def narrow(project: Project, window: int) -> None:
    project.home.mkdir()
    (project.home / "config.yaml").write_text(
        f"models: {{'anthropic:claude-haiku-5-5': {{context: {window}}}}}"
    )


@pytest.mark.long
def test_compacted_session_sends_the_same_bytes_in_the_next_process(
    api: Api, giver: Project
) -> None:
    narrow(giver, 50_000)
    calls = iter(range(8))

    def read(data: Any) -> Answer:
        return counted(data, tool_use(f"toolu_{next(calls)}", "give", what="text", size=3000))

    api.will(*[read] * 8, lambda data: counted(data, "Done."), say("Again."))
    first = giver.run(task="Give.")
    changed = [not begins_with(one, other) for one, other in pairwise(api.received)]
    assert changed.count(True) == 1
    assert ELIDED_RESULT.encode() in api.received[-1].raw
    assert len({request.raw.partition(b'"messages":[')[0] for request in api.received}) == 1
    assert giver.run(task="And again?", resume=going_on(first)).result.response == "Again."
    assert begins_with(api.received[-2], api.received[-1])


@pytest.mark.long
def test_summary_request_is_accepted_by_the_api(api: Api, giver: Project) -> None:
    narrow(giver, 14_000)
    calls = iter(range(10))

    def reply(data: Any) -> Answer:
        if "tools" not in data:
            return counted(data, "They gave a lot.")
        number = next(calls, None)
        if number is None:
            return counted(data, "Done.")
        return counted(
            data, thinking(f"{number}"), "x" * 3000, tool_use(f"t{number}", "give", what="nothing")
        )

    api.will(*[reply] * 20)
    seen = giver.run(task="Give, and mind the commas.")
    summaries = [request for request in api.received if "tools" not in request.data]
    assert len(summaries) == 1
    assert (seen.result.response, seen.result.turns) == ("Done.", 12)
    told = api.received[-1].data["messages"][0]["content"][0]["text"]
    assert "Give, and mind the commas." in told
    assert "They gave a lot." in told
    api.replies[:] = [say("Again.")]
    assert giver.run(task="And again?", resume=going_on(seen)).result.response == "Again."
    assert begins_with(api.received[-2], api.received[-1])


def test_overlong_request_is_shortened(api: Api, giver: Project) -> None:
    reads = [say(tool_use(f"toolu_{n}", "give", what="text", size=3000)) for n in range(6)]
    refusal = Fails(
        400, "invalid_request_error", "prompt is too long: 204800 tokens > 200000 maximum"
    )
    api.will(*reads, refusal, say("Done."))
    assert giver.run(task="Give.").result.response == "Done."
    assert ELIDED_RESULT.encode() in api.received[-1].raw


def test_answer_that_fills_the_window_continues_after_compaction(api: Api, giver: Project) -> None:
    reads = [say(tool_use(f"toolu_{n}", "give", what="text", size=3000)) for n in range(6)]
    full = {"input_tokens": 999_000, "output_tokens": 1_000}
    api.will(
        *reads, say("Half an", stop="model_context_window_exceeded", usage=full), say(" answer.")
    )
    seen = giver.run(task="Give.")
    assert seen.result.response == "Half an answer."
    assert seen.result.usage.input_tokens > full["input_tokens"]
    assert ELIDED_RESULT.encode() in api.received[-1].raw


def conversation(
    cache: PromptCache, turns: list[list[dict[str, Any]]]
) -> list[Callable[[Any], Answer]]:
    """Answers with these blocks, one a turn; each says what the cache has made of its request."""
    return [lambda data, blocks=blocks: say(*blocks, usage=cache.count(data)) for blocks in turns]


def calls(turn: int, count: int) -> list[dict[str, Any]]:
    return [
        thinking(f"Turn {turn}."),
        *(tool_use(f"t{turn}_{n}", "give", what="text", size=40) for n in range(count)),
    ]


@pytest.mark.long
@pytest.mark.few(2)
@pytest.mark.parametrize(
    "per_turn", [1, 3, 8, 9, 10, 25], ids=lambda count: f"{count} calls a turn"
)
def test_growing_conversation_reads_its_cached_prefix(
    api: Api, giver: Project, per_turn: int
) -> None:
    giver.write("worker.yaml", WORKER.replace("You give", "You give. " * 1200))
    cache = PromptCache()
    api.will(*conversation(cache, [*(calls(turn, per_turn) for turn in range(9)), [text("Done.")]]))
    seen = giver.run(task="Give.")
    assert seen.result.response == "Done."
    sent = [sum(usage[key] for key in usage if key != "output_tokens") for usage in cache.usages]
    assert [usage["cache_read_input_tokens"] for usage in cache.usages[1:]] == sent[:-1]
    assert [usage["input_tokens"] for usage in cache.usages] == [0] * 10
    if per_turn == 1:  # what else a turn brings is new, so that its share depends on its size alone
        assert min(map(share_read, cache.usages[5:])) >= 0.95
    for one, other in pairwise(api.received):
        assert begins_with(one, other)


@pytest.mark.long
def test_compaction_keeps_the_tools_and_the_system_prompt(api: Api, giver: Project) -> None:
    giver.write("worker.yaml", WORKER.replace("You give", "You give. " * 1200))
    narrow(giver, 50_000)
    cache, numbers = PromptCache(), iter(range(8))
    read = lambda data: say(  # noqa: E731
        tool_use(f"toolu_{next(numbers)}", "give", what="text", size=3000), usage=cache.count(data)
    )
    api.will(*[read] * 8, lambda data: say("Done.", usage=cache.count(data)))
    assert giver.run(task="Give.").result.response == "Done."
    turns = [
        (request, usage)
        for request, usage in zip(api.received, cache.usages, strict=True)
        if "tools" in request.data
    ]
    changed = [usage for (one, _), (other, usage) in pairwise(turns) if not begins_with(one, other)]
    fixed = {**api.received[0].data, "messages": []}
    assert changed
    for usage in changed:
        assert (
            usage["cache_read_input_tokens"]
            >= PromptCache().count(fixed)["cache_creation_input_tokens"]
            > 3000
        )


def test_cache_mark_is_set_if_the_api_does_not_move_it() -> None:
    cache, encoder = PromptCache(), Encoder("claude-haiku-5-5", 100, moves_cache=False)
    history = [Message("user", "Give. " * 1000)]
    for turn in range(10):
        body = json.loads(encoder.body(ModelRequest("Be brief.", history, ())))
        assert "cache_control" not in body
        cache.count(body)
        made = tuple(ToolCall(f"t{turn}_{n}", "give", {}) for n in range(12))
        results = tuple(CallResult(call.id, call.name, f"result {call.id}") for call in made)
        history += [Message("assistant", "", made), Message("tool", results=results)]
    sent = [sum(usage[key] for key in usage if key != "output_tokens") for usage in cache.usages]
    assert [usage["cache_read_input_tokens"] for usage in cache.usages[1:]] == sent[:-1]

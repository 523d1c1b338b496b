"""Third-party code that will not stop: a limit, a deadline and one signal end it, and the session is in order.

Covers forge_cli.core.bounds, forge_cli.cli.steady, forge_cli.engine.runtime.closing.
"""

import json
import signal
from collections.abc import Callable
from typing import Any

import pytest

from forge_cli.testing import Project

from .conftest import Done

HEAD = """
import asyncio, os, sys, time
from forge_cli import Tool, tool

def holding():
    print("holding", flush=True)
"""

IN_A_CALL = {
    "swallows cancellation": """
@tool(timeout={timeout})
async def act() -> str:
    holding()
    while True:
        try:
            await asyncio.sleep(1)
        except BaseException:
            pass
""",
    "sleeps in the loop": """
@tool(timeout={timeout})
async def act() -> str:
    holding()
    time.sleep(1000)
""",
    "spins in the loop": """
@tool(timeout={timeout})
async def act() -> str:
    holding()
    while True:
        pass
""",
    "blocks a thread": """
@tool(timeout={timeout})
def act() -> str:
    holding()
    time.sleep(1000)
""",
    "holds a regular expression": """
import re
@tool(timeout={timeout})
async def act() -> str:
    holding()
    re.match("^(a+)+$", "a" * 60 + "!")
""",
    "waits for a lock": """
import threading
@tool(timeout={timeout})
async def act() -> str:
    holding()
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()
""",
}
DEAF = """
@tool(timeout={timeout})
async def act() -> str:
    holding()
    while True:
        try:
            time.sleep(0.1)
        except BaseException:
            pass
"""
BEFORE_A_CALL = {
    "a check that blocks": """
def check(args):
    holding()
    time.sleep(1000)

@tool(needs_approval=check)
def act() -> str:
    return "never"
""",
    "a check that swallows cancellation": """
async def check(args):
    holding()
    while True:
        try:
            await asyncio.sleep(1)
        except BaseException:
            pass

@tool(needs_approval=check)
def act() -> str:
    return "never"
""",
    "paths that never come": """
def touches(args):
    holding()
    while True:
        pass

@tool(touches=touches)
def act() -> str:
    return "never"
""",
    "a pattern without an end": """
async def run(args, context):
    return "never"

pattern = {{"type": "string", "pattern": "^(a+)+$", "default": "a"}}
act = Tool(
    name="act", description="x", execute=run,
    input_schema={{"type": "object", "properties": {{"s": pattern}}}},
)
""",
}
AT_IMPORT = {
    "loops at import": "holding()\nwhile True:\n    pass\n",
    "sleeps at import": "holding()\ntime.sleep(1000)\n",
    "deaf at import": """
holding()
while True:
    try:
        time.sleep(0.1)
    except BaseException:
        pass
""",
}
DRAWN = {"swallows cancellation", "sleeps in the loop", "a pattern without an end", "loops at import"}


def drawn(*tables: dict[str, str]) -> list[Any]:
    """Every row; in the default suite a few of them."""
    rows = [(name, source) for table in tables for name, source in table.items()]
    return [pytest.param(source, id=name, marks=[] if name in DRAWN else [pytest.mark.long]) for name, source in rows]


def prepare(project: Project, source: str, timeout: str = "None") -> None:
    project.write("tools.py", HEAD + source.format(timeout=timeout) + "\ndef fine() -> str:\n    return 'fine'\n")
    project.write(
        "worker.yaml",
        "name: w\nmodel: script:script.yaml\n"
        "toolsets: {custom: {module: ./tools.py, tools: [act, fine], approval: {default: preApproved}}}\n",
    )
    given = f"{{s: {'a' * 60}!}}" if "pattern" in source else "{}"
    turns = f"[{{calls: [{{tool: act, input: {given}}}, {{tool: fine}}]}}, {{text: 'done'}}]"
    project.write("script.yaml", f"turns: {turns}\n")


def forge(project: Project, *argv: str) -> Done:
    done = project.forge(*argv)
    return Done(done.returncode, done.stdout, done.stderr)


def lines_of(project: Project) -> list[dict[str, Any]]:
    """The one log of the session, which has to be whole: one result a call, and an end."""
    (log,) = (project.home / "sessions").glob("*.jsonl")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    started = [line["toolCallId"] for line in lines if line["type"] == "toolStarted"]
    assert [line["toolCallId"] for line in lines if line["type"] == "toolResult"] == started
    assert lines[-1]["type"] == "sessionEnd"
    return lines


def statuses(lines: list[dict[str, Any]]) -> list[str]:
    return [line["status"] for line in lines if line["type"] == "toolResult"]


@pytest.mark.parametrize("source", drawn(IN_A_CALL))
def test_a_limit_of_its_own(project: Project, source: str) -> None:
    prepare(project, source, timeout="1")
    done = forge(project, "run", "worker.yaml", "go", "--output-format", "json")
    result = json.loads(done.out)
    assert (done.code, result["status"], result["response"]) == (0, "completed", "done")
    assert statuses(lines_of(project)) == ["timeout", "success"]
    assert "Traceback" not in done.err


@pytest.mark.parametrize("source", drawn(IN_A_CALL, {"deaf": DEAF}, BEFORE_A_CALL))
def test_a_deadline(project: Project, source: str) -> None:
    prepare(project, source)
    done = forge(project, "run", "worker.yaml", "go", "--output-format", "json", "--max-time", "1")
    result = json.loads(done.out)
    assert (done.code, result["exit_code"], result["status"]) == (5, 5, "limit")
    assert result["error"].startswith("the limit of 1 second was reached")
    assert set(statuses(lines_of(project))) <= {"interrupted", "invalid", "error", "denied"}
    assert "Traceback" not in done.err


@pytest.mark.parametrize("source", drawn(IN_A_CALL, {"deaf": DEAF}, BEFORE_A_CALL))
def test_one_sigterm(project: Project, start: Callable[..., Any], source: str) -> None:
    prepare(project, source)
    started = start("run", "worker.yaml", "go", "--json", "--trace", "debug")
    started.wait_for("> act" if "pattern" in source else "holding")
    started.signal(signal.SIGTERM)
    done = started.end()
    last = json.loads(done.out.splitlines()[-1])
    assert (done.code, last["type"], last["result"]["exit_code"]) == (143, "sessionEnd", 143)
    assert last["result"]["status"] == "interrupted"
    lines_of(project)
    assert "Traceback" not in done.err


def test_code_that_is_deaf_to_everything_is_left_behind_and_named(project: Project) -> None:
    prepare(project, DEAF, timeout="1")
    done = forge(project, "run", "worker.yaml", "go", "--output-format", "json")
    result = json.loads(done.out)
    assert (done.code, result["status"], result["tool_calls"]) == (1, "failed", 1)
    assert result["error"] == "the tool act would not end, and was left behind"
    assert statuses(lines_of(project)) == ["timeout"]


@pytest.mark.parametrize("source", drawn(AT_IMPORT))
def test_a_module_that_never_ends(project: Project, start: Callable[..., Any], source: str) -> None:
    prepare(project, source)
    done = forge(project, "run", "worker.yaml", "go", "--max-time", "1")
    assert (done.code, done.out) == (5, "")
    assert "Traceback" not in done.err
    started = start("run", "worker.yaml", "go")
    started.wait_for("holding")
    started.signal(signal.SIGTERM)
    assert started.end().code == 143


ENDS = {
    "KeyboardInterrupt": "raise KeyboardInterrupt",
    "SystemExit": "sys.exit(0)",
    "GeneratorExit": "raise GeneratorExit",
    "its own": "raise type('Own', (BaseException,), {{}})('mine')",
}
LOOPS = {
    "cancels itself": "asyncio.current_task().cancel(); await asyncio.sleep(5)",
    "cancels all tasks": "[task.cancel() for task in asyncio.all_tasks()]; await asyncio.sleep(5)",
    "stops the loop": "asyncio.get_running_loop().stop(); await asyncio.sleep(0.1); raise ValueError",
    "raises in a task of its own": (
        "asyncio.get_running_loop().set_exception_handler(lambda *_: None)\n"
        "    async def leave(): raise KeyboardInterrupt\n"
        "    asyncio.create_task(leave()); await asyncio.sleep(0.1); raise ValueError"
    ),
}


@pytest.mark.parametrize("statement", [*ENDS.values(), *LOOPS.values()], ids=[*ENDS, *LOOPS])
def test_whatever_a_tool_raises_is_its_result(project: Project, statement: str) -> None:
    prepare(project, f"async def act() -> str:\n    {statement}\n")
    done = forge(project, "run", "worker.yaml", "go", "--output-format", "json")
    result = json.loads(done.out)
    assert (done.code, result["status"], result["response"]) == (0, "completed", "done")
    assert statuses(lines_of(project)) == ["error", "success"]
    assert "Traceback" not in done.err


@pytest.mark.parametrize("statement", ENDS.values(), ids=ENDS)
def test_whatever_a_check_raises_means_ask(project: Project, statement: str) -> None:
    source = (
        f"def check(args):\n    {statement}\n\n@tool(needs_approval=check)\ndef act() -> str:\n    return 'never'\n"
    )
    prepare(project, source)
    done = forge(project, "run", "worker.yaml", "go", "--output-format", "json")
    assert (done.code, statuses(lines_of(project))) == (0, ["denied", "success"])


@pytest.mark.parametrize("statement", ENDS.values(), ids=ENDS)
def test_whatever_a_module_raises_is_told_with_its_line(project: Project, statement: str) -> None:
    prepare(project, f"{statement}\n")
    done = forge(project, "run", "worker.yaml", "go")
    assert (done.code, done.out) == (3, "")
    assert "tools.py:7:1: cannot be imported: " in done.err
    assert "Traceback" not in done.err


def test_a_closing_that_never_ends_comes_after_the_answer(project: Project, start: Callable[..., Any]) -> None:
    source = (
        "from forge_cli import Toolset\n"
        "class act(Toolset):\n"
        "    name = 'act'\n"
        "    async def __aexit__(self, *error):\n"
        "        holding()\n"
        "        await asyncio.Event().wait()\n"
    )
    prepare(project, source)
    project.write("script.yaml", "turns: [{text: the answer}]\n")
    started = start("run", "worker.yaml", "go", "-p")
    assert started.process.stdout.readline() == "the answer\n"
    started.wait_for("holding")
    started.signal(signal.SIGTERM)
    assert started.end().code == 0


def test_an_answer_that_cannot_be_checked_in_time(project: Project) -> None:
    prepare(project, "def act() -> str: ...\n")
    project.write("answer.json", '{"type": "string", "pattern": "^(a+)+$"}')
    project.write("script.yaml", f"turns: [{{text: '\"{'a' * 60}!\"'}}]\n")
    argv = ("run", "worker.yaml", "go", "--output-schema", "answer.json", "--max-time", "1", "--output-format", "json")
    done = forge(project, *argv)
    assert (done.code, json.loads(done.out)["status"]) == (5, "limit")

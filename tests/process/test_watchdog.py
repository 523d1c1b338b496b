"""Third-party code that will not stop, or crashes: limits and one signal end it, it is named, and the session resumes.

Covers forge_cli.core.bounds, forge_cli.process.watchdog and forge_cli.engine.runtime.announcements.
"""

import json
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from forge_cli.testing import Project
from tests.support.deadline import deadline

HEAD = """
import asyncio, os, re, sys, threading, time
from forge_cli import tool

def holding():
    print("holding", flush=True)

"""
SWALLOWS = """
    while True:
        try:
            await asyncio.sleep(1)
        except BaseException:
            pass
"""
IN_A_TASK = {"def": "time.sleep(1000)", "async def": SWALLOWS}
"""What can be cancelled, or left in its thread."""
IN_THE_LOOP = {
    "sleeps": "time.sleep(1000)",
    "spins": "while True: pass",
    "waits for a lock": "threading.Lock().acquire(); lock = threading.Lock(); lock.acquire(); lock.acquire()",
}
ARGV = ("run", "worker.yaml", "go", "--output-format", "json")


def prepare(project: Project, body: str, kind: str = "async def", options: str = "") -> None:
    act = f"@tool({options})\n{kind} act() -> str:\n    holding()\n    {body}\n\ndef fine() -> str:\n    return 'fine'\n"
    project.write("tools.py", HEAD + act)
    project.write(
        "worker.yaml",
        "name: w\nmodel: script:script.yaml\n"
        "toolsets: {custom: {module: ./tools.py, tools: [act, fine], approval: {default: preApproved}}}\n",
    )
    project.write("script.yaml", "turns: [{calls: [{tool: act}, {tool: fine}]}, {text: 'done'}]\n")


def statuses(project: Project) -> list[str]:
    """How the calls of the last session ended, whose log has to be whole: one result a call, and an end."""
    log = max((project.home / "sessions").glob("*.jsonl"), key=lambda log: log.stat().st_mtime_ns)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    started = [line["toolCallId"] for line in lines if line["type"] == "toolStarted"]
    assert [line["toolCallId"] for line in lines if line["type"] == "toolResult"] == started
    assert lines[-1]["type"] == "sessionEnd"
    return [line["status"] for line in lines if line["type"] == "toolResult"]


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", IN_A_TASK)
def test_late_call_is_abandoned_and_the_work_continues(project: Project, kind: str) -> None:
    prepare(project, IN_A_TASK[kind], kind, "timeout=1")
    done = project.forge(*ARGV)
    result = json.loads(done.stdout)
    assert (done.returncode, result["status"], result["response"]) == (0, "completed", "done")
    assert statuses(project) == ["timeout", "success"]
    assert "Traceback" not in done.stderr


@pytest.mark.long
def test_call_that_blocks_the_event_loop_ends_the_run_and_is_named(project: Project) -> None:
    prepare(project, "time.sleep(1000)", options="timeout=1")
    done = project.forge(*ARGV)
    result = json.loads(done.stdout)
    assert (done.returncode, result["status"], result["toolCalls"]) == (1, "failed", 1)
    assert result["error"] == "the tool act did not end within 1 second"
    assert "forge: the tool act did not end within 1 second\n" in done.stderr
    assert statuses(project) == ["timeout"]
    project.write("script.yaml", "turns: [{text: 'resumed'}]\n")
    assert project.forge("run", "worker.yaml", "-c", "go on", "-p").stdout == "resumed\n"


@pytest.mark.long
@pytest.mark.few(1)
@pytest.mark.parametrize(
    "body", [SWALLOWS, "time.sleep(1000)"], ids=["swallows cancellation", "sleeps in the loop"]
)
def test_deadline_ends_every_kind_of_call(project: Project, body: str) -> None:
    prepare(project, body)
    done = project.forge(*ARGV, "--max-time", "1")
    result = json.loads(done.stdout)
    assert (done.returncode, result["exitCode"], result["status"]) == (5, 5, "limit")
    assert result["error"].startswith("the limit of 1 second was reached")
    assert set(statuses(project)) == {"interrupted"}
    assert "Traceback" not in done.stderr


ROWS = {"swallows cancellation": SWALLOWS, **IN_THE_LOOP, "blocks a thread": IN_A_TASK["def"]}


@pytest.mark.long
@pytest.mark.few(2)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("name", ROWS)
def test_signal_ends_every_kind_of_call_within_seconds(
    project: Project, start: Callable[..., Any], name: str, number: signal.Signals
) -> None:
    prepare(project, ROWS[name], "def" if name == "blocks a thread" else "async def")
    started = start(*ARGV)
    started.wait_for("holding")
    sent = time.monotonic()
    started.signal(number)
    done = started.end()
    took, result, ended = time.monotonic() - sent, json.loads(done.out), statuses(project)
    code = 128 + number
    assert (done.code, result["exitCode"], result["status"]) == (code, code, "interrupted")
    assert ended == ["interrupted"] * len(ended)
    assert "Traceback" not in done.err
    assert took < 20  # 5, and a machine that has much else to do


@pytest.mark.long
@pytest.mark.few(1)
@pytest.mark.parametrize("limit", [(), ("--max-time", "1")], ids=["no limit", "past its time"])
def test_regular_expression_that_blocks_all_threads_is_ended_by_the_signal_handler(
    project: Project, start: Callable[..., Any], limit: tuple[str, ...]
) -> None:
    prepare(project, "re.match('^(a+)+$', 'a' * 60 + '!')")
    started = start(*ARGV, *limit, cold=True)
    started.wait_for("holding")
    with deadline():
        while started.process.poll() is None:
            started.signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                started.process.wait(
                    5
                )  # twice within a second of the process's own time leaves at once
    done = started.end()
    ends = {(143, "interrupted"), (5, "limit")} if limit else {(143, "interrupted")}
    assert (done.code, json.loads(done.out)["status"]) in ends
    assert statuses(project) == ["interrupted"]


IMPORTS = "holding()\ntime.sleep(1000)\n"


@pytest.mark.long
def test_endless_import_times_out(project: Project) -> None:
    prepare(project, "")
    project.write("tools.py", HEAD + IMPORTS)
    done = project.forge(*ARGV, env={"FORGE_IMPORT_TIMEOUT": "1"})
    result = json.loads(done.stdout)
    problem = f"{project.folder.resolve() / 'tools.py'}: its import did not end within 1 second"
    problem = f"{problem}; to allow more time, set FORGE_IMPORT_TIMEOUT=SECONDS"
    assert (done.returncode, result["exitCode"], result["error"]) == (3, 3, problem)
    assert f"forge: {problem}\n" in done.stderr
    assert list((project.home / "sessions").glob("*.jsonl")) == []


@pytest.mark.long
@pytest.mark.parametrize("form", ["json", "stream-json"])
def test_deadline_or_signal_ends_an_import(
    project: Project, start: Callable[..., Any], form: str
) -> None:
    prepare(project, "")
    project.write("tools.py", HEAD + IMPORTS)
    argv = (*ARGV[:-1], form)
    limited = project.forge(*argv, "--max-time", "1")
    started = start(*argv)
    started.wait_for("holding")
    started.signal(signal.SIGTERM)
    ended = started.end()
    assert (limited.returncode, ended.code) == (5, 143)
    results = [json.loads(each) for each in (limited.stdout, ended.out.splitlines()[-1])]
    assert [
        (each["status"], each["exitCode"], each["sessionId"], "error" in each)
        for each in (result.get("result", result) for result in results)
    ] == [("limit", 5, "", True), ("interrupted", 143, "", True)]
    assert "resume with" not in limited.stderr + ended.err
    assert list((project.home / "sessions").glob("*.jsonl")) == []


@pytest.mark.long
def test_import_timeout_is_configurable(project: Project) -> None:
    prepare(project, "")
    project.write(
        "tools.py",
        HEAD
        + "time.sleep(2)\ndef act() -> str:\n    return ''\n\ndef fine() -> str:\n    return ''\n",
    )
    project.home.mkdir()
    (project.home / "config.yaml").write_text("import_timeout: 0.5\n")
    commands = (
        ARGV,
        ("worker", "check", "worker.yaml"),
        ("tools", "call", "act", "--worker", "worker.yaml"),
    )
    late = [project.forge(*argv) for argv in commands]
    assert [(done.returncode, "within 0.5 seconds" in done.stderr) for done in late] == [
        (3, True)
    ] * 3
    assert project.forge(*ARGV, env={"FORGE_IMPORT_TIMEOUT": "60"}).returncode == 0
    wrong = project.forge(*ARGV, env={"FORGE_IMPORT_TIMEOUT": "soon"})
    assert (wrong.returncode, "FORGE_IMPORT_TIMEOUT is 'soon'" in wrong.stderr) == (3, True)


ENDS = ["sys.exit(0)", "raise GeneratorExit", "raise type('Own', (BaseException,), {})('mine')"]


@pytest.mark.few(1)
@pytest.mark.parametrize("statement", ENDS)
def test_exception_of_a_module_is_reported_with_its_line(project: Project, statement: str) -> None:
    prepare(project, "")
    project.write("tools.py", f"import sys\n{statement}\n")
    done = project.forge("run", "worker.yaml", "go")
    assert (done.returncode, done.stdout) == (3, "")
    assert "tools.py:2:1: cannot be imported: " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.few(1)
@pytest.mark.parametrize("statement", ENDS)
def test_exception_of_a_check_means_ask(project: Project, statement: str) -> None:
    prepare(project, "return ''", options="needs_approval=check")
    check = f"def check(args):\n    {statement}\n\n@tool"
    project.write("tools.py", project.read("tools.py").replace("@tool", check))
    done = project.forge(*ARGV)
    assert (done.returncode, statuses(project)) == (0, ["denied", "success"])


@pytest.mark.long
def test_endless_shutdown_does_not_delay_the_answer(
    project: Project, start: Callable[..., Any]
) -> None:
    prepare(project, "")
    closing = (
        "from forge_cli import Toolset\n"
        "class act(Toolset):\n"
        "    name = 'act'\n"
        "    async def __aexit__(self, *error):\n"
        "        holding()\n"
        "        await asyncio.Event().wait()\n"
        "def fine() -> str: return ''\n"
    )
    project.write("tools.py", HEAD + closing)
    project.write("script.yaml", "turns: [{text: the answer}]\n")
    started = start("run", "worker.yaml", "go", "-p")
    assert started.process.stdout.readline() == "the answer\n"
    started.wait_for("holding")
    started.signal(signal.SIGTERM)
    assert started.end().code == 0


def test_tool_that_exits_ends_its_run_and_the_session_resumes(
    project: Project,
) -> None:
    prepare(project, "os._exit(7)")
    done = project.forge(*ARGV)
    assert (done.returncode, done.stdout) == (7, "")
    project.write("script.yaml", "turns: [{text: 'resumed'}]\n")
    assert project.forge("run", "worker.yaml", "-c", "go on", "-p").stdout == "resumed\n"


LEFT = {
    "a thread": "threading.Thread(target=time.sleep, args=(1000,)).start()",
    "a task": f"async def left():{SWALLOWS.replace(chr(10), chr(10) + '    ')}\n    asyncio.create_task(left())",
    "an executor": "asyncio.get_running_loop().run_in_executor(None, time.sleep, 1000)",
    "another folder": "os.mkdir('other'); os.chdir('other')",
}


@pytest.mark.few(2)
@pytest.mark.parametrize("statement", LEFT.values(), ids=LEFT)
def test_leftovers_of_a_tool_do_not_block_the_exit(project: Project, statement: str) -> None:
    prepare(project, f"{statement}\n    return ''")
    done = project.forge(*ARGV, "-o", "answer.txt")
    assert (done.returncode, json.loads(done.stdout)["status"], project.read("answer.txt")) == (
        0,
        "completed",
        "done\n",
    )
    assert "Traceback" not in done.stderr

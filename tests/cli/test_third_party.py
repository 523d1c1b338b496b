"""Whatever a tool does to the process that it shares: the session ends in order, and the result object is printed.

Covers forge_cli.core.upkeep, forge_cli.core.exits, forge_cli.cli.steady, forge_cli.cli.streams.
"""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from forge_cli.testing import Project

HEAD = """
import asyncio, atexit, gc, io, locale, logging, os, resource, signal, subprocess, sys, threading, time, warnings
from forge_cli import tool
"""
ARGV = ("run", "worker.yaml", "go", "--output-format", "json")

HARMLESS = {
    "closes standard output": "os.close(1)",
    "opens files in their places": "os.close(1); os.close(2); act.kept = [open('f1', 'w'), open('f2', 'w')]",
    "closes descriptors 0 to 2": "[os.close(number) for number in (0, 1, 2)]",
    "closes sys.stdout": "sys.stdout.close()",
    "closes sys.stderr": "sys.stderr.close()",
    "closes sys.__stdout__": "sys.__stdout__.close()",
    "closes sys.stdin": "sys.stdin.close()",
    "wraps sys.stdout": "io.TextIOWrapper(sys.stdout.buffer, encoding='latin-1').write('x')",
    "detaches sys.stdout": "io.TextIOWrapper(sys.__stdout__.detach(), encoding='latin-1').write('x')",
    "changes the encoding": "sys.stderr.reconfigure(encoding='ascii', errors='strict')",
    "removes the streams": "sys.stdin = sys.stdout = sys.stderr = sys.__stdout__ = sys.__stderr__ = None",
    "replaces the streams by anything": "sys.stdout = sys.stderr = sys.__stdout__ = object()",
    "replaces the streams by a text": "sys.stdout = sys.stderr = sys.__stdout__ = io.StringIO()",
    "leads descriptors elsewhere": "null = os.open(os.devnull, os.O_RDWR); os.dup2(null, 1); os.dup2(null, 2)",
    "sets the locale": "locale.setlocale(locale.LC_ALL, 'C')",
    "changes the folder": "os.chdir('/')",
    "removes its folder": "os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')",
    "sets the umask": "os.umask(0o777)",
    "clears the environment": "os.environ.clear()",
    "raises at exit": "atexit.register(lambda: 1 / 0)",
    "leaves at exit": "atexit.register(lambda: sys.exit(9))",
    "stops the garbage collector": "gc.disable(); gc.set_threshold(0); gc.freeze()",
    "raises in the garbage collector": "gc.callbacks.append(lambda *_: 1 / 0)",
    "leaves a thread behind": "threading.Thread(target=time.sleep, args=(1000,)).start()",
    "leaves a thread that prints": "threading.Thread(target=lambda: [print('x') for _ in iter(int, 1)]).start()",
    "leaves a thread that raises": "threading.Thread(target=lambda: 1 / 0).start()",
    "comes back twice": "os.fork()",
    "leaves little room on the stack": "sys.setrecursionlimit(150)",
    "makes errors of warnings": "warnings.simplefilter('error')",
    "ends logging": "logging.shutdown(); logging.disable(100)",
    "clears the path of modules": "sys.path.clear(); sys.meta_path.clear()",
    "makes another event loop": "asyncio.set_event_loop(asyncio.new_event_loop())",
}
IN_THE_LOOP = {
    "ignores signals": "[signal.signal(number, signal.SIG_IGN) for number in (2, 15, signal.SIGALRM, signal.SIGCHLD)]",
    "handles signals": "[signal.signal(number, lambda *_: None) for number in (2, 15, signal.SIGALRM)]",
    "lets signals kill": "[signal.signal(number, signal.SIG_DFL) for number in (2, 15, signal.SIGALRM)]",
    "blocks signals": "signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())",
    "takes the wakeup": "signal.set_wakeup_fd(-1)",
}
CLOSING = {
    "closes all descriptors": "os.closerange(0, 1024)",
    "closes what a daemon closes": "os.closerange(3, 256)",
    "closes all and opens others": "os.closerange(0, 1024); act.kept = [open(f'f{n}', 'w') for n in range(30)]",
}
DRAWN = {
    *("closes sys.stdout", "removes the streams", "comes back twice", "ignores signals", "closes all descriptors"),
    *("os._exit", "execvp"),
}


def drawn(*tables: dict[str, str]) -> list[Any]:
    """Every row; in the default suite a few of them."""
    rows = [(name, statement) for table in tables for name, statement in table.items()]
    return [pytest.param(text, id=name, marks=[] if name in DRAWN else [pytest.mark.long]) for name, text in rows]


def prepare(project: Project, statement: str, kind: str = "", then: str = "return 'fine'") -> None:
    functions = f"{kind}def act() -> str:\n    {statement}\n    return 'did'\n\ndef fine() -> str:\n    {then}\n"
    project.write("tools.py", HEAD + functions)
    project.write(
        "worker.yaml",
        "name: w\nmodel: script:script.yaml\n"
        "toolsets:\n"
        "  custom: {module: ./tools.py, tools: [act, fine], approval: {default: preApproved}}\n"
        "  shell: {default: preApproved}\n",
    )
    project.write(
        "script.yaml",
        "turns: [{calls: [{tool: act}]}, {calls: [{tool: fine}, {tool: shell, input: {command: 'echo hi'}}]},"
        " {text: done}]\n",
    )


def forge(project: Project, *argv: str) -> tuple[int, dict[str, Any], str]:
    """Run it with files around it: a pipe would stay open in the child processes that a tool has forked."""
    out, err = project.folder / "out", project.folder / "err"
    with project.environment(), out.open("w") as stdout, err.open("w") as stderr:
        streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": stdout, "stderr": stderr}
        words = [sys.executable, "-m", "forge_cli", *argv]
        done = subprocess.run(words, **streams, cwd=project.folder, timeout=60, check=False)
    return done.returncode, json.loads(out.read_text() or "{}"), err.read_text()


def results(project: Project) -> list[str]:
    (log,) = (project.home / "sessions").glob("*.jsonl")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert lines[-1]["type"] == "sessionEnd"
    return [line["status"] for line in lines if line["type"] == "toolResult"]


KINDS = pytest.mark.parametrize("kind", ["", "async "], ids=["sync", "async"])


@KINDS
@pytest.mark.parametrize("statement", drawn(HARMLESS))
def test_the_session_goes_its_way(project: Project, statement: str, kind: str) -> None:
    prepare(project, statement, kind)
    code, result, err = forge(project, *ARGV)
    assert (code, result["status"], result["response"]) == (0, "completed", "done"), err
    assert results(project) == ["success"] * 3
    assert "forge: " not in err
    assert [file.name for file in project.folder.glob("f[0-9]*") if file.stat().st_size] == []


@pytest.mark.parametrize("statement", drawn(IN_THE_LOOP))
def test_signals_still_stop_it(project: Project, start: Callable[..., Any], statement: str) -> None:
    prepare(project, statement, "async ", then="print('holding', flush=True); time.sleep(1000)")
    started = start(*ARGV)
    started.wait_for("holding")
    started.signal(signal.SIGTERM)
    done = started.end()
    assert (done.code, json.loads(done.out)["exit_code"]) == (143, 143), done.err
    assert results(project) == ["success", "interrupted", "interrupted"]


@pytest.mark.parametrize("statement", drawn(IN_THE_LOOP))
def test_limits_and_commands_still_work(project: Project, statement: str) -> None:
    prepare(project, statement, "async ", then="time.sleep(1000)")
    project.write("tools.py", project.read("tools.py").replace("def fine", "@tool(timeout=1)\nasync def fine"))
    code, result, err = forge(project, *ARGV)
    assert (code, result["status"]) == (0, "completed"), err
    assert results(project) == ["success", "timeout", "success"]


@KINDS
@pytest.mark.parametrize("statement", drawn(CLOSING))
def test_descriptors_of_forge_that_are_closed_end_the_session_in_order(
    project: Project, statement: str, kind: str
) -> None:
    prepare(project, statement, kind)
    code, result, err = forge(project, *ARGV)
    problem = "the tool act closed descriptors that forge works with"
    assert (code, result["exit_code"], result["status"], result["error"]) == (1, 1, "failed", problem)
    assert f"forge: {problem}\n" in err
    assert results(project) == ["interrupted"]
    assert [file.name for file in project.folder.glob("f[0-9]*") if file.stat().st_size] == []


LEAVING = {
    "os._exit": "os._exit(0)",
    "posix._exit": "import posix; posix._exit(0)",
    "execv": "os.execv('/bin/true', ['true'])",
    "execvp": "os.execvp('true', ['true'])",
    "becomes a daemon": "os.fork() and os._exit(0)",
}


@KINDS
@pytest.mark.parametrize("statement", drawn(LEAVING))
def test_ending_the_process_is_the_result_of_the_call(project: Project, statement: str, kind: str) -> None:
    prepare(project, statement, kind)
    code, result, err = forge(project, *ARGV)
    assert (code, result["status"], result["response"]) == (0, "completed", "done"), err
    assert results(project) == ["error", "success", "success"]


def test_a_child_process_of_a_tool_may_end_itself(project: Project) -> None:
    program = "import os, sys; os.execv('/bin/sh', ['sh', '-c', 'exit 7'])"
    statement = (
        "child = os.fork() or os._exit(5)\n"
        "    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5\n"
        "    child = os.fork() or os.execv('/bin/sh', ['sh', '-c', 'exit 6'])\n"
        "    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 6\n"
        f"    assert subprocess.run([sys.executable, '-c', {program!r}]).returncode == 7"
    )
    prepare(project, statement)
    code, _, err = forge(project, *ARGV)
    assert (code, results(project)) == (0, ["success"] * 3), err


@pytest.mark.parametrize("statement", [LEAVING["os._exit"], LEAVING["execv"]])
def test_a_module_that_ends_the_process_is_named(project: Project, statement: str) -> None:
    prepare(project, "pass")
    project.write("tools.py", HEAD + statement)
    code, result, err = forge(project, *ARGV)
    assert (code, result["exit_code"], result["status"]) == (3, 3, "failed")
    assert "tools.py:4:1: cannot be imported: " in err
    called = forge(project, "tools", "call", "act", "--worker", "worker.yaml")
    assert (called[0], "tools.py:4:1: cannot be imported: " in called[2]) == (3, True)


def test_a_check_that_ends_the_process_means_ask(project: Project) -> None:
    prepare(project, "pass")
    checked = "@tool(needs_approval=lambda args: os._exit(0))\ndef act"
    project.write("tools.py", project.read("tools.py").replace("def act", checked))
    code, _, _ = forge(project, *ARGV)
    assert (code, results(project)) == (0, ["denied", "success", "success"])


def test_a_thread_that_ends_the_process_ends_the_session(project: Project) -> None:
    prepare(project, "threading.Thread(target=os._exit, args=(0,)).start(); time.sleep(1000)")
    code, result, err = forge(project, *ARGV)
    assert (code, result["status"], result["exit_code"]) == (1, "failed", 1)
    assert result["error"] == "the tool act called os._exit to end the process"
    assert results(project) == ["interrupted"]
    assert err.count("forge: ") == 1
    assert f"forge: {result['error']}\n  resume with: forge run worker.yaml -r {result['session_id']}\n" in err


def test_the_end_of_the_process_keeps_its_exit_code(project: Project) -> None:
    prepare(project, "atexit.register(os._exit, 0)")
    code, result, _ = forge(project, *ARGV, "--max-turns", "1")
    assert (code, result["exit_code"]) == (5, 5)


@KINDS
def test_what_cannot_be_saved_is_not_a_success(project: Project, kind: str) -> None:
    prepare(project, "os.closerange(0, 1 << 20)", kind)
    code, result, _ = forge(project, *ARGV)
    assert (code, result) == (1, {})


def test_little_room_for_descriptors(project: Project) -> None:
    """With the usual limit of 1024, ours are above it all the same, and tools have the limit they had."""
    limit = "import os, resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 4096))"
    argv = [sys.executable, "-c", f"{limit}; os.execv(sys.argv[1], sys.argv[1:])", sys.executable, "-m", "forge_cli"]

    def limited() -> "subprocess.CompletedProcess[str]":
        with project.environment():
            words = [*argv, *ARGV, "--trace", "normal"]
            return subprocess.run(words, cwd=project.folder, capture_output=True, text=True, timeout=60, check=False)

    prepare(project, "os.closerange(0, 1024)")
    done = limited()
    assert (done.returncode, json.loads(done.stdout)["exit_code"]) == (1, 1)
    prepare(project, "return str(resource.getrlimit(resource.RLIMIT_NOFILE))")
    done = limited()
    assert (done.returncode, "act · (1024, 4096)" in done.stderr) == (0, True), done.stderr


def test_a_limit_on_files_that_a_tool_sets(project: Project) -> None:
    prepare(project, "resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))")
    code, result, _ = forge(project, *ARGV)
    assert (code, result["exit_code"]) == (0, 0)
    assert results(project) == ["success", "success", "error"]


def test_what_holds_the_end_of_the_process_is_left(project: Project) -> None:
    prepare(project, "atexit.register(lambda: time.sleep(1000))")
    code, result, _ = forge(project, *ARGV)
    assert (code, result["status"]) == (0, "completed")


def test_the_answer_lies_where_the_caller_meant_it(project: Project) -> None:
    prepare(project, "os.mkdir('other'); os.chdir('other')")
    code, _, _ = forge(project, *ARGV, "-o", "answer.txt")
    assert (code, project.read("answer.txt")) == (0, "done\n")


A_THREAD_THAT_IS_LATE = """
import os, threading
from forge_cli.cli.steady import SteadyLoop
from forge_cli.core.bounds import Watchdog

loop, looks, closed, fstat = SteadyLoop(), threading.Event(), threading.Event(), os.fstat

def look(descriptor):
    if threading.current_thread() is thread:
        looks.set()
        closed.wait(20)
    return fstat(descriptor)

async def work():
    with Watchdog(lambda why, holding: 9):
        thread.start()
        looks.wait(20)

thread = threading.Thread(target=loop.call_soon_threadsafe, args=(int,))
os.fstat = look
loop.run_until_complete(work())
loop.close()
closed.set()
thread.join(20)
"""


def test_a_loop_that_is_closed_in_good_order_is_no_damage() -> None:
    done = subprocess.run([sys.executable, "-c", A_THREAD_THAT_IS_LATE], timeout=60, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")

"""Ctrl+C and SIGTERM: the work stops, nothing is left behind, and the exit code says which it was.

Covers forge_cli.process.signals.
"""

import asyncio
import json
import os
import select
import signal
import subprocess
import threading
from contextlib import suppress

import pytest

from forge_cli.core.errors import Terminated
from forge_cli.process.signals import in_loop, interruptible
from tests.support.deadline import deadline

MODEL = """
import anyio
from forge_cli import hookimpl
from forge_cli.hooks import ModelFactory, TextDelta

class Stuck:
    name, context_window = "stuck:x", None
    async def stream(self, request):
        yield TextDelta("Thinking")
        await anyio.sleep_forever()
    async def aclose(self):
        pass

@hookimpl
def forge_models():
    return [ModelFactory("stuck", lambda name, env: Stuck())]
"""

SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
ALL_SIGNALS = [*SIGNALS, (signal.SIGHUP, 129), (signal.SIGQUIT, 131)]


@pytest.fixture
def gate(tester) -> str:
    """A pipe without a writer."""
    os.mkfifo(tester.folder / "gate")
    return "gate"


def calling(project, tool: str) -> None:
    project.write(
        "script.yaml", f"turns: [{{calls: [{{tool: {tool}}}, {{tool: peek}}]}}, {{text: never}}]"
    )


@pytest.mark.few(2)
@pytest.mark.parametrize(("number", "code"), ALL_SIGNALS)
def test_signal_while_the_model_answers_ends_the_run(
    tester, start, install, number: signal.Signals, code: int
) -> None:
    site = install("forge-stuck", "stuck_model", MODEL, "model.stuck = stuck_model")
    forge = start(
        "run", "worker.yaml", "go", "-m", "stuck:x", "--json", "-o", "said", PYTHONPATH=str(site)
    )
    for line in forge.process.stdout:
        if json.loads(line)["type"] == "streaming":
            break
    forge.signal(number)
    done = forge.end()
    last = json.loads(done.out.splitlines()[-1])
    assert done.code == code
    assert (last["type"], last["result"]["status"], last["result"]["exitCode"]) == (
        "sessionEnd",
        "interrupted",
        code,
    )
    assert (last["result"]["response"], last["result"]["cost"]) == ("[Interrupted]", None)
    assert tester.read("said") == "Thinking\n"
    assert "Traceback" not in done.err


@pytest.mark.few(1)
@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_signal_during_a_tool_that_ignores_it_ends_the_run(
    tester, start, gate, number: signal.Signals, code: int
) -> None:
    calling(tester, "hold")
    forge = start("run", "worker.yaml", "go", "--trace", "normal", "-o", "answer")
    forge.wait_for("holding")
    forge.signal(number)
    done = forge.end()
    assert (done.code, done.out) == (code, "")
    assert "✗ hold · interrupted\n✗ peek · interrupted\ninterrupted · 1 turn · 2 calls" in done.err
    assert "Traceback" not in done.err
    assert not (tester.folder / "answer").exists()


@pytest.mark.long
def test_interrupted_calls_have_results_in_the_log(tester, start, gate) -> None:
    calling(tester, "hold")
    forge = start("run", "worker.yaml", "go", "--json")
    forge.wait_for("holding")
    forge.signal(signal.SIGINT)
    lines = [json.loads(line) for line in forge.end().out.splitlines()]
    assert [line["toolCallId"] for line in lines if line["type"] == "toolStarted"] == [
        "call_1_1",
        "call_1_2",
    ]
    results = [line for line in lines if line["type"] == "toolResult"]
    assert [(line["toolCallId"], line["status"]) for line in results] == [
        ("call_1_1", "interrupted"),
        ("call_1_2", "interrupted"),
    ]
    assert [line["reason"] for line in lines if line["type"] == "interrupt"] == ["interrupted"]


@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_second_signal_ends_at_once_even_with_a_blocked_loop(
    tester, start, gate, number, code: int
) -> None:
    calling(tester, "block")
    forge = start("run", "worker.yaml", "go")
    forge.wait_for("holding")
    while forge.process.poll() is None:
        forge.signal(number)
        try:
            forge.process.wait(0.1)
        except subprocess.TimeoutExpired:
            continue
    done = forge.end()
    assert done.code == code
    assert "Traceback" not in done.err


@pytest.mark.few(1)
@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_signal_ends_a_manual_call(tester, start, gate, number: signal.Signals, code: int) -> None:
    forge = start("tools", "call", "hold", "--worker", "worker.yaml")
    forge.wait_for("holding")
    forge.signal(number)
    done = forge.end()
    assert (done.code, done.out, done.err) == (code, "", "")


def test_signal_ends_a_waiting_batch(tester, start) -> None:
    forge = start("approve", "worker.yaml", "--batch", "-", stdin=subprocess.PIPE)
    forge.process.stdin.write('{"tool": "peek"}\n')
    forge.process.stdin.flush()
    assert json.loads(forge.process.stdout.readline())["verdict"] == "preApproved"
    forge.signal(signal.SIGINT)
    done = forge.end()
    assert (done.code, done.out, done.err) == (130, "", "")


def test_signal_just_before_the_end_counts() -> None:
    async def work() -> None:
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Terminated) as ended:
        in_loop(work)
    assert ended.value.exit_code == 130


def test_signal_before_a_run_stops_it_with_its_reason() -> None:
    reasons: list[str] = []

    async def work() -> None:
        signal.raise_signal(signal.SIGTERM)
        with interruptible(reasons.append):
            await asyncio.sleep(0)

    in_loop(work)
    assert reasons == ["terminated"]


def test_signal_to_a_thread_at_exit_causes_no_error() -> None:
    """The main thread has it blocked by then; threads of tools do not."""

    def get_signal(number: int) -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
        signal.raise_signal(number)

    async def work() -> None:
        loop = asyncio.get_running_loop()
        remove = loop.remove_signal_handler

        def remove_late(number: int) -> bool:
            if number == signal.SIGINT:
                thread = threading.Thread(target=get_signal, args=(number,))
                thread.start()
                thread.join(30)
            return remove(number)

        loop.remove_signal_handler = remove_late  # type: ignore[method-assign]

    with suppress(Terminated):
        in_loop(work)


@pytest.mark.long
@pytest.mark.few(1)
@pytest.mark.parametrize(("number", "code"), ALL_SIGNALS)
def test_signal_while_tools_load_ends_the_run(
    tester, start, number: signal.Signals, code: int
) -> None:
    tools = tester.read("tools.py")
    tester.write(
        "tools.py", f"import sys, time\nsys.stderr.write('loading\\n')\ntime.sleep(60)\n{tools}"
    )
    forge = start("run", "worker.yaml", "go", "--json", FORGE_IMPORT_TIMEOUT="60")
    forge.wait_for("loading")
    forge.signal(number)
    done = forge.end()
    last = json.loads(done.out)
    assert (done.code, last["type"], last["result"]["status"]) == (
        code,
        "sessionEnd",
        "interrupted",
    )
    assert last["result"]["exitCode"] == code
    assert "Traceback" not in done.err


@pytest.mark.few(1)
@pytest.mark.parametrize(("number", "code"), ALL_SIGNALS)
def test_signal_before_a_command_starts_ends_it(
    tester, start, install, number: signal.Signals, code: int
) -> None:
    """Anything that is imported on the way to a command may take its time."""
    slow = "import sys, time\nsys.stderr.write('loading\\n')\ntime.sleep(60)\n"
    site = install("forge-slow", "typer", slow, "unused = typer")
    forge = start(
        "run", "worker.yaml", "go", "--output-format", "json", cold=True, PYTHONPATH=str(site)
    )
    forge.wait_for("loading")
    forge.signal(number)
    done = forge.end()
    assert (done.code, done.out, done.err) == (
        code,
        "",
        "",
    )  # the options, which ask for a result, are not read yet


@pytest.mark.long
def test_ignored_signal_stays_ignored(tester, start, gate) -> None:
    """As nohup does it, for SIGHUP."""
    calling(tester, "hold")
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        forge = start("run", "worker.yaml", "go", "--json", cold=True)
    finally:
        signal.signal(signal.SIGHUP, before)
    forge.wait_for("holding")
    forge.signal(signal.SIGHUP)
    (tester.folder / "gate").write_text("held")
    assert forge.end().code == 0


CLOSING = """
import sys
import anyio
from forge_cli import Toolset, hookimpl

class Slow(Toolset):
    name = "slow"

    async def __aexit__(self, *failure):
        sys.stderr.write("closing\\n")
        sys.stderr.flush()
        await anyio.to_thread.run_sync(lambda: open("gate").read())
        sys.stderr.write("closed\\n")

@hookimpl
def forge_toolsets():
    return [Slow]
"""


@pytest.mark.few(1)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_during_shutdown_is_handled(
    tester, start, install, gate, number: signal.Signals
) -> None:
    """The task is done and its end is logged; everything open is still closed."""
    site = install("forge-tools-slow", "slow_tools", CLOSING, "slow = slow_tools")
    tester.write("worker.yaml", "name: w\nmodel: script:script.yaml\ntoolsets: {slow: {}}\n")
    tester.write("script.yaml", "turns: [{text: done}]")
    forge = start(
        "run", "worker.yaml", "go", "--json", cold=True, PYTHONPATH=str(site)
    )  # a signal takes no detour
    forge.wait_for("closing")
    forge.signal(number)
    (tester.folder / "gate").write_text("go on")
    done = forge.end()
    assert done.code == 0
    assert "closed\n" in done.err
    assert "Traceback" not in done.err
    last = json.loads(done.out.splitlines()[-1])
    assert (last["type"], last["result"]["status"]) == ("sessionEnd", "completed")


@pytest.mark.few(1)
@pytest.mark.needs("linux", "bash")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP, signal.SIGQUIT])
def test_commands_end_with_a_killed_forge(tester, start, gate, number: signal.Signals) -> None:
    tester.write(
        "worker.yaml",
        "name: w\nmodel: script:script.yaml\nsandbox: {isolation: off}\ntoolsets: {shell: {default: preApproved}}\n",
    )
    command = "setsid sleep 300 & echo $! >gate; sleep 300; touch late"
    tester.write(
        "script.yaml",
        f"turns: [{{calls: [{{tool: shell, input: {{command: '{command}'}}}}]}}, {{text: x}}]",
    )
    forge = start("run", "worker.yaml", "go", "-p", "-y")
    with deadline():
        left = os.pidfd_open(int((tester.folder / "gate").read_text()))
    forge.signal(number)
    assert forge.end().code == (-number if number is signal.SIGKILL else 128 + number)
    assert select.select([left], [], [], 20)[0]
    os.close(left)
    assert not (tester.folder / "late").exists()

"""Signals in the first second of a command, during its imports.

Covers forge_cli.cli.app and forge_cli.process.launch.
"""

import json
import random
import signal
import subprocess
import sys
import time

import pytest

COMMANDS = [
    ("run", "worker.yaml", "go", "--output-format", "json"),
    ("run", "worker.yaml", "go", "-p"),
    ("worker", "check", "worker.yaml"),
    ("tools", "list", "worker.yaml"),
    ("tools", "call", "peek", "--worker", "worker.yaml"),
    ("doctor",),
    ("--help",),
]
SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT]
FIRST = 0.9


def signal_early(start, command: tuple[str, ...], number: signal.Signals, delay: float) -> None:
    forge = start(*command, cold=True)
    time.sleep(delay)
    forge.signal(number)
    done = forge.end()
    told = f"{' '.join(command)}, {number.name} after {delay:.3f} s: {done}"
    if (
        number is signal.SIGINT
        and "KeyboardInterrupt" in done.err
        and "forge_cli/cli" not in done.err
    ):
        return  # before the first line of forge, it is Python that handles it
    done_before = (
        (0, 1) if command == ("doctor",) else (0,)
    )  # it says 1 where something is missing here
    assert done.code in (*done_before, 128 + number, -number), told
    assert "internal error" not in done.err, told
    assert "Exception ignored" not in done.err, told
    assert "Traceback" not in done.err, told
    if (
        done.out and "json" in command
    ):  # a signal before the options are read leaves without a result
        assert json.loads(done.out)["exitCode"] == done.code, told


@pytest.mark.few(1)
@pytest.mark.parametrize("number", SIGNALS)
def test_signal_in_the_first_second_ends_with_its_code(
    tester, start, number: signal.Signals
) -> None:
    chance = random.Random(number)
    for _ in range(2):
        signal_early(start, chance.choice(COMMANDS), number, chance.uniform(0, FIRST))


@pytest.mark.few(2)
@pytest.mark.parametrize("number", SIGNALS)
def test_signal_after_the_result_ends_with_either_code(
    tester, start, number: signal.Signals
) -> None:
    forge = start("run", "worker.yaml", "go", "--output-format", "json")
    told = json.loads(forge.process.stdout.readline())["exitCode"]
    forge.signal(number)
    assert forge.end().code in (told, -number)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_signals_at_many_moments_of_the_first_second_end_with_their_code(
    tester, start, command: tuple[str, ...], number: signal.Signals
) -> None:
    chance = random.Random()
    for _ in range(40):
        signal_early(start, command, number, chance.uniform(0, FIRST))


DROPPED = """
import os, weakref
from forge_cli.process.launch import Launch
class Gone: ...
gone = Gone()
seen = weakref.ref(gone, lambda _: os.kill(os.getpid(), {number}))
Launch().end_on_signals()
del gone
"""


@pytest.mark.parametrize("number", SIGNALS)
def test_dropped_interrupt_ends_the_process(number: signal.Signals) -> None:
    """An exception that a handler raises at the end of an import is dropped."""
    code = DROPPED.format(number=int(number))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (128 + number, "")

"""The sign of life: before anything heavy is imported, and only where somebody looks.

Covers forge_cli.cli.app and forge_cli.process.early_signals.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pexpect
import pytest

from forge_cli.cli.early import is_quiet
from tests.support.rows import each_row

HELD = """
import os, time
while not os.path.exists("go"):
    time.sleep(0.01)
raise SystemExit(7)
"""


@pytest.fixture
def held(tmp_path: Path) -> Callable[..., "pexpect.spawn[str]"]:
    """forge on a terminal, where the first library that a command imports keeps it waiting."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site/typer.py").write_text(HELD)

    def start(*args: str, **env: str) -> "pexpect.spawn[str]":
        return pexpect.spawn(
            sys.executable,
            ["-m", "forge_cli", *args],
            cwd=str(tmp_path),
            env={**os.environ, "PYTHONPATH": str(tmp_path / "site"), "TERM": "xterm", **env},
            encoding="utf-8",
            timeout=60,
        )

    return start


def test_it_stands_there_before_anything_is_imported_and_is_gone_at_the_end(held, tmp_path: Path) -> None:
    child = held("run", "w.yaml", "task")
    child.expect_exact("starting · 0 s")
    child.expect_exact("starting · 1 s")
    (tmp_path / "go").touch()
    child.expect(pexpect.EOF)
    child.close()
    assert (child.exitstatus, child.before[-3:]) == (7, "\x1b[J")


def test_a_signal_erases_it(held) -> None:
    child = held("run", "w.yaml", "task")
    child.expect_exact("starting")
    child.sendintr()
    child.expect(pexpect.EOF)
    child.close()
    assert (child.exitstatus, child.before[-3:]) == (130, "\x1b[J")


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("args", "env"),
    [
        (["run", "w.yaml", "-p"], {}),
        (["run", "w.yaml", "--trace", "quiet"], {}),
        (["run", "w.yaml"], {"TERM": "dumb"}),
        (["run", "w.yaml"], {"CI": "1"}),
        (["worker", "check", "w.yaml"], {}),
    ],
    ids=["-p", "quiet", "dumb", "CI", "another command"],
)
def test_where_nothing_is_shown(held, tmp_path: Path, args: list[str], env: dict[str, str]) -> None:
    child = held(*args, **env)
    assert child.expect([pexpect.TIMEOUT, ".+"], timeout=1) == 0
    (tmp_path / "go").touch()
    child.expect(pexpect.EOF)
    assert child.before == ""


@each_row(
    ("line", "quiet"),
    [
        ("run w task", False),
        ("run w task -p", True),
        ("run w --print task", True),
        ("run w task -yp", True),
        ("run w task -mp", False),
        ("run w task -m script:p.yaml", False),
        ("run w --trace quiet", True),
        ("run w --trace=quiet", True),
        ("run w --trace quiet --trace debug", False),
        ("run w -- -p", False),
        ("run --help", True),
    ],
)
def test_what_the_arguments_want(line: str, quiet: bool) -> None:
    assert is_quiet(line.split()) is quiet


def test_what_the_user_s_config_wants() -> None:
    home = Path(os.environ["FORGE_HOME"])
    home.mkdir()
    (home / "config.yaml").write_text("model: x\ntrace:  quiet # hush\n")
    assert is_quiet(["run", "w"])
    assert not is_quiet(["run", "w", "--trace", "normal"])
    (home / "config.yaml").write_text("trace: normal\n")
    assert not is_quiet(["run", "w"])


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
    if number is signal.SIGINT and "KeyboardInterrupt" in done.err and "forge_cli/cli" not in done.err:
        return  # before the first line of forge, it is Python that handles it
    done_before = (0, 1) if command == ("doctor",) else (0,)  # it says 1 where something is missing here
    assert done.code in (*done_before, 128 + number, -number), told
    assert "internal error" not in done.err, told
    assert "Exception ignored" not in done.err, told
    assert "Traceback" not in done.err, told
    if "json" in command and done.code >= 0:
        assert done.out, told
        assert json.loads(done.out)["exitCode"] == done.code, told


@pytest.mark.few(1)
@pytest.mark.parametrize("number", SIGNALS)
def test_in_the_first_second(tester, start, number: signal.Signals) -> None:
    chance = random.Random(number)
    for _ in range(2):
        signal_early(start, chance.choice(COMMANDS), number, chance.uniform(0, FIRST))


@pytest.mark.few(2)
@pytest.mark.parametrize("number", SIGNALS)
def test_after_the_result(tester, start, number: signal.Signals) -> None:
    forge = start("run", "worker.yaml", "go", "--output-format", "json")
    told = json.loads(forge.process.stdout.readline())["exitCode"]
    forge.signal(number)
    assert forge.end().code in (told, -number)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_at_many_moments_of_the_first_second(tester, start, command: tuple[str, ...], number: signal.Signals) -> None:
    chance = random.Random()
    for _ in range(40):
        signal_early(start, command, number, chance.uniform(0, FIRST))


DROPPED = """
import os, weakref
from forge_cli.process.early_signals import end_on_signals
class Gone: ...
gone = Gone()
seen = weakref.ref(gone, lambda _: os.kill(os.getpid(), {number}))
end_on_signals(None)
del gone
"""


@pytest.mark.parametrize("number", SIGNALS)
def test_one_that_python_drops_ends_the_process(number: signal.Signals) -> None:
    """As at the end of an import: what a handler raises there goes nowhere."""
    code = DROPPED.format(number=int(number))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (128 + number, "")

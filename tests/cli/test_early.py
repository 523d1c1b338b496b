"""The sign of life: before anything heavy is imported, and only where somebody looks."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pexpect
import pytest

from forge_cli.cli.early import is_quiet

from ..rows import each_row

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

"""How the console script finds commands and how it ends.

Covers forge_cli.cli.commands, forge_cli.cli.failure, forge_cli.cli.overview, forge_cli.cli.parsing and
forge_cli.cli.usage.
"""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from forge_cli import __version__
from forge_cli.cli.app import take_debug
from forge_cli.cli.commands import lazy_commands
from forge_cli.cli.overview import COMMANDS, ROOT, SECTIONS, TABLE
from tests.support.rows import each_row
from tests.support.warm import Warm

START = """
import sys
from forge_cli.cli import app, commands, overview
from forge_cli.engine.plugins.scan import Plugin
overview.COMMANDS["probe"] = "Does what the test wants."
found = commands.lazy_commands
probe = commands.LazyCommand("probe", [Plugin("command.probe", "probe:app", "forge-workers", "1")])
commands.lazy_commands = lambda: {**found(), "probe": probe}
sys.exit(app.main())
"""

PROBE = """
import os, sys, threading, typer
from forge_cli.core.errors import Mark, UsageError, WorkerError
app = typer.Typer(rich_markup_mode=None, add_completion=False)

@app.command()
def probe(word: str = "", times: int = 1) -> None:
    {body}
"""


@pytest.fixture
def forge(warm: Warm):
    """Run forge with the command ``probe``; in a new process if streams are given."""

    def call(
        *args: str, cwd: Path | None = None, **options: object
    ) -> subprocess.CompletedProcess[str]:
        defaults = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
        }
        command = [sys.executable if options else str(warm.python), "-c", START, *args]
        return subprocess.run(
            command, text=True, cwd=cwd, timeout=60, check=False, **(defaults | options)
        )  # type: ignore[call-overload]

    return call


@pytest.fixture
def probe(tmp_path: Path, forge):
    """Call ``forge probe``, a command whose body is the given line of Python."""

    def call(body: str, *args: str, **options: object) -> subprocess.CompletedProcess[str]:
        (tmp_path / "probe.py").write_text(PROBE.format(body=body))
        return forge("probe", *args, cwd=tmp_path, **options)

    return call


FOUND = lazy_commands()


@each_row("name", COMMANDS)
def test_command_table_matches_the_commands(name: str) -> None:
    command = FOUND[name].load()
    assert (command.help or "").splitlines()[:1] == [COMMANDS[name]]
    assert command.name == name.split()[-1]
    assert command.rich_markup_mode is None
    assert not [
        option
        for parameter in command.params
        for option in parameter.opts
        if "completion" in option
    ]


def test_every_command_is_an_entry_point_and_in_one_section_of_the_help() -> None:
    assert sorted(lazy_commands()) == sorted(COMMANDS)
    listed = [name for names in SECTIONS.values() for name in names]
    assert sorted(listed) == sorted({name.split()[0] for name in COMMANDS})


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_version_is_printed(forge, flag: str) -> None:
    done = forge(flag)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"forge {__version__}\n", "")


@pytest.mark.parametrize("args", [("--help",), ("help",)])
def test_help_lists_every_command(forge, args: tuple[str, ...]) -> None:
    done = forge(*args)
    assert (done.returncode, done.stderr) == (0, "")
    lines = [line.split(maxsplit=1) for line in done.stdout.splitlines()]
    for name, text in {
        name: text for name, (text, *_) in TABLE.items() if " " not in name and name != ROOT
    }.items():
        assert [name, text] in lines
    assert any(line[:1] == ["--debug"] for line in lines)


def test_wrong_option_shows_the_usage_of_its_command(probe, forge) -> None:
    done = probe("pass", "--nonsense")
    assert (done.returncode, done.stdout) == (2, "")
    usage = "Usage: forge probe [OPTIONS]\nTry 'forge probe --help' for help.\n"
    assert done.stderr == f"{usage}forge: No such option: --nonsense\n"
    early = forge("-c")
    assert early.stderr.endswith(
        "forge: No such option: -c\n  options come after a command, for example: forge chat -c\n"
    )


def test_command_ends_with_its_own_code(probe) -> None:
    assert probe("raise typer.Exit(5)").returncode == 5
    assert probe("sys.exit(6)").returncode == 6


def test_forge_error_is_one_message_with_its_exit_code(probe) -> None:
    done = probe(
        "raise WorkerError(Mark('w.yaml', 3, 5), 'no such toolset', hint='did you mean shell?')"
    )
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == "forge: w.yaml:3:5: no such toolset\n  did you mean shell?\n"


def test_error_wrapped_by_a_task_group_is_the_same_message(probe) -> None:
    done = probe(
        "raise ExceptionGroup('tasks', [ExceptionGroup('more', [UsageError('the task is empty')])])"
    )
    assert (done.returncode, done.stderr) == (2, "forge: the task is empty\n")


def test_bug_is_one_line_and_debug_shows_the_traceback(probe) -> None:
    done = probe(r"raise ValueError('two\nlines')")
    assert done.returncode == 1
    assert (
        done.stderr == "forge: internal error: ValueError: two lines; --debug shows the traceback\n"
    )
    done = probe("raise ValueError('word')", "--word", "x", "--debug")
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert done.stderr.endswith("forge: internal error: ValueError: word\n")


def test_system_error_names_the_file(probe) -> None:
    done = probe("raise OSError(28, 'No space left on device', '/full/log')")
    assert done.returncode == 1
    assert (
        done.stderr
        == "forge: /full/log cannot be used: No space left on device\n  free some space there\n"
    )


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        ("EROFS", "make its file system writable"),
        ("EDQUOT", "free some space within your quota"),
        ("EACCES", "make it readable and writable for you"),
    ],
)
def test_unusable_home_is_reported_with_a_remedy(probe, number: str, remedy: str) -> None:
    done = probe(
        "import errno, os; from forge_cli.files.home import forge_home; "
        f"raise OSError(errno.{number}, os.strerror(errno.{number}), str(forge_home() / 'sessions/s.lock'))"
    )
    assert done.returncode == 1
    assert (
        f"/sessions/s.lock cannot be used: {os.strerror(getattr(errno, number))}\n  {remedy}, or set FORGE_HOME"
        in (done.stderr)
    )


def test_errors_cannot_control_the_terminal(probe) -> None:
    assert probe(r"raise UsageError('a\x1b[2Jb\x9bc')").stderr == "forge: a\\x1b[2Jb\\x9bc\n"


@pytest.mark.parametrize(
    ("args", "left", "debug"),
    [
        (["run", "--debug", "w"], ["run", "w"], True),
        (["--debug", "run", "--debug"], ["run"], True),
        (
            ["mcp", "add", "x", "--", "server", "--debug"],
            ["mcp", "add", "x", "--", "server", "--debug"],
            False,
        ),
        (["--debug", "--", "--debug"], ["--", "--debug"], True),
        ([], [], False),
    ],
)
def test_debug_is_accepted_anywhere_before_two_dashes(
    args: list[str], left: list[str], debug: bool
) -> None:
    assert take_debug(args) == (left, debug)


def test_ctrl_c_is_130_and_silent(probe) -> None:
    done = probe("raise KeyboardInterrupt")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "body", ["typer.echo(word)", "print('x' * 100_000)", "sys.stdout.write('short')"]
)
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_closed_reader_is_silent(probe, body: str, unbuffered: str) -> None:
    read, write = os.pipe()
    os.close(read)
    done = probe(body, stdout=write, env=os.environ | {"PYTHONUNBUFFERED": unbuffered})
    os.close(write)
    assert (done.returncode, done.stderr) == (1, "")


def test_other_broken_pipe_is_reported(probe) -> None:
    done = probe("raise BrokenPipeError(32, 'Broken pipe')")
    assert (done.returncode, done.stderr) == (
        1,
        "forge: Broken pipe; --debug shows the traceback\n",
    )


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("args", [["--version"], ["--help"]])
def test_output_that_cannot_be_written_is_one_line(forge, args: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = forge(*args, stdout=full)
    assert (done.returncode, done.stderr) == (
        1,
        "forge: standard output cannot be written: No space left on device\n",
    )


def test_exit_code_survives_a_closed_output(probe) -> None:
    read, write = os.pipe()
    os.close(read)
    done = probe(
        "sys.stdout.write('x'); raise typer.Exit(4)",
        stdout=write,
        env=os.environ | {"PYTHONUNBUFFERED": ""},
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (4, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_error_that_cannot_be_printed_stops_nothing(probe, unbuffered: str) -> None:
    body = "[sys.stderr.write('x' * 9000 + chr(10)) for _ in range(9)]; print('done'); raise typer.Exit(5)"
    with open("/dev/full", "w") as full:
        done = probe(body, stderr=full, env=os.environ | {"PYTHONUNBUFFERED": unbuffered})
    assert (done.returncode, done.stdout) == (5, "done\n")


@pytest.mark.parametrize(("closed", "code"), [("<&- 2>&-", 0), (">&-", 1), ("<&- >&- 2>&-", 1)])
def test_closed_output_is_an_error_and_closed_input_is_not(closed: str, code: int) -> None:
    shell = f"{sys.executable} -c '{START}' --version {closed}"
    done = subprocess.run(
        ["sh", "-c", shell], text=True, capture_output=True, timeout=60, check=False
    )
    said = (
        "forge: standard output cannot be written: it is closed\n"
        if code and "2" not in closed
        else ""
    )
    assert (done.returncode, done.stderr) == (code, said)


def test_abandoned_thread_does_not_block_the_process_or_its_output(probe) -> None:
    body = "threading.Thread(target=threading.Event().wait).start(); sys.stdout.write('done'); raise typer.Exit(5)"
    done = probe(body)
    assert (done.returncode, done.stdout, done.stderr) == (5, "done", "")


def test_unsupported_system_is_refused_with_the_supported_ones() -> None:
    start = (
        "import sys; sys.platform = 'win32'\nfrom forge_cli.cli.app import main\nsys.exit(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", start], text=True, capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "forge: only Linux and macOS are supported; on Windows, use WSL\n"


def test_missing_working_directory_is_reported(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    command = f"rmdir '{tmp_path}/gone'; exec {sys.executable} -c '{START}' run worker.yaml go"
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=tmp_path / "gone",
        text=True,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (
        1,
        "forge: the working directory was deleted\n  cd to another folder\n",
    )

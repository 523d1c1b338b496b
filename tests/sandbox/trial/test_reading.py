"""Commands that should only read, watched from a thread of forge or by a first program.

Covers forge_cli.sandbox.trial.seen.
"""

import os
import shutil
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import anyio
import pytest

from forge_cli.core.zones import Zone, ZoneMode
from forge_cli.sandbox.isolation.bubblewrap import Bubblewrap
from forge_cli.sandbox.isolation.confinement import Confinement
from forge_cli.sandbox.isolation.isolation import Confined
from forge_cli.sandbox.processes.command import Wrap, bash_argv
from forge_cli.sandbox.processes.process import ChildProcesses
from forge_cli.sandbox.trial.reading import ReadingRuns, reading_environment
from forge_cli.sandbox.trial.seen import filtered_thread
from forge_cli.sandbox.trial.view import TrialView

pytestmark = [pytest.mark.anyio, pytest.mark.needs("overlay")]

CONNECT = "import socket, sys; socket.socket(getattr(socket, sys.argv[1]), socket.SOCK_DGRAM).connect(eval(sys.argv[2]))"


class Reader:
    """A project in which commands should only read."""

    def __init__(self, folder: Path, program: Path, processes: ChildProcesses) -> None:
        self.folder, self._processes = folder, processes
        around = Confinement(
            zones=(Zone("project", self.folder, ZoneMode.RW),), workspace=self.folder, network=True
        )
        view = TrialView(around)
        self.runs = ReadingRuns(Confined(Bubblewrap(str(program)), view.confinement()), view)

    async def wants(self, line: str) -> list[str]:
        """The missing access of a line, and its end if it failed."""

        def run(wrap: Wrap) -> object:
            start = partial(
                self._processes.run,
                bash_argv(line),
                cwd=self.folder,
                env=reading_environment(),
                timeout=30,
            )
            return start(wrap=wrap)

        found = await self.runs.run(run)  # type: ignore[arg-type]
        return [each.what.removeprefix(f"{self.folder}/") for each in found.wanted]


@pytest.fixture(params=["thread", "first program"])
async def reader(
    request: pytest.FixtureRequest, place: Path, tmp_path: Path
) -> AsyncIterator[Reader]:
    """One for each way; a program with rights of its own would lose them in a thread under a filter."""
    program = Path(shutil.which("bwrap") or "")
    if request.param == "first program":
        program = Path(shutil.copy(program, tmp_path / "bwrap"))
        program.chmod(0o2755)
        assert filtered_thread(program) is None
    folder = place / "project"
    folder.mkdir()
    (folder / "notes.txt").write_text("hello\n")
    (folder / ".env").write_text("KEY=1\n")
    async with ChildProcesses() as processes:
        found = Reader(folder, program, processes)
        yield found
        found.runs.close()


@pytest.mark.parametrize(
    "line",
    [
        "cat notes.txt",
        "ls -la | head -2",
        "id -un; ls -l",
        "echo x > /tmp/x && cat /tmp/x > /dev/null",
        "sort < notes.txt 2>&1 | tee /dev/stderr",
        "mkdir -p /tmp/a/b; rm -r /tmp/a",
        "cat nowhere; rm -f nowhere; false",
        "mkdir __pycache__",
        "stat .env",
    ],
)
async def test_reading_line_wants_nothing(reader: Reader, line: str) -> None:
    assert await reader.wants(line) == []


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("echo x >> notes.txt", ["notes.txt"]),
        ("echo x > made", ["made"]),
        ("(mkdir made; ln -s a b; mv notes.txt c) 2>/dev/null", ["made", "b", "notes.txt"]),
        ("touch notes.txt 2>&1 | cat > /dev/null", ["notes.txt"]),
        ("(rm notes.txt & wait) 2>/dev/null", ["notes.txt"]),
        ("cp notes.txt /usr/x 2>/dev/null", ["/usr/x"]),
        ("cat .env", [".env"]),
        ("head -c 1 .env notes.txt; grep -r KEY . > /dev/null", [".env"]),
    ],
)
async def test_changes_and_secrets_are_wants_of_a_reading_line(
    reader: Reader, line: str, wanted: list[str]
) -> None:
    assert await reader.wants(line) == wanted


@pytest.mark.parametrize(
    "to", ["AF_INET \"('192.0.2.7', 80)\"", "AF_INET6 \"('2001:db8::7', 80)\""]
)
async def test_network_is_wanted(reader: Reader, to: str) -> None:
    assert await reader.wants(f'python3 -c "{CONNECT}" {to} 2>/dev/null') != []


async def test_unix_sockets_are_wanted(reader: Reader) -> None:
    assert await reader.wants(f'python3 -c "{CONNECT}" AF_UNIX "\'/run/none\'" 2>/dev/null') == [
        "/run/none"
    ]


async def test_secrets_that_come_and_change_are_masked(reader: Reader) -> None:
    assert await reader.wants("cat .env") == [".env"]
    assert await reader.wants("cat notes.txt") == []
    (reader.folder / "sub").mkdir()
    (reader.folder / "sub/.env.local").write_text("KEY=2\n")
    assert await reader.wants("cat sub/.env.local") == ["sub/.env.local"]
    os.replace(reader.folder / "sub/.env.local", reader.folder / ".env")
    assert await reader.wants("cat .env; test -e sub/.env.local || false") == [".env"]
    (reader.folder / ".env").unlink()
    (reader.folder / ".env.d").mkdir()
    (reader.folder / ".env.d/key").write_text("KEY=3\n")
    assert await reader.wants("cat .env.d/key") == [".env.d"]
    (reader.folder / ".env.d/other").write_text("KEY=3\n")
    assert await reader.wants("cat .env.d/other") == [".env.d"]


async def test_commands_at_the_same_time_take_turns(reader: Reader) -> None:
    found: dict[str, list[str]] = {}

    async def take(line: str) -> None:
        found[line] = await reader.wants(line)

    async with anyio.create_task_group() as group:
        for line in ("cat .env", "cat notes.txt", "touch notes.txt 2>/dev/null", "ls"):
            group.start_soon(take, line)
    assert list(found.values()).count([]) == 2
    assert found["cat .env"] == [".env"]

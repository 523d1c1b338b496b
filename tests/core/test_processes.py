"""``env.processes`` as a third-party toolset uses it: its guarantees, with and without confinement.

Covers forge_cli.sandbox.processes.streams.
"""

import json
import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forge_cli import InterruptSignal
from forge_cli.core.errors import WorkerError
from forge_cli.core.events import ToolResult
from forge_cli.sandbox.isolation.isolation import best_mechanism
from forge_cli.testing import Project, call, calls
from tests.support.children import sleepers, tag

pytestmark = pytest.mark.needs("linux")

TOOLS = """
import json
from msgspec.structs import asdict
from pathlib import Path

from forge_cli import Toolset, tool

RESULT = Path("{result}")


class Commands(Toolset):
    name = "commands"

    @tool(needs_approval=False)
    async def run(self, argv: list[str], options: dict = {}) -> None:
        '''Run a command.'''
        RESULT.write_text(json.dumps(asdict(await self.env.processes.run(argv, **options))))

    @tool(needs_approval=False)
    async def stream(self, argv: list[str], options: dict = {}, pieces: int = 1000, reply: str = "") -> None:
        '''Run a command, and answer what it says by writing a file.'''
        said = []
        async with self.env.processes.stream(argv, **options) as stream:
            assert stream.finished is None
            async for piece in stream:
                said.append([piece.stream, piece.text])
                if reply:
                    Path(reply).write_text("go")
                if len(said) == pieces:
                    break
        RESULT.write_text(json.dumps({"said": said, **asdict(stream.finished)}))
"""
LEVELS = ["off", pytest.param("required", marks=pytest.mark.needs("bwrap"))]


@pytest.fixture
def project(monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    """A project that is not in /tmp, which a confined process has for itself."""
    with tempfile.TemporaryDirectory(prefix="forge-test-", dir="/var/tmp") as folder:
        (Path(folder) / "home").mkdir()
        (Path(folder) / "project").mkdir()
        monkeypatch.setenv("HOME", f"{folder}/home")
        yield Project(Path(folder).resolve() / "project")


class Worker:
    """A worker with a toolset that starts given commands."""

    def __init__(self, project: Project, sandbox: str) -> None:
        self.project = project
        self.result = project.folder.parent / "result.json"
        project.write("tools.py", TOOLS.replace("{result}", str(self.result)))
        section = "custom: {module: ./tools.py, tools: [Commands]}"
        project.write("worker.yaml", f"name: w\nsandbox: {sandbox}\ntoolsets:\n  {section}\n")

    def outcome(self, tool: str, line: str, **args: Any) -> ToolResult:
        made = call(tool, argv=["bash", "-c", line], **args)
        return self.project.run(calls(made), "Done.").outcomes[0]

    def run(self, line: str, **options: Any) -> dict[str, Any]:
        return self._told(self.outcome("run", line, options=options))

    def stream(
        self, line: str, *, pieces: int = 1000, reply: str = "", **options: Any
    ) -> dict[str, Any]:
        return self._told(self.outcome("stream", line, options=options, pieces=pieces, reply=reply))

    def _told(self, outcome: ToolResult) -> dict[str, Any]:
        """The outcome of the command, read from a file, because the gate bounds results."""
        assert outcome.error is None
        told: dict[str, Any] = json.loads(self.result.read_text())
        return told


@pytest.fixture(params=LEVELS)
def worker(project: Project, request: pytest.FixtureRequest) -> Worker:
    return Worker(project, f"{{isolation: {request.param}}}")


@pytest.fixture
def confined(project: Project) -> Worker:
    return Worker(project, "{isolation: required}")


def test_failed_command_is_a_result_and_not_raised(worker: Worker) -> None:
    done = worker.run("echo out; echo err >&2; exit 3")
    assert done.pop("duration_ms") >= 0
    assert done.pop("confined") is ("required" in worker.project.read("worker.yaml"))
    assert done == {
        "exit_code": 3,
        "signal": None,
        "stdout": "out\n",
        "stderr": "err\n",
        "timed_out": False,
        "truncated": False,
        "exceeded": None,
        "appeared": [],
        "refused": [],
        "denies": False,
        "sockets": [],
    }


@pytest.mark.parametrize("tool", ["run", "stream"])
def test_unknown_option_of_a_command_is_an_error(worker: Worker, tool: str) -> None:
    outcome = worker.outcome(tool, "sleep 1000", options={"timout": 0.1})
    assert "unknown command option 'timout'; the options are cwd, env, " in str(outcome.error)


def test_signal_of_a_command_is_reported(worker: Worker) -> None:
    done = worker.run("kill -9 $$")
    assert (done["exit_code"], done["signal"]) == (None, 9)


def test_late_command_is_stopped_with_its_children_and_keeps_its_output(
    worker: Worker,
) -> None:
    mark = tag()
    done = worker.run(f"echo so far; (setsid sleep {mark} &); sleep {mark}", timeout=0.5)
    assert (done["timed_out"], done["stdout"], done["exit_code"]) == (True, "so far\n", None)
    assert sleepers(mark) == []


def test_interrupt_stops_a_command_with_its_children(worker: Worker) -> None:
    mark, signal, pipe = tag(), InterruptSignal(), worker.project.folder / "pipe"
    os.mkfifo(pipe)

    def interrupt() -> None:
        with pipe.open() as lines:
            lines.readline()
            signal.interrupt()

    watcher = threading.Thread(target=interrupt, daemon=True)
    watcher.start()
    line = f"(setsid sleep {mark} &); echo ready > pipe; sleep {mark}"
    made = call("run", argv=["bash", "-c", line], options={})
    seen = worker.project.run(calls(made), "Done.", interrupt_signal=signal)
    watcher.join(20)
    assert (seen.statuses, sleepers(mark), watcher.is_alive()) == (["interrupted"], [], False)


def test_background_processes_end_with_the_worker(worker: Worker) -> None:
    mark = tag()
    assert worker.run(f"(setsid sleep {mark} &)")["exit_code"] == 0
    assert sleepers(mark) == []


def test_long_output_keeps_its_beginning_and_end(worker: Worker) -> None:
    done = worker.run("echo first; head -c 3000000 /dev/zero | tr '\\0' x; echo; echo last")
    assert (done["truncated"], done["stdout"][:6], done["stdout"][-6:]) == (
        True,
        "first\n",
        "\nlast\n",
    )
    assert "bytes cut ...]" in done["stdout"]
    assert len(done["stdout"]) < 1_100_000


def test_environment_of_a_command_has_no_keys(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    monkeypatch.setenv("SOMETHING", "else")
    said = worker.run("env", env={"GIVEN": "yes"})["stdout"].splitlines()
    assert {"GIVEN=yes", f"FORGE_WORKSPACE={worker.project.folder}"} <= set(said)
    assert not [line for line in said if line.startswith(("ANTHROPIC_API_KEY", "SOMETHING"))]


@pytest.mark.parametrize(
    ("given", "read"), [({}, ""), ({"input": "ä\n" * 100_000}, "ä\n" * 100_000)]
)
def test_command_reads_only_its_input(worker: Worker, given: dict[str, str], read: str) -> None:
    assert worker.run("cat", **given)["stdout"] == read


def test_unread_input_is_no_failure(worker: Worker) -> None:
    assert worker.run("exec 0<&-; exit 0", input="x" * 1_000_000)["exit_code"] == 0


def test_command_runs_in_the_working_directory_or_in_cwd(worker: Worker) -> None:
    worker.project.write("sub/file", "")
    folder = worker.project.folder
    assert worker.run("pwd")["stdout"] == f"{folder}\n"
    assert worker.run("pwd", cwd="sub")["stdout"] == f"{folder}/sub\n"
    assert worker.run("pwd", cwd=f"{folder}/sub")["stdout"] == f"{folder}/sub\n"


@pytest.mark.long
def test_output_that_is_not_text_can_be_kept(worker: Worker) -> None:
    line = "printf 'a\\377b'"
    assert worker.run(line)["stdout"] == "a\N{REPLACEMENT CHARACTER}b"
    assert os.fsencode(worker.run(line, errors="surrogateescape")["stdout"]) == b"a\xffb"


@pytest.mark.parametrize("program", ["no-such-program", "./nothing", "/etc"])
def test_command_that_cannot_start_is_a_tool_error(worker: Worker, program: str) -> None:
    seen = worker.project.run(calls(call("run", argv=[program])), "Done.")
    assert seen.outcomes[0].error == f"'{program}' cannot be started: no such executable program"


@pytest.mark.needs("bwrap")
def test_confined_command_writes_to_zones_only(confined: Worker) -> None:
    confined.project.write(".git/config", "")
    line = 'for path in a ../a ~/a .git/a worker.yaml; do (: >> "$path") 2>/dev/null && echo "$path"; done; true'
    assert confined.run(line)["stdout"] == "a\n"


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize(("network", "shared"), [("false", False), ("true", True)])
def test_confined_command_has_the_network_of_its_worker(
    project: Project, network: str, shared: bool
) -> None:
    worker = Worker(project, f"{{isolation: auto, network: {network}}}")
    said = worker.run("readlink /proc/self/ns/net")["stdout"].strip()
    assert (said == os.readlink("/proc/self/ns/net")) is shared


def test_stream_yields_pieces_while_the_command_runs(worker: Worker) -> None:
    """The command goes on only once its first piece has been answered."""
    line = "echo one; until [ -e reply ]; do sleep 0.01; done; echo two >&2; exit 4"
    done = worker.stream(line, reply=f"{worker.project.folder}/reply", timeout=20)
    assert done["said"] == [["stdout", "one\n"], ["stderr", "two\n"]]
    assert (done["stdout"], done["stderr"], done["exit_code"], done["timed_out"]) == (
        "one\n",
        "two\n",
        4,
        False,
    )


def test_stream_ends_at_the_time_limit(worker: Worker) -> None:
    mark = tag()
    done = worker.stream(f"echo so far; (setsid sleep {mark} &); sleep {mark}", timeout=0.5)
    assert (done["said"], done["timed_out"], done["stdout"]) == (
        [["stdout", "so far\n"]],
        True,
        "so far\n",
    )
    assert sleepers(mark) == []


def test_leaving_a_stream_stops_the_command(worker: Worker) -> None:
    mark = tag()
    done = worker.stream(f"echo one; (setsid sleep {mark} &); sleep {mark}", pieces=1)
    assert (done["said"], done["timed_out"], done["exit_code"]) == (
        [["stdout", "one\n"]],
        False,
        None,
    )
    assert sleepers(mark) == []


def test_streamed_command_reads_only_its_input(worker: Worker) -> None:
    assert worker.stream("cat", input="x\n" * 50_000)["stdout"] == "x\n" * 50_000


def test_kept_output_of_a_long_stream_is_bounded(worker: Worker) -> None:
    done = worker.stream("head -c 3000000 /dev/zero | tr '\\0' x")
    assert done["truncated"] is True
    assert len(done["stdout"]) < 1_100_000


def test_required_isolation_without_a_mechanism_starts_nothing(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bash").symlink_to("/bin/bash")
    worker = Worker(project, "{isolation: required}")
    monkeypatch.setenv("PATH", str(tmp_path))
    best_mechanism.cache_clear()
    try:
        outcome = worker.outcome("run", "touch made")
    finally:
        best_mechanism.cache_clear()
    assert "isolation is required, and this machine has no working mechanism" in outcome.error
    assert not (project.folder / "made").exists()


def test_toolset_can_check_isolation_at_load(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = Worker(project, "{isolation: required}")
    entering = (
        "    async def __aenter__(self):\n        self.env.processes.check()\n        return self\n"
    )
    project.write("tools.py", project.read("tools.py") + entering)
    monkeypatch.setenv("PATH", str(tmp_path))
    best_mechanism.cache_clear()
    try:
        with pytest.raises(WorkerError, match=r"worker.yaml:2:.*isolation is required"):
            worker.run("true")
    finally:
        best_mechanism.cache_clear()

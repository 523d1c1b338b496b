"""Unix sockets that commands are refused: said in the result, whatever the command says of it itself.

Covers forge_cli.sandbox.trial.copies, forge_cli.toolsets.shell.toolset, forge_cli.sandbox.processes.outcome.
"""

import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from forge_cli.core.events import ToolResult
from forge_cli.testing import Project, Seen, call, calls

pytestmark = pytest.mark.needs("overlay")

DOCKER = """#!/usr/bin/env python3
import socket, sys
with socket.socket(socket.AF_UNIX) as daemon:
    try:
        daemon.connect(sys.argv[1])
    except OSError:
        sys.exit("permission denied while trying to connect to the docker API")
    print(daemon.recv(100).decode())
"""


@pytest.fixture
def shell(project: Project) -> Project:
    project.write("docker", DOCKER).chmod(0o755)
    return project


def greet(server: socket.socket) -> None:
    """Say hello to all who come, until the socket is shut down."""
    with suppress(OSError):
        while True:
            client, _ = server.accept()
            with client:
                client.send(b"hello")


@pytest.fixture
def daemon() -> Iterator[Path]:
    """A socket outside the zones that somebody listens at; in a folder whose path is short enough for an address."""
    with tempfile.TemporaryDirectory(prefix="forge-") as folder, socket.socket(socket.AF_UNIX) as server:
        path = Path(os.path.realpath(folder), "d.sock")
        server.bind(str(path))
        server.listen()
        Thread(target=greet, args=(server,), daemon=True).start()
        yield path
        server.shutdown(socket.SHUT_RDWR)


def worker(project: Project, *, read: Path | None = None, undo: str = "commands", shell: str = "try: off") -> None:
    sandbox = f"{{read: [{read}]}}" if read else "{}"
    project.write("worker.yaml", f"name: w\nundo: {undo}\nsandbox: {sandbox}\ntoolsets: {{shell: {{{shell}}}}}\n")


def run(project: Project, line: str, **options: Any) -> Seen:
    return project.run(calls(call("shell", command=line)), "done", timeout=60, answers=[True], **options)


def ended(seen: Seen) -> tuple[Any, Any, str]:
    """The state of a call, the data of its result, and what the model reads."""
    (result,) = seen.of(ToolResult)
    return result.status, result.value.data, str(result.value.model_text)  # type: ignore[union-attr]


SPELLINGS = {
    "./docker {0}": "error",
    "./docker {0} 2>/dev/null || true": "success",
    "./docker {0} 2>&1 | head -5": "success",
    "./docker {0} 2>/dev/null | grep -c . || echo none": "success",
    "cd /; exec 2>/dev/null; $OLDPWD/docker {0}; exit 0": "success",
    "(setsid ./docker {0} & wait) >/dev/null 2>&1": "success",
    "echo {0} | xargs ./docker 2>/dev/null || :": "success",
    """python3 -c 'import socket; s = socket.socket(1, 2); s.sendto(b"x", "{0}")' 2>/dev/null; true""": "success",
}


@pytest.mark.parametrize("undo", ["commands", "files"])
@pytest.mark.parametrize("line", SPELLINGS)
def test_a_refused_socket_is_in_the_result_whatever_the_command_says(
    shell: Project, daemon: Path, line: str, undo: str
) -> None:
    worker(shell, undo=undo)
    status, data, read = ended(run(shell, line.format(daemon)))
    assert (status, data["refusedSockets"]) == (SPELLINGS[line], [str(daemon)])
    sentence = f"refused the unix socket {daemon}; commands may use one that sandbox.read names"
    assert sentence in read.splitlines()[0]


OTHERS = {
    """python3 -c 'import socket; socket.socket(1).connect("\\0forge-nobody")' 2>/dev/null; true""": [
        "@forge-nobody (abstract)"
    ],
    """python3 -c 'import socket; socket.socket(1).bind("own.sock")' 2>/dev/null; true""": ["./own.sock of its own"],
}


@pytest.mark.parametrize("line", OTHERS)
def test_sockets_that_no_command_may_use_are_told_without_a_remedy(shell: Project, line: str) -> None:
    worker(shell)
    _, data, read = ended(run(shell, line))
    (name,) = OTHERS[line]
    told = name.replace("./", f"{shell.folder}/")
    assert data["refusedSockets"] == [told]
    assert f"refused the unix socket {told}; no confined command may use it" in read


QUIET = [
    "./docker /run/user/1000/nobody.sock 2>/dev/null; true",
    "python3 -c 'import socket; socket.socketpair(); socket.socket()'",
    "id; ls -l; git status; whoami",
]


@pytest.mark.parametrize("line", QUIET)
def test_what_is_not_there_anyway_is_not_told(shell: Project, line: str) -> None:
    worker(shell)
    _, data, read = ended(run(shell, line))
    assert "refusedSockets" not in data
    assert "unix socket" not in read


def test_one_that_is_named_is_used(shell: Project, daemon: Path) -> None:
    worker(shell, read=daemon)
    status, data, _ = ended(run(shell, f"./docker {daemon}"))
    assert (status, data["stdout"]) == ("success", "hello\n")
    assert "refusedSockets" not in data

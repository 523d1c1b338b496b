"""Refused unix sockets are reported in the result, independent of the command's output.

Covers forge_cli.sandbox.trial.copies, forge_cli.toolsets.shell.toolset, forge_cli.toolsets.shell.daemon_clients,
forge_cli.sandbox.processes.outcome.
"""

import json
import os
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from forge_cli import ApprovalDecision, ApprovalRequest
from forge_cli.core.events import ApprovalRequired, ToolResult
from forge_cli.core.trial import CommandTried
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
    """A listening socket outside the zones, in a folder whose path is short enough for an address."""
    with (
        tempfile.TemporaryDirectory(prefix="forge-") as folder,
        listening(Path(os.path.realpath(folder), "d.sock")) as path,
    ):
        yield path


@contextmanager
def other_daemon(daemon: Path) -> Iterator[Path]:
    with listening(daemon.with_name("other.sock")) as path:
        yield path


@contextmanager
def listening(path: Path) -> Iterator[Path]:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        Thread(target=greet, args=(server,), daemon=True).start()
        yield path
        server.shutdown(socket.SHUT_RDWR)


def worker(
    project: Project, *, read: Path | None = None, undo: str = "commands", shell: str = "try: off"
) -> None:
    sandbox = f"{{read: [{read}]}}" if read else "{}"
    project.write(
        "worker.yaml",
        f"name: w\nundo: {undo}\nsandbox: {sandbox}\ntoolsets: {{shell: {{{shell}}}}}\n",
    )


def run(project: Project, line: str, **options: Any) -> Seen:
    return project.run(
        calls(call("shell", command=line)), "done", timeout=60, answers=[True], **options
    )


def ended(seen: Seen) -> tuple[Any, Any, str]:
    """The status of a call, the data of its result, and the text for the model."""
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


@pytest.mark.few(8)
@pytest.mark.parametrize("undo", ["commands", "files"])
@pytest.mark.parametrize("line", SPELLINGS)
def test_refused_socket_is_in_the_result_of_every_command(
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
    """python3 -c 'import socket; socket.socket(1).bind("own.sock")' 2>/dev/null; true""": [
        "./own.sock of its own"
    ],
}


@pytest.mark.parametrize("line", OTHERS)
def test_forbidden_sockets_are_reported_without_a_remedy(shell: Project, line: str) -> None:
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
def test_missing_socket_is_not_reported(shell: Project, line: str) -> None:
    worker(shell)
    _, data, read = ended(run(shell, line))
    assert "refusedSockets" not in data
    assert "unix socket" not in read


def test_named_socket_is_used(shell: Project, daemon: Path) -> None:
    worker(shell, read=daemon)
    status, data, _ = ended(run(shell, f"./docker {daemon}"))
    assert (status, data["stdout"]) == ("success", "hello\n")
    assert "refusedSockets" not in data


def tried(project: Project, *lines: str, **options: Any) -> Seen:
    """Run lines that are tried first."""
    worker(project, shell=options.pop("shell", ""), read=options.pop("read", None))
    turns = [calls(call("shell", command=line)) for line in lines]
    return project.run(*turns, "done", timeout=120, **options)


def recaps(seen: Seen) -> list[str | None]:
    return [
        each.request.recap
        for each in seen.of(ApprovalRequired)
        if isinstance(each.request, ApprovalRequest)
    ]


def test_yes_to_a_trial_that_needed_a_socket_opens_it(shell: Project, daemon: Path) -> None:
    line = f"./docker {daemon} > made; cat made"
    seen = tried(shell, line, line, answers=[True, False])
    assert [event.outcome for event in seen.of(CommandTried)] == ["incomplete"] * 2
    assert recaps(seen) == [f"yes runs it for real and lets it use {daemon}"] * 2
    first, second = seen.of(ToolResult)
    assert first.value.data["stdout"] == "hello\n"  # type: ignore[union-attr]
    assert shell.read("made") == "hello\n"
    assert second.status == "denied"
    assert "permission denied" not in str(second.value)


def test_yes_opens_only_the_shown_socket(shell: Project, daemon: Path) -> None:
    with other_daemon(daemon) as other:
        shell.write("run.sh", f"test -e flag && ./docker {other}; touch flag; ./docker {daemon}\n")
        seen = tried(shell, "sh run.sh; :", "sh run.sh; :", answers=[True, True])
    assert recaps(seen) == [
        f"yes runs it for real and lets it use {each}" for each in (daemon, f"{other}, {daemon}")
    ]
    assert [each.value.data["stdout"] for each in seen.of(ToolResult)] == [
        "hello\n",
        "hello\nhello\n",
    ]  # type: ignore[union-attr]


def test_question_warns_that_a_socket_controls_the_machine(shell: Project, daemon: Path) -> None:
    powerful = daemon.with_name("docker.sock")
    daemon.rename(powerful)
    (asked,) = recaps(tried(shell, f"./docker {powerful}", answers=[False]))
    assert (
        asked
        == f"yes runs it for real and lets it use {powerful}, so that it can do anything on this machine"
    )


def test_later_yes_does_not_open_a_replaced_socket(shell: Project, daemon: Path) -> None:
    with other_daemon(daemon) as other:
        shell.write("run.sh", f"./docker {daemon}\n")
        turns = [calls(call("shell", command="sh run.sh")), {"text": "done"}]
        shell.write("script.yaml", json.dumps({"turns": turns}))
        worker(shell, shell="")
        options = ("-p", "--on-ask", "park", "-m", "script:script.yaml")
        parked = shell.forge("run", "worker.yaml", "go", *options)
        assert parked.returncode == 10, parked
        (waiting,) = json.loads(shell.forge("approvals", "list", "--json").stdout)
        shell.write("run.sh", f"./docker {other} > other; ./docker {daemon} > out\n")
        assert shell.forge("approvals", "answer", "last", "yes").returncode == 0
        done = shell.forge("run", "worker.yaml", "-r", waiting["session"], *options)
    assert (done.returncode, done.stdout) == (0, "done\n"), done
    assert (shell.read("other"), shell.read("out")) == ("", "hello\n")


def test_lines_are_tried_as_usual_with_a_configured_socket(shell: Project, daemon: Path) -> None:
    seen = tried(
        shell,
        f"./docker {daemon} | head -1",
        "python3 -c 'print(1)'",
        "python3 -c 1/0",
        read=daemon,
        answers=[True],
    )
    assert [event.outcome for event in seen.of(CommandTried)] == [
        "incomplete",
        "noEffect",
        "noEffect",
    ]
    assert [each.value.data["stdout"] for each in seen.of(ToolResult)] == ["hello\n", "1\n", ""]  # type: ignore[union-attr]


def test_files_in_run_are_needed_if_a_line_or_an_error_names_them(shell: Project) -> None:
    name = (
        "/run/adduser"
        if os.path.exists("/run/adduser")
        else next(str(each) for each in Path("/run").iterdir())
    )
    lines = [
        f"cat {name}; true",
        f"cat $(echo {name}) 2>&1 || true",
        "ls /run/nothing-of-that-name; true",
    ]
    seen = tried(shell, *lines, approval_callback=lambda request: False)
    found = [[(each.kind, each.what) for each in event.wanted] for event in seen.of(CommandTried)]
    assert found == [[("read", name)], [("read", name)], []]


CLIENT = """#!/usr/bin/env python3
import os, socket, sys
with socket.socket(socket.AF_UNIX) as daemon:
    try:
        daemon.connect(os.environ.get("DAEMON", "{0}"))
    except OSError:
        sys.exit("cannot connect")
    print(daemon.recv(100).decode(), *sys.argv[1:])
"""


@pytest.fixture
def clients(project: Project, daemon: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs on PATH, outside the zones, that talk to the daemon."""
    folder = daemon.with_name("bin")
    folder.mkdir()
    for name in ("docker", "psql", "deploy"):
        (folder / name).write_text(CLIENT.format(daemon))
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def granting(which: int, given: list[str]) -> Callable[[ApprovalRequest], ApprovalDecision]:
    """A person who accepts a session offer and notes its text, or else says yes once."""

    def answer(request: ApprovalRequest) -> ApprovalDecision:
        offers = [offer for offer in request.offers or () if not offer.lasting]
        given.append(offers[min(which, len(offers) - 1)].text if offers else "once")
        if not offers:
            return ApprovalDecision(True)
        return ApprovalDecision(True, remember="session", grant=offers[min(which, len(offers) - 1)])

    return answer


def lending_worker(project: Project, clients: Path) -> None:
    zones = f"[{{name: code, path: ., mode: rw}}, {{name: clients, path: {clients}, mode: ro}}]"
    # What a daemon prints is untrusted, and asks again; these tests are about its socket.
    rule = "provenance: {after_untrusted: {other: 'off'}}"
    text = f"name: w\n{rule}\nsandbox: {{zones: {zones}}}\ntoolsets: {{shell: {{rules: [{{use: reading}}]}}}}\n"
    project.write("worker.yaml", text)


def lent(
    project: Project, clients: Path, answer: Callable[..., ApprovalDecision], *lines: str
) -> Seen:
    """Run lines whose programs lie in a read-only zone, with a person who answers."""
    lending_worker(project, clients)
    turns = [calls(call("shell", command=line)) for line in lines]
    return project.run(*turns, "done", timeout=120, approval_callback=answer)


def stdouts(seen: Seen) -> list[str]:
    return [each.value.data["stdout"].strip() for each in seen.of(ToolResult)]  # type: ignore[union-attr]


def test_daemon_socket_is_granted_for_a_form_of_commands(
    project: Project, daemon: Path, clients: Path
) -> None:
    lines = [
        "docker compose exec -T api npm test 2>&1 | tail -5",
        "docker compose exec -T api npm test",
        "docker compose down",
        "docker compose down > out",
        "docker compose down -v",
    ]
    given: list[str] = []
    seen = lent(project, clients, granting(1, given), *lines)
    using = f", using {daemon}"
    assert given == [
        f"commands that begin with docker compose exec -T api npm test{using}",
        f"commands that begin with docker compose down, but for forms that discard or rewrite{using}",
        f"this exact call{using}",
        f"this exact call{using}",
    ]
    said = [f"hello {line.split(' 2>')[0].removeprefix('docker ')}" for line in lines]
    assert stdouts(seen) == ["" if "out" in each else each for each in said]


@pytest.mark.parametrize("line", ["docker compose exec -T api npm test", "psql -c 'select 1'"])
def test_grant_of_one_call_opens_the_socket_only_for_that_call(
    project: Project, daemon: Path, clients: Path, line: str
) -> None:
    given: list[str] = []
    seen = lent(project, clients, granting(0, given), line, line, f"{line} 1")
    assert given == [f"this exact call, using {daemon}"] * 2
    assert len(stdouts(seen)) == 3


NOT_LENT = {
    "a program of the workspace": "./docker ps",
    "a program that is no client": "deploy all",
    "another command beside it": "docker ps; python3 -c 1",
    "a client that a script starts": "sh run.sh",
    "variables of its own": "X=1 docker ps",
}


@pytest.mark.few(3)
@pytest.mark.parametrize("case", NOT_LENT)
def test_no_socket_is_granted_for_a_line_with_other_effects(
    project: Project, daemon: Path, clients: Path, case: str
) -> None:
    project.write("docker", (clients / "docker").read_text()).chmod(0o755)
    project.write("run.sh", "docker ps\n")
    given: list[str] = []
    seen = lent(project, clients, granting(0, given), NOT_LENT[case], NOT_LENT[case])
    assert all(str(daemon) in [want.what for want in each.wanted] for each in seen.of(CommandTried))
    assert given == ["once", "once"]


def test_client_program_in_a_zone_gets_no_socket(
    project: Project, daemon: Path, clients: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write("bin/docker", (clients / "docker").read_text()).chmod(0o755)
    monkeypatch.setenv("PATH", f"{project.folder}/bin:{os.environ['PATH']}")
    given: list[str] = []
    seen = lent(project, clients, granting(0, given), "docker ps", "docker ps")
    assert all(str(daemon) in [want.what for want in each.wanted] for each in seen.of(CommandTried))
    assert given == ["once", "once"]


def test_grant_of_one_socket_does_not_cover_another(
    project: Project, daemon: Path, clients: Path
) -> None:
    with other_daemon(daemon) as other:
        given: list[str] = []
        lending_worker(project, clients)
        turns = []
        for target in (daemon, other):
            content = CLIENT.format(target)
            turns += [
                calls(call("change", content=content)),
                calls(call("shell", command="docker ps")),
            ]
        project.write(
            "tools.py",
            "from pathlib import Path\nfrom forge_cli import tool\n"
            f"@tool(needs_approval=False)\ndef change(content: str) -> str:\n    'Change.'\n"
            f"    Path({str(clients / 'docker')!r}).write_text(content)\n    return 'changed'\n",
        )
        text = project.read("worker.yaml").replace(
            "toolsets: {", "toolsets: {custom: {module: ./tools.py, tools: [change]}, "
        )
        project.write("worker.yaml", text)
        project.run(*turns, "done", timeout=120, approval_callback=granting(0, given))
    assert given == [f"this exact call, using {each}" for each in (daemon, other)]

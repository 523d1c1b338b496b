"""Confined commands with a proxy: they reach only named hosts, and only through forge.

Covers forge_cli.sandbox.network.proxy_bootstrap.
"""

import os
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream

from forge_cli.core.approval import ApprovalDecision
from forge_cli.core.errors import ToolError, WorkerError
from forge_cli.core.zones import Zone, ZoneMode
from forge_cli.files.document import read_document
from forge_cli.sandbox.files.sandbox import Sandbox
from forge_cli.sandbox.isolation.isolation import best_mechanism
from forge_cli.sandbox.network.access import Destination
from forge_cli.sandbox.network.proxy import NetworkProxy
from forge_cli.sandbox.processes.command import bash_argv
from forge_cli.sandbox.worker_processes import WorkerProcesses
from forge_cli.sandbox.zones.config import SandboxConfig
from forge_cli.schema.config import parse_config
from tests.support.children import descriptors

from .away import PUBLIC, Away, Person

pytestmark = [pytest.mark.anyio, pytest.mark.needs("bwrap")]

GET = """\
import sys, urllib.error, urllib.request
for url in sys.argv[1:]:
    try:
        print(urllib.request.urlopen(url, timeout=60).read().decode(), end="")
    except urllib.error.HTTPError as error:
        print(error.code, error.read().decode(), end="")
    except OSError as error:
        print(type(error).__name__)
"""


@pytest.fixture
def place(place: Path) -> Path:
    (place / "get.py").write_text(GET)
    return place


async def hello(client: SocketStream) -> None:
    async with client:
        try:
            asked = (await client.receive()).split(b" ")[1]
            await client.send(
                b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello from " + asked + b"\n"
            )
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return


@asynccontextmanager
async def opened(
    place: Path, person: Person, away: Away, text: str
) -> AsyncIterator[WorkerProcesses]:
    file = place / "sandbox.yaml"
    file.write_text(text)
    wanted = parse_config(SandboxConfig, read_document(file).data, file=str(file)).wanted()
    sandbox = Sandbox([Zone("place", place, ZoneMode.RW)], workspace=place, isolation=wanted)
    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as server,
        anyio.create_task_group() as tasks,
    ):
        away.port = server.extra(SocketAttribute.local_port)
        tasks.start_soon(server.serve, hello)
        made = WorkerProcesses(
            sandbox,
            workspace=place,
            home=place / ".forge",
            notify=lambda *_: None,
            gate=person,
            outside=away,
        )
        async with made.children:
            yield made
        tasks.cancel_scope.cancel()


NAMES = "network: ['*.example.org']"


async def test_program_reaches_what_a_rule_covers_and_hears_why_it_reaches_nothing_else(
    place: Path,
) -> None:
    person, away = Person(), Away()
    line = "python3 get.py http://api.example.org/x http://other.example.com/ http://rebound.example.org/"
    async with opened(place, person, away, NAMES) as processes:
        done = await processes.run(bash_argv(line), timeout=60)
    assert done.stdout == (
        "hello from /x\n"
        "403 forge: other.example.com:80 is refused: no rule covers it; not that one\n"
        "403 forge: rebound.example.org:80 is refused: 10.1.2.3 is an address of a private network\n"
    )
    assert done.refused == (
        "other.example.com:80 (no rule covers it; not that one)",
        "rebound.example.org:80 (10.1.2.3 is an address of a private network)",
    )
    assert done.refusals().startswith("\nconnections refused: other.example.com:80 (no rule")
    assert away.connected == [f"{PUBLIC} 80"]
    assert person.asked == [Destination("other.example.com", 80, line)]


@pytest.mark.skipif(not shutil.which("curl"), reason="there is no curl")
async def test_curl_takes_tunnels(place: Path) -> None:
    away = Away()
    async with opened(place, Person(), away, NAMES) as processes:
        done = await processes.run(["curl", "-sp", "http://api.example.org:443/t"], timeout=60)
    assert (done.stdout, away.connected) == ("hello from /t\n", [f"{PUBLIC} 443"])


async def test_network_needs_the_proxy(place: Path) -> None:
    async with opened(place, Person(ApprovalDecision(True)), away := Away(), NAMES) as processes:
        tries = (f"http://127.0.0.1:{away.port}/", f"http://{PUBLIC}/")
        done = await processes.run(
            ["env", "-u", "http_proxy", "-u", "HTTP_PROXY", "python3", "get.py", *tries], timeout=60
        )
    assert done.stdout == "URLError\nURLError\n"


async def test_command_gets_the_variables_and_is_otherwise_as_without_a_proxy(
    place: Path,
) -> None:
    line = "env | sort; ls /proc/self/fd; trap; ulimit -f; cat /proc/self/status | grep -E 'Sig(Blk|Ign|Cgt)'; pwd; ps -e"
    async with opened(place, Person(), Away(), NAMES) as processes:
        behind = (
            await processes.run(
                bash_argv(line), timeout=60, env={"http_proxy": "mine", "no_proxy": "*"}
            )
        ).stdout
    async with opened(place, Person(), Away(), "network: false") as processes:
        without = (await processes.run(bash_argv(line), timeout=60)).stdout
    variables = {f"{name}={value}" for name, value in NetworkProxy.variables().items()}
    kept = [
        each
        for each in behind.splitlines()
        if each not in variables and not each.startswith("FORGE_PROCESS")
    ]
    assert kept == [each for each in without.splitlines() if not each.startswith("FORGE_PROCESS")]
    assert variables <= set(behind.splitlines())
    assert (
        NetworkProxy.variables()["ALL_PROXY"]
        == NetworkProxy.variables()["https_proxy"]
        == "http://127.0.0.1:3128"
    )
    assert NetworkProxy.variables()["NO_PROXY"] == ""


async def test_environment_is_kept_where_the_interpreter_would_change_it(place: Path) -> None:
    async with opened(place, Person(), Away(), NAMES) as processes:
        done = await processes.run(["env"], timeout=60, env={"LANG": "C"})
    assert "LC_CTYPE" not in done.stdout


@pytest.mark.parametrize("line", ["kill -9 $$", "exit 3", "yes | head -1"])
async def test_exit_status_is_the_same_with_and_without_a_proxy(place: Path, line: str) -> None:
    async with opened(place, Person(), Away(), NAMES) as processes:
        behind = await processes.run(bash_argv(line), timeout=60)
    async with opened(place, Person(), Away(), "network: false") as processes:
        without = await processes.run(bash_argv(line), timeout=60)
    assert (behind.exit_code, behind.signal, behind.stdout) == (
        without.exit_code,
        without.signal,
        without.stdout,
    )


async def test_long_session_has_its_proxy_for_as_long_as_it_lives(place: Path) -> None:
    away = Away()
    async with opened(place, Person(), away, NAMES) as processes:
        child = processes.start(bash_argv("bash"), cwd=place)
        assert child.stdin
        for path in ("/a", "/b"):
            await child.stdin.write(f"python3 get.py http://api.example.org{path}\n".encode())
            with anyio.fail_after(60):
                await child.wait_for_output()
            assert child.stdout.take() == f"hello from {path}\n"
        child.stdin.close()
        with anyio.fail_after(60):
            await child.ended.wait()


async def test_descriptors_are_closed_after_every_kind_of_end(
    place: Path,
) -> None:
    async with opened(place, Person(), Away(), NAMES) as processes:
        await processes.run(["true"], timeout=60)
        await anyio.wait_all_tasks_blocked()
        before = descriptors()
        for _ in range(3):
            await processes.run(["true"], timeout=60)
            await processes.run(["python3", "get.py", "http://api.example.org/"], timeout=60)
            with anyio.move_on_after(0.3):
                await processes.run(["sleep", "30"], timeout=60)
            with pytest.raises(ToolError):
                await processes.run(["python3", "x\0y"], timeout=60)
        await anyio.wait_all_tasks_blocked()
        assert len(descriptors()) == len(before)


class Slow(Person):
    """A person who answers after a while, later than the command's timeout."""

    def __init__(self) -> None:
        super().__init__(ApprovalDecision(True))
        self.reached = anyio.Event()
        self.ready = anyio.Event()

    async def ask(self, wanted: Destination) -> ApprovalDecision:
        self.reached.set()
        await self.ready.wait()
        return await super().ask(wanted)


@pytest.mark.long
async def test_command_is_not_timed_out_while_somebody_is_asked(place: Path) -> None:
    person = Slow()
    async with (
        opened(place, person, Away(), NAMES) as processes,
        anyio.create_task_group() as tasks,
    ):

        async def answer() -> None:
            await person.reached.wait()
            await anyio.sleep(10.5)  # longer than the command has
            person.ready.set()

        tasks.start_soon(answer)
        done = await processes.run(["python3", "get.py", "http://other.example.com/"], timeout=10)
    assert (done.timed_out, done.stdout) == (False, "hello from /\n")


async def test_stopping_a_command_takes_its_question_back(place: Path) -> None:
    person = Slow()
    async with opened(place, person, Away(), NAMES) as processes:
        child = processes.start(["python3", "get.py", "http://other.example.com/"], cwd=place)
        with anyio.fail_after(60):
            await person.reached.wait()
            await child.stop()
    assert (person.asked, person.heard) == ([], [])


async def test_interpreter_is_seen_although_the_home_is_hidden(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(Path(sys.base_prefix).parent))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    async with opened(place, Person(), Away(), NAMES) as processes:
        assert (await processes.run(["echo", "it runs"], timeout=60)).stdout == "it runs\n"


@pytest.mark.parametrize("level", ["auto", "required"])
async def test_list_of_names_without_confinement_is_an_error(
    place: Path, level: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    best_mechanism.cache_clear()
    try:
        async with opened(place, Person(), Away(), f"{NAMES}\nisolation: {level}") as processes:
            with pytest.raises(WorkerError, match="this machine (has n|cannot)"):
                processes.check()
            monkeypatch.setenv("PATH", os.defpath)
            with pytest.raises(ToolError, match="nothing was started"):
                await processes.run(["true"])
    finally:
        best_mechanism.cache_clear()

"""How a worker's child processes are started: confined as its file says, or not, and then saying so."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from forge_cli.core.config import parse_config
from forge_cli.core.errors import ExitCode, WorkerError
from forge_cli.core.toolset import ToolsetEnv
from forge_cli.files.document import read_document
from forge_cli.sandbox.files.sandbox import Sandbox
from forge_cli.sandbox.isolation.isolation import mechanism
from forge_cli.sandbox.isolation.wrapper import UNCONFINED, wrapper_for
from forge_cli.sandbox.processes.process import Finished, Processes, Wrap, bash, clean_environment, unconfined
from forge_cli.sandbox.zones.zones import SandboxConfig, open_zones

pytestmark = pytest.mark.anyio

needs_bwrap = pytest.mark.skipif(
    not os.environ.get("CI") and mechanism() is None, reason="needs a working bwrap: install bubblewrap"
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home with a project in it, not in /tmp, which a confined process has for itself."""
    folder = Path(tempfile.mkdtemp(dir="/var/tmp")).resolve()
    for name in ("project/scratch", "project/src", ".ssh", ".forge"):
        (folder / name).mkdir(parents=True)
    (folder / ".ssh" / "id").write_text("secret")
    (folder / "project" / "worker.yaml").write_text("name: w\n")
    monkeypatch.setenv("HOME", str(folder))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def no_mechanism(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A machine that has nothing to confine a process with."""
    monkeypatch.setenv("PATH", str(tmp_path))
    mechanism.cache_clear()
    yield
    mechanism.cache_clear()


def sandbox(place: Path, text: str) -> Sandbox:
    file = place / "sandbox.yaml"
    file.write_text(text)
    config = parse_config(SandboxConfig, read_document(file).data, file=str(file))
    zones = open_zones(config, workspace=place / "project", user_home=place, file=str(file))
    return Sandbox(zones, protected=[place / "project" / "worker.yaml"], isolation=config.wanted())


def wrapper(place: Path, wanted: Sandbox) -> tuple[Wrap, list[str]]:
    """How commands are started, and what was said about it."""
    said: list[str] = []
    env = ToolsetEnv(
        worker="w",
        worker_dir=place / "project",
        workspace=place / "project",
        home=place / ".forge",
        sandbox=wanted,
        notify=lambda level, sentence: said.append(f"{level}: {sentence}"),
    )
    return wrapper_for(env), said


async def run(place: Path, text: str, line: str) -> Finished:
    wrap, said = wrapper(place, sandbox(place, text))
    assert said == []
    async with Processes() as processes:
        return await processes.run(bash(line), cwd=place / "project", env=clean_environment(), wrap=wrap, timeout=20)


ZONES = "zones: [{name: scratch, path: ./scratch, mode: rw}, {name: src, path: ./src}]"
TOUCH = 'for path in scratch/a src/a a ../a ../.forge/a; do touch "$path" 2>/dev/null && echo "$path"; done; true'


@needs_bwrap
@pytest.mark.parametrize("level", ["auto", "required"])
async def test_writable_zones_are_all_that_can_be_written(place: Path, level: str) -> None:
    done = await run(place, f"isolation: {level}\n{ZONES}", TOUCH)
    assert done.stdout == "scratch/a\n"


@needs_bwrap
async def test_without_a_word_it_is_confined_and_the_default_zone_is_writable(place: Path) -> None:
    done = await run(place, "zones:", TOUCH)
    assert done.stdout == "scratch/a\nsrc/a\na\n"


async def test_off_is_off(place: Path) -> None:
    done = await run(place, f"isolation: off\n{ZONES}", TOUCH)
    assert done.stdout == "scratch/a\nsrc/a\na\n../a\n../.forge/a\n"


@needs_bwrap
async def test_secrets_are_hidden_and_the_workers_own_files_are_kept(place: Path) -> None:
    done = await run(place, "isolation: auto", "ls -A ~/.ssh; cat worker.yaml; echo x >> worker.yaml")
    assert (done.stdout, done.exit_code) == ("name: w\n", 1)
    assert (place / "project/worker.yaml").read_text() == "name: w\n"


@needs_bwrap
@pytest.mark.parametrize(
    ("text", "shared"),
    [
        ("isolation: auto", True),
        ("isolation: auto\nnetwork: false", False),
        ("isolation: required", False),
        ("isolation: required\nnetwork: true", True),
    ],
)
async def test_the_network_follows_the_level_unless_something_is_said(place: Path, text: str, shared: bool) -> None:
    done = await run(place, text, "readlink /proc/self/ns/net")
    assert done.stdout.startswith("net:")
    assert (done.stdout.strip() == os.readlink("/proc/self/ns/net")) is shared


def test_off_has_nothing_to_say(place: Path) -> None:
    assert wrapper(place, sandbox(place, "isolation: off")) == (unconfined, [])


@pytest.mark.usefixtures("no_mechanism")
def test_auto_says_what_is_missing_to_the_first_toolset_that_asks(place: Path) -> None:
    wanted = sandbox(place, "isolation: auto")
    assert wrapper(place, wanted) == (unconfined, [f"warning: {UNCONFINED}"])
    assert wrapper(place, wanted) == (unconfined, [])
    assert wrapper(place, sandbox(place, "isolation: auto")) == (unconfined, [f"warning: {UNCONFINED}"])


@pytest.mark.usefixtures("no_mechanism")
def test_required_is_an_error_with_its_place(place: Path) -> None:
    with pytest.raises(WorkerError) as caught:
        wrapper(place, sandbox(place, "zones: []\nisolation: required"))
    assert str(caught.value).startswith(f"{place / 'sandbox.yaml'}:2:12: isolation is required")
    assert (caught.value.exit_code, "bubblewrap" in str(caught.value)) == (ExitCode.INVALID, True)

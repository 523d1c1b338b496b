"""Every example works as its README says: offline, in a copy, with the answer that is written there."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from forge_cli import load_worker
from tests.support.warm import Warm

EXAMPLES = Path(__file__).parent.parent / "examples"
NAMES = sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir())

OFFLINE = """
import sys

def refuse(event, args):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"):
        raise SystemExit(f"an example went online: {event} {args}")

sys.addaudithook(refuse)
from forge_cli.cli.app import main
sys.exit(main())
"""
Forge = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A folder in which the commands of a README find the examples."""
    shutil.copytree(
        EXAMPLES,
        tmp_path / "examples",
        ignore=shutil.ignore_patterns("__pycache__", "notes", "scratch"),
    )
    return tmp_path


@pytest.fixture
def forge(warm: Warm) -> Forge:
    def run(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        command = [warm.python, "-c", OFFLINE, *words]
        return subprocess.run(
            command,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


def promised(readme: str) -> tuple[list[str], str]:
    """The first command of a README, without ``forge``, and the output under it."""
    first = readme.partition("```console\n$ forge ")[2].partition("\n```")[0]
    command, _, below = first.partition("\n")
    return shlex.split(command), below.partition("\n$ ")[0]


@pytest.mark.few(3)
@pytest.mark.parametrize("name", NAMES)
def test_example_gives_the_answer_of_its_readme_offline(
    name: str, clone: Path, forge: Forge, unconfined_rules: str
) -> None:
    words, answer = promised((EXAMPLES / name / "README.md").read_text())
    assert words[:2] == ["run", f"examples/{name}"]
    assert "-p" in words
    done = forge(*words, cwd=clone)
    assert (
        done.returncode,
        done.stdout.rstrip("\n"),
        done.stderr.removeprefix(unconfined_rules),
    ) == (0, answer, "")


@pytest.mark.few(4)
@pytest.mark.parametrize("name", NAMES)
def test_example_is_a_valid_worker(
    name: str, clone: Path, forge: Forge, unconfined: str, unconfined_rules: str
) -> None:
    done = forge("worker", "check", f"examples/{name}/worker.yaml", cwd=clone)
    assert (
        done.returncode,
        done.stderr.removeprefix(unconfined).removeprefix(unconfined_rules),
    ) == (0, "")
    assert name in done.stdout


@pytest.mark.parametrize("name", NAMES)
def test_example_is_named_after_its_folder_and_scripted(name: str) -> None:
    worker = load_worker(EXAMPLES / name)
    assert worker.name == name
    assert worker.config.model == "script:script.yaml"


@pytest.mark.parametrize("name", [name for name in NAMES if (EXAMPLES / name / "tests").is_dir()])
def test_recorded_sessions_of_an_example_replay_without_drift(
    name: str, clone: Path, forge: Forge
) -> None:
    before = sorted(clone.rglob("*"))
    done = forge("test", f"examples/{name}", cwd=clone)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert sorted(path for path in clone.rglob("*") if "__pycache__" not in path.parts) == before


def test_going_online_is_detected(tmp_path: Path, forge: Forge) -> None:
    (tmp_path / "worker.yaml").write_text(
        "name: w\ntoolsets: {custom: {module: tools.py, tools: [look], approval: {default: preApproved}}}\n"
    )
    (tmp_path / "tools.py").write_text(
        "import socket\n\n\ndef look() -> None:\n    socket.create_connection(('127.0.0.1', 9))\n"
    )
    done = forge("tools", "call", "look", "--worker", "worker.yaml", cwd=tmp_path)
    assert done.returncode == 1
    assert "went online" in done.stderr


def test_ci_gate_example_leaves_no_file(
    clone: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "FORGE_HOME": str(tmp_path_factory.mktemp("home"))}
    gate = clone / "examples/ci-gate/gate.sh"
    done = subprocess.run(
        [gate], cwd=clone, env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.startswith(("may be merged", "must not be merged"))
    assert os.listdir(clone) == ["examples"]

"""What a command does not import: the modules are counted, because a stopwatch would lie.

Covers forge_cli.core.lazy, forge_cli.engine.runtime.processes and forge_cli.sandbox.late.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from forge_cli.cli.commands import COMMANDS as TABLE

ROOT = Path(__file__).parent.parent
WORKER = "examples/calculator/worker.yaml"
WRITER = "examples/note_taker/worker.yaml"

SDKS = frozenset(
    {"anthropic", "genai_prices", "httpx2", "mcp", "openai", "prompt_toolkit", "starlette", "trafilatura", "uvicorn"}
)
LIBRARIES = frozenset({"anyio", "asyncio", "importlib.metadata", "jsonschema", "pluggy", "pydantic", "rich", "yaml"})

LOOK = """
import os
import posix
import sys
sys.argv = ["forge", *sys.argv[2:]]
# forge leaves so where a thread is still there, and would take what was seen along; it keeps that of posix in mind
os._exit = posix._exit = sys.exit
from forge_cli.cli.app import main
try:
    code = main()
except SystemExit as left:
    code = left.code
modules = sorted(sys.modules)
import gc
import json
with open({seen!r}, "w") as file:
    json.dump([code, modules, gc.get_stats()[0]["collections"]], file)
"""


def seen_of(tmp_path: Path, *args: str) -> tuple[set[str], int]:
    """The modules that are loaded, and how often garbage was collected, once ``forge`` has carried out the arguments.

    It must succeed.
    """
    seen = tmp_path / "seen.json"
    command = [sys.executable, "-c", LOOK.format(seen=str(seen)), "forge", *args]
    done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, timeout=60, check=False)
    code, modules, collections = json.loads(seen.read_text())
    assert code == 0, done.stderr
    return set(modules), collections


def imported_by(tmp_path: Path, *args: str) -> set[str]:
    return seen_of(tmp_path, *args)[0]


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_the_version_needs_nothing_but_forge_itself(tmp_path: Path, flag: str) -> None:
    modules = imported_by(tmp_path, flag)
    assert not modules & (SDKS | LIBRARIES | {"typer", "typing", "dataclasses", "threading"})
    assert {name for name in modules if name.startswith("forge_cli")} == {
        "forge_cli",
        "forge_cli.cli",
        "forge_cli.cli.app",
        "forge_cli.cli.streams",
    }


def test_the_help_needs_typer_and_no_command(tmp_path: Path) -> None:
    modules = imported_by(tmp_path, "--help")
    assert "typer" in modules
    assert not modules & (SDKS | LIBRARIES)
    assert {name for name in modules if name.startswith("forge_cli.cli.")} == {
        "forge_cli.cli.app",
        "forge_cli.cli.streams",
        "forge_cli.cli.commands",
        "forge_cli.cli.examples",
    }


def test_without_arguments_no_command_is_loaded(tmp_path: Path) -> None:
    modules = imported_by(tmp_path)
    assert not modules & SDKS
    assert {name for name in modules if name.startswith("forge_cli.cli.")} == {
        "forge_cli.cli.app",
        "forge_cli.cli.streams",
        "forge_cli.cli.welcome",
    }


@pytest.mark.parametrize(("words", "loads"), [(["to"], set()), (["tools", ""], set()), (["run", ""], {"run"})])
def test_completing_loads_the_command_that_is_typed_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], loads: set[str]
) -> None:
    monkeypatch.setenv("_FORGE_COMPLETE", "1")
    modules = imported_by(tmp_path, *words)
    commands = {entry.module.removeprefix("forge_cli.cli.") for entry in TABLE.values()}
    assert not modules & SDKS
    assert {name for name in commands if f"forge_cli.cli.{name}" in modules} == loads


COMMANDS = [["worker", "check", WORKER], ["tools", "list"], ["sessions", "list"]]
LATER = frozenset(
    {
        "forge_cli.cli.run",
        "forge_cli.engine.replay.",
        "forge_cli.engine.runtime.runtime",
        "forge_cli.engine.turns",
        "forge_cli.models",
        "forge_cli.ui",
    }
)
"""What only a conversation needs."""


@pytest.mark.parametrize("args", [*COMMANDS, ["run", "--help"]], ids=lambda args: " ".join(args[:2]))
def test_commands_without_a_model_need_no_sdk(tmp_path: Path, args: list[str]) -> None:
    assert not imported_by(tmp_path, *args) & SDKS


APPROVE = ["approve", WRITER, "write_file", "path=/notes/a.md", "content=x"]
RUN = ["run", WORKER, "What is the 20th Fibonacci number?", "-p"]
MOST_MODULES, MOST_LINES = 133, 17_500
"""Of forge itself, what a headless run of the calculator may load; these only go down."""
LATE_ROOMS = (
    "forge_cli.engine.hooks.",
    "forge_cli.engine.replay.",
    "forge_cli.sandbox.isolation.",
    "forge_cli.sandbox.network.access",
    "forge_cli.sandbox.patches",
    "forge_cli.sandbox.search",
    "forge_cli.record.resume",
    "forge_cli.record.undo",
    "forge_cli.ui.chat",
    "forge_cli.ui.terminal.prompts",
)


def test_a_headless_run_loads_little_of_forge(tmp_path: Path) -> None:
    """Rooms load when they are first used."""
    modules = imported_by(tmp_path, *RUN)
    own = sorted(name for name in modules if name.partition(".")[0] == "forge_cli")
    files = [ROOT / f"{name.replace('.', '/')}.py" for name in own]
    lines = sum(len(file.read_text().splitlines()) for file in files if file.exists())
    assert len(own) <= MOST_MODULES, own
    assert lines <= MOST_LINES
    assert [name for name in own if name.startswith(LATE_ROOMS)] == []
    assert not modules & SDKS


def test_a_lazy_package_says_what_it_does_not_have() -> None:
    from forge_cli.sandbox import isolation

    assert isolation.worker.WorkerProcesses.__name__ == "WorkerProcesses"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = isolation.nothing


def test_a_verdict_needs_neither_a_session_nor_a_turn(tmp_path: Path) -> None:
    modules = imported_by(tmp_path, *APPROVE)
    others = ("forge_cli.record", "forge_cli.engine.turns", "forge_cli.models")
    assert not {name for name in modules if name.startswith(others)}


def test_no_garbage_is_looked_for_at_the_end() -> None:
    """Python does it twice, and for a command that has loaded hundreds of modules it takes a fifth of its time."""
    look = "import gc, sys; sys.argv = ['forge', '--version']; from forge_cli.__main__ import main; "
    look += "main(); assert gc.get_freeze_count() > 1000"
    subprocess.run([sys.executable, "-c", look], check=True, timeout=60)


def test_a_worker_loads_only_the_toolsets_that_it_names(tmp_path: Path) -> None:
    modules = imported_by(tmp_path, "worker", "check", WORKER)
    loaded = {name.split(".")[2] for name in modules if name.startswith("forge_cli.toolsets.")}
    assert loaded == {"custom"}


def test_a_conversation_without_a_terminal_needs_no_line_editor(tmp_path: Path) -> None:
    modules = imported_by(tmp_path, "chat", WORKER, "--ephemeral")
    assert not modules & {"prompt_toolkit", "anthropic", "forge_cli.ui.chat.screen"}


def test_one_task_needs_nothing_of_a_conversation(tmp_path: Path) -> None:
    modules = imported_by(tmp_path, "run", WORKER, "What is the 20th Fibonacci number?", "-p", "--ephemeral")
    assert not {name for name in modules if name.startswith(("forge_cli.ui.chat", "forge_cli.cli.talking"))}

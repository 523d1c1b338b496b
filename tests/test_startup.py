"""What a command does not import: the modules are counted, because a stopwatch would lie."""

import json
import re
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
        "forge_cli.cli.coercion",
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
        "forge_cli.engine.replay",
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


@pytest.mark.parametrize("args", COMMANDS, ids=lambda args: " ".join(args[:2]))
def test_commands_whose_answer_is_cached_load_next_to_nothing(tmp_path: Path, args: list[str]) -> None:
    """Twice, since what is found out about plugins and workers is cached."""
    seen_of(tmp_path, *args)
    modules, collections = seen_of(tmp_path, *args)
    assert not modules & (LATER | SDKS | LIBRARIES - {"pluggy"})
    assert not {name for name in modules if name.startswith(("forge_cli.sandbox", "forge_cli.toolsets"))}
    assert len(modules) < 260
    assert collections < 20


APPROVE = ["approve", WRITER, "write_file", "path=/notes/a.md", "content=x"]
WORKING = [
    [*APPROVE, "no_such_arg=x"],
    ["run", WORKER, "What is the 20th Fibonacci number?", "-p", "--ephemeral"],
]
UNUSED = frozenset(
    {
        "forge_cli.cli.against",
        "forge_cli.cli.looking.looker",
        "forge_cli.engine.replay",
        "forge_cli.files.parsing",
        "forge_cli.sandbox.isolation.bubblewrap",
        "forge_cli.sandbox.isolation.landlock",
        "forge_cli.sandbox.network.proxy",
        "forge_cli.ui.terminal.render",
        "tomllib",
    }
)
"""What a command needs that reads files anew, starts others, replays, or draws."""


@pytest.mark.parametrize("args", WORKING, ids=lambda args: args[0])
def test_commands_that_work_load_what_they_use(tmp_path: Path, args: list[str]) -> None:
    """Twice, since worker files are kept as they were read. The gate checks args by pydantic, and is async."""
    seen_of(tmp_path, *args)
    modules, collections = seen_of(tmp_path, *args)
    assert not modules & (SDKS | UNUSED | LIBRARIES - {"anyio", "asyncio", "pluggy", "pydantic"})
    assert len(modules) < 600
    assert collections < 20


def test_a_verdict_on_a_plain_tool_needs_neither_pydantic_nor_an_event_loop(tmp_path: Path) -> None:
    """Twice, since what the worker's file says is kept; the args of the second call are others."""
    seen_of(tmp_path, *APPROVE)
    modules, collections = seen_of(tmp_path, *APPROVE[:-1], "content=another")
    assert not modules & (SDKS | UNUSED | LIBRARIES - {"anyio", "pluggy"} | LATER - {"forge_cli.ui"})
    assert not {name for name in modules if name.startswith("forge_cli.toolsets")}
    assert len(modules) < 320
    assert collections < 20


def test_a_verdict_needs_neither_a_session_nor_a_turn(tmp_path: Path) -> None:
    modules = imported_by(tmp_path, *WORKING[0])
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


def test_values_that_every_command_loads_are_made_fast() -> None:
    """A frozen dataclass of the standard library compiles six methods at each start; forge's own compiles one."""
    slow = [
        path.name
        for path in sorted((ROOT / "forge_cli/core").glob("*.py"))
        if "@dataclass(frozen=True" in (text := path.read_text())
        and re.search(r"^from dataclasses import .*\bdataclass\b", text, re.MULTILINE)
    ]
    assert slow == []


def test_a_conversation_without_a_terminal_needs_no_line_editor(tmp_path: Path) -> None:
    modules = imported_by(tmp_path, "chat", WORKER, "--ephemeral")
    assert not modules & {"prompt_toolkit", "anthropic", "forge_cli.ui.chat.screen"}


def test_one_task_needs_nothing_of_a_conversation(tmp_path: Path) -> None:
    modules = imported_by(tmp_path, "run", WORKER, "What is the 20th Fibonacci number?", "-p", "--ephemeral")
    assert not {name for name in modules if name.startswith(("forge_cli.ui.chat", "forge_cli.cli.talking"))}

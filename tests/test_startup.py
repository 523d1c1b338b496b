"""What a command does not import: the modules are counted, because a stopwatch would lie."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
WORKER = "examples/calculator/worker.yaml"

SDKS = frozenset(
    {"anthropic", "genai_prices", "httpx2", "mcp", "openai", "prompt_toolkit", "starlette", "trafilatura", "uvicorn"}
)
LIBRARIES = frozenset({"anyio", "asyncio", "importlib.metadata", "jsonschema", "pluggy", "pydantic", "rich", "yaml"})

LOOK = """
import sys
sys.argv = ["forge", *sys.argv[2:]]
from forge_cli.cli.app import main
code, modules = main(), sorted(sys.modules)
import json
with open({seen!r}, "w") as file:
    json.dump([code, modules], file)
"""


def imported_by(tmp_path: Path, *args: str) -> set[str]:
    """The modules that are loaded once ``forge`` has carried out the arguments, which must succeed."""
    seen = tmp_path / "seen.json"
    command = [sys.executable, "-c", LOOK.format(seen=str(seen)), "forge", *args]
    done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, timeout=60, check=False)
    code, modules = json.loads(seen.read_text())
    assert code == 0, done.stderr
    return set(modules)


def test_the_version_needs_nothing_but_forge_itself(tmp_path: Path) -> None:
    modules = imported_by(tmp_path, "--version")
    assert not modules & (SDKS | LIBRARIES | {"typer", "typing", "dataclasses", "threading"})
    assert {name for name in modules if name.startswith("forge_cli")} == {
        "forge_cli",
        "forge_cli.cli",
        "forge_cli.cli.app",
        "forge_cli.cli.streams",
    }


@pytest.mark.parametrize("args", [[], ["--help"]], ids=["nothing", "--help"])
def test_the_help_needs_typer_and_no_command(tmp_path: Path, args: list[str]) -> None:
    modules = imported_by(tmp_path, *args)
    assert "typer" in modules
    assert not modules & (SDKS | LIBRARIES)
    assert {name for name in modules if name.startswith("forge_cli.cli.")} == {
        "forge_cli.cli.app",
        "forge_cli.cli.streams",
        "forge_cli.cli.commands",
    }


@pytest.mark.parametrize(
    "args", [["worker", "check", WORKER], ["tools", "list"], ["run", "--help"]], ids=lambda args: " ".join(args[:2])
)
def test_commands_without_a_model_need_no_sdk(tmp_path: Path, args: list[str]) -> None:
    assert not imported_by(tmp_path, *args) & SDKS

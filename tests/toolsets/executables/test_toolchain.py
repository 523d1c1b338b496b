"""Languages by the suffix of a source: what each starts, checks, lacks and tells."""

import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from forge_cli.sandbox.processes.process import ChildProcesses
from forge_cli.testing import Project
from forge_cli.toolsets.executables import toolchain
from forge_cli.toolsets.executables.registry import Program, Registry
from forge_cli.toolsets.executables.toolchain import Language, ProgramStart, Toolchain, language_of

SOURCES = {".sh": "echo one", ".py": "print(1)", ".go": "package main", "": "#!/bin/sh\necho one"}


@pytest.fixture
def program(project: Project, write_tool: Callable[..., Path]) -> Callable[[str], Program]:
    def make(suffix: str) -> Program:
        write_tool("greet", SOURCES[suffix], suffix=suffix, mode=0o755)
        found = Registry(project.home / "tools").look("greet")
        assert found is not None
        return found

    return make


def with_tools(home: Path, method: str, program: Program) -> object:
    async def ask() -> object:
        with anyio.fail_after(60):
            async with ChildProcesses() as processes:
                return await getattr(language_of(program), method)(program, Toolchain(home, processes))

    return anyio.run(ask)


@pytest.mark.parametrize(
    ("suffix", "argv"),
    [(".sh", ["bash"]), (".py", [sys.executable, "-B", "-s"]), ("", [])],
)
def test_what_is_started(program: Callable[[str], Program], project: Project, suffix: str, argv: list[str]) -> None:
    found = program(suffix)
    start = with_tools(project.home, "start", found)
    assert isinstance(start, ProgramStart)
    assert start.argv[-1] == str(found.entrypoint)
    assert [Path(word).name for word in start.argv[:-1]] == [Path(word).name for word in argv]


@pytest.mark.parametrize(
    ("suffix", "said"),
    [
        (".sh", "greet.sh is sound for "),
        (".py", "greet.py is sound Python; there is nothing to compile"),
        ("", "greet is started itself; there is nothing to build"),
    ],
)
def test_what_building_says(program: Callable[[str], Program], project: Project, suffix: str, said: str) -> None:
    assert str(with_tools(project.home, "build", program(suffix))).startswith(said)


@pytest.mark.parametrize("suffix", SOURCES)
def test_go_alone_needs_a_compiler_and_says_so(
    program: Callable[[str], Program], suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolchain, "find_go", lambda: None)
    language: Language = language_of(program(suffix))
    lacks = language.lacks(program(suffix))
    assert (lacks is not None, language.note) == ((True, "compiled on first use") if suffix == ".go" else (False, ""))

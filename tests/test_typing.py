"""Editors and type checkers for authors: names complete and are described, and documented code is typed.

Covers forge_cli.embedding, forge_cli.errors, forge_cli.events, forge_cli.executors, forge_cli.hooks, forge_cli.results,
forge_cli.terminal.
"""

import importlib
import inspect
import pydoc
import re
import subprocess
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import jedi
import pytest
from pydantic import BaseModel

import forge_cli
import forge_cli.testing
from forge_cli import tool
from forge_cli.homes import PUBLIC_MODULES

from .test_docs import blocks

ROOT = Path(__file__).parent.parent
PLACES = [forge_cli, *(map(importlib.import_module, PUBLIC_MODULES[1:]))]
PUBLIC = {
    name: getattr(place, name)
    for place in PLACES
    for name in place.__all__
    if name != "__version__"
}
DEFINES = re.compile(r"@tool|\bTool\(|\bTool\.from_function|\(Toolset\b|async def stream\(")
OTHERS = "frameworks.md"
"""Shows tools of packages that forge does not need, and that need not be here."""
CHECKED = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]


def documented_blocks() -> Iterator[tuple[str, str]]:
    """Blocks that define tools, and the files of the same page that these import."""
    for document in CHECKED:
        if document.name == OTHERS:
            continue
        python = [
            block for block in blocks(document.read_text(), document.name) if block.kind == "python"
        ]
        defining = [
            block for block in python if block.file == "tools.py" or DEFINES.search(block.text)
        ]
        yield from ((re.sub(r"\W", "_", block.place), block.text) for block in defining)
        for block in python:
            name = Path(block.file or "").stem
            if name and any(f"from {name} import " in user.text for user in defining):
                yield name, block.text


def check_types(folder: Path) -> str:
    """Run mypy on the files in a folder, with the cache of the repository so that forge is read once."""
    files = sorted(map(str, folder.glob("*.py")))
    cache = ROOT / ".mypy_cache"
    argv = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file=",
        "--cache-dir",
        str(cache),
        *files,
    ]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)
    return done.stdout + done.stderr


@pytest.mark.long
def test_blocks_that_define_tools_pass_a_strict_type_check(tmp_path: Path) -> None:
    for name, text in documented_blocks():
        (tmp_path / f"{name}.py").write_text(text)
    assert len(list(tmp_path.iterdir())) > 15
    assert check_types(tmp_path).startswith("Success")


WRONG = """
from forge_cli import Config, Toolset, ToolsetConfig, WorkerRuntime, Zone, load_worker
from forge_cli.hooks import ModelRequest


class Server(Config):
    url: str


class NotesConfig(ToolsetConfig):
    server: Server


class Notes(Toolset[NotesConfig]):
    name = "notes"

    def where(self) -> str:
        reveal_type(self.config.server.url)
        reveal_type(self.env.sandbox)
        return self.config.sever


class Deaf:
    name = "deaf"
    context_window = None


WorkerRuntime(worker=load_worker("w.yaml"), model=Deaf())
Zone("notes", "notes", "rx")
"""


@pytest.mark.long
def test_mistakes_of_an_author_are_found_by_the_type_checker(tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text(WRONG)
    said = check_types(tmp_path)
    assert 'Revealed type is "str"' in said.replace("builtins.str", "str")
    assert 'SandboxView"' in said
    assert 'has no attribute "sever"; maybe "server"?' in said
    assert (
        '"Deaf" is missing following "ModelProvider" protocol members' in said
        or 'incompatible type "Deaf"' in said
    )
    assert "incompatible type" in said.partition("Zone")[2]


TYPED = """
import asyncio
from dataclasses import dataclass

from forge_cli import Worker, WorkerResult, WorkerRuntime, run_sync


@dataclass
class City:
    name: str


WORKER = Worker.of(name="w")
reveal_type(run_sync(WORKER, "go", output_type=City))
reveal_type(run_sync(WORKER, "go", output_type=City).output.name)
reveal_type(run_sync(WORKER, "go").output)
untyped: WorkerResult = run_sync(WORKER, "go")


async def main() -> None:
    async with WorkerRuntime(worker=WORKER, output_type=list[City], read_only=True) as runtime:
        reveal_type((await runtime.run("go")).output)


asyncio.run(main())
"""


@pytest.mark.long
def test_output_has_the_requested_type(tmp_path: Path) -> None:
    (tmp_path / "typed.py").write_text(TYPED)
    said = check_types(tmp_path).replace("builtins.", "")
    revealed = re.findall(r'Revealed type is "(.*)"', said)
    assert [re.sub(r"[\w.]+\.(\w+)", r"\1", each) for each in revealed] == [
        *("WorkerResult[City]", "str", "Any", "list[City]")
    ]
    assert "error:" not in said


def test_editor_completes_and_describes_every_name() -> None:
    for place in PLACES:
        code, path, project = (
            f"import {place.__name__}\n{place.__name__}.",
            ROOT / "author.py",
            jedi.Project(str(ROOT)),
        )
        found = jedi.Script(code, path=str(path), project=project).complete(
            2, len(place.__name__) + 1
        )
        assert {each.name for each in found} >= {*place.__all__}


def test_editor_completes_the_options_of_tools() -> None:
    code = "from forge_cli import ToolContext\ndef look(context: ToolContext) -> str:\n    context."
    script = jedi.Script(code, path=str(ROOT / "author.py"), project=jedi.Project(str(ROOT)))
    assert {each.name for each in script.complete(3, 12)} >= {
        "sandbox",
        "progress",
        "call",
        "delegate",
        "workspace",
    }


def describes_itself(name: str) -> bool:
    """Return True if it has its own docstring, not one that was inherited or made by dataclasses."""
    value = PUBLIC[name]
    own = vars(value).get("__doc__") if isinstance(value, type) else value.__doc__
    return bool(own) and not own.startswith(f"{name}(")


def test_every_public_name_has_a_docstring() -> None:
    described = [
        name
        for name, value in PUBLIC.items()
        if isinstance(value, type) or inspect.isfunction(value)
    ]
    assert [name for name in described if not describes_itself(name)] == []


def methods_of(kind: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties that forge itself defines; fields are documented below themselves."""
    for name in dir(kind):
        found = inspect.getattr_static(kind, name)
        function = found.fget if isinstance(found, property) else getattr(found, "__func__", found)
        own = inspect.isfunction(function) and function.__module__.startswith("forge_cli")
        if own and not name.startswith("_") and name not in inspect.signature(kind).parameters:
            yield name, found if isinstance(found, property) else getattr(kind, name)


@pytest.mark.parametrize(
    "module", [forge_cli, forge_cli.testing], ids=lambda module: module.__name__
)
def test_every_method_of_a_public_class_has_a_docstring(module: ModuleType) -> None:
    public = {name: getattr(module, name) for name in dir(module) if not name.startswith("_")}
    classes = {name: value for name, value in public.items() if isinstance(value, type)}
    assert len(classes) > 3
    silent = [
        f"{name}.{method}"
        for name, kind in classes.items()
        for method, value in methods_of(kind)
        if not inspect.getdoc(value)
    ]
    assert silent == []


def test_help_describes_each_option_of_a_tool() -> None:
    text = pydoc.render_doc(tool, renderer=pydoc.plaintext)
    stated = inspect.signature(tool).parameters.values()
    options = [each.name for each in stated if each.kind is each.KEYWORD_ONLY]
    assert len(options) == 15
    assert [name for name in options if not re.search(rf"^ +{name}: \S", text, re.MULTILINE)] == []


def classes_in(hint: Any) -> Iterator[type]:
    if isinstance(hint, type):
        yield hint
    for inner in typing.get_args(hint):
        for each in inner if isinstance(inner, list) else [inner]:
            yield from classes_in(each)


def annotated_classes(value: type) -> Iterator[type]:
    """The classes that its fields, methods and properties name."""
    functions = [each.fget if isinstance(each, property) else each for each in vars(value).values()]
    functions = [each.__func__ if isinstance(each, classmethod) else each for each in functions]
    named = [
        each for each in functions if inspect.isfunction(each) and not each.__name__.startswith("_")
    ]
    for each in (value, *named):
        for name, hint in typing.get_type_hints(
            each, None, {"BaseModel": BaseModel, **PUBLIC}
        ).items():
            if not name.startswith("_"):
                yield from classes_in(hint)


def test_types_for_annotations_are_public() -> None:
    hidden = set()
    for value in PUBLIC.values():
        if isinstance(value, type) and value.__module__.startswith("forge_cli.core"):
            named = {
                each for each in annotated_classes(value) if each.__module__.startswith("forge_cli")
            }
            hidden |= {each.__name__ for each in named if PUBLIC.get(each.__name__) is not each}
    assert hidden == set()

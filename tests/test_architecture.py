"""The rules of the code: allowed imports, and actions with a single place."""

import ast
import re
import sys
import tomllib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

import forge_cli
from forge_cli.core import phrases
from forge_cli.homes import public_homes

ROOT = Path(__file__).parent.parent

BASE = frozenset({"core", "schema", "files", "sandbox"})
MAY_IMPORT = {
    "bashrules": frozenset({"bashrules"}),
    "core": frozenset({"core"}),
    "schema": frozenset({"core", "schema"}),
    "files": frozenset({"core", "schema", "files"}),
    "sandbox": BASE,
    "record": BASE | {"record"},
    "engine": BASE | {"bashrules", "record", "engine"},
    "toolsets": BASE | {"bashrules", "toolsets"},
    "models": BASE | {"models"},
    "ui": BASE | {"record", "ui"},
    "process": BASE | {"ui", "process"},
    "inspection": BASE
    | {"bashrules", "record", "engine", "toolsets", "models", "ui", "inspection"},
}
WINGS = {
    "schema": (
        *("marks", "config_problems", "config", "json", "paths", "found_paths", "own_thread"),
        *("returned", "tool_fields", "tool", "toolset", "unfit", "offering"),
    ),
    "sandbox": (
        *("names", "shapes", "named", "secrets", "globs", "protected", "loaded"),
        *("git", "changes", "processes", "network", "zones", "files", "search", "patches"),
        *("isolation", "trial", "drafts", "worker_processes"),
    ),
    "engine": (
        *(
            "plugins",
            "gate",
            "turns",
            "hooks",
            "lock",
            "organisation",
            "provenance",
            "replay",
            "runtime",
            "batch",
            "sync",
        ),
    ),
}
"""The folders and modules of a room in their order: each may import those that come before it, and none after."""
COMMAND_MODULES = frozenset(
    value.partition(":")[0]
    for name, value in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "entry-points"
    ]["forge"].items()
    if name.startswith("command.")
)
PUBLIC = frozenset(
    {"embedding", "errors", "events", "executors", "export", "hooks", "results", "terminal"}
)
"""Modules that are nothing but the public API."""
ABOVE_ALL = frozenset(
    {"__main__", "__init__", "apps", "cli", "homes", "pytest_plugin", "testing", *PUBLIC}
)
TOP = "forge_cli"
HOMES = public_homes()
ROOMS = frozenset(MAY_IMPORT) | ABOVE_ALL
HEAVY = frozenset(
    {
        "agents",
        "anthropic",
        "anyio.lowlevel",
        "asyncio",
        "ctypes",
        "docstring_parser",
        "duckdb",
        "genai_prices",
        "httpx2",
        "idna",
        "importlib.metadata",
        "jsonschema",
        "langchain_core.tools",
        "llm",
        "mcp",
        "mcp_types",
        "packaging",
        "psycopg",
        "pydantic_ai",
        "pydantic_core",
        "referencing",
        "sqlglot",
        "tomllib",
        "urllib.request",
    }
) | frozenset(
    {"prompt_toolkit", "rich.markdown", "rich.syntax", "starlette", "trafilatura", "uvicorn"}
)
SHARED = ("call_ids", "failures", "http", "json_body", "windows")
PHRASES = [text for name, text in vars(phrases).items() if name.isupper() and isinstance(text, str)]


@dataclass(frozen=True)
class Module:
    """One Python file: its path inside the repository and its text."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Everything in it, walked once for all rules."""
        return list(ast.walk(self.tree))

    @property
    def room(self) -> str:
        """``core`` for forge_cli/core/tool.py, ``testing`` for forge_cli/testing.py."""
        return self.path.removesuffix(".py").split("/")[1]

    def at(self, node: ast.AST, what: str) -> str:
        return f"{self.path}:{getattr(node, 'lineno', 1)}: {what}"

    @cached_property
    def imported(self) -> list[tuple[ast.stmt, str]]:
        return list(self.imports(self.tree))

    def imports(self, inside: ast.AST | None = None) -> Iterator[tuple[ast.stmt, str]]:
        """Every dotted name that is imported, ``from a import b`` as ``a.b``."""
        if inside is None:
            yield from self.imported
            return
        for node in self.nodes if inside is self.tree else ast.walk(inside):
            if isinstance(node, ast.Import):
                yield from ((node, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                package = self.path.split("/")[: -node.level] if node.level else []
                origin = ".".join([*package, *(node.module or "").split(".")]).strip(".")
                yield from ((node, f"{origin}.{alias.name}") for alias in node.names)


def read(*patterns: str) -> list[Module]:
    found = sorted({path for pattern in patterns for path in ROOT.glob(pattern)})
    return [Module(path.relative_to(ROOT).as_posix(), path.read_text("utf-8")) for path in found]


FORGE = read("forge_cli/**/*.py")
PLUGINS = read("plugins/*/**/*.py")
PLUGIN_SOURCES = [module for module in PLUGINS if "tests" not in module.path.split("/")]
SCRIPTS = read("noxfile.py", "benchmarks/*.py")
DOCUMENTS = read(
    "*.md",
    "docs/**/*.md",
    "benchmarks/*.md",
    "plugins/*/*.md",
    "examples/**/*.md",
    "examples/**/*.yaml",
)


def imports_point_down(module: Module) -> Iterator[str]:
    """Rooms import the rooms below them, and of the package itself only the version."""
    allowed = MAY_IMPORT.get(module.room)
    for node, name in module.imports():
        package, room, *_ = [*name.split("."), ""]
        if package != "forge_cli" or allowed is None or room == "__version__" or room in allowed:
            continue
        yield module.at(
            node, f"{module.room}/ must not import {name}: move what both need down, or pass it in"
        )


def wings_point_down(module: Module) -> Iterator[str]:
    """Inside of a room whose wings have an order, a module imports its own wing and those before it."""
    package, room, *inside = dotted(module.path).split(".")
    order = WINGS.get(room, ())
    if not order or inside == ["__init__"]:
        return
    if inside[0] not in order:
        yield module.at(
            module.tree,
            f"give {inside[0]} a place in WINGS[{room!r}] of tests/test_architecture.py, after all that it imports",
        )
        return
    below = order[: order.index(inside[0]) + 1]
    for node, name in module.imports():
        other_package, other_room, wing, *_ = [*name.split("."), "", ""]
        if (other_package, other_room) == (package, room) and wing in order and wing not in below:
            yield module.at(
                node,
                f"{inside[0]} must not import {name}: {wing} comes after it in WINGS; move what both need before both",
            )


def plugins_in_the_box_keep_apart(module: Module) -> Iterator[str]:
    """A toolset or a model imports no other one, as if each were a package of its own; ``SHARED`` is theirs."""
    if module.room not in {"toolsets", "models"}:
        return
    own = module.path.removesuffix(".py").split("/")[2]
    for node, name in module.imports():
        package, room, other, *_ = [*name.split("."), "", "", ""]
        if (package, room) == ("forge_cli", module.room) and other not in (own, *SHARED):
            yield module.at(
                node,
                f"{own} must not import {name}: move what both need to core, schema, files or sandbox",
            )


def apps_keep_apart(module: Module) -> Iterator[str]:
    """No module imports an app of another: its command is found by an entry point."""
    own = module.path.removesuffix(".py").split("/")[1:3]
    for node, name in module.imports():
        package, *place = name.split(".")
        if package == "forge_cli" and place[:1] == ["apps"] and place[:2] != own:
            yield module.at(
                node,
                f"{name} is an app of its own: move what both need to engine, inspection, ui or cli",
            )


def commands_keep_apart(module: Module) -> Iterator[str]:
    """No command imports another one: shared code is in a lower module."""
    for node, name in module.imports():
        found = {name, name.rpartition(".")[0]} & COMMAND_MODULES
        if found and found != {module.path.removesuffix(".py").replace("/", ".")}:
            yield module.at(
                node,
                f"{min(found)} is a command of its own: move what both need to a module of its folder without an app",
            )


def plugins_use_the_public_api(module: Module) -> Iterator[str]:
    """Plugins import ``forge_cli`` and its public modules; their tests also ``forge_cli.testing``."""
    in_tests = "tests" in module.path.split("/")
    for node, name in module.imports():
        package, member, *deeper = [*name.split("."), ""]
        if (
            package != "forge_cli"
            or (member == "testing" and in_tests)
            or (member in PUBLIC and len(deeper) < 3)
        ):
            continue
        if member in ROOMS or HOMES.get(member, TOP) != TOP or len(deeper) > 1:
            yield module.at(
                node,
                f"{name} is not the public API: import from forge_cli, or from forge_cli.{', '.join(sorted(PUBLIC))}",
            )


def imports_stand_on_top(module: Module) -> Iterator[str]:
    """An import inside a function spares a start something: a heavy library, or a module of ours that is not on top."""
    if module.path.endswith(("__init__.py", "forge_cli/cli/app.py", "forge_cli/pytest_plugin.py")):
        return
    statements = [
        each for each in module.tree.body if isinstance(each, ast.Import | ast.ImportFrom)
    ]
    on_top = {name.rpartition(".")[0] for each in statements for _, name in module.imports(each)}
    for function in module.nodes:
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node, name in module.imports(function):
                if name.startswith("forge_cli."):
                    is_spared = name.rpartition(".")[0] not in on_top
                else:
                    is_spared = any(
                        name == heavy or name.startswith(f"{heavy}.") for heavy in HEAVY
                    )
                if not is_spared:
                    yield module.at(node, f"import {name} at the top, not inside {function.name}()")


def rich_is_for_people(module: Module) -> Iterator[str]:
    """Only ui/, cli/ and apps/ know the terminal."""
    for node, name in module.imports():
        if name.split(".")[0] == "rich" and module.room not in {"apps", "ui", "cli"}:
            yield module.at(
                node, "rich belongs to ui/, cli/ and apps/: return a value, and draw it there"
            )


def nothing_is_left_for_later(module: Module) -> Iterator[str]:
    """There are no open to-do marks."""
    for number, line in enumerate(module.text.splitlines(), 1):
        if found := re.search(r"\b(TODO|FIXME|XXX|NotImplementedError)\b", line):
            yield f"{module.path}:{number}: {found[0]}: finish it, or leave it out"


def texts_for_models_stand_in_phrases(module: Module) -> Iterator[str]:
    """Texts from forge to a model are written once, in ``phrases``."""
    if not module.path.endswith("core/phrases.py"):
        for node in module.nodes:
            if isinstance(node, ast.Constant) and node.value in PHRASES:
                yield module.at(node, f"{node.value!r} is in core/phrases.py: import it from there")


def sentences_decide_nothing(module: Module) -> Iterator[str]:
    """Readers look at the fields of a status or an error, never at its words, which anybody may choose."""
    rooms = ("forge_cli/ui/", "forge_cli/apps/", "forge_cli/record/", "forge_cli/cli/")
    if not module.path.startswith(rooms) or module.path in _HAVE_ONLY_WORDS:
        return
    for node in module.nodes:
        match node:
            case ast.match_case(pattern=pattern, guard=ast.expr() as guard):
                looked_at = {
                    each.id for each in ast.walk(guard) if isinstance(each, ast.Name)
                } & _messages(pattern)
                if looked_at or (_is_status(pattern) and any(map(_is_message, ast.walk(guard)))):
                    yield module.at(
                        pattern,
                        "this looks at the words of a status: match its field about instead",
                    )
            case ast.Call(func=ast.Attribute(attr=name, value=owner), args=args):
                by_pattern = name in _OF_PATTERNS and any(map(_is_sentence, args))
                if by_pattern or (name in _OF_TEXTS and _is_sentence(owner)):
                    yield module.at(node, f"{name}() looks at the words of a message: {_INSTEAD}")
            case ast.Compare(left=left, comparators=others):
                sides = (left, *others)
                words = [
                    each for each in sides if _is_sentence(each) and not isinstance(each, ast.Name)
                ]
                if any(map(_is_message, sides)) or (words and any(map(_is_text, sides))):
                    yield module.at(node, f"this compares the words of a message: {_INSTEAD}")


_HAVE_ONLY_WORDS = frozenset({"forge_cli/apps/web/live.py", "forge_cli/cli/mcp/login.py"})
"""The form of a tool, as problems of its input name fields in words, and the login, as its library has no status."""
_OF_TEXTS = frozenset({"startswith", "endswith", "find", "index", "count"})
_OF_PATTERNS = frozenset({"match", "search", "fullmatch", "findall", "finditer", "sub"})
_SENTENCES = frozenset({"error", "message", "problem", "reason", "remedy", "sentence", "warning"})
"""The names under which sentences for people are known."""
_INSTEAD = "match a field of the event or the class of the error, or give it a new one"


def _is_status(pattern: ast.AST) -> bool:
    return isinstance(pattern, ast.MatchClass) and ast.unparse(pattern.cls).endswith("StatusEvent")


def _messages(pattern: ast.pattern) -> set[str]:
    """The names that a pattern gives the message of a status."""
    found: set[str] = set()
    for each in filter(_is_status, ast.walk(pattern)):
        assert isinstance(each, ast.MatchClass)
        given = dict(zip(each.kwd_attrs, each.kwd_patterns, strict=True)).get("message")
        found |= (
            {str(inner.name) for inner in ast.walk(given) if isinstance(inner, ast.MatchAs)}
            if given
            else set()
        )
    return found


def _is_sentence(node: ast.AST) -> bool:
    """Return True for ``error.message``, ``reason`` and ``str(error)``."""
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name in _SENTENCES
        case ast.Call(func=ast.Name(id="str"), args=[ast.Name()]):
            return ast.unparse(node.args[0]) in _SENTENCES | {"inner", "cause", "failure"}
        case _:
            return False


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) > 1


def _is_message(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and ast.unparse(node) == "event.message"


Rule = Callable[[Module], Iterator[str]]

RULES: dict[Rule, list[Module]] = {
    imports_point_down: FORGE,
    wings_point_down: FORGE,
    apps_keep_apart: FORGE,
    commands_keep_apart: FORGE,
    plugins_in_the_box_keep_apart: FORGE,
    plugins_use_the_public_api: PLUGINS,
    imports_stand_on_top: FORGE + PLUGIN_SOURCES,
    rich_is_for_people: FORGE,
    nothing_is_left_for_later: FORGE + PLUGINS + SCRIPTS + DOCUMENTS,
    texts_for_models_stand_in_phrases: FORGE,
    sentences_decide_nothing: FORGE,
}


@pytest.mark.parametrize("rule", RULES)
def test_every_module_keeps_every_rule(rule: Rule) -> None:
    assert [broken for module in RULES[rule] for broken in rule(module)] == []


def test_every_package_is_in_the_plan() -> None:
    new = {module.room for module in FORGE} - ROOMS
    assert not new, f"give {sorted(new)} a row in MAY_IMPORT: the rooms that each may import"


def test_bash_library_imports_nothing_of_forge() -> None:
    """So that it can become a package of its own: the standard library, msgspec and PyYAML are all that it imports."""
    library = [module for module in FORGE if module.room == "bashrules"]
    names = {
        name
        for module in library
        for _, name in module.imports()
        if not name.startswith("forge_cli.bashrules.")
    }
    assert {name.split(".")[0] for name in names} - sys.stdlib_module_names == {"msgspec", "yaml"}


def references(modules: list[Module], owners: set[str], attribute: str) -> list[str]:
    """The places that use ``owner.attribute``; ``*`` is any owner."""
    return [
        module.path
        for module in modules
        for node in module.nodes
        if isinstance(node, ast.Attribute)
        and node.attr == attribute
        and ("*" in owners or (isinstance(node.value, ast.Name) and node.value.id in owners))
    ]


def circle(modules: list[Module]) -> list[str]:
    """The modules of a circular import, at any place in a file."""
    arrows = {
        dotted(each.path): {name for _, full in each.imports() for name in _prefixes(full)}
        for each in modules
    }
    return sorted(
        name
        for name in arrows
        if any(name in _reached(other, arrows) for other in arrows[name] - {name})
    )


def _reached(start: str, arrows: dict[str, set[str]]) -> set[str]:
    """Every module that one imports, directly or indirectly."""
    found: set[str] = set()
    left = {start} & arrows.keys()
    while left:
        name = left.pop()
        found.add(name)
        left |= (arrows[name] & arrows.keys()) - found
    return found


def _prefixes(name: str) -> set[str]:
    return {name, name.rpartition(".")[0]}


@pytest.mark.parametrize(
    "room", sorted({module.room for module in FORGE} - ABOVE_ALL | {"apps", "cli"})
)
def test_packages_have_no_circular_imports(room: str) -> None:
    """An import inside a function counts like any other."""
    inside = [
        module
        for module in FORGE
        if module.room == room and not module.path.endswith("__init__.py")
    ]
    found = {name.removeprefix("forge_cli.") for name in circle(inside)}
    assert not found, (
        f"in a circle of imports: {sorted(found)}; move what they share into one below"
    )


def test_circular_import_is_found() -> None:
    texts = {
        "a": "from forge_cli.core.b import B",
        "b": "from forge_cli.core import c",
        "c": "",
        "d": "",
    }
    modules = [Module(f"forge_cli/core/{name}.py", text) for name, text in texts.items()]
    assert circle(modules) == []
    assert circle([*modules[:2], Module("forge_cli/core/c.py", "from .a import A")]) == [
        "forge_cli.core.a",
        "forge_cli.core.b",
        "forge_cli.core.c",
    ]


def test_documents_name_existing_places() -> None:
    documents = read("CONTRIBUTING.md", "docs/internals.md", "docs/adr/*.md")
    named = {
        (each.path, found)
        for each in documents
        for found in re.findall(r"`(forge_cli/[\w/.]+)`", each.text)
    }
    assert len(named) > 20
    assert [
        place
        for place in sorted(named)
        if not (ROOT / place[1]).exists() and "NAME" not in place[1]
    ] == []
    links = {
        (path, link)
        for path, link in ((each.path, link) for each in documents for link in _links(each.text))
    }
    assert [
        each for each in sorted(links) if not (ROOT / each[0]).parent.joinpath(each[1]).exists()
    ] == []


def _links(text: str) -> list[str]:
    return [
        link.partition("#")[0]
        for link in re.findall(r"\]\(([^):]+)\)", text)
        if not link.startswith("#")
    ]


def test_tools_are_executed_in_one_place() -> None:
    assert references(FORGE, {"*"}, "execute") == ["forge_cli/engine/gate/execution.py"]


def test_people_are_asked_in_one_place() -> None:
    """So that every hook hears each question; a program that uses the bus as methods asks for itself."""
    own = "forge_cli/ui/runtime_ui.py"
    assert set(references(FORGE, {"*"}, "ask_input")) == {
        "forge_cli/engine/runtime/requests.py",
        own,
    }
    asking = [each.path for each in FORGE if "bus.ask(" in each.text and each.path != own]
    assert asking == ["forge_cli/engine/gate/controller.py"]


def test_event_loop_is_started_in_one_place() -> None:
    assert len(references(FORGE, {"anyio", "asyncio"}, "run")) == 1
    assert [
        m.path for m in FORGE for _, name in m.imports() if name in {"anyio.run", "asyncio.run"}
    ] == []


def repeated_classes(modules: list[Module]) -> dict[str, list[str]]:
    """Public top-level classes that share their name, each with the files that define it."""
    homes: dict[str, list[str]] = {}
    for module in modules:
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(module.path)
    return {name: paths for name, paths in homes.items() if len(paths) > 1}


def test_public_class_names_are_unique() -> None:
    # the library for bash has words of its own, as any other package that is imported
    repeated = repeated_classes([module for module in FORGE if module.room != "bashrules"])
    assert not repeated, f"rename one of each: {repeated}"


def test_repeated_class_name_is_found() -> None:
    first = Module(
        "forge_cli/a.py", "class Mode:\n    class Inner: ...\nclass _Own: ...\nclass Other: ..."
    )
    second = Module("forge_cli/b.py", "class Mode: ...\nclass _Own: ...\nclass Inner: ...")
    assert repeated_classes([first, second]) == {"Mode": ["forge_cli/a.py", "forge_cli/b.py"]}


BROKEN = [
    (imports_point_down, "forge_cli/core/x.py", "from forge_cli.files import worker"),
    (
        plugins_in_the_box_keep_apart,
        "forge_cli/toolsets/x.py",
        "from forge_cli.toolsets.y import Y",
    ),
    (plugins_in_the_box_keep_apart, "forge_cli/models/x/y.py", "from forge_cli.models import z"),
    (imports_point_down, "forge_cli/core/x.py", "from forge_cli import Tool"),
    (
        imports_point_down,
        "forge_cli/bashrules/x.py",
        "from forge_cli.core.approval import Approval",
    ),
    (imports_point_down, "forge_cli/core/x.py", "from forge_cli.bashrules.rules import Rule"),
    (imports_point_down, "forge_cli/core/x.py", "from forge_cli.schema.tool import Tool"),
    (imports_point_down, "forge_cli/core/x.py", "from forge_cli import core, schema"),
    (imports_point_down, "forge_cli/schema/x.py", "from forge_cli.files import document"),
    (imports_point_down, "forge_cli/core/x.py", "from ..engine import guard"),
    (imports_point_down, "forge_cli/core/x.py", "from .. import engine"),
    (imports_point_down, "forge_cli/sandbox/x.py", "import forge_cli.engine.turns.loop"),
    (imports_point_down, "forge_cli/engine/x.py", "import forge_cli.toolsets.shell"),
    (imports_point_down, "forge_cli/toolsets/x.py", "from forge_cli.models import script"),
    (
        imports_point_down,
        "forge_cli/toolsets/deep/x.py",
        "def f():\n    from forge_cli.engine.runtime.runtime import WorkerRuntime",
    ),
    (imports_point_down, "forge_cli/ui/x.py", "from forge_cli import engine"),
    (
        wings_point_down,
        "forge_cli/sandbox/zones/x.py",
        "from forge_cli.sandbox.files.sandbox import Sandbox",
    ),
    (
        wings_point_down,
        "forge_cli/sandbox/isolation/x.py",
        "def f():\n    from forge_cli.sandbox.trial import trials",
    ),
    (
        wings_point_down,
        "forge_cli/sandbox/names.py",
        "from forge_cli.sandbox import worker_processes",
    ),
    (wings_point_down, "forge_cli/sandbox/another/x.py", "import os"),
    (wings_point_down, "forge_cli/engine/gate/x.py", "from forge_cli.engine.hooks import Hooks"),
    (apps_keep_apart, "forge_cli/cli/run.py", "from forge_cli.apps.chat import chat_session"),
    (apps_keep_apart, "forge_cli/apps/web/x.py", "from forge_cli.apps.chat.talk import Talk"),
    (commands_keep_apart, "forge_cli/cli/x.py", "from forge_cli.cli.run import run"),
    (commands_keep_apart, "forge_cli/apps/web/x.py", "from forge_cli.cli.tools import list"),
    (plugins_use_the_public_api, "plugins/p/src/p.py", "from forge_cli.core.tool import Tool"),
    (plugins_use_the_public_api, "plugins/p/src/p.py", "from forge_cli import core"),
    (plugins_use_the_public_api, "plugins/p/src/p.py", "from forge_cli.testing import project"),
    (plugins_use_the_public_api, "plugins/p/tests/test_p.py", "import forge_cli.engine.gate.guard"),
    (imports_stand_on_top, "forge_cli/core/x.py", "def f():\n    import json"),
    (
        imports_stand_on_top,
        "forge_cli/cli/run.py",
        "class A:\n    async def f(self):\n        from os import path",
    ),
    (rich_is_for_people, "forge_cli/toolsets/x.py", "from rich.console import Console"),
    (rich_is_for_people, "forge_cli/testing.py", "import rich"),
    (nothing_is_left_for_later, "forge_cli/core/x.py", "x = 1  # TODO: later"),
    (nothing_is_left_for_later, "forge_cli/core/x.py", "raise NotImplementedError"),
    (
        texts_for_models_stand_in_phrases,
        "forge_cli/core/x.py",
        f"say({phrases.RESUME_INTERRUPTED!r})",
    ),
    (sentences_decide_nothing, "forge_cli/ui/x.py", "event.message.startswith('commands: ')"),
    (sentences_decide_nothing, "forge_cli/apps/x.py", "'commands: ' in event.message"),
    (
        sentences_decide_nothing,
        "forge_cli/cli/x.py",
        "if error.message.startswith('No such option'):\n    pass",
    ),
    (sentences_decide_nothing, "forge_cli/apps/x.py", "found = PROBLEM.match(str(error))"),
    (sentences_decide_nothing, "forge_cli/ui/x.py", "shown = call.reason == 'not answered'"),
    (
        sentences_decide_nothing,
        "forge_cli/ui/x.py",
        "match event:\n    case events.StatusEvent(message=m) if read(m):\n        pass",
    ),
    (
        sentences_decide_nothing,
        "forge_cli/record/x.py",
        "match event:\n    case StatusEvent(level='info') if read(event.message):\n        pass",
    ),
]

KEPT = [
    (
        imports_point_down,
        "forge_cli/core/x.py",
        "from forge_cli import __version__\nfrom forge_cli.core import tool",
    ),
    (
        imports_point_down,
        "forge_cli/engine/x.py",
        "from forge_cli.sandbox.files.sandbox import resolve\nimport json",
    ),
    (
        imports_point_down,
        "forge_cli/schema/x.py",
        "from forge_cli import schema as room\nimport forge_cli.core.tool",
    ),
    (
        imports_point_down,
        "forge_cli/ui/x.py",
        "from . import render\nfrom ..core.events import Event",
    ),
    (
        imports_point_down,
        "forge_cli/cli/run.py",
        "from forge_cli.engine.runtime.runtime import WorkerRuntime",
    ),
    (
        plugins_in_the_box_keep_apart,
        "forge_cli/toolsets/x/y.py",
        "from forge_cli.toolsets.x.z import Z",
    ),
    (
        plugins_in_the_box_keep_apart,
        "forge_cli/models/x/y.py",
        "from forge_cli.models.failures import Retry",
    ),
    (imports_point_down, "forge_cli/testing.py", "from forge_cli.toolsets.shell import Shell"),
    (
        wings_point_down,
        "forge_cli/sandbox/trial/x.py",
        "from forge_cli.sandbox.zones.zones import Isolation",
    ),
    (
        wings_point_down,
        "forge_cli/sandbox/zones/x.py",
        "from forge_cli.sandbox.zones import declared\nimport os",
    ),
    (wings_point_down, "forge_cli/engine/hooks.py", "from forge_cli.sandbox.trial import trials"),
    (
        apps_keep_apart,
        "forge_cli/apps/web/x.py",
        "from forge_cli.apps.web.y import Y\nfrom forge_cli.cli import options",
    ),
    (commands_keep_apart, "forge_cli/cli/run.py", "from forge_cli.cli.options import new_app"),
    (
        plugins_use_the_public_api,
        "plugins/p/src/p.py",
        "from forge_cli import Tool, tool\nimport forge_cli",
    ),
    (
        plugins_use_the_public_api,
        "plugins/p/tests/test_p.py",
        "from forge_cli.testing import project",
    ),
    (
        imports_stand_on_top,
        "forge_cli/models/x.py",
        "def f():\n    import anthropic\n    from mcp.client import x",
    ),
    (imports_stand_on_top, "forge_cli/cli/app.py", "def f():\n    import traceback"),
    (imports_stand_on_top, "forge_cli/__init__.py", "def __getattr__(name):\n    import importlib"),
    (rich_is_for_people, "forge_cli/ui/x.py", "import rich\nimport richer"),
    (nothing_is_left_for_later, "forge_cli/core/x.py", "todo = 'a todo list'"),
    (
        texts_for_models_stand_in_phrases,
        "forge_cli/core/phrases.py",
        f"TEXT = {phrases.RESUME_INTERRUPTED!r}",
    ),
    (
        sentences_decide_nothing,
        "forge_cli/ui/x.py",
        "match event:\n    case events.StatusEvent(about='retry', message=m) if live:\n        print(m, event.message)",
    ),
    (sentences_decide_nothing, "forge_cli/engine/x.py", "event.message.startswith('x')"),
    (
        sentences_decide_nothing,
        "forge_cli/ui/x.py",
        "line = error.message.partition('\\n')[0]\n'id' in message",
    ),
]


@pytest.mark.parametrize(("rule", "path", "text"), BROKEN)
def test_violation_of_each_rule_is_found(rule: Rule, path: str, text: str) -> None:
    assert list(rule(Module(path, text)))


@pytest.mark.parametrize(("rule", "path", "text"), KEPT)
def test_code_that_keeps_a_rule_is_accepted(rule: Rule, path: str, text: str) -> None:
    assert list(rule(Module(path, text))) == []


def test_every_rule_has_examples() -> None:
    assert {rule for rule, *_ in BROKEN} == {rule for rule, *_ in KEPT} == set(RULES)


def test_references_are_counted() -> None:
    module = Module(
        "forge_cli/x.py",
        "await tool.execute(a)\nf = tool.execute\nanyio.run(f)\nanyio.run_process()\nexecute()",
    )
    assert len(references([module], {"*"}, "execute")) == 2
    assert len(references([module], {"anyio", "asyncio"}, "run")) == 1


# --- every module has its test


def dotted(path: str) -> str:
    return path.removesuffix(".py").replace("/", ".")


def named(test: Module) -> set[str]:
    """The modules that a test names in its docstring, by their dotted paths."""
    docstring = re.match(r'r?"""(.*?)"""', test.text, re.DOTALL)
    return set(re.findall(r"\bforge_cli(?:\.\w+)+", docstring[1])) if docstring else set()


def without_a_test(modules: list[Module], tests: list[Module]) -> list[str]:
    """Modules that have no test file of their name in the same place, and that no test names."""
    covered = {name for test in tests for name in named(test)}
    files = {test.path for test in tests}
    return [
        module.path
        for module in modules
        if not module.path.endswith(("__init__.py", "__main__.py"))
        and re.sub(r"^forge_cli/(.*?)(\w+\.py)$", r"tests/\1test_\2", module.path) not in files
        and dotted(module.path) not in covered
    ]


STORIES = read("tests/**/test_*.py")


def test_every_module_has_a_test_of_its_name_or_one_that_names_it() -> None:
    """Either tests/SAME/PLACE/test_NAME.py, or the dotted path in the docstring of the test that tells its story."""
    assert without_a_test(FORGE, STORIES) == [], (
        "add tests/SAME/PLACE/test_NAME.py, or name each in a test's docstring"
    )


def test_tests_name_only_existing_modules() -> None:
    there = {dotted(module.path) for module in FORGE}
    missing = {test.path: gone for test in STORIES if (gone := named(test) - there)}
    assert missing == {}, "correct the docstrings of these tests: the modules were moved or removed"


MAY_BE_COVERED_IN = {**MAY_IMPORT, "cli": ROOMS - {"apps"}, "apps": ROOMS}
BESIDE_ROOMS = ("apps/serve/conformance", "apps/web/browser", "cases", "faults", "support")
"""Folders of tests that are no room: what others bring, a browser, data, stories of crashes, and helpers."""


def out_of_place(tests: list[Module]) -> Iterator[str]:
    """Tests of a room that cover only modules of rooms above or beside it."""
    there = {dotted(module.path) for module in FORGE}
    for test in tests:
        room = test.path.split("/")[1]
        own = re.sub(r"^tests/(.*?)test_(\w+\.py)$", r"forge_cli/\1\2", test.path)
        covered = named(test) | ({dotted(own)} & there)
        allowed = MAY_BE_COVERED_IN.get(room)
        rooms = {name.split(".")[1] for name in covered}
        if allowed is not None and rooms and not rooms & allowed:
            yield f"{test.path} covers {', '.join(sorted(covered))}: move it to tests/{min(rooms)}/"


def test_test_folders_mirror_the_package() -> None:
    folders = {path.parent.relative_to(ROOT / "tests") for path in ROOT.glob("tests/*/**/*.py")}
    strange = [
        str(each)
        for each in folders
        if not str(each).startswith(BESIDE_ROOMS) and not (ROOT / TOP / each).is_dir()
    ]
    strange += [
        path.name
        for path in ROOT.glob("tests/*.py")
        if not path.name.startswith(("test_", "conftest"))
    ]
    assert strange == [], (
        "each folder of tests/ is one of forge_cli/; what several tests use goes to tests/support/"
    )
    assert list(out_of_place(STORIES)) == []


def test_misplaced_test_is_found() -> None:
    texts = {
        "core/test_a": "Covers forge_cli.ui.views.",
        "cli/test_b": "Covers forge_cli.apps.chat.lost and forge_cli.apps.acp.given.",
        "cli/test_undo": "Covers forge_cli.record.redo.",
        "apps/chat/test_lost": "A story.",
        "test_c": "Covers forge_cli.ui.views.",
    }
    found = list(
        out_of_place([Module(f"tests/{name}.py", f'"""{text}"""') for name, text in texts.items()])
    )
    assert [each.partition(" ")[0] for each in found] == [
        "tests/core/test_a.py",
        "tests/cli/test_b.py",
    ]
    assert found[0].endswith("move it to tests/ui/")


def test_module_without_a_test_is_found() -> None:
    modules = [
        Module(f"forge_cli/{name}.py", "")
        for name in ("core/tool", "core/text", "core/__init__", "testing")
    ]
    tests = [
        Module("tests/core/test_tool.py", ""),
        Module("tests/test_kit.py", '"""A kit.\n\nCovers forge_cli.testing."""'),
    ]
    assert without_a_test(modules, tests) == ["forge_cli/core/text.py"]


def test_public_names_are_few_and_match_the_stub() -> None:
    """Editors read ``__init__.pyi``, programs the table in ``__init__.py``: both say the same."""
    lines = [
        f"from forge_cli.{room} import {name} as {name}"
        for name, room in forge_cli._ROOM_OF.items()
    ]
    stub = (ROOT / "forge_cli/__init__.pyi").read_text("utf-8")
    wanted = [*sorted(lines), "", "__version__: str"]
    assert stub.splitlines()[2:] == wanted, (
        "write forge_cli/__init__.pyi again: a line for each name of _ROOM_OF"
    )
    assert len(lines) <= 39, (
        "put the new name into one of the public modules (forge_cli/homes.py) instead"
    )


def test_embedding_names_stay_at_the_top() -> None:
    names = "WorkerRuntime load_worker ApprovalDecision EventBus InterruptSignal RuntimeUI derive_fields"
    names += " parse_command classify_command cli_approval_callback trace_formatter"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [name for name in names.split() if not callable(getattr(forge_cli, name))] == []


def test_examples_and_templates_import_from_public_modules() -> None:
    """Also in the templates and documents from which people copy."""
    paths = [
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("examples/**/*.py"),
        *ROOT.glob("forge_cli/**/*"),
        ROOT / "README.md",
    ]
    texts = {
        path: path.read_text("utf-8") for path in paths if path.suffix in (".md", ".py", ".tmpl")
    }
    found = {
        path: re.findall(r"from forge_cli import ([^\n]+)", text) for path, text in texts.items()
    }
    moved = {
        str(path): name
        for path, lines in found.items()
        for name in re.findall(r"\w+", " ".join(lines))
        if HOMES.get(name, TOP) != TOP
    }
    assert moved == {}


def test_tests_named_in_ci_exist() -> None:
    named = re.findall(r"(?:tests|plugins)/[\w./-]+", (ROOT / ".ci/run").read_text("utf-8"))
    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []

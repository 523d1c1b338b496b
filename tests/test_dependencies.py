"""Every distribution declares exactly the packages that it imports."""

import ast
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from forge_cli import __version__

ROOT = Path(__file__).parent.parent
PLUGINS = sorted(path.parent for path in ROOT.glob("plugins/*/pyproject.toml"))
BY_OTHERS = {"cryptography", "lxml-html-clean"}
"""Needed by a dependency that does not declare them, or by an extra."""
OWN_TOOLS = {"pytest"}
"""Imported by what only they load."""


def declared(folder: Path) -> dict[str, Requirement]:
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    extras = chain.from_iterable(project.get("optional-dependencies", {}).values())
    found = map(Requirement, [*project["dependencies"], *extras])
    return {canonicalize_name(each.name): each for each in found}


def imported(folder: Path) -> list[set[str]]:
    """The distributions whose modules its files import, inside functions and for type checkers, too.

    Several may share one name, as those of OpenTelemetry do.
    """
    known = packages_distributions()
    modules = {
        name for path in folder.rglob("*.py") for name in modules_of(ast.parse(path.read_text()))
    }
    modules -= {"forge_cli", *sys.stdlib_module_names, *(path.name for path in folder.iterdir())}
    return [
        {canonicalize_name(each) for each in known.get(name, [name])} for name in sorted(modules)
    ]


def modules_of(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


@pytest.mark.long
def test_imports_and_declared_dependencies_match() -> None:
    failures = []
    for folder, code in ((ROOT, ROOT / "forge_cli"), *((each, each / "src") for each in PLUGINS)):
        names, wanted = set(declared(folder)) - {"forge-workers"}, imported(code)
        missing = [each for each in wanted if not each & (names | OWN_TOOLS)]
        failures += [
            f"{folder.name} imports {' or '.join(sorted(each))}, undeclared" for each in missing
        ]
        unused = names - set().union(*wanted) - BY_OTHERS
        failures += [f"{folder.name} declares {name}, unused" for name in sorted(unused)]
    assert failures == []


def test_plugins_are_for_this_version() -> None:
    for folder in PLUGINS:
        specifier = declared(folder)["forge-workers"].specifier
        assert str(specifier)
        assert specifier.contains(__version__)

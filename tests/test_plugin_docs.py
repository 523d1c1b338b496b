"""Claims of docs/plugins.md about its example package; test_docs builds, installs and uses it."""

import ast
import re
import tomllib
from pathlib import Path

TEXT = (Path(__file__).parent.parent / "docs" / "plugins.md").read_text()
BLOCKS = re.findall(r"^```(\w+) (\S+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def block(kind: str, file: str) -> str:
    """The first block of a file."""
    return next(
        text for found, name, text in BLOCKS if (found, name) == (kind, f"forge-tools-words/{file}")
    )


def test_ten_line_example_has_ten_lines() -> None:
    lines = [
        line
        for line in block("python", "src/forge_tools_words/__init__.py").splitlines()
        if line.strip()
    ]
    assert len(lines) == 10


def test_package_depends_on_forge_by_its_distribution_name() -> None:
    project = tomllib.loads(block("toml", "pyproject.toml"))["project"]
    own = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
    assert own["name"] in project["dependencies"]
    assert project["entry-points"]["forge"]["words"] == "forge_tools_words"


def test_only_the_public_api_is_imported() -> None:
    sources = [ast.parse(text) for kind, _, text in BLOCKS if kind == "python"]
    modules = {
        node.module
        for tree in sources
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
    }
    public = {"forge_cli", "forge_cli.errors", "forge_cli.hooks", "forge_cli.testing"}
    assert {module for module in modules if module and module.startswith("forge")} == public

"""The tests that a change needs first, which ``nox -s quick`` runs.

Files are changed if they differ from the last commit or from where the branch left main. For a
changed module, these tests are chosen:

- the test files that cover it: by their name in the same place, or by its dotted path in their
  docstring;
- the other test files of its folder, if these are few;
- the test files that import it, if these are few;
- always the rules of the house, the documented words, and what a headless run loads.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

MANY_IN_FOLDER = 20
MANY_IMPORTERS = 8
ALWAYS = (
    "tests/test_architecture.py",
    "tests/test_docs_complete.py",
    "tests/test_startup.py::test_headless_run_loads_few_modules_of_forge",
)
DOCUMENT = "tests/test_docs.py::test_every_block_does_what_it_shows"


@dataclass(frozen=True)
class TestFile:
    """A file of tests, with the dotted names that it imports and covers."""

    path: str
    imports: frozenset[str]
    covers: frozenset[str]

    @property
    def folder(self) -> str:
        return str(PurePosixPath(self.path).parent)


def parse_test_file(path: str, text: str) -> TestFile:
    tree = ast.parse(text)
    imports: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = path.split("/")[: -node.level] if node.level else []
            module = ".".join([*package, *filter(None, [node.module])])
            imports.add(module)
            imports.update(f"{module}.{alias.name}" for alias in node.names)
    docstring = ast.get_docstring(tree) or ""
    covers = set(re.findall(r"\bforge_cli(?:\.\w+)+", docstring))
    covers.add(dotted(re.sub(r"^tests/(.*?)test_(\w+\.py)$", r"forge_cli/\1\2", path)))
    return TestFile(path, frozenset(imports), frozenset(covers))


def dotted(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@dataclass(frozen=True)
class Choice:
    """The tests to run, and the tests left to ``nox -s tests``."""

    tests: tuple[str, ...]
    left_out: tuple[str, ...]


class Quick:
    """The tests of a repository, from which those of a change are chosen."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @cached_property
    def files(self) -> list[TestFile]:
        found = sorted(self.root.glob("tests/**/test_*.py"))
        return [
            parse_test_file(path.relative_to(self.root).as_posix(), path.read_text("utf-8"))
            for path in found
        ]

    def choose(self, changed: Iterable[str]) -> Choice:
        tests: set[str] = set()
        left_out: set[str] = set()
        for path in changed:
            for found in self._tests_of(path, left_out.add):
                tests.add(found)
        # a file that is run whole needs none of its tests named
        chosen = {
            each for each in tests if each.partition("::")[0] not in tests or "::" not in each
        }
        return Choice((*ALWAYS, *sorted(chosen - set(ALWAYS))), tuple(sorted(left_out)))

    def _tests_of(self, path: str, leave_out: Callable[[str], object]) -> Iterator[str]:
        top, _, inside = path.partition("/")
        if path == "README.md" or (top == "docs" and path.endswith(".md")):
            yield f"{DOCUMENT}[{path}]"
        elif top == "tests":
            yield from self._of_test(path, leave_out)
        elif (
            top == "plugins" and (self.root / f"plugins/{inside.partition('/')[0]}/tests").is_dir()
        ):
            yield f"plugins/{inside.partition('/')[0]}/tests"
        elif top == "forge_cli":
            yield from self._of_module(path, leave_out)
        elif top == "examples":
            yield "tests/test_examples.py"
        elif path == "pyproject.toml":
            yield "tests/test_dependencies.py"

    def _of_test(self, path: str, leave_out: Callable[[str], object]) -> Iterator[str]:
        name = PurePosixPath(path).name
        if name.startswith("test_") and (self.root / path).exists():
            yield path
        elif name == "conftest.py":
            yield from self._of_folder(str(PurePosixPath(path).parent), leave_out)
        elif name.endswith(".py"):
            yield from self._importing(dotted(path), leave_out)

    def _of_module(self, path: str, leave_out: Callable[[str], object]) -> Iterator[str]:
        if path.endswith(".py"):
            yield from (each.path for each in self.files if dotted(path) in each.covers)
            yield from self._importing(dotted(path), leave_out)
        else:
            yield from self._of_data(PurePosixPath(path).parent)
        folder = PurePosixPath("tests", *PurePosixPath(path).parts[1:]).parent
        while not (self.root / folder).is_dir():
            folder = folder.parent
        # what lies directly in forge_cli/ has its stories in tests/, with those of the whole house
        if str(folder) != "tests":
            yield from self._of_folder(str(folder), leave_out)

    def _of_data(self, folder: PurePosixPath) -> Iterator[str]:
        """Yield the tests of the package that a data file belongs to."""
        while not list((self.root / folder).glob("*.py")):
            folder = folder.parent
        inside = f"{dotted(str(folder))}."
        yield from (
            each.path for each in self.files if any(name.startswith(inside) for name in each.covers)
        )

    def _of_folder(self, folder: str, leave_out: Callable[[str], object]) -> Iterator[str]:
        found = [each.path for each in self.files if each.folder == folder]
        if len(found) > MANY_IN_FOLDER:
            leave_out(folder)
            return
        yield from found

    def _importing(self, module: str, leave_out: Callable[[str], object]) -> Iterator[str]:
        found = [each.path for each in self.files if module in each.imports]
        if len(found) > MANY_IMPORTERS:
            leave_out(f"{len(found)} files that import {module}")
            return
        yield from found


def changed_files(root: Path, base: str = "main") -> list[str]:
    """Return files that differ from where the branch left ``base``, and untracked ones."""
    start = (
        _git(root, "merge-base", "HEAD", base)
        or _git(root, "merge-base", "HEAD", f"origin/{base}")
        or ["HEAD"]
    )
    new = _git(root, "ls-files", "--others", "--exclude-standard")
    return sorted({*_git(root, "diff", "--name-only", "--no-renames", start[0]), *new})


def _git(root: Path, *words: str) -> list[str]:
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


def main() -> None:
    root = Path(__file__).resolve().parents[2]
    choice = Quick(root).choose(changed_files(root, *sys.argv[1:2]))
    sys.stdout.write("".join(f"{each}\n" for each in choice.tests))
    for each in choice.left_out:
        sys.stderr.write(f"not run, because these are many: {each}\n")


if __name__ == "__main__":
    main()

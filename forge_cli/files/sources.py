"""The Python files of a local module: found by import statements, and read once."""

from __future__ import annotations

import ast
import importlib.util
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from itertools import chain
from pathlib import Path

from msgspec import Struct, field

from forge_cli.core.errors import Mark, WorkerError
from forge_cli.files.places import cannot_read
from forge_cli.files.regular import read_regular

Name = tuple[str, ...]
"""A module's name relative to the folder, as parts between dots."""
_LISTED = -1
"""Instead of a number of dots: a name in ``__all__``, which ``import *`` imports."""


class SourceFile(Struct, frozen=True):
    """A file with its content; None if it cannot be read."""

    path: Path
    content: bytes | None
    is_package: bool = False

    @classmethod
    def read(cls, path: Path, *, is_package: bool = False) -> SourceFile:
        try:
            return cls(path, read_regular(path), is_package)
        except OSError:
            return cls(path, None, is_package)


class Sources(Struct, frozen=True):
    """Modules that can be imported from a folder, found by import statements.

    Libraries of the same name come first. Files that are added later, or not named by an import,
    are not included.
    """

    folder: Path
    main: SourceFile | None = None
    """The module itself; None for packages, which are all in ``files``."""
    files: Mapping[str, SourceFile] = field(default_factory=dict)
    """Files by dotted name."""
    tops: frozenset[str] = frozenset()
    """Top-level names that absolute imports find in this folder."""
    absent: tuple[Path, ...] = ()
    """Missing paths that imports would look for; a file there would be imported next time."""
    clashes: tuple[tuple[Path, Path], ...] = ()
    """Modules and packages with the same name, of which neither is used."""

    @classmethod
    def beside(cls, path: Path) -> Sources:
        """Return a module and the local files that it imports."""
        main = SourceFile.read(path)
        finding = _Finding(path.parent)
        finding.waiting.append((main, ()))
        return finding.sources(main)

    @classmethod
    def below(cls, folder: Path, modules: Iterable[str]) -> Sources:
        """Return modules in a folder by dotted name, and the local files that they import."""
        finding = _Finding(folder)
        for module in modules:
            finding.look_for(tuple(module.split(".")))
        return finding.sources(None)

    @property
    def paths(self) -> set[Path]:
        """The paths of all files."""
        return {file.path for file in self._all()}.union(*self.clashes)

    def _all(self) -> Iterator[SourceFile]:
        if self.main is not None:
            yield self.main
        yield from self.files.values()

    @property
    def digest(self) -> str:
        """The hash of all files, by their relative paths."""
        start = b""
        if self.main:
            start = self.main.content or b""
        digest = sha256(start)
        others = {file.path: file.content or b"" for file in self.files.values()}
        for path, content in sorted(others.items()):
            digest.update(b"\0%b\0%b" % (str(path.relative_to(self.folder)).encode(), content))
        return digest.hexdigest()

    @property
    def libraries(self) -> frozenset[str]:
        """The top-level names that these files import from libraries."""
        found: set[str] = set()
        for file in self._all():
            found.update(name[0] for level, name in _imports(file.content or b"") if level == 0)
        return frozenset(found - self.tops)

    @property
    def hashes(self) -> dict[Path, str]:
        """The hash of each file, for a lock."""
        return {file.path: sha256(file.content or b"").hexdigest() for file in self._all()}

    def check(self) -> None:
        """Raise WorkerError for a file that cannot be read, or an ambiguous name."""
        for file in self._all():
            if file.content is None:
                try:
                    read_regular(file.path)
                except OSError as error:
                    raise cannot_read(file.path, error) from None
        for package, module in self.clashes:
            raise clash_error(module, package)

    def is_folder(self, name: str) -> bool:
        """Return True for a folder without a file of its own that contains modules."""
        return name not in self.files and any(each.startswith(f"{name}.") for each in self.files)


def clash_error(one: Path, other: Path) -> WorkerError:
    """Return the error for two files with the same module name; one may have been planted."""
    spelled = os.path.relpath(other, one.parent)
    hint = "keep one of them, and look where the other came from"
    return WorkerError(
        Mark(str(one)), f"{one.name} and {spelled} are one module for Python", hint=hint
    )


def imported_beside(path: Path) -> set[Path]:
    """Return the files of a local module, including those that it imports."""
    return {path, *Sources.beside(Path(os.path.realpath(path))).paths}


def importable_beside(path: Path) -> set[Path]:
    """Return these files and missing ones that would be imported if they existed."""
    sources = Sources.beside(Path(os.path.realpath(path)))
    return {path, *sources.paths, *sources.absent}


def libraries_of(path: Path) -> frozenset[str]:
    """Return the top-level names that a local module and its imports import from libraries."""
    return Sources.beside(Path(os.path.realpath(path))).libraries


def module_paths(folder: Path, name: Sequence[str]) -> tuple[Path, Path]:
    """Return the paths of a module: as a package, and as a file."""
    place = folder.joinpath(*name)
    return place / "__init__.py", place.with_name(f"{place.name}.py")


class _Finding:
    """Follows import statements from file to file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.waiting: list[tuple[SourceFile, Name]] = []
        """Files to follow, each with the package of its relative imports."""
        self._files: dict[str, SourceFile] = {}
        self._absent: dict[Path, None] = {}
        self._clashes: dict[tuple[Path, Path], None] = {}
        self._is_here: dict[str, bool] = {}
        """For top-level names: True if they are found here and not among libraries."""

    def sources(self, main: SourceFile | None) -> Sources:
        """Follow all waiting files, and return what was found."""
        while self.waiting:
            self._follow(*self.waiting.pop())
        found = {name.partition(".")[0] for name in self._files}
        tops = frozenset(top for top, here in self._is_here.items() if here and top in found)
        return Sources(
            self._folder, main, self._files, tops, tuple(self._absent), tuple(self._clashes)
        )

    def _follow(self, file: SourceFile, package: Name) -> None:
        """Look for everything that a file imports."""
        for level, name in _imports(file.content or b""):
            if level == _LISTED:
                if file.is_package:
                    self.look_for((*package, *name))
            elif level == 0:
                top = name[0]
                if top not in self._is_here:
                    self._is_here[top] = top not in sys.modules and not _is_installed(
                        top, self._folder
                    )
                if self._is_here[top]:
                    self.look_for(name)
            elif level <= len(package) + 1:
                self.look_for((*package[: len(package) + 1 - level], *name))

    def look_for(self, name: Name) -> None:
        """Find a module and its parent packages."""
        for depth in range(1, len(name) + 1):
            found = self._files.get(".".join(name[:depth])) or self._find(name[:depth])
            if found is not None and not found.is_package:
                return

    def _find(self, name: Name) -> SourceFile | None:
        both = module_paths(self._folder, name)
        there = [path for path in both if os.path.isfile(path)]
        self._absent.update((path, None) for path in both if path not in there)
        if len(there) > 1:
            self._clashes[both] = None
        if len(there) != 1:
            return None
        is_package = there[0] == both[0]
        found = self._files[".".join(name)] = SourceFile.read(there[0], is_package=is_package)
        self.waiting.append((found, name if is_package else name[:-1]))
        return found


def _is_installed(top: str, folder: Path) -> bool:
    """Return True if a module with that name exists outside of the folder."""
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return False
    if spec is None:
        return False
    if spec.submodule_search_locations is not None:
        places = [os.path.dirname(location) for location in spec.submodule_search_locations]
    elif spec.has_location and spec.origin:
        places = [os.path.dirname(spec.origin)]
    else:
        # A built-in module has no folder, and is found before any file.
        places = [""]
    return any(not place or os.path.realpath(place) != os.path.realpath(folder) for place in places)


def imported_names(source: bytes) -> frozenset[str]:
    """Return the dotted names that source code imports, without relative imports."""
    return frozenset(".".join(name) for level, name in _imports(source) if level == 0)


@lru_cache(maxsize=512)
def _imports(source: bytes) -> Sequence[tuple[int, Name]]:
    """Return the import statements of source code as number of dots and name."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):  # reported where it is imported
        return ()
    return tuple(chain.from_iterable(map(_imported, ast.walk(tree))))


def _imported(node: ast.AST) -> Iterator[tuple[int, Name]]:
    match node:
        case ast.Import(names=names):
            yield from ((0, tuple(alias.name.split("."))) for alias in names)
        case ast.ImportFrom(module=module, names=names, level=level):
            begin: Name = tuple(module.split(".")) if module else ()
            if begin:
                yield level, begin
            yield from ((level, (*begin, alias.name)) for alias in names if alias.name != "*")
        case ast.Assign(
            targets=[ast.Name(id="__all__")], value=ast.List(elts=parts) | ast.Tuple(elts=parts)
        ):
            for part in parts:
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield _LISTED, (part.value,)

"""A Python file beside a worker, imported under a name of its own; the modules beside it are found only from it."""

from __future__ import annotations

import ast
import builtins
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from hashlib import sha256
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from forge_cli.core.bounds import LOAD_LIMIT, call_within, fault_text
from forge_cli.core.errors import ExitCode, Mark, WorkerError
from forge_cli.core.text import cut
from forge_cli.core.thirdparty import LONGEST_ERROR, before_third_party
from forge_cli.files.regular import read_regular

if TYPE_CHECKING:
    from importlib.abc import InspectLoader, MetaPathFinder
else:  # which Python does not need, and which bring all that reads resources of packages
    InspectLoader = MetaPathFinder = object

PREFIX = "forge_local_"
T = TypeVar("T")


@dataclass(frozen=True)
class LocalModule:
    """The source of a module as it is on disk; ``digest`` covers the modules beside it that it imports, too."""

    path: Path
    content: bytes
    digest: str

    @classmethod
    def read(cls, path: Path) -> LocalModule:
        content = read_regular(path)
        digest = sha256(content)
        for beside in sorted(imported_beside(path) - {path}):
            digest.update(b"\0%b\0%b" % (str(beside.relative_to(path.parent)).encode(), read_regular(beside)))
        return cls(path, content, digest.hexdigest())

    def load(self, seconds: float = LOAD_LIMIT) -> ModuleType:
        """Import it; what goes wrong is a WorkerError with the line of the file that it went wrong at.

        Like a package that is installed, the same code is imported once a process.
        """
        return _load_once(self, seconds)

    def _load(self, seconds: float) -> ModuleType:
        if self.path.suffix != ".py":
            raise WorkerError(Mark(str(self.path)), "this is not a Python file; a module of tools ends in .py")
        before_third_party(str(self.path))
        name = f"{PREFIX}{self.digest[:16]}"
        finder = _BesideFinder(name, self.path.parent)
        loader = _SourceLoader(self.path, self.content, finder)
        spec = ModuleSpec(name, loader, origin=str(self.path), is_package=True)
        spec.submodule_search_locations = [str(self.path.parent)]
        spec.has_location = True
        module = importlib.util.module_from_spec(spec)
        if not any(isinstance(known, _BesideFinder) and known.package == name for known in sys.meta_path):
            sys.meta_path.insert(0, finder)
        sys.modules[name] = module
        try:
            _import_within(seconds, self.path, loader.exec_module, module)
        except Exception as error:  # third-party code: whatever happens while it is imported
            sys.modules.pop(name, None)
            problem = cut(fault_text(error), LONGEST_ERROR)
            raise WorkerError(_blame(error, self.path), f"cannot be imported: {problem}") from error
        return module


@cache
def _load_once(code: LocalModule, seconds: float) -> ModuleType:
    return code._load(seconds)


def _import_within(seconds: float, path: Path, function: Callable[..., T], *args: Any) -> T:
    return call_within(seconds, f"{path}: its import", function, *args, exit_code=ExitCode.INVALID)


@dataclass(frozen=True)
class LocalPackage:
    """The modules below a folder, found by nobody else; ``digest`` covers every file of the package."""

    root: Path
    digest: str

    @classmethod
    def read(cls, root: Path, top: str) -> LocalPackage:
        """``top`` is a package or a module in the folder ``root``."""
        files = sorted((root / top).rglob("*.py")) or [root / f"{top}.py"]
        digest = sha256()
        for file in (file for file in files if file.is_file()):
            digest.update(b"\0%b\0%b" % (str(file.relative_to(root)).encode(), read_regular(file)))
        return cls(root, digest.hexdigest())

    def load(self, module: str, seconds: float = LOAD_LIMIT) -> ModuleType:
        """Import one of its modules; what goes wrong is a WorkerError with the line that it went wrong at."""
        name = f"{PREFIX}{sha256(f'{self.root}{self.digest}'.encode()).hexdigest()[:16]}"
        if name not in sys.modules:
            spec = ModuleSpec(name, None, is_package=True)
            spec.submodule_search_locations = [str(self.root)]
            sys.modules[name] = importlib.util.module_from_spec(spec)
            sys.meta_path.insert(0, _BesideFinder(name, self.root))
        file = self.root.joinpath(*module.split("."))
        path = next((each for each in (file / "__init__.py", file.with_suffix(".py")) if each.is_file()), self.root)
        before_third_party(str(path))
        try:
            return _import_within(seconds, path, importlib.import_module, f"{name}.{module}")
        except Exception as error:  # third-party code: whatever happens while it is imported
            problem = cut(fault_text(error), LONGEST_ERROR)
            raise WorkerError(_blame(error, path), f"cannot be imported: {problem}") from error


def imported_beside(path: Path) -> set[Path]:
    """The files beside a module that it imports, and those that they import, as far as import statements tell."""
    folder, found, waiting = path.parent, {path}, [path] if path.is_file() else []
    while waiting:
        try:
            names = _imported_names(read_regular(waiting.pop()))
        except (OSError, SyntaxError, ValueError):
            continue
        for name in names:
            for file in _files_of(folder, name):
                if file not in found and file.is_file():
                    found.add(file)
                    waiting.append(file)
    return found


@lru_cache(maxsize=32)
def _imported_names(source: bytes) -> list[tuple[str, ...]]:
    """Of the import statements in a source, which is asked for several times while a worker is opened."""
    names: list[tuple[str, ...]] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += (tuple(alias.name.split(".")) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = tuple(node.module.split(".")) if node.module else ()
            names += [module, *((*module, alias.name) for alias in node.names)]
    return names


def _files_of(folder: Path, name: Sequence[str]) -> Iterator[Path]:
    """Where a module of that name and the packages on the way to it can lie."""
    for depth in range(1, len(name) + 1):
        here = folder.joinpath(*name[:depth])
        yield here / "__init__.py"
        yield here.with_name(f"{here.name}.py")


class _SourceLoader(InspectLoader):
    """Runs the very bytes that were read: a .pyc in a cache may be older than the file beside it, or planted."""

    def __init__(self, path: Path, content: bytes, finder: _BesideFinder) -> None:
        self.path, self.content, self.finder = path, content, finder

    def get_source(self, fullname: str) -> str:
        return importlib.util.decode_source(self.content)

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.content, str(self.path), "exec", dont_inherit=True)

    def create_module(self, spec: ModuleSpec) -> None:
        """A module as any other."""

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["__builtins__"] = {**vars(builtins), "__import__": self.finder.import_from_here}
        exec(self.get_code(module.__name__), module.__dict__)  # noqa: S102


class _BesideFinder(MetaPathFinder):
    """Finds the modules in one folder, for imports that stand in that folder; nobody else can name them."""

    def __init__(self, package: str, folder: Path) -> None:
        self.package, self.folder = package, folder

    def import_from_here(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """What an import statement does: a library is found first, then a module beside."""
        top, _, rest = name.partition(".")
        if level or not self._lies_here(top):
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        found = builtins.__import__(f"{self.package}.{name}", globals, locals, fromlist or ("__name__",), 0)
        return found if fromlist or not rest else sys.modules[f"{self.package}.{top}"]

    def _lies_here(self, top: str) -> bool:
        if top in sys.modules or not (self._file(top, self.folder) or (self.folder / top).is_dir()):
            return False
        return importlib.util.find_spec(top) is None

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(f"{self.package}."):
            return None
        name = fullname.rpartition(".")[2]
        for folder in map(Path, path or [str(self.folder)]):
            if file := self._file(name, folder):
                is_package = file.name == "__init__.py"
                loader = _SourceLoader(file, file.read_bytes(), self)
                spec = ModuleSpec(fullname, loader, origin=str(file), is_package=is_package)
                spec.has_location = True
                if is_package:
                    spec.submodule_search_locations = [str(file.parent)]
                return spec
            if (folder / name).is_dir():
                namespace = ModuleSpec(fullname, None, is_package=True)
                namespace.submodule_search_locations = [str(folder / name)]
                return namespace
        return None

    @staticmethod
    def _file(name: str, folder: Path) -> Path | None:
        files = (folder / name / "__init__.py", folder / f"{name}.py")
        return next((file for file in files if file.is_file()), None)


def _blame(error: BaseException, path: Path) -> Mark:
    """The line of the file at which its import failed."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return Mark(str(path), error.lineno or 1, error.offset or 1)
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return Mark(str(path), (lines[-1] if lines else None) or 1)

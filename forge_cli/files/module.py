"""Local Python modules, imported from the bytes that were read, under a private name."""

from __future__ import annotations

import builtins
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from forge_cli.core.bounds import LOAD_LIMIT, MORE_TIME_TO_LOAD, call_within, fault_text
from forge_cli.core.errors import ExitCode, Mark, WorkerError
from forge_cli.core.text import cut
from forge_cli.core.thirdparty import LONGEST_ERROR, announce_third_party
from forge_cli.files.sources import SourceFile, Sources

if TYPE_CHECKING:
    from importlib.abc import InspectLoader, MetaPathFinder
else:
    # Python needs no base classes here, and importlib.abc would load importlib.resources.
    InspectLoader = MetaPathFinder = object

PREFIX = "forge_local_"
T = TypeVar("T")


@dataclass(frozen=True)
class LocalModule:
    """A module that was read; ``digest`` covers the local modules that it imports as well."""

    path: Path
    digest: str
    sources: Sources = field(compare=False, repr=False)

    @classmethod
    def read(cls, path: Path) -> LocalModule:
        sources = Sources.beside(path)
        sources.check()
        return cls(path, sources.digest, sources)

    def load(self, seconds: float = LOAD_LIMIT) -> ModuleType:
        """Import the module; raise WorkerError with the failing line of the file.

        Like an installed package, the same code is imported once per process.
        """
        return _load_once(self, seconds)

    def _load(self, seconds: float) -> ModuleType:
        if self.path.suffix != ".py" or self.sources.main is None:
            raise WorkerError(
                Mark(str(self.path)), "not a Python file; a module of tools ends in .py"
            )
        announce_third_party(str(self.path))
        name = f"{PREFIX}{self.digest[:16]}"
        finder = _find_from(name, self.sources)
        loader = _SourceLoader(self.sources.main, finder)
        # A package, so that the modules beside it can have names below its own.
        spec = ModuleSpec(name, loader, origin=str(self.path), is_package=True)
        spec.submodule_search_locations = [str(self.path.parent)]
        spec.has_location = True
        module = importlib.util.module_from_spec(spec)
        # Before it runs: dataclasses, for one, look up the module of a class by its name.
        sys.modules[name] = module
        try:
            _import_within(seconds, self.path, loader.exec_module, module)
        except WorkerError:
            sys.modules.pop(name, None)
            raise
        return module


@cache
def _load_once(code: LocalModule, seconds: float) -> ModuleType:
    return code._load(seconds)


def _import_within(seconds: float, path: Path, function: Callable[..., T], *args: Any) -> T:
    try:
        return call_within(
            seconds,
            f"{path}: its import",
            function,
            *args,
            exit_code=ExitCode.INVALID,
            remedy=MORE_TIME_TO_LOAD,
        )
    except Exception as error:  # third-party code: anything can happen while it is imported
        problem = cut(fault_text(error), LONGEST_ERROR)
        raise WorkerError(_blame(error, path), f"cannot be imported: {problem}") from error


@dataclass(frozen=True)
class LocalPackage:
    """Private modules below a folder; ``digest`` covers the local modules that they import."""

    root: Path
    digest: str
    sources: Sources = field(compare=False, repr=False)

    @classmethod
    def read(cls, root: Path, modules: Iterable[str]) -> LocalPackage:
        """Read the modules with these dotted names below the folder ``root``."""
        sources = Sources.below(root, modules)
        sources.check()
        return cls(root, sources.digest, sources)

    def load(self, module: str, seconds: float = LOAD_LIMIT) -> ModuleType:
        """Import one of the modules; raise WorkerError with the failing line."""
        name = f"{PREFIX}{sha256(f'{self.root}{self.digest}'.encode()).hexdigest()[:16]}"
        _find_from(name, self.sources)
        if name not in sys.modules:
            spec = ModuleSpec(name, None, is_package=True)
            spec.submodule_search_locations = [str(self.root)]
            sys.modules[name] = importlib.util.module_from_spec(spec)
        path = self.root
        if module in self.sources.files:
            path = self.sources.files[module].path
        announce_third_party(str(path))
        return _import_within(seconds, path, importlib.import_module, f"{name}.{module}")


class _SourceLoader(InspectLoader):
    """Runs the bytes that were read: a cached .pyc may be outdated or planted."""

    def __init__(self, file: SourceFile, finder: _SourceFinder) -> None:
        self.file = file
        self.finder = finder

    def get_source(self, fullname: str) -> str:
        return importlib.util.decode_source(self.file.content or b"")

    def get_code(self, fullname: str) -> CodeType:
        # Otherwise the code would inherit the __future__ imports of this module.
        return compile(self.file.content or b"", str(self.file.path), "exec", dont_inherit=True)

    def create_module(self, spec: ModuleSpec) -> None:
        """Return None for an ordinary module."""

    def exec_module(self, module: ModuleType) -> None:
        # An import statement calls the __import__ of its own module, so no other code is affected.
        module.__dict__["__builtins__"] = {
            **vars(builtins),
            "__import__": self.finder.import_from_here,
        }
        exec(self.get_code(module.__name__), module.__dict__)  # noqa: S102


def _find_from(package: str, sources: Sources) -> _SourceFinder:
    """Return the finder of a package; it stays installed, because functions import as well."""
    for known in sys.meta_path:
        if isinstance(known, _SourceFinder) and known.package == package:
            return known
    finder = _SourceFinder(package, sources)
    # First, because the usual finders would read the folder itself.
    sys.meta_path.insert(0, finder)
    return finder


class _SourceFinder(MetaPathFinder):
    """Finds files that were read, for imports inside of them; other code cannot name them."""

    def __init__(self, package: str, sources: Sources) -> None:
        self.package = package
        self.sources = sources

    def import_from_here(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """Import like the statement: libraries first, then local modules."""
        top, _, rest = name.partition(".")
        if level or top not in self.sources.tops:
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        # Without a fromlist, __import__ returns the top package instead of the module.
        found = builtins.__import__(
            f"{self.package}.{name}", globals, locals, fromlist or ("__name__",), 0
        )
        if fromlist or not rest:
            return found
        return sys.modules[f"{self.package}.{top}"]

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(f"{self.package}."):
            return None
        name = fullname.removeprefix(f"{self.package}.")
        file = self.sources.files.get(name)
        # Without an error the next finder would read the folder itself.
        if file is None and not self.sources.is_folder(name):
            problem = f"No module named '{name}' among the files that import statements name"
            raise ModuleNotFoundError(problem, name=fullname)
        loader = None if file is None else _SourceLoader(file, self)
        spec = ModuleSpec(fullname, loader, is_package=file is None or file.is_package)
        if file is not None:
            spec.origin = str(file.path)
            spec.has_location = True
        if spec.submodule_search_locations is not None:
            spec.submodule_search_locations.append(
                str(self.sources.folder.joinpath(*name.split(".")))
            )
        return spec


def _blame(error: BaseException, path: Path) -> Mark:
    """Return the line of the file at which its import failed."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return Mark(str(path), error.lineno or 1, error.offset or 1)
    # The last frame of the file: the error itself may come from a library that it called.
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == str(path)
    ]
    if not lines:
        return Mark(str(path))
    return Mark(str(path), lines[-1] or 1)

"""Imports of locked packages: only bytes that were hashed run, and no compiled file beside them."""

from __future__ import annotations

import importlib.util
import marshal
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from importlib.abc import MetaPathFinder
from importlib.machinery import (
    ExtensionFileLoader,
    ModuleSpec,
    SourceFileLoader,
    SourcelessFileLoader,
)
from pathlib import Path
from types import CodeType, ModuleType

from forge_cli.core.errors import LockError
from forge_cli.files.regular import read_regular
from forge_cli.files.replace import replace_file


def import_only(hashes: Mapping[str, str], packages: frozenset[str], cache: Path) -> None:
    """From now on, import these packages only from files with these hashes, by their real paths.

    ``cache`` is a folder of forge's own for compiled code.
    """
    known = next((each for each in sys.meta_path if isinstance(each, _LockedFinder)), None)
    if known is None:
        known = _LockedFinder()
        sys.meta_path.insert(0, known)
    known.cache = cache
    known.packages.update(packages)
    known.hashes.update(hashes)


class _LockedFinder(MetaPathFinder):
    """Lets the other finders locate a module, and replaces their loader."""

    def __init__(self) -> None:
        self.packages: set[str] = set()
        self.hashes: dict[str, str] = {}
        self.cache = Path()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] not in self.packages:
            return None
        spec: ModuleSpec | None = None
        for finder in sys.meta_path:
            if spec is None and finder is not self and hasattr(finder, "find_spec"):
                spec = finder.find_spec(fullname, path, target)
        # A namespace package has no loader and no code.
        if spec is None or spec.loader is None:
            return spec
        loader = spec.loader
        if isinstance(loader, SourceFileLoader):
            spec.loader = _LockedLoader(fullname, loader.path, self)
            # Without it, no .pyc file is read, which could contain other code than the source.
            spec.cached = None
        # These files are only compared, because their loaders read them again.
        elif isinstance(loader, (ExtensionFileLoader, SourcelessFileLoader)):
            self.read(loader.path)
        return spec

    def read(self, path: str) -> bytes:
        """Return the content of a file; raise LockError if it differs from the hash."""
        content = read_regular(path)
        if self.hashes.get(os.path.realpath(path)) != sha256(content).hexdigest():
            problem = f"{path} is not the file that was compared with the lock, and is not imported"
            raise LockError(None, problem, hint="run the command again to compare it again")
        return content


class _LockedLoader(SourceFileLoader):
    def __init__(self, fullname: str, path: str, finder: _LockedFinder) -> None:
        super().__init__(fullname, path)
        self._finder = finder

    def get_code(self, fullname: str) -> CodeType:
        content = self._finder.read(self.path)
        # Compiled code depends on the version of Python, and contains the path.
        key = sha256(
            b"%b\0%b\0%b" % (importlib.util.MAGIC_NUMBER, os.fsencode(self.path), content)
        ).hexdigest()
        kept = self._finder.cache / f"{key}.code"
        with suppress(OSError, ValueError, EOFError, TypeError):
            code = marshal.loads(kept.read_bytes())  # noqa: S302 - in a folder of forge's own
            if isinstance(code, CodeType):
                return code
        # Not with the ``__future__`` imports of this module.
        made: CodeType = compile(content, self.path, "exec", dont_inherit=True)
        with suppress(OSError):  # a home that cannot be written only costs the time
            replace_file(kept, marshal.dumps(made), mode=0o600, durable=False)
        return made

"""Answers of commands that only look, kept until something changes that was read for them; they decide nothing."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from forge_cli import __version__
from forge_cli.cli.looking.trace import tracing
from forge_cli.engine.plugins.scan import installed
from forge_cli.files.cache import forget_old
from forge_cli.files.home import DOCUMENTS, forge_home
from forge_cli.files.regular import read_own
from forge_cli.files.replace import replace_file

MOST = 100
"""Answers that are kept."""
SETTLED = 0.1
"""Seconds: what changed later than that before it was read may change again under the same stamp."""
_PASSING = frozenset({"_", "SHLVL", "OLDPWD"})
"""Variables that a shell sets anew for each command."""

Stamp = list[int] | None


def answer(question: tuple[str, ...], find: Callable[[], str], besides: Callable[[], Iterable[Path]] = tuple) -> str:
    """What ``find`` says, or what it said when all that it read, and what lies ``besides`` it, was as it is now.

    An answer that came with a warning is not kept, nor one that was read in ways that cannot be followed.
    """
    file = _folder() / f"{_digest(question)}.json"
    kept = _recall(file)
    if kept is not None:
        return kept
    began = time.time()
    with tracing() as trace, _hearing_warnings() as heard:
        said = find()
        paths = {*trace.seen(), *(os.path.abspath(path) for path in besides())}
    if trace.complete and not heard:
        _keep(file, said, paths, began)
    return said


def _recall(file: Path) -> str | None:
    try:
        kept = json.loads(read_own(file))
        said, seen = kept["answer"], kept["seen"]
        return said if isinstance(said, str) and all(_stamp(path) == seen[path] for path in seen) else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _keep(file: Path, said: str, paths: set[str], began: float) -> None:
    """A home that cannot be written only costs the time of the next look."""
    own = tuple(f"{forge_home() / name}{os.sep}" for name in ("cache", DOCUMENTS))
    seen = {path: _stamp(path) for path in _with_folders(paths) if not f"{path}{os.sep}".startswith(own)}
    latest = int((began - SETTLED) * 1e9)
    if all(stamp is None or max(stamp[:2]) < latest for stamp in seen.values()):
        with suppress(OSError):
            replace_file(file, json.dumps({"answer": said, "seen": seen}), mode=0o600)
            forget_old(file.parent, MOST)


def _with_folders(paths: set[str]) -> set[str]:
    """The folders of data files, too: what appears there may be found first the next time."""
    data = (path for path in paths if not path.endswith((".py", ".so")) and os.path.isfile(path))
    passing = {tempfile.gettempdir(), os.path.realpath(tempfile.gettempdir())}
    return {*paths, *map(os.path.dirname, data)} - passing


@contextmanager
def _hearing_warnings() -> Iterator[list[str]]:
    heard: list[str] = []
    with redirect_stderr(_Heard(sys.stderr, heard)):
        yield heard


class _Heard:
    """Standard error, with a list of what was written to it."""

    def __init__(self, stream: Any, heard: list[str]) -> None:
        self._stream, self._heard = stream, heard

    def write(self, text: str) -> int:
        self._heard += [text] if text else []
        written: int = self._stream.write(text)
        return written

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _folder() -> Path:
    return forge_home() / "cache" / "answers"


def _digest(question: tuple[str, ...]) -> str:
    """The question where and by whom it is asked: code that is looked at may look at all of this."""
    variables = sorted((name, value) for name, value in os.environ.items() if name not in _PASSING)
    plugins = [f"{plugin.name} {plugin.value} {plugin}" for plugin in installed(forge_home() / "cache")]
    interpreter = [sys.executable, sys.version, __version__, *sys.path]
    asked = repr([question, os.getcwd(), os.getuid(), interpreter, variables, plugins])
    return sha256(asked.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _stamp(path: str) -> Stamp:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return [status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino]

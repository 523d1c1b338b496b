"""forge, with an eye on the disk: ``durable.py REPORT ARGV...`` reports what of FORGE_HOME and of the
working directory a power cut may lose.

A file is safe once it was synced after its last write, and its name once the folder was synced after it got there.
"""

import builtins
import io
import os
import sys
from collections.abc import Callable
from typing import Any


def watching(*watched: str) -> set[str]:
    """The files and names that the disk may not have yet, kept up to date from now on."""
    unsafe: set[str] = set()

    def place_of(target: Any, folder: int | None) -> str:
        if isinstance(target, int):
            return os.readlink(f"/proc/self/fd/{target}")
        base = os.readlink(f"/proc/self/fd/{folder}") if folder is not None else os.getcwd()
        return os.path.normpath(os.path.join(base, os.fspath(target)))

    def note(kind: str, place: str) -> None:
        if any(place.startswith(f"{folder}/") for folder in watched):
            unsafe.add(f"{kind} {place}")

    def around(name: str, after: Callable[..., None]) -> None:
        real = getattr(os, name)

        def called(*args: Any, **options: Any) -> Any:
            result = real(*args, **options)
            after(*args, **options)
            return result

        setattr(os, name, called)

    def synced(descriptor: int) -> None:
        place = place_of(descriptor, None)
        unsafe.discard(f"content {place}")
        for name in [each for each in unsafe if each.startswith("name ")]:
            if os.path.dirname(name.removeprefix("name ")) == place:
                unsafe.discard(name)

    def renamed(
        source: Any, target: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None
    ) -> None:
        old, new = place_of(source, src_dir_fd), place_of(target, dst_dir_fd)
        if f"content {old}" in unsafe:
            note("content", new)
        unsafe.difference_update({f"content {old}", f"name {old}"})
        note("name", new)

    def linked(source: Any, target: Any, *, dst_dir_fd: int | None = None, **_: Any) -> None:
        note("name", place_of(target, dst_dir_fd))

    def removed(path: Any, *, dir_fd: int | None = None) -> None:
        place = place_of(path, dir_fd)
        unsafe.difference_update({f"content {place}", f"name {place}"})

    opened, made, written = os.open, os.mkdir, io.open

    def watched_stream(file: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
        """Python's own open with invisible writes: safe only once the descriptor is synced."""
        new = not isinstance(file, int) and not os.path.lexists(file)
        stream = written(file, mode, *args, **options)
        if new:
            note("name", place_of(stream.fileno(), None))
        if any(letter in mode for letter in "wax+"):
            note("content", place_of(stream.fileno(), None))
        return stream

    io.open = builtins.open = watched_stream

    def watched_open(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        new = flags & os.O_CREAT and not os.path.lexists(place_of(path, dir_fd))
        descriptor = opened(path, flags, mode, dir_fd=dir_fd)
        if new:
            note("name", place_of(path, dir_fd))
        return descriptor

    def watched_mkdir(path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        made(path, mode, dir_fd=dir_fd)
        note("name", place_of(path, dir_fd))

    os.open, os.mkdir = watched_open, watched_mkdir  # type: ignore[assignment]
    around("write", lambda descriptor, *_: note("content", place_of(descriptor, None)))
    for name in ("fsync", "fdatasync"):
        around(name, synced)
    for name in ("rename", "replace"):
        around(name, renamed)
    around("link", linked)
    for name in ("unlink", "remove"):
        around(name, removed)
    return unsafe


if __name__ == "__main__":
    _, report, *argv = sys.argv
    unsafe = watching(os.path.realpath(os.environ["FORGE_HOME"]), os.getcwd())
    from forge_cli.cli.app import main

    sys.argv = ["forge", *argv]
    try:
        sys.exit(main())
    finally:
        with open(report, "w") as stream:
            stream.writelines(f"{each}\n" for each in sorted(unsafe))

"""forge, killed at one of its system calls that change files: ``killed.py N COUNTS ARGV...``; N is 0 for never.

``rename.N`` counts only the calls of that name.

What is counted are the calls that write, make, rename, sync, cut or remove a file below FORGE_HOME or the working
directory; how many there were is written to the file COUNTS.
"""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

CHANGING = (
    *(
        "write",
        "pwrite",
        "copy_file_range",
        "sendfile",
        "rename",
        "replace",
        "link",
        "unlink",
        "mkdir",
        "rmdir",
    ),
    *("chmod", "fsync", "fdatasync", "ftruncate", "utime"),
)


def killing(number: int, counts: str, only: str = "") -> None:
    """Count the calls from now on, and die before the one of that number."""
    done, places = 0, (os.path.realpath(os.environ["FORGE_HOME"]), os.getcwd())

    def place_of(target: Any, options: dict[str, Any]) -> str:
        folder = options.get("dir_fd", options.get("src_dir_fd"))
        if isinstance(target, int):
            return os.readlink(f"/proc/self/fd/{target}")
        base = os.readlink(f"/proc/self/fd/{folder}") if folder is not None else os.getcwd()
        return os.path.join(base, os.fspath(target))

    def count(name: str, target: Any, options: dict[str, Any]) -> None:
        nonlocal done
        if only not in ("", name) or not place_of(target, options).startswith(places):
            return
        done += 1
        with open(counts, "w") as stream:
            stream.write(str(done))
        if done == number:
            os.kill(os.getpid(), signal.SIGKILL)

    def watch(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def called(target: Any, *args: Any, **options: Any) -> Any:
            count(name, target, options)
            return real(target, *args, **options)

        return called

    opened = os.open

    def watched_open(path: Any, flags: int, *args: Any, **options: Any) -> int:
        if flags & os.O_CREAT:
            count("open", path, options)
        return opened(path, flags, *args, **options)

    os.open = watched_open  # type: ignore[assignment]
    for name in CHANGING:
        setattr(os, name, watch(name, getattr(os, name)))


if __name__ == "__main__":
    _, number, counts, *argv = sys.argv
    only, _, number = number.rpartition(".")
    killing(int(number), counts, only)
    from forge_cli.cli.app import main

    sys.argv = ["forge", *argv]
    sys.exit(main())

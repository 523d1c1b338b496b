"""Where the files of a person and the home of forge lie: the same tests on one file system, on two, in memory.

``python -m tests.support.layouts LAYOUT PLACE PROGRAM ARGV...`` starts a program with mounts of its own, which nobody
else sees and which go away with it.
"""

import ctypes
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from forge_cli.sandbox.trial.enter import enter_namespaces

ROOT = Path(__file__).parents[2]
HOMES = "TESTS_HOMES"
"""The variable with the folder in which homes are made, where that is not the one of everything else."""
LAYOUT = os.environ.get("TESTS_LAYOUT", "one")
"""The layout that these tests run in."""
LAYOUTS = {
    "two": ("tmpfs", "tmpfs"),
    "bind": ("bind", None),
    "tmpfs-workspace": ("tmpfs", None),
    "tmpfs-home": (None, "tmpfs"),
}
"""What is mounted for the files of a person, and for homes. ``bind`` is the same file system, mounted once more: its
number is the same, and yet nothing can be renamed or linked from one to the other. All tests outside of these have
both in one file system."""
_MS_BIND = 0x1000


def homes(beside: Path) -> Path:
    """The folder in which homes are made."""
    return Path(os.environ.get(HOMES, beside))


def command(layout: str, place: Path, *argv: str) -> list[str]:
    return [sys.executable, "-m", "tests.support.layouts", layout, str(place), *argv]


def run_tests(layout: str, *tests: str, timeout: float) -> subprocess.CompletedProcess[str]:
    """Run some tests in a layout, in a process of their own."""
    with tempfile.TemporaryDirectory(prefix="forge-") as folder:
        place = Path(os.path.realpath(folder))
        for name in ("work", "home"):
            (place / name).mkdir()
        options = [
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:randomly",
            "-n",
            "0",
            f"--basetemp={place}/work/base",
        ]
        argv = [sys.executable, "-m", "pytest", *options, *tests]
        environment = {
            **os.environ,
            HOMES: f"{place}/home",
            "TMPDIR": f"{place}/home",
            "TESTS_LAYOUT": layout,
        }
        for name in [name for name in environment if name.startswith("PYTEST_")]:
            del environment[name]
        return subprocess.run(
            command(layout, place, *argv),
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )


def _mount(kind: str | None, target: Path) -> None:
    if kind is None:
        return
    library = ctypes.CDLL(None, use_errno=True)
    name, flags = (str(target), _MS_BIND) if kind == "bind" else (kind, 0)
    file_system = None if kind == "bind" else kind.encode()
    if library.mount(name.encode(), str(target).encode(), file_system, flags, None) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(target))


if __name__ == "__main__":
    _, layout, place, *argv = sys.argv
    enter_namespaces(network=True)
    for kind, name in zip(LAYOUTS[layout], ("work", "home"), strict=True):
        _mount(kind, Path(place, name))
    os.execvp(argv[0], argv)

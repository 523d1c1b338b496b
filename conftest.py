"""Requirements of tests on the machine, as in ``@pytest.mark.needs("bwrap")``.

A test whose requirement is missing is skipped with one line that names the package. If ``CI`` is
set, it fails.
"""

import gc
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from inspect import isfunction
from pathlib import Path
from typing import Any

import pytest

from forge_cli.core.notify import UNCONFINED_RULES
from forge_cli.core.text import counted
from forge_cli.sandbox.isolation.isolation import (
    Mechanism,
    available_mechanisms,
    describe_confinement,
    is_confining,
)
from forge_cli.sandbox.processes.limits import groups_around
from forge_cli.sandbox.trial.copies import overlay_problem
from forge_cli.sandbox.worker_processes import NOT_CONFINED

CI = bool(os.environ.get("CI"))
REASON = re.compile(r"needs \S+: install ([^\s,]+)")


@dataclass(frozen=True)
class Need:
    """A requirement: a check whether it is met, and what to install if not."""

    there: Callable[[], object]
    package: str | None = None
    """The package to install; None if there is none, and CI may do without it."""
    more: str = ""


LINUX = sys.platform == "linux"
PATH = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")])


def program(name: str, package: str) -> Need:
    """Return the requirement for a program on the PATH."""
    return Need(lambda: shutil.which(name, path=PATH), package)


def mechanism(name: str) -> Mechanism | None:
    """Return a mechanism that confines commands on this machine, or None."""
    return next(
        (found for found in available_mechanisms() if found.name == name and is_confining(found)),
        None,
    )


def can_mount() -> bool:
    """Return True if a process of this user may create private mounts."""
    code = (
        "from forge_cli.sandbox.trial.enter import enter_namespaces; enter_namespaces(network=True)"
    )
    return (
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode
        == 0
    )


def find_postgres() -> list[Path]:
    """Return the programs that make a database of PostgreSQL; Debian has them outside of PATH."""
    found = shutil.which("initdb", path=PATH)
    return [Path(found)] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))


def find_chromium() -> str | None:
    """Return the path of Chromium, or None."""
    return next(
        filter(None, (shutil.which(name, path=PATH) for name in ("chromium", "chromium-browser"))),
        None,
    )


def find_axe() -> Path | None:
    """Return the script of axe-core, from an npm folder beside the PATH or a global one."""
    folders = [Path(folder).parent for folder in PATH.split(os.pathsep)]
    places = [
        place / "axe-core/axe.min.js"
        for folder in folders
        for place in (folder, folder / "lib/node_modules")
    ]
    return next((place for place in places if place.is_file()), None)


NEEDS = {
    "axe": Need(find_axe, more="npm install -g axe-core"),
    "bash": program("bash", "bash"),
    "bwrap": Need(
        lambda: mechanism("bwrap"),
        "bubblewrap" if LINUX else None,
        "and let it make user namespaces",
    ),
    "Landlock": Need(lambda: mechanism("Landlock"), more="the kernel has to allow it"),
    "cgroups": Need(
        groups_around, more="a control group (v2) with memory and pids that one may make others in"
    ),
    "chromium": Need(find_chromium, "chromium"),
    "conformance": Need(
        lambda: all(shutil.which(name, path=PATH) for name in ("node", "conformance")),
        more="npm install -g @modelcontextprotocol/conformance",
    ),
    "curl": program("curl", "curl"),
    "dash": program("dash", "dash"),
    "fish": program("fish", "fish"),
    "gcc": program("gcc", "gcc"),
    "git": program("git", "git"),
    "go": program("go", "golang-go"),
    "npm-servers": Need(
        lambda: all(
            shutil.which(f"mcp-server-{name}", path=PATH) for name in ("everything", "filesystem")
        ),
        more="npm install -g @modelcontextprotocol/server-everything "
        "@modelcontextprotocol/server-filesystem",
    ),
    "overlay": Need(
        lambda: mechanism("bwrap") and overlay_problem(Path(tempfile.gettempdir())) is None,
        more="Linux 5.11, with overlays in user namespaces",
    ),
    "openssl": program("openssl", "openssl"),
    "postgres": Need(find_postgres, "postgresql"),
    "rg": program("rg", "ripgrep"),
    "tmux": program("tmux", "tmux"),
    "uv": program("uv", "uv"),
    "zsh": program("zsh", "zsh"),
    "linux": Need(lambda: LINUX),
    "mounts": Need(
        lambda: LINUX and can_mount(),
        more="the kernel has to let processes have mounts of their own",
    ),
    "loop": Need(
        lambda: LINUX and os.geteuid() == 0 and os.path.exists("/dev/loop-control"), more="and root"
    ),
    "root": Need(lambda: os.geteuid() == 0, more="only root can make a file that belongs to root"),
    "user": Need(lambda: os.geteuid() != 0, more="root may read and write everything"),
}
"""All requirements; a bwrap that cannot confine anything counts as missing."""


@cache
def lacks(name: str) -> str | None:
    """Return why a requirement is not met, or None."""
    need = NEEDS[name]
    if need.there():
        return None
    told = [f"install {need.package}"] if need.package else []
    return f"needs {name}: {', '.join([*told, need.more])}".rstrip(" ,:")


def require(name: str) -> None:
    """Skip the running test, or fail it if CI is set and the package can be installed."""
    __tracebackhide__ = True
    if reason := lacks(name):
        if CI and NEEDS[name].package:
            pytest.fail(f"{reason} (CI is set)", pytrace=False)
        pytest.skip(reason)


@pytest.fixture
def anyio_backend() -> str:
    """Return the name of forge's event loop."""
    return "asyncio"


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(
    collector: pytest.Module | pytest.Class, obj: object
) -> list[pytest.Item] | None:
    """Do not even make items of tests marked ``long`` if they would all be deselected.

    Each process of pytest-xdist makes all items, and one in five is long.
    """
    config = collector.config
    is_by_name = any("::" in word for word in config.args)
    if config.option.markexpr != "not long" or is_by_name or not isfunction(obj):
        return None
    if any(mark.name == "long" for mark in getattr(obj, "pytestmark", ())):
        return []
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark rows of tables with the mark ``few`` as ``long``, except for a few.

    The rows that stay are spread from the first to the last.
    """
    tables: dict[tuple[pytest.Item | pytest.Collector | None, str], list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("few") and not item.get_closest_marker("long"):
            tables.setdefault((item.parent, item.name.partition("[")[0]), []).append(item)
    for rows in tables.values():
        mark = rows[0].get_closest_marker("few")
        count = min(mark.args[0], len(rows)) if mark else len(rows)
        kept = {number * (len(rows) - 1) // max(count - 1, 1) for number in range(count)}
        for number, row in enumerate(rows):
            if number not in kept:
                row.add_marker(pytest.mark.long)


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    """Collect no garbage while objects are made that stay to the end."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Leave items and modules out of all later garbage collections."""
    gc.freeze()
    gc.enable()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Check the requirements of a test."""
    for mark in item.iter_markers("needs"):
        for name in mark.args:
            require(name)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Give tests that are skipped for one reason the same place.

    Then pytest prints them as one line.
    """
    report = yield
    if report.skipped and isinstance(report.longrepr, tuple) and REASON.search(report.longrepr[2]):
        report.longrepr = ("conftest.py", 1, report.longrepr[2])
    return report


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Print how a crashed process of pytest-xdist ended: its signal or exit code."""
    if error:
        with suppress(subprocess.TimeoutExpired):
            code = node.gateway._io.popen.wait(timeout=10)
            sys.stderr.write(f"\n[{node.gateway.id}] ended with {code}\n")


@pytest.fixture(scope="session")
def need() -> Callable[[str], None]:
    """Return a function for requirements of a part of a test: ``need("go")``."""
    return require


@pytest.fixture(scope="session")
def postgres_programs() -> Path:
    """Return the folder of the programs of PostgreSQL."""
    require("postgres")
    return find_postgres()[-1].parent


@pytest.fixture(scope="session")
def chromium() -> str | None:
    """Return the browser for tests of pages."""
    require("chromium")
    return find_chromium()


@pytest.fixture(scope="session")
def axe() -> Path | None:
    """Return the accessibility checker for pages."""
    require("axe")
    return find_axe()


@pytest.fixture(scope="session")
def unconfined() -> str:
    """Return the warning that commands are not fully confined here; empty if they are."""
    if not lacks("bwrap"):
        return ""
    if lacks("Landlock"):
        return f"warning: {NOT_CONFINED}\n"
    return f"warning: {describe_confinement(mechanism('Landlock'))}\n"


@pytest.fixture(scope="session")
def unconfined_rules(unconfined: str) -> str:
    """Return the warning for a worker with rules that pre-approve commands."""
    if lacks("bwrap") and lacks("Landlock"):
        return f"warning: {UNCONFINED_RULES}\n"
    return unconfined


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Generator[None]:
    """Print which packages would enable the skipped tests, as the last line."""
    yield
    reasons = (str(report.longrepr[2]) for report in terminalreporter.stats.get("skipped", []))
    skipped = Counter(found[1] for reason in reasons if (found := REASON.search(reason)))
    if skipped:
        count, packages = counted(skipped.total(), "test"), ", ".join(sorted(skipped))
        terminalreporter.write_line(
            f"skipped {count}: install {packages} to run them all", yellow=True
        )

"""The environment of every test: an own home, no variables of the developer, fast property tests."""

import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

import forge_cli.files.parsing  # noqa: F401  # loaded late, and some tests forget what they have imported
from forge_cli.engine.plugins.scan import LOAD_PLUGINS
from forge_cli.inspection import loading_child
from forge_cli.testing import Project
from tests.support.background import background  # noqa: F401  # fixtures
from tests.support.command_line import cli, install, server, start, tester  # noqa: F401  # fixtures
from tests.support.interpreter import path_with_python
from tests.support.keyboard import script, terminal, writer  # noqa: F401  # fixtures
from tests.support.layouts import homes
from tests.support.warm import FORKED_LOOKS, Warm, forked_look, know_distributions, started

CALM = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
settings.register_profile("ci", CALM, max_examples=10, derandomize=True)
settings.register_profile("long", CALM, max_examples=500)  # 100 if an example is slow
settings.load_profile("ci")
know_distributions()

# A shell starts what runs in its background with SIGINT ignored, nohup with SIGHUP, and every process of a test would
# inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
for number in (signal.SIGHUP, signal.SIGQUIT):
    signal.signal(number, signal.SIG_DFL)


_FOLDERS = count()
SHARED = pytest.StashKey[Warm]()


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder for one test, without pytest's search for a free name among all others."""
    name = re.sub(r"\W", "_", request.node.name)[:24]
    folder = tmp_path_factory.getbasetemp() / f"{name}{next(_FOLDERS)}"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def kept_path(tmp_path: Path) -> Path:
    """Return a folder for forge's files; some layouts put it on another file system."""
    folder = homes(tmp_path.parent) / f"kept-{tmp_path.name}"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture(autouse=True)
def _own_environment(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Isolate tests from the developer's home, settings and terminal."""
    for name in list(os.environ):
        if name in {"CI", "NO_COLOR", "FORCE_COLOR"} or name.startswith("FORGE_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv(LOAD_PLUGINS, "")
    monkeypatch.setenv("PATH", path_with_python())
    home = homes(tmp_path_factory.getbasetemp()) / f"home-{next(_FOLDERS)}"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("FORGE_HOME", str(home / ".forge"))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Start one fork server for all processes of pytest-xdist."""
    if SHARED not in node.config.stash:
        stack = ExitStack()
        node.config.stash[SHARED] = stack.enter_context(started())
        node.config.add_cleanup(stack.close)
    node.workerinput["warm"] = str(node.config.stash[SHARED].place)


@pytest.fixture(scope="session")
def warm(request: pytest.FixtureRequest) -> Iterator[Warm]:
    """Yield forge in processes that start at once; the server starts with the first test."""
    shared = getattr(request.config, "workerinput", {}).get("warm")
    with nullcontext(Warm(Path(shared))) if shared else started() as found:
        found.wait()
        yield found


@pytest.fixture
def forked_looks(monkeypatch: pytest.MonkeyPatch, warm: Warm) -> None:
    """Fork the looks at third-party code: they start at once, and are not confined."""
    monkeypatch.setenv(FORKED_LOOKS, str(warm.python))
    for name, value in forked_look(str(warm.python)).items():
        monkeypatch.setattr(loading_child, name, value)


@dataclass
class WarmProject(Project):
    """A project whose ``forge`` method starts at once."""

    find: Callable[[], Warm]

    @property
    def home(self) -> Path:
        """The home beside the project, or on another file system in some layouts."""
        folder = homes(self.folder.parent)
        return (
            super().home
            if folder == self.folder.parent
            else folder / f"{self.folder.parent.name}-home"
        )

    def forge(
        self, *words: str, stdin: str | None = None, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.find().python, "-m", "forge_cli", *words],
            cwd=self.folder,
            env={**os.environ, "FORGE_HOME": str(self.home), **(env or {})},
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


@pytest.fixture
def project(tmp_path: Path, request: pytest.FixtureRequest) -> Project:
    """Return an empty project, in which a test writes its worker and tools."""
    folder = tmp_path / "project"
    folder.mkdir()
    return WarmProject(folder, partial(request.getfixturevalue, "warm"))

"""A root with zones in it, as a worker file would declare them."""

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from forge_cli.sandbox.files.sandbox import Sandbox
from forge_cli.sandbox.isolation import isolation
from forge_cli.sandbox.isolation.isolation import Mechanism, available_mechanisms
from forge_cli.sandbox.zones.config import SandboxConfig
from forge_cli.sandbox.zones.declared import open_zones
from forge_cli.schema.config import parse_config
from tests.support.children import reap_orphans


@pytest.fixture(autouse=True)
def _no_orphans() -> None:
    """Orphans of commands in earlier tests do not count as children of this one."""
    reap_orphans()


THREE_ZONES: list[dict[str, Any]] = [
    {
        "name": "scratch",
        "mode": "rw",
        "approval": {"write": "preApproved", "delete": "preApproved"},
    },
    {"name": "output", "mode": "rw", "approval": {"write": "ask", "delete": "blocked"}},
    {"name": "src", "mode": "ro"},
]

MECHANISMS = ("bwrap", "Landlock")
OpenSandbox = Callable[..., Sandbox]


@pytest.fixture(scope="session", params=MECHANISMS)
def cage(request: pytest.FixtureRequest, need: Callable[[str], None]) -> Mechanism:
    """Each mechanism that confines processes."""
    need(request.param)
    return next(found for found in available_mechanisms() if found.name == request.param)


@pytest.fixture
def only(cage: Mechanism, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mechanism]:
    """A machine that has this mechanism and no other."""
    monkeypatch.setattr(isolation, "available_mechanisms", lambda: iter([cage]))
    isolation.best_mechanism.cache_clear()
    yield cage
    isolation.best_mechanism.cache_clear()


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that is not in /tmp, which a confined process has for itself."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        yield Path(os.path.realpath(folder))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder of the zones, itself outside of every zone."""
    for name in ("scratch", "output", "src", "outside"):
        (tmp_path / name).mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("secret")
    return tmp_path


@pytest.fixture
def open_sandbox(root: Path) -> OpenSandbox:
    def opened(
        zones: list[dict[str, Any]] | None = THREE_ZONES, *, protected: tuple[Path, ...] = ()
    ) -> Sandbox:
        config = parse_config(SandboxConfig, {"zones": zones})
        home = Path("/nonexistent/home")
        zones_open = open_zones(config, workspace=root, user_home=home, file="worker.yaml")
        return Sandbox(zones_open, workspace=root, protected=protected)

    return opened


@pytest.fixture
def sandbox(open_sandbox: OpenSandbox) -> Sandbox:
    return open_sandbox()

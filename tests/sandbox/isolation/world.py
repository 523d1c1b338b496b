"""A place for tests of confined processes: a home, a project, and outside files."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forge_cli.core.processes import Finished
from forge_cli.core.zones import Zone, ZoneMode
from forge_cli.sandbox.isolation.confinement import Confinement, confinement_for
from forge_cli.sandbox.isolation.isolation import Confined, Mechanism
from forge_cli.sandbox.processes.command import bash_argv, clean_environment
from forge_cli.sandbox.processes.process import ChildProcesses

SECRETS = (
    ".ssh/id",
    ".aws/credentials",
    ".gnupg/key",
    ".config/gcloud/key",
    ".forge/config.yaml",
    ".netrc",
)


@dataclass(frozen=True)
class World:
    """A home with secrets, a project to work in, and something outside; not in /tmp, which is hidden as a whole."""

    root: Path
    cage: Mechanism

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def project(self) -> Path:
        return self.root / "project"

    @property
    def outside(self) -> Path:
        return self.root / "outside"

    @property
    def weaker(self) -> bool:
        return self.cage.weakness is not None

    def confinement(self, *zones: Zone, **options: Any) -> Confinement:
        settings = {
            "workspace": self.project,
            "user_homes": [self.home],
            "forge_home": self.home / ".forge",
        }
        given = zones or (Zone("project", self.project, ZoneMode.RW),)
        return confinement_for(given, **{**settings, "network": False, **options})

    async def run(
        self,
        line: str,
        confinement: Confinement | None = None,
        *,
        cwd: Path | None = None,
        **options: Any,
    ) -> Finished:
        visible = options.pop("visible", ())
        wrap = Confined(self.cage, confinement or self.confinement(), readable=visible)
        settings = {
            "env": {**clean_environment(), "HOME": str(self.home)},
            "timeout": 60.0,
            **options,
        }
        async with ChildProcesses() as processes:
            return await processes.run(
                bash_argv(line), cwd=cwd or self.project, wrap=wrap, **settings
            )

    async def free(self, line: str) -> Finished:
        """The same without confinement, to check that a refused action is otherwise possible."""
        env = {**clean_environment(), "HOME": str(self.home)}
        async with ChildProcesses() as processes:
            return await processes.run(bash_argv(line), cwd=self.project, env=env, timeout=60)


@contextmanager
def new_world(cage: Mechanism) -> Iterator[World]:
    with tempfile.TemporaryDirectory(prefix="forge-test-", dir="/var/tmp") as folder:
        found = World(Path(os.path.realpath(folder)), cage)
        for place in (found.home, found.project, found.outside):
            place.mkdir()
        for name in SECRETS:
            (found.home / name).parent.mkdir(parents=True, exist_ok=True)
            (found.home / name).write_text("the secret\n")
        yield found

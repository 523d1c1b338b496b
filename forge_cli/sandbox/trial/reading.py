"""Runs of commands that are allowed because they only read: nothing is written, and no secret and no network is there.

Where such a command wants more than that, it is not what it was taken for, and its output counts for nothing.
"""

from __future__ import annotations

import dataclasses
import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from forge_cli.core.processes import Finished
from forge_cli.core.trial import TriedWant
from forge_cli.core.zones import ZoneMode
from forge_cli.sandbox.isolation.confinement import Confinement
from forge_cli.sandbox.isolation.isolation import Confined
from forge_cli.sandbox.processes.command import clean_environment, with_git_settings
from forge_cli.sandbox.protected import is_env_template
from forge_cli.sandbox.trial.copies import Copies
from forge_cli.sandbox.trial.enter import NOT_MOUNTED, NOTHING
from forge_cli.sandbox.trial.masked import TooManySecrets, masked
from forge_cli.sandbox.trial.trials import LISTED, NotTried, Run, want_of
from forge_cli.sandbox.trial.view import TrialView

READ_ONLY = "is read-only for a line that only reads"
_SETTINGS = {"core.checkStat": "minimal", "core.trustctime": "false"}
"""By these git takes the stand-in of a file that may hold secrets for the file itself, and does not open it."""


class ReadingRun(Struct, frozen=True):
    """How a command that should only read ended, and what else it wanted."""

    done: Finished
    wanted: tuple[TriedWant, ...] = ()


def reading_environment() -> dict[str, str]:
    """The environment of commands that only read: nothing that a worker names, and git writes nothing by the way."""
    return {**with_git_settings(clean_environment(), _SETTINGS), "GIT_OPTIONAL_LOCKS": "0"}


class ReadingRuns:
    """Runs the commands of one worker that should only read."""

    def __init__(self, wrap: Confined, view: TrialView) -> None:
        """``wrap`` is how a trial is confined, ``view`` knows where secrets lie."""
        self._wrap = replace(wrap, confinement=_read_only(wrap.confinement))
        self._view = view

    async def run(self, run: Run) -> ReadingRun:
        """Run a command; NotTried where it cannot be confined so."""
        with tempfile.TemporaryDirectory(prefix="forge-") as folder:
            try:
                with masked(self._secrets(), Path(folder, "stand-ins")) as masks:
                    wrap = replace(self._wrap, names=(), covers=tuple(masks.rules))
                    seen = Copies(Path(folder, "seen"), wrap, network=False, writes=True, ends_at_name=True)
                    done = await run(seen)
                    wanted = [*_wanted(seen, done), *_opened(masks.opened())]
            except TooManySecrets as error:
                raise NotTried(str(error)) from None
            except OSError as error:
                raise NotTried(f"secrets cannot be masked: {error.strerror}") from None
        return ReadingRun(done, tuple(wanted))

    def _secrets(self) -> Iterator[Path]:
        """The files and folders that are masked: examples of settings may be read, as by every search."""
        return (path for path in self._view.secrets(()) if not is_env_template(path.name))


def _read_only(confinement: Confinement) -> Confinement:
    zones = tuple(replace(zone, mode=ZoneMode.RO) for zone in confinement.zones)
    return dataclasses.replace(confinement, zones=zones)


def _opened(secrets: list[str]) -> Iterator[TriedWant]:
    yield from (TriedWant("read", name, "may hold secrets") for name in secrets[:LISTED])


def _wanted(seen: Copies, done: Finished) -> Iterator[TriedWant]:
    """The network, the sockets, and the changes that a command wanted."""
    report, reached = seen.report(), seen.reached()
    if report is None and done.exit_code == NOT_MOUNTED:
        raise NotTried(done.stderr.strip().removeprefix(f"forge: {NOTHING}: ") or "it did not start")
    if report and report.network:
        yield from (TriedWant("network", place) for place in report.reached[:LISTED] or ["an address that it knows"])
    if reached is None:
        if os.strerror(errno.EROFS).lower() in f"{done.stdout}\n{done.stderr}".lower():
            yield TriedWant("write", "a file", READ_ONLY)
        return
    found = reached.sockets[:LISTED]
    if report and report.ended_at_name:  # also while it was about to say which one it wants
        found = [each for each in found if each[1] != "unknown"]
    yield from (want_of(name, state) for name, state in found)
    writes = reached.refused_writes(seen.wrap.confinement)
    yield from (TriedWant("write", path, READ_ONLY) for path in writes[:LISTED])

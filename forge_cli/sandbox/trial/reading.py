"""Runs of commands that only read: without writing, secrets or network.

If such a command wants more, it was misjudged, and its output is discarded.
"""

from __future__ import annotations

import dataclasses
import errno
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import anyio
from msgspec import Struct
from msgspec.structs import replace

from forge_cli.core.processes import Finished
from forge_cli.core.trial import TriedWant
from forge_cli.core.zones import ZoneMode
from forge_cli.sandbox.isolation.confinement import Confinement
from forge_cli.sandbox.isolation.isolation import Confined
from forge_cli.sandbox.processes.command import clean_environment, with_git_settings
from forge_cli.sandbox.protected import is_env_template
from forge_cli.sandbox.trial.copies import Copies, Reached
from forge_cli.sandbox.trial.enter import NOT_MOUNTED, NOTHING
from forge_cli.sandbox.trial.masked import Masks, TooManySecrets, new_masks
from forge_cli.sandbox.trial.trials import LISTED, NotTried, Run, want_of, want_of_file
from forge_cli.sandbox.trial.view import TrialView

Stamps = tuple[tuple[str, int, int, int, int, int], ...]

_NAME_SERVER = ":53"
READ_ONLY = "is read-only for a line that only reads"
_SETTINGS = {"core.checkStat": "minimal", "core.trustctime": "false"}
"""Settings that make git accept stand-ins of secret files as unchanged, without opening them."""


class ReadingRun(Struct, frozen=True):
    """The end of a command that should only read, and what else it wanted."""

    done: Finished
    wanted: tuple[TriedWant, ...] = ()


def reading_environment() -> dict[str, str]:
    """Return the environment of commands that only read, in which git writes nothing."""
    return {**with_git_settings(clean_environment(), _SETTINGS), "GIT_OPTIONAL_LOCKS": "0"}


class ReadingRuns:
    """The runs of commands of one worker that should only read, one at a time."""

    def __init__(self, wrap: Confined, view: TrialView) -> None:
        """Use the confinement of a trial; ``view`` knows the files with secrets."""
        self._wrap = replace(wrap, confinement=_read_only(wrap.confinement))
        self._view = view
        self._known: tuple[Stamps, Masks, tempfile.TemporaryDirectory[str]] | None = None
        self._turn = anyio.Lock()

    def close(self) -> None:
        """Remove the stand-ins of secrets."""
        if self._known is not None:
            _, masks, folder = self._known
            self._known = None
            masks.close()
            folder.cleanup()

    async def run(self, run: Run) -> ReadingRun:
        """Run a command; raise NotTried if it cannot be confined like this."""
        async with self._turn:
            masks = self._masks()
            masks.opened()  # forget openings since the last command
            wrap = replace(self._wrap, names=(), covers=tuple(masks.rules))
            done, wanted = await self._seen(run, wrap)
            return ReadingRun(done, (*wanted, *_opened(masks.opened())))

    async def _seen(self, run: Run, wrap: Confined) -> tuple[Finished, list[TriedWant]]:
        """Return how it ended, and what it wanted except secrets."""
        program = getattr(wrap.mechanism, "program", None)
        thread = None
        if program:
            from forge_cli.sandbox.trial.seen import filtered_thread

            thread = filtered_thread(Path(program))
        if thread is None:
            return await _seen_by_first_program(run, wrap)
        # The filter refuses network sockets: making a network namespace would take longer.
        alone = dataclasses.replace(wrap.confinement, network=self._view.around.network)
        from forge_cli.sandbox.trial.seen import SeenCommand

        seen = SeenCommand(replace(wrap, confinement=alone), thread)
        try:
            done = await run(seen)
        finally:
            seen.drop()
        if seen.reached is None:
            return done, []
        return done, list(_of(seen.reached, alone))

    def _masks(self) -> Masks:
        """Return the stand-ins of the last command if the secrets are still the same."""
        try:
            secrets = dict.fromkeys(self._secrets())
            stamps = _stamps(secrets)
            if self._known is not None and stamps is not None and self._known[0] == stamps:
                return self._known[1]
            self.close()
            folder = tempfile.TemporaryDirectory(prefix="forge-")
            masks = new_masks(secrets, Path(folder.name, "stand-ins"))
        except TooManySecrets as error:
            raise NotTried(str(error)) from None
        except OSError as error:
            raise NotTried(f"secrets cannot be masked: {error.strerror}") from None
        # Making the masks takes longer than most commands that only read.
        self._known = stamps or (), masks, folder
        return masks

    def _secrets(self) -> Iterator[Path]:
        """Return the files and folders to mask.

        Templates of settings may be read, as in searches.
        """
        return (path for path in self._view.secrets(()) if not is_env_template(path.name))


def _stamps(secrets: Iterable[Path]) -> Stamps | None:
    """Return the states of files to recognize them; None if a folder is among them."""
    found = []
    for path in secrets:
        info = path.lstat()
        if stat.S_ISDIR(info.st_mode):
            return None
        found.append(
            (str(path), info.st_dev, info.st_ino, info.st_size, info.st_mode, info.st_mtime_ns)
        )
    return tuple(found)


def _read_only(confinement: Confinement) -> Confinement:
    zones = tuple(replace(zone, mode=ZoneMode.RO) for zone in confinement.zones)
    return dataclasses.replace(confinement, zones=zones)


def _opened(secrets: list[str]) -> Iterator[TriedWant]:
    yield from map(want_of_file, secrets[:LISTED])


async def _seen_by_first_program(run: Run, wrap: Confined) -> tuple[Finished, list[TriedWant]]:
    """Run the command by way of a first program, if nothing can be watched from this process."""
    with tempfile.TemporaryDirectory(prefix="forge-") as folder:
        seen = Copies(Path(folder, "seen"), wrap, network=False, writes=True, ends_at_name=True)
        done = await run(seen)
        report, reached = seen.report(), seen.reached()
    if report is None and done.exit_code == NOT_MOUNTED:
        raise NotTried(
            done.stderr.strip().removeprefix(f"forge: {NOTHING}: ") or "it did not start"
        )
    wanted: list[TriedWant] = []
    if report and report.network:
        for place in report.reached[:LISTED] or ["an address that it knows"]:
            wanted.append(TriedWant("network", place))
    if reached is not None:
        told = report is not None and report.network
        named = report is None or not report.ended_at_name
        wanted += _of(reached, wrap.confinement, named=named, network=not told)
    elif os.strerror(errno.EROFS).lower() in f"{done.stdout}\n{done.stderr}".lower():
        wanted.append(TriedWant("write", "a file", READ_ONLY))
    return done, wanted


def _of(
    reached: Reached, around: Confinement, *, named: bool = True, network: bool = True
) -> Iterator[TriedWant]:
    """Yield the wanted network, sockets and read-only places."""
    places = [
        place for place in reached.addresses[:LISTED] if place and not place.endswith(_NAME_SERVER)
    ]
    if network and reached.addresses:
        for place in places or ["a host"]:
            yield TriedWant("network", place)
    # A command that was ended may have been about to show which socket it wants.
    for name, state in reached.sockets[:LISTED]:
        if named or state != "unknown":
            yield want_of(name, state)
    for path in reached.refused_writes(around)[:LISTED]:
        yield TriedWant("write", path, READ_ONLY)

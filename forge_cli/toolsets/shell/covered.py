"""Lines that only rule sets allow, run so that a wrong rule set does no harm."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from forge_cli.core.approval import Approval
from forge_cli.core.errors import NotAsJudged
from forge_cli.core.processes import Finished
from forge_cli.core.results import OUTPUT_LIMIT
from forge_cli.core.text import counted, visible
from forge_cli.core.trial import TriedWant, describe_wanted
from forge_cli.sandbox.changes.apply import ChangeSet, apply_changes
from forge_cli.sandbox.processes import outcome
from forge_cli.sandbox.processes.command import bash_argv, clean_environment
from forge_cli.sandbox.secrets import KEY_NAME
from forge_cli.sandbox.trial.caches import without_caches
from forge_cli.sandbox.trial.copies import drop_copies
from forge_cli.sandbox.trial.reading import reading_environment
from forge_cli.sandbox.trial.trials import LISTED, NotTried, Run, TriedLine
from forge_cli.sandbox.worker_processes import WorkerProcesses
from forge_cli.toolsets.shell.judged import JudgedLine
from forge_cli.toolsets.shell.policy import ShellPolicy
from forge_cli.toolsets.shell.shown import ShownEffect, name_from, show_changes
from forge_cli.toolsets.shell.trying import Keep

_NOT_BUILT = "builds are allowed on a copy only, but this one could not run on a copy"
_UNFIT = "it cannot be confined as a line that only reads"


class CoveredLines(Struct, frozen=True):
    """Runs the lines of one worker that only rule sets allow."""

    processes: WorkerProcesses
    policy: ShellPolicy
    kind: str
    """The kind of result for an interrupted line."""
    is_edit: Callable[[TriedLine, ShownEffect], bool]
    """Returns True if a trial only made, changed or moved ordinary files."""
    report_applied: Callable[[TriedLine, ShownEffect], None]
    """Called with the changes of a build after they were applied."""

    async def run(
        self,
        line: JudgedLine,
        seconds: float,
        watch: Callable[[str], None],
        keep: Keep | None,
        make: Callable[[], Path],
    ) -> Finished | None:
        """Run a line and return how it ended; raise NotAsJudged if it did more than its sets allow.

        Return None if nothing can be tried here, so that the line has to run like any other.
        ``make`` makes a folder for copies.
        """
        if line.is_run_as_reading:
            return await self._read(line.line.text, seconds, watch)
        return await self._try(line, seconds, watch, keep, make)

    async def _read(self, command: str, seconds: float, watch: Callable[[str], None]) -> Finished:
        runs = self.processes.reading_runs
        if runs is None:
            raise self._unlike(_UNFIT)
        run = self._runner(command, seconds, watch, reading_environment())
        try:
            found = await runs.run(run)
        except NotTried as error:
            raise self._unlike(f"{_UNFIT}: {error}") from None
        if found.wanted:
            raise self._wanted("a line that only reads", found.wanted)
        return found.done

    async def _try(
        self,
        line: JudgedLine,
        seconds: float,
        watch: Callable[[str], None],
        keep: Keep | None,
        make: Callable[[], Path],
    ) -> Finished | None:
        trials = self.processes.approved_trials
        if trials is None or trials.problem or self.policy.try_first == "off":
            self._check_uncopied(line)
            return None
        reads = "reading" in line.sets_needed
        named = [name for name in self.policy.worker.env if not KEY_NAME.search(name)]
        environment = reading_environment() if reads else clean_environment(named)
        command = line.line.text
        run = self._runner(command, seconds, watch, environment)
        folder = make()
        try:
            tried = await trials.run(
                bash_argv(command),
                folder,
                run,
                cwd=self.policy.workspace,
                writable=(),
                seconds=seconds,
            )
            try:
                done = self._settled(line, tried, keep)
                if tried.temporary:
                    tried.temporary.keep()
                return done
            finally:
                if tried.temporary:
                    tried.temporary.drop()
        except NotTried as error:
            self._check_uncopied(line, str(error))
            return None
        finally:
            drop_copies(folder)

    def _check_uncopied(self, line: JudgedLine, why: str = "") -> None:
        """Raise NotAsJudged unless a line may run without a copy, which builds may not."""
        because = f": {why}" if why else ""
        if line.builds:
            raise self._unlike(f"{_NOT_BUILT}{because}") from None
        if line.plain.verdict.approval is not Approval.PRE_APPROVED:
            raise self._unlike(f"{_UNFIT}{because}") from None

    def _settled(self, line: JudgedLine, tried: TriedLine, keep: Keep | None) -> Finished:
        """Apply the files that redirections write; raise NotAsJudged for other changes.

        Changed caches are ignored.
        """
        if tried.wanted:
            raise self._wanted("a line that changes nothing", tried.wanted)
        if tried.done.timed_out:
            return tried.done
        if tried.unsure is not None:
            raise self._unlike(
                f"a rule set classifies it as a line that changes nothing; {tried.unsure}"
            )
        written = line.written
        changes = without_caches(tried.changes)
        if line.builds:
            return self._built(tried, changes, keep)
        others = [change for change in changes.changes if str(change.path) not in written]
        if others:
            paths = [name_from(change.path, self.policy.workspace) for change in others[:LISTED]]
            names = visible(", ".join(paths))
            if len(others) > LISTED:
                names += f" and {counted(len(others) - LISTED, 'other')}"
            raise self._unlike(
                f"a rule set classifies it as a line that changes nothing, but it changed {names}"
            )
        if changes.changes:
            apply_changes(changes, keep)
        return tried.done

    def _built(self, tried: TriedLine, changes: ChangeSet, keep: Keep | None) -> Finished:
        """Apply the changes of a build if it only made or changed ordinary files."""
        if not changes.changes:
            return tried.done
        shown = show_changes(changes, self.policy.workspace)
        if not shown.fits or not self.is_edit(replace(tried, changes=changes), shown):
            raise self._unlike(
                "a rule set classifies it as a build, "
                "but it did more than make ordinary files in the zones"
            )
        apply_changes(shown.of(changes), keep)
        self.report_applied(tried, shown)
        return tried.done

    def _runner(
        self,
        command: str,
        seconds: float,
        watch: Callable[[str], None],
        environment: dict[str, str],
    ) -> Run:
        return partial(
            self.processes.run_wrapped,
            bash_argv(command),
            cwd=self.policy.workspace,
            env=environment,
            timeout=seconds,
            together=OUTPUT_LIMIT - len(command),  # the result contains the command, too
            watch=watch,
            interrupted=partial(outcome.interrupted, self.kind, command),
        )

    def _wanted(self, what: str, wanted: tuple[TriedWant, ...]) -> NotAsJudged:
        listed = "; ".join(visible(each) for each in describe_wanted(wanted))
        return self._unlike(f"a rule set classifies it as {what}, but it wanted {listed}")

    def _unlike(self, reason: str) -> NotAsJudged:
        return NotAsJudged(reason, blocked=self.policy.worker.default is Approval.BLOCKED)

"""The flags of commands that run a worker, which become ``RunOptions``."""

from __future__ import annotations

import math
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from forge_cli.cli.options import DirectoryOption, chosen_mode, work_folder
from forge_cli.core.approval import ApprovalMode, OnAsk, OnEnd
from forge_cli.core.errors import ExitCode, ForgeError, UsageError
from forge_cli.core.messages import Attachment
from forge_cli.core.zones import Zone
from forge_cli.engine.runtime.options import RunOptions, check_session_choice
from forge_cli.files.home import forge_home
from forge_cli.files.settings import TraceLevel
from forge_cli.files.settings_files import load_settings
from forge_cli.files.worker import Limits, load_worker
from forge_cli.process.signals import in_loop


def require_positive(limit: float | None) -> float | None:
    """Return ``limit``; raise BadParameter if it is not a finite number greater than 0."""
    if limit is not None and not 0 < limit < math.inf:  # in this form, NaN is refused, too
        raise typer.BadParameter("must be a number greater than 0")
    return limit


ReadOnlyOption = Annotated[
    bool,
    typer.Option("--read-only", help="Call only tools that just read, in child workers, too."),
]
LockedOption = Annotated[
    bool,
    typer.Option(
        "--locked",
        help="Run only if the worker matches its lock; else exit with 8.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class SharedOptions:
    """Flags of every command that runs workers."""

    model: Annotated[
        str | None,
        typer.Option(
            "-m",
            "--model",
            metavar="PROVIDER:MODEL",
            help="Overrides the worker's model and FORGE_MODEL.",
        ),
    ] = None
    approval_mode: Annotated[
        ApprovalMode | None, typer.Option("--approval-mode", help="Who answers when a call asks.")
    ] = None
    yes: Annotated[
        bool,
        typer.Option(
            "-y", help="The same as --approval-mode approve_all; what is blocked stays blocked."
        ),
    ] = False
    no_plugins: Annotated[
        bool, typer.Option("--no-plugins", help="Use only what comes with forge.")
    ] = False
    read_only: ReadOnlyOption = False
    locked: LockedOption = False

    def chosen(self, worker: str, named: str) -> RunOptions:
        """Return the options for a worker; ``named`` is how the user typed it."""
        return RunOptions(
            worker=worker,
            named=named,
            model=self.model,
            mode=chosen_mode(self.approval_mode, self.yes),
            plugins=not self.no_plugins,
            read_only=self.read_only,
            locked=self.locked,
        )


@dataclass(frozen=True, kw_only=True)
class WorkerOptions(SharedOptions):
    """Flags of commands that run workers in a folder that the user names."""

    directory: DirectoryOption = None
    add_dir: Annotated[
        list[str] | None,
        typer.Option(
            "--add-dir",
            metavar="DIR[:ro]",
            help="Add a folder as a zone named after it; :ro is read-only.",
        ),
    ] = None

    @property
    def workspace(self) -> Path:
        return work_folder(self.directory)

    def chosen(self, worker: str, named: str) -> RunOptions:
        zones: tuple[Zone, ...] = ()
        if self.add_dir:
            from forge_cli.sandbox.zones.declared import added_zone

            zones = tuple(added_zone(text) for text in self.add_dir)
        return replace(super().chosen(worker, named), workspace=self.workspace, zones=zones)


@dataclass(frozen=True, kw_only=True)
class WorkOptions(WorkerOptions):
    """Flags of commands that record sessions with limits."""

    on_ask: Annotated[
        OnAsk, typer.Option("--on-ask", help="What happens to calls that ask if nobody can answer.")
    ] = OnAsk.DENY
    max_turns: Annotated[
        int | None,
        typer.Option("--max-turns", metavar="N", min=1, help="Stop after N turns of the model."),
    ] = None
    max_tokens: Annotated[
        int | None,
        typer.Option(
            "--max-tokens", metavar="N", min=1, help="Stop after N tokens of input and output."
        ),
    ] = None
    max_cost: Annotated[
        float | None,
        typer.Option(
            "--max-cost",
            metavar="USD",
            callback=require_positive,
            help="Stop when this amount is spent.",
        ),
    ] = None
    max_time: Annotated[
        float | None,
        typer.Option(
            "--max-time",
            metavar="SECONDS",
            callback=require_positive,
            help="Stop after this time.",
        ),
    ] = None

    def chosen(self, worker: str, named: str) -> RunOptions:
        limits = Limits(
            max_turns=self.max_turns,
            max_tokens=self.max_tokens,
            max_cost=self.max_cost,
            max_time=self.max_time,
        )
        return replace(super().chosen(worker, named), on_ask=self.on_ask, limits=limits)


@dataclass(frozen=True, kw_only=True)
class SessionOptions(WorkOptions):
    """Flags of ``run`` and ``chat``."""

    last: Annotated[
        bool,
        typer.Option("-c", "--continue", help="Resume the worker's last session in this folder."),
    ] = False
    resume: Annotated[
        str | None, typer.Option("-r", "--resume", metavar="ID", help="Resume this session.")
    ] = None
    fork: Annotated[
        bool,
        typer.Option(
            "--fork", help="Resume a copy of the session, and leave the original as it is."
        ),
    ] = False
    ephemeral: Annotated[bool, typer.Option("--ephemeral", help="Do not record the session.")] = (
        False
    )
    draft: Annotated[
        bool,
        typer.Option("--draft", help="Change nothing real until you take the changes."),
    ] = False
    on_end: Annotated[
        OnEnd,
        typer.Option("--on-end", help="What to do with the draft if forge cannot ask."),
    ] = OnEnd.KEEP
    trace: Annotated[
        TraceLevel | None,
        typer.Option("--trace", help="How much progress to print to standard error."),
    ] = None
    attach: Annotated[
        list[Path] | None,
        typer.Option(
            "--attach", metavar="FILE", help="Attach a text, an image or a PDF to the task."
        ),
    ] = None
    record: Annotated[
        Path | None,
        typer.Option("--record", metavar="FILE", help="Also write the session's log to FILE."),
    ] = None

    @property
    def resumes(self) -> bool:
        """Return True if an earlier session is resumed."""
        return self.last or self.resume is not None

    def require_consistent(self) -> None:
        """Raise a ForgeError for combinations of flags that could only fail later."""
        check_session_choice(self.resume, last=self.last, fork=self.fork)
        if self.record is not None:
            from forge_cli.record.copy import check_record

            check_record(self.record)

    def chosen(self, worker: str, named: str, *, print_only: bool = False) -> RunOptions:
        """Return the options; ``print_only`` makes the trace quiet by default."""
        attachments: tuple[Attachment, ...] = ()
        if self.attach:
            from forge_cli.files.attachment import read_attachment

            attachments = tuple(read_attachment(path) for path in self.attach)
        return replace(
            super().chosen(worker, named),
            resume=self.resume,
            last=self.last,
            fork=self.fork,
            ephemeral=self.ephemeral,
            record=self.record,
            attachments=attachments,
            trace=self._trace_level(print_only),
            draft=self.draft,
            on_end=self.on_end,
        )

    def _trace_level(self, print_only: bool) -> TraceLevel:
        """Return the level of the flag, of ``-p`` or of the config, or the default."""
        if self.trace:
            return self.trace
        if print_only:
            return "quiet"
        if stated := load_settings(forge_home(), self.workspace).trace:
            return stated
        return "normal" if sys.stderr.isatty() else "summary"


def _is_settled(error: Exception, options: RunOptions) -> bool:
    """Return True if the user accepted the differences to a lock, so that forge can retry."""
    if not options.interactive:
        return False
    from forge_cli.cli.lock_changes import is_taken_over

    return is_taken_over(error, options.workspace)


def _is_drafted(options: RunOptions) -> bool:
    """Return True if a new session works in a draft: by its flag, its worker or the settings."""
    if options.draft:
        return True
    sandbox = load_worker(options.worker).section("sandbox")
    if sandbox is not None and "draft" in sandbox:
        return bool(sandbox["draft"])
    return load_settings(forge_home(), options.workspace).draft


class DraftWanted(Exception):
    """The end of a conversation that goes on in a new draft."""

    def __init__(self, options: RunOptions) -> None:
        super().__init__("the conversation goes on in a draft")
        self.options = options


def carried_out(
    options: RunOptions, function: Callable[..., Awaitable[ExitCode]], *args: Any, **named: Any
) -> ExitCode:
    """Run ``function``; if a lock differs, ask whether to update it, and retry.

    A session in a draft runs in a process of its own.
    """
    options = replace(options, draft=_is_drafted(options))
    if options.attempts is not None:
        from forge_cli.cli.attempts import enter_attempts

        options = enter_attempts(options)
    elif options.resumes or options.draft:
        from forge_cli.cli.drafting import enter_draft

        options = enter_draft(options)
    if options.check and options.draft_link is None:
        raise UsageError("--check needs a draft, in which it runs", hint="add --draft")
    while True:
        try:
            return in_loop(partial(function, **named), options, *args)
        except DraftWanted as wanted:
            from forge_cli.cli.drafting import enter_draft

            options = enter_draft(wanted.options)
        except (ForgeError, ExceptionGroup) as error:
            if not _is_settled(error, options):
                raise

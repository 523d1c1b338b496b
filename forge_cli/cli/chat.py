"""``forge chat``: a conversation with a worker."""

from __future__ import annotations

import typer

from forge_cli.cli.options import DirectoryOption, chosen_mode, new_app, work_folder
from forge_cli.cli.output import data_output
from forge_cli.cli.record import check_target
from forge_cli.cli.session import SessionChoice
from forge_cli.cli.signals import in_loop
from forge_cli.cli.stdin import is_interactive
from forge_cli.cli.talking import talk
from forge_cli.cli.trusting import offer_trust
from forge_cli.cli.work import Work
from forge_cli.cli.work_options import (
    AddDirOption,
    AttachOption,
    ContinueOption,
    EphemeralOption,
    ForkOption,
    MaxCostOption,
    MaxTimeOption,
    MaxTokensOption,
    MaxTurnsOption,
    ModelOption,
    ModeOption,
    NoPluginsOption,
    OnAskOption,
    ReadOnlyOption,
    RecordOption,
    ResumeOption,
    TraceOption,
    YesOption,
    find_trace,
)
from forge_cli.cli.worker.find import WorkerArgument, find_trusted_worker
from forge_cli.core.approval import OnAsk
from forge_cli.files.attachment import read_attachment
from forge_cli.files.worker import Limits
from forge_cli.sandbox.zones.added import added_zone

app = new_app()


@app.command()
def chat(
    worker: WorkerArgument,
    model: ModelOption = None,
    approval_mode: ModeOption = None,
    yes: YesOption = False,
    on_ask: OnAskOption = OnAsk.DENY,
    last: ContinueOption = False,
    resume: ResumeOption = None,
    fork: ForkOption = False,
    ephemeral: EphemeralOption = False,
    trace: TraceOption = None,
    max_turns: MaxTurnsOption = None,
    max_tokens: MaxTokensOption = None,
    max_cost: MaxCostOption = None,
    max_time: MaxTimeOption = None,
    attach: AttachOption = None,
    record: RecordOption = None,
    no_plugins: NoPluginsOption = False,
    directory: DirectoryOption = None,
    add_dir: AddDirOption = None,
    read_only: ReadOnlyOption = False,
) -> None:
    """Talk with a worker."""
    interactive, folder = is_interactive(), work_folder(directory)
    session = SessionChoice(resume=resume, last=last, fork=fork, ephemeral=ephemeral)
    if record is not None:
        check_target(record)
    offer_trust(folder)
    work = Work(
        worker=find_trusted_worker(worker, interactive=interactive),
        named=worker,
        model=model,
        mode=chosen_mode(approval_mode, yes),
        on_ask=on_ask,
        trace=find_trace(trace, False, folder),
        interactive=interactive,
        limits=Limits(max_turns=max_turns, max_tokens=max_tokens, max_cost=max_cost, max_time=max_time),
        session=session,
        workspace=folder,
        zones=tuple(added_zone(text) for text in add_dir or ()),
        attachments=tuple(read_attachment(file) for file in attach or ()),
        record=record,
        plugins=not no_plugins,
        read_only=read_only,
    )
    with data_output() as out:
        code = in_loop(talk, work, out)
    raise typer.Exit(code)

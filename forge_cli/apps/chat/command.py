"""``forge chat``: a conversation with a worker."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from forge_cli.apps.chat.talking import talk
from forge_cli.cli.offer import default_worker, model_of, pick_model
from forge_cli.cli.options import new_app
from forge_cli.cli.output import data_output
from forge_cli.cli.record import check_target
from forge_cli.cli.session import SessionChoice
from forge_cli.cli.trusting import offer_trust
from forge_cli.cli.work import Work, carried_out
from forge_cli.cli.work_options import SessionOptions
from forge_cli.cli.worker.find import find_trusted_worker
from forge_cli.files.attachment import read_attachment
from forge_cli.process.stdin import is_interactive

app = new_app()


@app.command()
def chat(
    worker: Annotated[
        str | None,
        typer.Argument(metavar="WORKER", help="As for run; without one, the folder's worker.yaml, else coder."),
    ] = None,
    *,
    options: SessionOptions,
) -> None:
    """Talk with a worker."""
    worker = default_worker() if worker is None else worker
    interactive, session = is_interactive(), SessionChoice.of(options)
    if interactive and not options.model and not session.resumes and model_of(worker) is None:
        options = replace(options, model=pick_model())
    if options.record is not None:
        check_target(options.record)
    offer_trust(options.workspace)
    asked = options.asked(find_trusted_worker(worker, interactive=interactive), worker)
    work = Work(
        **vars(asked),
        trace=options.trace_level(),
        interactive=interactive,
        session=session,
        attachments=tuple(read_attachment(file) for file in options.attach or ()),
        record=options.record,
    )
    with data_output() as out:
        code = carried_out(work, talk, out)
    raise typer.Exit(code)

"""``forge chat``: a conversation with a worker."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from forge_cli.apps.chat.chat_session import talk
from forge_cli.cli.ask_trust import offer_trust
from forge_cli.cli.find_worker import find_trusted_worker
from forge_cli.cli.offer import pick_model
from forge_cli.cli.options import new_app
from forge_cli.cli.output import data_output
from forge_cli.cli.run_options import SessionOptions, carried_out
from forge_cli.inspection.defaults import default_worker, model_of
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
    options.check()
    interactive = is_interactive()
    if interactive and not options.model and not options.session.resumes and model_of(worker) is None:
        options = replace(options, model=pick_model())
    offer_trust(options.workspace)
    path = find_trusted_worker(worker, interactive=interactive)
    asked = options.chosen(path, worker, interactive=interactive)
    with data_output() as out:
        code = carried_out(asked, talk, out)
    raise typer.Exit(code)

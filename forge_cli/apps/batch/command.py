"""The command ``forge batch``: one worker on many inputs, resumed by the same command."""

from __future__ import annotations

import errno
import os
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated, BinaryIO, TextIO

import typer
from msgspec import Struct

from forge_cli.apps.batch.batch import Batch, ItemFolders, RestartChoice, make_plan
from forge_cli.apps.batch.inputs import STDIN, BatchInputs, TaskTemplate, default_results
from forge_cli.apps.batch.show import BatchReport, provider_state
from forge_cli.apps.batch.store import journal_of, open_store, read_record
from forge_cli.cli.find_worker import WorkerArgument, find_trusted_worker
from forge_cli.cli.options import new_app
from forge_cli.cli.output import code_of, data_output, loss_of, stop_on_loss
from forge_cli.cli.run_options import WorkerOptions, require_positive
from forge_cli.core.approval import OnAsk
from forge_cli.core.errors import ExitCode, ForgeError, UsageError
from forge_cli.core.executors import Perform
from forge_cli.core.interrupt import InterruptSignal
from forge_cli.engine.batch.local import SharedPace
from forge_cli.engine.batch.perform import ItemPerformer, executor_env
from forge_cli.engine.runtime.options import RunOptions
from forge_cli.engine.turns.limits import Budget
from forge_cli.engine.turns.output import OutputSchema
from forge_cli.files.home import make_private
from forge_cli.files.trust import worker_digest
from forge_cli.files.worker import Limits
from forge_cli.process.signals import in_loop, interruptible
from forge_cli.record.places import SessionLost, sessions_folder
from forge_cli.record.recorder import os_error_text

app = new_app()

CONCURRENCY = 8
RETRIES = 2
MAX_STDIN = 8 << 30
"""The most bytes of standard input, so that an endless input stops."""
EXIT_CODES = """\b
Exit codes:
  0    every item is completed
  1    some have failed
  2    usage, or an input or the worker has changed
  3    the worker or the inputs are invalid
  5    the budget of all items is spent
  7    the provider refuses the key or the model, or a cluster does not answer
  10   some are parked
  130  interrupted; the same command resumes it
"""


class BatchCall(Struct, frozen=True, kw_only=True):
    """The options on the command line."""

    work: RunOptions
    inputs: BatchInputs
    results: Path
    folders: ItemFolders
    budget: Limits
    concurrency: int
    executor: str
    retries: int
    restart: RestartChoice | None
    as_json: bool


@app.command("batch", epilog=EXIT_CODES)
def batch(
    worker: WorkerArgument,
    options: WorkerOptions,
    inputs: Annotated[
        str,
        typer.Argument(
            metavar="INPUTS",
            help="A .jsonl or .csv file, a folder, a quoted pattern of files, or -.",
        ),
    ],
    keys: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY", help="With --restart: only these items.", hidden=True),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(
            "--task", metavar="TEMPLATE", help="The task, filled from the fields: 'Sum up {title}'."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="RESULTS",
            help="The results file; INPUTS.results.jsonl without it.",
        ),
    ] = None,
    concurrency: Annotated[
        int, typer.Option("--concurrency", metavar="N", min=1, help="How many items run at once.")
    ] = CONCURRENCY,
    executor: Annotated[
        str,
        typer.Option(
            "--executor", metavar="NAME[:ADDRESS]", help="Where items run; local is this process."
        ),
    ] = "local",
    retries: Annotated[
        int,
        typer.Option(
            "--retries", metavar="N", min=0, help="How often a failed item is tried again."
        ),
    ] = RETRIES,
    each_in: Annotated[
        str | None,
        typer.Option(
            "--each-in", metavar="DIR", help="Give each item a folder of its own, DIR/{key}."
        ),
    ] = None,
    restart: Annotated[
        bool,
        typer.Option(
            "--restart", help="Start over, completed items too; KEYs behind it limit that to them."
        ),
    ] = False,
    on_ask: Annotated[
        OnAsk, typer.Option("--on-ask", help="What an ask means, since forge cannot ask.")
    ] = OnAsk.DENY,
    draft: Annotated[
        bool, typer.Option("--draft", help="Run each item in a draft of its own.")
    ] = False,
    output_schema: Annotated[
        str | None,
        typer.Option(
            "--output-schema",
            metavar="FILE",
            help="Each answer must be JSON that fits this schema.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print an event a line.")] = False,
    max_turns: Annotated[
        int | None,
        typer.Option(
            "--max-turns", metavar="N", min=1, help="Stop an item after N turns of the model."
        ),
    ] = None,
    max_time: Annotated[
        float | None,
        typer.Option(
            "--max-time",
            metavar="SECONDS",
            callback=require_positive,
            help="Stop an item after this time.",
        ),
    ] = None,
    max_tokens: Annotated[
        int | None,
        typer.Option("--max-tokens", metavar="N", min=1, help="Stop after N tokens of all items."),
    ] = None,
    max_cost: Annotated[
        float | None,
        typer.Option(
            "--max-cost",
            metavar="USD",
            callback=require_positive,
            help="Stop when all items have spent this.",
        ),
    ] = None,
) -> None:
    """Run a worker on many inputs; the same command again resumes it."""
    if keys and not restart:
        hint = "quote file patterns, so that the shell does not expand them: 'notes/*.md'"
        raise UsageError(f"there is one argument too many: {keys[0]}", hint=hint)
    results = Path(output or default_results(inputs))
    workspace = options.workspace
    if str(results) == STDIN:
        hint = "the next run resumes from them; --json prints them as well"
        raise UsageError("-o -: the results need a file", hint=hint)
    # A batch is resumed from its results, which a pipe or a device does not keep.
    is_special = os.path.exists(results) and not os.path.isfile(results)
    if is_special or not os.path.isdir(results.absolute().parent):
        raise UsageError(f"-o {results}: name a regular file in an existing folder")
    if draft and executor != "local":
        raise UsageError(
            "--draft and --executor contradict each other: drafts are made on this machine",
            hint="leave out --executor",
        )
    restarted = frozenset(keys) if keys else None
    schema = None
    if output_schema is not None:
        schema = OutputSchema.load(output_schema, where=None, folder=Path.cwd())
    call = BatchCall(
        work=replace(
            options.chosen(find_trusted_worker(worker, interactive=False), worker),
            on_ask=on_ask,
            limits=Limits(max_turns=max_turns, max_time=max_time),
            schema=schema,
            batch=str(results.absolute()),
            draft=draft,
        ),
        inputs=BatchInputs(
            inputs,
            TaskTemplate(task),
            workspace=None if each_in else workspace,
            data=_piped() if inputs == STDIN else None,
            leave_out=(results, journal_of(results)),
        ),
        results=results,
        folders=ItemFolders(workspace, each_in),
        budget=Limits(max_tokens=max_tokens, max_cost=max_cost),
        concurrency=concurrency,
        executor=executor,
        retries=retries,
        restart=RestartChoice(restarted) if restart else None,
        as_json=as_json,
    )
    with data_output() as out:
        code = in_loop(_carry_out, call, out)
    raise typer.Exit(code)


def _piped() -> BinaryIO:
    """Return standard input as a temporary file, because it may not fit into memory."""
    if sys.stdin.isatty():
        raise UsageError(
            "- reads the inputs from standard input, which is a terminal", hint="pipe the inputs in"
        )
    file = TemporaryFile(prefix="forge-stdin-")  # noqa: SIM115  # open for as long as the batch
    try:
        while piece := sys.stdin.buffer.read(1 << 16):
            file.write(piece)
            if file.tell() > MAX_STDIN:
                hint = "use a file, or several batches"
                raise UsageError(f"standard input has more than {MAX_STDIN >> 30} GiB", hint=hint)
        file.flush()
    except OSError as error:
        raise ForgeError(f"standard input cannot be stored: {error.strerror}") from None
    return file


def _check_home() -> None:
    """Raise SessionLost if no log can be written, since every item would fail."""
    folder = sessions_folder()
    try:
        make_private(folder)
        if not os.access(folder, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))
    except OSError as error:
        hint = "set FORGE_HOME to another folder"
        raise SessionLost(f"no session can be saved: {os_error_text(error)}", hint=hint) from None


async def _carry_out(call: BatchCall, out: TextIO) -> ExitCode:
    _check_home()
    interrupt = InterruptSignal()
    pool = Budget(call.budget, None)
    pace = SharedPace(call.concurrency)
    performer = ItemPerformer(call.work, pool, pace)
    name, _, address = call.executor.partition(":")
    factory = call.work.host().executor(name)
    perform: Perform | None = None
    if call.work.draft:
        from forge_cli.apps.batch.drafted import DraftedPerformer

        perform = DraftedPerformer(performer)
    env = executor_env(performer, call.concurrency, perform)
    report = BatchReport(
        performer.worker.name, out, lambda: provider_state(pace), as_json=call.as_json
    )
    stop_on_loss(out, interrupt.interrupt)
    opening = False
    with (
        report.shown(),
        interruptible(interrupt.interrupt, lambda: not opening),
        open_store(call.results) as store,
    ):
        digest = worker_digest(performer.worker)
        plan = make_plan(call.inputs, read_record(call.results), digest, call.restart)
        report.screen.preparing = f"waiting for the executor {name}"
        # An interrupt ends a start at once; afterwards the batch ends in order.
        opening = True
        async with factory.make(address, env) as executor:
            opening = False
            if call.restart:
                store.restart(None if call.restart.keys is None else sorted(call.restart.keys))
            now = datetime.now(UTC).isoformat(timespec="seconds")
            store.begin(str(performer.worker.path), digest, plan.counts.total, now, plan.removed)
            batch = Batch(
                plan=plan,
                store=store,
                executor=executor,
                folders=call.folders,
                interrupt=interrupt,
                pool=pool,
                tell=report,
                concurrency=call.concurrency,
                retries=call.retries,
            )
            code = await batch.run()
    report.summary(str(call.results), code)
    if loss := loss_of(out):
        sys.stderr.write(f"forge: {loss}\n")
        return code_of(loss)
    return code

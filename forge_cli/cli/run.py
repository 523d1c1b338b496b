"""``forge run``: one task for one worker."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer
from msgspec.structs import replace

from forge_cli.cli.commands import app_module
from forge_cli.cli.find_worker import WorkerArgument, find_trusted_worker
from forge_cli.cli.options import PlainCommand, new_app
from forge_cli.cli.output import code_of, data_output, loss_of, stop_on_loss
from forge_cli.cli.run_options import SessionOptions, carried_out
from forge_cli.core.approval import OnAsk
from forge_cli.core.bounds import ForcedEnd
from forge_cli.core.bus import EventBus
from forge_cli.core.errors import ExitCode, UsageError
from forge_cli.core.events import Event, StatusEvent
from forge_cli.core.text import json_for, readable, visible
from forge_cli.engine.runtime.options import Attempts, RunOptions
from forge_cli.engine.runtime.result import WorkerResult
from forge_cli.files.worker import Worker, load_worker
from forge_cli.process.signals import interruptible
from forge_cli.process.stdin import is_interactive, open_terminal, task_from
from forge_cli.process.streams import OutputLost, draw_below, erase_live_lines
from forge_cli.process.watchdog import say_fault
from forge_cli.sandbox.secrets import own_redactor

if TYPE_CHECKING:
    from collections.abc import Callable

    from forge_cli.engine.plugins.host import PluginHost
    from forge_cli.engine.replay.replay import Replay
    from forge_cli.engine.turns.output import OutputSchema
    from forge_cli.process.report import ResultReport
    from forge_cli.record.line import Line
    from forge_cli.record.open import OpenSession
    from forge_cli.record.recorder import Sink
    from forge_cli.ui.terminal.live import LiveLines
    from forge_cli.ui.terminal.terminal import TerminalUI

app = new_app()

EXIT_CODES = """\b
Exit codes:
  0    done
  1    the worker failed
  2    usage
  3    the worker or a config file is invalid
  4    an asked, denied or blocked call stopped the work (--on-ask fail)
  5    a limit was hit
  6    the answer did not fit its schema
  7    the model or a required MCP server could not be reached, or refused
  8    a worker of this folder is not trusted, or is not what its lock says
  9    a replay drifted from its record
  10   parked, waiting for an approval
  129  hung up (SIGHUP)
  130  interrupted
  131  quit (SIGQUIT)
  143  terminated
"""


MAX_ATTEMPTS = 16
"""The most drafts of one task."""
RESUMABLE = frozenset({"failed", "limit", "interrupted"})
"""Statuses after which the resume command is printed; a parked session prints its own."""


class OutputFormat(StrEnum):
    """Values of ``--output-format``."""

    text = "text"
    json = "json"
    stream_json = "stream-json"


@dataclass(frozen=True, kw_only=True)
class AnswerPrinter:
    """Printer of the answer in the requested format, to standard output and to a file."""

    out: TextIO
    format: OutputFormat
    file: Path | None
    streams: bool
    """True if the text was already printed as it arrived."""

    def finish(self, result: WorkerResult) -> ExitCode:
        """Write the answer to the file and to standard output, and print errors."""
        answer = result.text.removesuffix("\n")
        redactor = own_redactor()
        final = answer or result.status == "completed"
        unwritten = None
        if self.file is not None and final:
            unwritten = _write(self.file, answer)
        # an answer that is lost is a failure, but must not hide an earlier one
        if unwritten and result.exit_code is ExitCode.DONE:
            result = replace(result, status="failed", exit_code=ExitCode.FAILED, error=unwritten)
            unwritten = None
        out = self.out
        match self.format:
            case OutputFormat.json:
                text = json.dumps(redactor.redact(result.wire()), ensure_ascii=False)
                out.write(json_for(out, text) + "\n")
            case OutputFormat.text if answer and not self.streams:
                shown = redactor.redact_text(answer)
                if out.isatty():
                    shown = readable(shown)
                out.write(f"{shown}\n")
            case _:
                pass
        out.flush()
        for problem in map(redactor.redact_text, filter(None, (result.error, unwritten))):
            _print_problem(problem)
        return result.exit_code


class RunCommand(PlainCommand):
    """The command, which notes the requested format first: usage errors print a result, too."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        names = ctx.help_option_names  # typer keeps the help option of the first context
        # a lenient context, because the real one reports the errors below
        lenient = self.context_class(
            self, ignore_unknown_options=True, resilient_parsing=True, help_option_names=names
        )
        given, _, _ = self.make_parser(lenient).parse_args(list(args))
        form = given.get("output_format")
        if given.get("as_json"):
            form = "stream-json"
        if form in ("json", "stream-json"):
            from forge_cli.process.report import ResultReport

            ctx.obj.report = ResultReport(form)
        return super().parse_args(ctx, args)


@app.command(cls=RunCommand, epilog=EXIT_CODES)
def run(
    context: typer.Context,
    worker: WorkerArgument,
    task: Annotated[
        str | None,
        typer.Argument(metavar="TASK|-", help="The task; - reads it from standard input."),
    ] = None,
    *,
    options: SessionOptions,
    stay: Annotated[
        bool,
        typer.Option(
            "-i", "--interactive", help="Stay in the conversation after the first answer."
        ),
    ] = False,
    print_only: Annotated[
        bool, typer.Option("-p", "--print", help="Headless: never prompt, print the answer only.")
    ] = False,
    output_format: Annotated[
        OutputFormat, typer.Option("--output-format", help="The format of standard output.")
    ] = OutputFormat.text,
    as_json: Annotated[
        bool, typer.Option("--json", help="The same as --output-format stream-json.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Also write the final answer to FILE."),
    ] = None,
    output_schema: Annotated[
        str | None,
        typer.Option(
            "--output-schema",
            metavar="FILE",
            help="The final answer must be JSON that fits this schema.",
        ),
    ] = None,
    background: Annotated[
        bool,
        typer.Option(
            "-b",
            "--background",
            help="Print the ID and return; questions wait in the inbox.",
        ),
    ] = False,
    replay: Annotated[
        str | None,
        typer.Option(
            "--replay",
            metavar="FILE",
            help="Replay the model's turns from a record.",
        ),
    ] = None,
    check: Annotated[
        str | None,
        typer.Option(
            "--check",
            metavar="COMMAND",
            help="Run this in the draft at its end; the task fails if it does.",
        ),
    ] = None,
    attempts: Annotated[
        int | None,
        typer.Option(
            "--attempts",
            metavar="N",
            min=1,
            help="Make N drafts side by side; offer the first whose check passes.",
        ),
    ] = None,
) -> None:
    """Run a worker on one task."""
    report: ResultReport | None = context.obj.report
    if report is not None:
        report.worker = worker
        report.model = options.model or ""
    if stay or print_only or background:
        terminal = None
    else:
        terminal = open_terminal()
    interactive = (is_interactive() or terminal is not None) and not print_only
    if task is None:
        from forge_cli.cli.trusted_workers import refuse_sentence

        refuse_sentence(worker)
    if output is not None:
        from forge_cli.record.target import check_target

        check_target("-o", output, record=options.record)
    if stay:
        alone = {
            "-p": print_only,
            "-o": output,
            "--output-schema": output_schema,
            "--replay": replay,
            "--json": as_json,
            "--output-format": output_format is not OutputFormat.text,
            "--check": check is not None,
            "--attempts": attempts is not None,
        }
        if refused := [name for name, given in alone.items() if given]:
            raise UsageError(f"-i and {refused[0]} contradict each other; keep one")
    if background:
        alone = {
            "-i": stay,
            "-p": print_only,
            "--replay": replay,
            "--json": as_json,
            "--output-format": output_format is not OutputFormat.text,
            "--ephemeral": options.ephemeral,
            "--attempts": attempts is not None,
        }
        if refused := [name for name, given in alone.items() if given]:
            hint = "a session in the background prints its ID only, and needs its log"
            raise UsageError(f"-b and {refused[0]} contradict each other; keep one", hint=hint)
    # text is also the default, which contradicts nothing
    form = context.get_parameter_source("output_format")
    if (
        as_json
        and output_format is not OutputFormat.stream_json
        and form
        and form.name == "COMMANDLINE"
    ):
        problem = (
            f"--json and --output-format {output_format.value} contradict each other; keep one"
        )
        raise UsageError(problem, hint="--json is the same as --output-format stream-json")
    if options.ephemeral and options.on_ask is OnAsk.PARK and options.record is None:
        hint = "a parked request waits in the session: keep one of the two, or add --record FILE"
        raise UsageError("--ephemeral and --on-ask park contradict each other", hint=hint)
    options.require_consistent()
    if check is not None and not check.strip():
        raise UsageError("--check is empty", hint='name a command, such as --check "pytest -q"')
    if attempts is not None and check is None:
        hint = 'add the command that decides between them, such as --check "pytest -q"'
        raise UsageError("--attempts needs --check", hint=hint)
    if attempts is not None and attempts > MAX_ATTEMPTS:
        raise UsageError(f"--attempts {attempts} is too many: at most {MAX_ATTEMPTS}")
    recording = None
    if replay is not None:
        from forge_cli.cli.courses import recorded

        recording = recorded(replay, options)
    if not print_only:
        from forge_cli.cli.ask_trust import offer_trust

        offer_trust(options.workspace)
    first = recording.parts[0] if recording else None
    path = find_trusted_worker(worker, interactive=interactive)
    asked = options.chosen(path, worker, print_only=print_only)
    asked = dataclasses.replace(asked, interactive=interactive, schema=_schema(output_schema))
    task = _task(task, stay, optional=options.resumes or recording is not None)
    asked = dataclasses.replace(asked, task=task, recording=recording, check=check or "")
    if first:
        asked = dataclasses.replace(
            asked,
            task=task or first.task.text,
            attachments=asked.attachments or first.task.attachments,
        )
    if as_json:
        output_format = OutputFormat.stream_json
    file = output and output.resolve()
    if background:
        source = context.get_parameter_source("on_ask")
        stated = source is not None and source.name == "COMMANDLINE"
        raise typer.Exit(_run_in_background(asked, file, attends=not stated))
    with data_output() as out:
        # until there is a runtime to interrupt, a loss is only noted
        stop_on_loss(out, lambda reason: None)
        if stay:
            code = carried_out(asked, app_module("chat").talk, out)
        else:
            is_text = output_format is OutputFormat.text
            if attempts is not None:
                several = Attempts(count=attempts, out=out, file=file, is_data=not is_text)
                asked = dataclasses.replace(asked, attempts=several, draft=True)
            streams = is_text and out.isatty() and asked.trace != "quiet" and attempts is None
            printer = AnswerPrinter(out=out, format=output_format, file=file, streams=streams)
            code = carried_out(asked, _carry_out, printer, terminal, report)
    raise typer.Exit(code)


def _run_in_background(asked: RunOptions, file: Path | None, *, attends: bool) -> ExitCode:
    """Start the session; in its own process, do the work."""
    from forge_cli.cli.background.start import start_in_background

    attends = attends or asked.on_ask is OnAsk.PARK
    begun = start_in_background(asked, parks=attends)
    if isinstance(begun, str):
        sys.stdout.write(f"{begun}\n")
        return ExitCode.DONE
    from forge_cli.cli.background.work import work_in_background

    asked, started = begun
    return carried_out(asked, work_in_background, started, file, attends=attends)


def _schema(file: str | None) -> OutputSchema | None:
    if file is None:
        return None
    from forge_cli.engine.turns.output import OutputSchema

    return OutputSchema.load(file, where=None, folder=Path.cwd())


def _task(task: str | None, stay: bool, *, optional: bool) -> str:
    """Return the task; with ``-i``, standard input is read only for ``-``."""
    if stay and task != "-":
        return task or ""
    return task_from(task, optional=optional)


def _finish(
    session: OpenSession,
    asked: RunOptions,
    result: WorkerResult,
    printer: AnswerPrinter,
    report: ResultReport | None,
) -> ExitCode:
    code = printer.finish(result)
    if session.log is not None and asked.trace != "quiet" and result.status in RESUMABLE:
        from forge_cli.cli.notices import resume_command

        sys.stderr.write(f"  resume with: {resume_command('run', asked, result.session_id)}\n")
    if loss := loss_of(printer.out):
        code = _tell_loss(asked, loss, result.session_id)
    if report is not None:
        report.printed = True
        report.told = code
    return code


def _tell_loss(asked: RunOptions, loss: OutputLost, session_id: str) -> ExitCode:
    hint = ""
    if not asked.ephemeral:
        hint = f"\n  forge sessions show {session_id} shows what was done"
    sys.stderr.write(f"forge: {loss}{hint}\n")
    return code_of(loss)


async def _carry_out(
    asked: RunOptions, printer: AnswerPrinter, terminal: TextIO | None, report: ResultReport | None
) -> ExitCode:
    """Run the task; ``terminal`` is used for questions if standard input is not a terminal."""
    from forge_cli.engine.runtime.wiring import Wiring

    out = printer.out
    if asked.attempts is not None and asked.draft_link is not None:
        from forge_cli.cli.attempts import answer_file

        # The process outside copies that of one attempt.
        file = answer_file(asked.draft_link) if printer.file else None
        printer = dataclasses.replace(printer, file=file)
    bus = EventBus()
    worker = load_worker(asked.worker)
    if report is not None:
        report.worker = worker.name
    host = asked.host(worker)
    with asked.open_session(worker, _warn, task=asked.task) as session:
        screen = _screen(asked, worker, host, bus, printer, terminal)
        if asked.last and asked.trace != "quiet":
            _warn(f"resuming session {session.id}")
        sinks: list[Sink] = []
        if report:
            sinks.append(report.follow)  # before the line is printed
        prints_lines = printer.format is OutputFormat.stream_json
        if prints_lines:
            sinks.append(_printing(out))
        wiring = Wiring(
            host=host,
            sinks=tuple(sinks),
            replay=_replay(asked),
            guidance=asked.recording.parts[0].guided if asked.recording else None,
        )
        runtime = asked.runtime(worker, session, wiring, bus=bus)
        stop_on_loss(out, runtime.interrupt)
        codes: list[ExitCode] = []  # filled once, by the event loop or by ``leave``

        def leave(end: ForcedEnd) -> int:
            """Finish without the event loop, because third-party code blocks the process."""
            erase_live_lines()
            result = runtime.ending.force(end)
            if not runtime.has_started:
                if report and prints_lines:
                    report.tell(result.wire(), out)
                codes.append(printer.finish(result))
            elif not codes:
                codes.append(_finish(session, asked, result, printer, report))
            else:
                say_fault(end)
            session.close_log()
            return codes[0]

        with interruptible(runtime.interrupt, lambda: runtime.has_started, leave):
            async with screen, runtime:
                result = await runtime.run(asked.task, asked.attachments)
                await runtime.ending.announce()
                codes.append(_finish(session, asked, runtime.result or result, printer, report))
        return codes[0]


def _replay(asked: RunOptions) -> Replay | None:
    """Return the replay that replaces the model, if there is a recording."""
    if asked.recording is None:
        return None
    from forge_cli.engine.runtime.repeat import driven_by

    return driven_by(asked.recording, asked.workspace)


def _warn(sentence: str) -> None:
    from forge_cli.cli.notices import warn

    warn(sentence)


def _screen(
    asked: RunOptions,
    worker: Worker,
    host: PluginHost,
    bus: EventBus,
    printer: AnswerPrinter,
    terminal: TextIO | None,
) -> TerminalUI | nullcontext[None]:
    """Return the display; the terminal's modules are imported only if they are needed."""
    if asked.trace == "quiet" and not asked.interactive:  # it reports errors only, and asks nothing
        _tell_problems(bus)
        return nullcontext()
    from forge_cli.ui.terminal.terminal import TerminalUI

    screen = TerminalUI(
        bus,
        output=printer.out,
        input=terminal,
        trace=asked.trace,
        trace_output=sys.stderr,
        stream_text=printer.streams,
        interactive=asked.interactive,
        find=host.renderer,
        live=_live_lines(asked, printer.out),
    )
    screen.opening(asked.model or worker.config.model)
    return screen


def _live_lines(asked: RunOptions, out: TextIO) -> LiveLines | None:
    """Return live lines below the text, if standard error is a terminal that supports them."""
    from forge_cli.ui.terminal.live import LiveLines, Status, can_draw

    if asked.trace == "quiet" or os.environ.get("CI") or not can_draw(sys.stderr):
        return None
    live = LiveLines(sys.stderr.fileno(), Status().lines)
    draw_below(live, out)
    live.start()
    return live


def _tell_problems(bus: EventBus) -> None:
    """Print errors and warnings, even if the trace is ``quiet``."""

    @cache  # imported for the first problem only
    def trace() -> Callable[[Event], None]:
        from forge_cli.ui.terminal.trace import trace_formatter

        return trace_formatter("quiet")

    def hear(event: Event) -> None:
        if isinstance(event, StatusEvent) and event.level in ("warning", "error"):
            trace()(event)

    bus.subscribe(hear)


def _printing(out: TextIO) -> Sink:
    """Return a sink that prints each line of the record."""

    def printed(line: Line) -> None:
        out.write(json_for(out, line.text()))
        out.flush()

    return printed


def _print_problem(problem: str) -> None:
    from forge_cli.ui.wrap import wrap_for

    shown = visible(problem, keep="\n")
    sys.stderr.write(wrap_for(sys.stderr, f"forge: {shown}\n"))


def _write(file: Path, answer: str) -> str | None:
    """Write the answer to a file; return the error message if that fails."""
    try:
        from forge_cli.record.target import write_target

        write_target(file, f"{answer}\n")
    except OSError as error:
        return f"-o {visible(str(file))}: the answer could not be written: {error.strerror}"
    return None

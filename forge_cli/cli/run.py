"""``forge run``: one task for one worker."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, TextIO

import typer

from forge_cli.cli.common import (
    DirectoryOption,
    Mode,
    chosen_mode,
    in_loop,
    interruptible,
    is_interactive,
    new_app,
    work_folder,
)
from forge_cli.cli.output import data_output
from forge_cli.cli.stdin import task_from
from forge_cli.core.approval import ApprovalMode, OnAsk
from forge_cli.core.bus import EventBus
from forge_cli.core.errors import ExitCode, UsageError
from forge_cli.core.messages import Attachment
from forge_cli.core.text import visible
from forge_cli.engine.host import PluginHost
from forge_cli.engine.runtime import WorkerResult, WorkerRuntime
from forge_cli.files.attachment import read_attachment
from forge_cli.files.home import forge_home
from forge_cli.files.settings import TraceLevel, load_settings
from forge_cli.files.worker import load_worker
from forge_cli.ui.jsonl import JsonLines
from forge_cli.ui.terminal import TerminalUI

app = new_app()

EXIT_CODES = """\b
Exit codes:
  0    done
  1    the worker failed
  2    usage
  3    the worker or a config file is invalid
  4    an asked, denied or blocked call stopped the work (--on-ask fail)
  5    a limit was hit
  7    the model could not be reached or would not answer
  130  interrupted
  143  terminated
"""


class Format(StrEnum):
    text = "text"
    json = "json"
    stream_json = "stream-json"


class Trace(StrEnum):
    quiet = "quiet"
    summary = "summary"
    normal = "normal"
    debug = "debug"


class Ask(StrEnum):
    deny = "deny"
    fail = "fail"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What the command line asked for, understood and complete."""

    worker: str
    task: str
    model: str | None
    mode: ApprovalMode | None
    on_ask: OnAsk
    format: Format
    output: Path | None
    trace: TraceLevel
    interactive: bool
    max_turns: int | None
    workspace: Path
    attachments: tuple[Attachment, ...]
    plugins: bool

    def streams_text(self, out: TextIO) -> bool:
        return self.format is Format.text and out.isatty() and self.trace != "quiet"


@app.command(epilog=EXIT_CODES)
def run(
    worker: Annotated[str, typer.Argument(metavar="WORKER", help="A worker file, or a folder with a worker.yaml.")],
    task: Annotated[
        str | None, typer.Argument(metavar="TASK|-", help="What to do; - reads it from standard input.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("-m", "--model", metavar="PROVIDER:MODEL", help="Wins over the worker's model and FORGE_MODEL."),
    ] = None,
    print_only: Annotated[
        bool, typer.Option("-p", "--print", help="Headless: never prompt, print the answer only.")
    ] = False,
    approval_mode: Annotated[Mode | None, typer.Option("--approval-mode", help="Who answers when a call asks.")] = None,
    yes: Annotated[
        bool, typer.Option("-y", help="The same as --approval-mode approve_all; what is blocked stays blocked.")
    ] = False,
    on_ask: Annotated[Ask, typer.Option("--on-ask", help="What an ask means when nobody can be asked.")] = Ask.deny,
    output_format: Annotated[
        Format, typer.Option("--output-format", help="What goes to standard output.")
    ] = Format.text,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --output-format stream-json.")] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write the final answer to FILE as well.")
    ] = None,
    trace: Annotated[Trace | None, typer.Option("--trace", help="How much to tell on standard error.")] = None,
    max_turns: Annotated[
        int | None, typer.Option("--max-turns", metavar="N", min=1, help="Stop after N turns of the model.")
    ] = None,
    attach: Annotated[
        list[Path] | None,
        typer.Option("--attach", metavar="FILE", help="Give a text, an image or a PDF along with the task."),
    ] = None,
    no_plugins: Annotated[bool, typer.Option("--no-plugins", help="Use nothing but what comes with forge.")] = False,
    directory: DirectoryOption = None,
) -> None:
    """Run a worker on one task."""
    if output is not None and not output.absolute().parent.is_dir():
        raise UsageError(f"-o {output}: there is no folder {output.absolute().parent}")
    if output is not None and output.is_dir():
        raise UsageError(f"-o {output}: that is a folder; name a file in it")
    plan = Plan(
        worker=worker,
        task=task_from(task),
        model=model,
        mode=chosen_mode(approval_mode, yes),
        on_ask=OnAsk(on_ask.value),
        format=Format.stream_json if as_json else output_format,
        output=output,
        trace=_trace(trace, print_only),
        interactive=is_interactive() and not print_only,
        max_turns=max_turns,
        workspace=work_folder(directory),
        attachments=tuple(read_attachment(file) for file in attach or ()),
        plugins=not no_plugins,
    )
    with data_output() as out:
        code = finish(plan, in_loop(_carry_out, plan, out), out)
    raise typer.Exit(code)


def _trace(flag: Trace | None, print_only: bool) -> TraceLevel:
    """A flag wins, ``-p`` is quiet, then the user's own config; otherwise as much as a terminal wants."""
    stated = flag.value if flag else "quiet" if print_only else load_settings(forge_home()).trace
    level: TraceLevel = stated or ("normal" if sys.stderr.isatty() else "summary")
    return level


async def _carry_out(plan: Plan, out: TextIO) -> WorkerResult:
    bus, host = EventBus(), PluginHost(only=None if plan.plugins else ())
    sinks = (JsonLines(out),) if plan.format is Format.stream_json else ()
    runtime = WorkerRuntime(
        worker=load_worker(plan.worker),
        model=plan.model,
        approval_mode=plan.mode,
        bus=bus,
        workspace=plan.workspace,
        on_ask=plan.on_ask,
        max_turns=plan.max_turns,
        host=host,
        sinks=sinks,
    )
    screen = TerminalUI(
        bus,
        trace=plan.trace,
        stream_text=plan.streams_text(out),
        interactive=plan.interactive,
        find=host.renderer,
        out=out,
    )
    with interruptible(runtime.interrupt):
        async with screen, runtime:
            return await runtime.run(plan.task, plan.attachments)


def finish(plan: Plan, result: WorkerResult, out: TextIO) -> ExitCode:
    """Print what was asked for, keep the answer, and say what went wrong."""
    answer = "" if result.status == "interrupted" else result.response.removesuffix("\n")
    match plan.format:
        case Format.json:
            out.write(json.dumps(result.wire(), ensure_ascii=False) + "\n")
        case Format.text if answer and not plan.streams_text(out):
            out.write((visible(answer, keep="\n\t") if out.isatty() else answer) + "\n")
        case _:
            pass
    out.flush()
    if result.error:
        sys.stderr.write(f"forge: {visible(result.error, keep=chr(10))}\n")
    final = answer or result.status == "completed"
    if plan.output is not None and final and not _write(plan.output, answer):
        return result.exit_code or ExitCode.FAILED
    return result.exit_code


def _write(file: Path, answer: str) -> bool:
    try:
        file.write_text(f"{answer}\n", encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        sys.stderr.write(f"forge: -o {visible(str(file))}: the answer could not be written: {error.strerror}\n")
        return False
    return True

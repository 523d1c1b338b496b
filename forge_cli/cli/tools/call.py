"""``forge tools call``: one tool called by hand, with the tool's own arguments."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer
from msgspec import Struct
from msgspec.structs import replace

from forge_cli.cli.options import PlainCommand, chosen_mode, new_app, work_folder
from forge_cli.cli.output import data_output
from forge_cli.cli.tools.choose import (
    WorkerOption,
    find_details,
    parameter_lines,
    tool_worker,
    unknown_tool,
)
from forge_cli.core.actions import Interrupt
from forge_cli.core.approval import ApprovalMode
from forge_cli.core.bus import EventBus, new_id
from forge_cli.core.calls import ToolCall, ToolOutcome
from forge_cli.core.errors import ExitCode, UsageError
from forge_cli.core.interrupt import Interrupted, InterruptSignal
from forge_cli.core.results import FileContent, Table, Text
from forge_cli.core.text import as_spelled, visible
from forge_cli.core.wire import JsonObject
from forge_cli.engine.gate.steps import Caller
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.engine.runtime.without_model import opened
from forge_cli.files.home import forge_home
from forge_cli.files.settings_files import load_settings
from forge_cli.files.worker import Worker
from forge_cli.process.signals import in_loop, interruptible
from forge_cli.process.stdin import is_interactive
from forge_cli.sandbox.processes.requests import call_through, pipes_of_caller
from forge_cli.schema.json.forms import args_from, boolean_options
from forge_cli.toolsets.executables.toolset import ToolLeftOut
from forge_cli.ui.table import print_json
from forge_cli.ui.terminal.console import new_console
from forge_cli.ui.terminal.forms import fill_form
from forge_cli.ui.terminal.input import LineReader
from forge_cli.ui.terminal.render import render
from forge_cli.ui.terminal.slash import json_object, parse_arguments
from forge_cli.ui.terminal.terminal import TerminalUI

app = new_app()

WITH_VALUE = {
    "--worker": "worker",
    "--json-input": "json_input",
    "--approval-mode": "approval_mode",
    "-C": "directory",
    "--cd": "directory",
}
_SHORT = re.compile("-[A-Za-z]")
ALONE = {"-i": "interactive", "-y": "yes", "--json": "as_json"}


class Invocation(Struct, frozen=True, kw_only=True):
    """The parsed options of forge; ``argv`` are the arguments of the tool."""

    tool: str = ""
    argv: Sequence[str] = ()
    worker: str | None = None
    json_input: str | None = None
    approval_mode: str | None = None
    directory: Path | None = None
    interactive: bool = False
    yes: bool = False
    as_json: bool = False

    @property
    def mode(self) -> ApprovalMode | None:
        mode = None
        try:
            if self.approval_mode is not None:
                mode = ApprovalMode(self.approval_mode)
        except ValueError:
            raise UsageError(
                f"--approval-mode {self.approval_mode}: use interactive, approve_all or auto_deny"
            ) from None
        return chosen_mode(mode, self.yes)


def read_invocation(argv: Sequence[str]) -> Invocation:
    """Separate forge's options from the tool's arguments; everything after ``--`` is the tool's."""
    rest = list(argv)
    found: dict[str, Any] = {}
    kept: list[str] = []
    while rest:
        item = rest.pop(0)
        name, equals, value = item.partition("=")
        if item == "--":
            kept += rest
            break
        if name in WITH_VALUE and (equals or item == name):
            if not equals and rest:
                value = rest.pop(0)
            found[WITH_VALUE[name]] = value
            if not value:
                raise UsageError(f"{name} needs a value")
        elif item in ALONE:
            found[ALONE[item]] = True
        elif _SHORT.fullmatch(item) and not _takes_value(kept):
            raise UsageError(
                f"there is no option {item}",
                hint="--worker WORKER names the worker; after -- all is the tool's",
            )
        else:
            kept.append(item)
    if not kept or kept[0].startswith("-"):
        raise UsageError(
            "name the tool first",
            hint="forge tools call NAME KEY=VALUE ...; forge tools list shows them",
        )
    if "directory" in found:
        found["directory"] = Path(found["directory"])
    return Invocation(tool=kept[0], argv=kept[1:], **found)


def _takes_value(before: Sequence[str]) -> bool:
    """Return True if the next word is the value of the option before it."""
    return bool(before) and before[-1].startswith("--") and "=" not in before[-1]


def read_args(invocation: Invocation, schema: JsonObject) -> JsonObject:
    """Return the tool's arguments; argv wins over ``--json-input``."""
    plain, options = parse_arguments(invocation.argv, boolean_options(schema))
    if plain:
        hint = f"forge tools show {invocation.tool} names its parameters"
        raise UsageError(f"'{visible(plain[0])}' is neither KEY=VALUE nor --KEY VALUE", hint=hint)
    return {**json_object(invocation.json_input), **args_from(options, schema)}


async def call_tool(
    invocation: Invocation, worker: Worker, workspace: Path, out: TextIO
) -> ExitCode:
    """Open the worker, call a tool as the user, and print the result."""
    bus = EventBus()
    host = PluginHost(worker=worker)
    interactive = is_interactive()
    mode = invocation.mode or ApprovalMode.strictest(
        worker.config.approval.mode, load_settings(forge_home(), workspace).approval.mode
    )
    screen = TerminalUI(
        bus,
        trace="summary",
        stream_text=False,
        interactive=interactive,
        session=False,
        find=host.renderer,
    )
    signal = InterruptSignal()
    bus.subscribe(
        lambda event: signal.interrupt(event.reason) if isinstance(event, Interrupt) else None
    )
    session = opened(
        worker,
        workspace=workspace,
        host=host,
        bus=bus,
        mode=mode or ApprovalMode.INTERACTIVE,
        interrupt=signal,
        # ``unknown_tool`` reports an omitted tool, and the others do not matter here
        is_told=lambda message: not isinstance(message, ToolLeftOut),
    )
    calling = False  # until the call begins, a signal cancels the task
    with interruptible(lambda reason: bus.emit(Interrupt(reason)), lambda: calling):
        async with screen, session as assembly:
            invocation = replace(
                invocation, tool=as_spelled(invocation.tool, assembly.toolbox.offers)
            )
            offer = assembly.toolbox.offers.get(invocation.tool)
            if offer is None:
                raise unknown_tool(invocation.tool, assembly.toolbox.offers, invocation.worker)
            args = read_args(invocation, offer.tool.schema.json_schema)
            if invocation.interactive:
                if not interactive:
                    raise UsageError("-i asks questions, which needs a terminal")
                filled = await fill_form(offer.tool, args, LineReader(new_console()))
                if filled is None:
                    return ExitCode.INTERRUPTED
                args = filled
            calling = True
            outcome = await assembly.guard.call(
                ToolCall(new_id("call"), invocation.tool, args), Caller.OPERATOR
            )
            _show(outcome, offer.tool.author_of(outcome.value), invocation.as_json, host, out)
    # a signal such as SIGTERM decides the exit code; after Ctrl+C, the outcome does
    stopped = Interrupted(signal.reason).exit_code
    return _code(outcome) if stopped is ExitCode.INTERRUPTED else stopped


def call_as_program(invocation: Invocation, pipes: Path, out: TextIO) -> ExitCode:
    """Let the forge process that started this program call the tool, and print the result."""
    own = [name for name, key in (*WITH_VALUE.items(), *ALONE.items()) if getattr(invocation, key)]
    if refused := [name for name in own if name not in ("--json-input", "--json")]:
        raise UsageError(
            f"{refused[0]} has no effect inside a tool's program: the worker that calls it decides"
        )
    outcome = call_through(pipes, invocation.tool, partial(read_args, invocation))
    _show(outcome, None, invocation.as_json, PluginHost(), out)
    return _code(outcome)


def _show(
    outcome: ToolOutcome, author: str | None, as_json: bool, host: PluginHost, out: TextIO
) -> None:
    """Print the value to standard output, and errors to standard error.

    Unless standard output is a terminal, a text is printed unchanged, and a table as CSV.
    """
    if as_json:
        print_json(outcome.value.wire(), out, indent=None)
    elif outcome.ok and not out.isatty() and isinstance(outcome.value, Text | FileContent):
        out.write(outcome.value.content.removesuffix("\n") + "\n")
    elif outcome.ok and not out.isatty() and isinstance(outcome.value, Table):
        out.write(outcome.value.csv())
        if missing := outcome.value.missing_rows():
            sys.stderr.write(f"forge: {missing} are not shown\n")
    elif outcome.ok or outcome.value.text() != outcome.error:
        new_console(out).print(render(outcome.value, host.renderer, author, lines=None))
    if outcome.ok or outcome.status == "interrupted":
        return
    hint = "\n  -y approves it" if outcome.by == "headless" else ""
    refusal = visible(outcome.refusal, keep="\n")
    sys.stderr.write(f"forge: {refusal}{hint}\n")


def _code(outcome: ToolOutcome) -> ExitCode:
    match outcome.status:
        case "success":
            return ExitCode.DONE
        case "denied" | "blocked":
            return ExitCode.DENIED
        case "invalid" | "not_found":
            return ExitCode.USAGE
        case "interrupted":
            return ExitCode.INTERRUPTED
        case "error" | "timeout":
            return ExitCode.FAILED


def names_tool(argv: Sequence[str]) -> bool:
    """Return True if the arguments ask for the help of one tool."""
    try:
        return bool(read_invocation(argv).tool)
    except UsageError:
        return False


def print_tool_help(invocation: Invocation) -> None:
    """Print how to call a tool: its description and its parameters."""
    details = find_details(invocation.tool, invocation.worker)
    fields = parameter_lines(details["inputSchema"])
    usage = f"Usage: forge tools call {invocation.tool}"
    if invocation.worker:
        usage += f" --worker {invocation.worker}"
    if fields:
        usage += " [KEY=VALUE]..."
    told = [usage, ""]
    told += [f"  {line}".rstrip() for line in str(details["description"]).splitlines()]
    if fields:
        told += ["", "Fields:", *fields]
    else:
        told += ["", "It has no parameters."]
    told += ["", f"approval: {details['approval']}, risk: {details['risk']}"]
    told += ["forge tools call --help shows the options of forge itself."]
    sys.stdout.writelines(f"{visible(line)}\n" for line in told)


class RawCommand(PlainCommand):
    """A command that leaves its arguments unparsed, because most belong to the tool."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        # after -- everything is the tool's, also --help
        own = args[: args.index("--")] if "--" in args else args
        left = [arg for arg in args if arg != "--help" or arg not in own]
        if "-h" in own[:1] or ("--help" in own and not names_tool(left)):
            return super().parse_args(ctx, ["--help"])
        ctx.meta["forge.argv"] = left
        ctx.meta["forge.help"] = "--help" in own
        return super().parse_args(ctx, ["-"])  # a placeholder for the required NAME


@app.command(cls=RawCommand)
def call(
    ctx: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME [KEY=VALUE]... [--KEY VALUE]...", help="The tool and its input."
        ),
    ],
    worker: WorkerOption = None,
    json_input: Annotated[
        str | None, typer.Option("--json-input", metavar="JSON", help="The complete input as JSON.")
    ] = None,
    interactive: Annotated[bool, typer.Option("-i", help="Ask for missing arguments.")] = False,
    yes: Annotated[
        bool, typer.Option("-y", help="The same as --approval-mode approve_all.")
    ] = False,
    approval_mode: Annotated[
        str | None,
        typer.Option(
            "--approval-mode", metavar="MODE", help="interactive, approve_all or auto_deny."
        ),
    ] = None,
    directory: Annotated[
        Path | None, typer.Option("-C", "--cd", metavar="DIR", help="Work in DIR.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result value as JSON.")
    ] = False,
) -> None:
    """Call a tool by hand, under the same policy as the model."""
    invocation: Invocation = read_invocation(ctx.meta["forge.argv"])
    if ctx.meta["forge.help"]:
        print_tool_help(invocation)
        return
    pipes = pipes_of_caller()
    with data_output() as out:
        if pipes is not None:
            raise typer.Exit(call_as_program(invocation, pipes, out))
        code = in_loop(
            call_tool,
            invocation,
            tool_worker(invocation.worker),
            work_folder(invocation.directory),
            out,
        )
    raise typer.Exit(code)

"""``forge approve``: the verdict on a call and its reasons; nothing is executed."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO, TextIO

import typer

from forge_cli.cli.find_worker import WorkerArgument, find_worker
from forge_cli.cli.options import DirectoryOption, JsonInputOption, JsonOption, new_app, work_folder
from forge_cli.cli.output import data_output
from forge_cli.core.errors import UsageError
from forge_cli.core.text import visible
from forge_cli.core.wire import JsonObject
from forge_cli.engine.gate.outlook import VerdictAnswer, answer_of
from forge_cli.files.places import wrong_path
from forge_cli.inspection.gate import judging
from forge_cli.process.signals import in_loop
from forge_cli.schema.json.forms import OptionValue
from forge_cli.ui.table import paint, print_json
from forge_cli.ui.terminal.slash import json_object, parse_arguments
from forge_cli.ui.wrap import wrap_for

app = new_app()

Calls = AsyncIterator[tuple[str, JsonObject | str, Mapping[str, OptionValue]] | VerdictAnswer]
"""Tool, args (or their text) and typed options of each call, or the answer to an invalid line."""


@app.command()
def approve(
    worker: WorkerArgument,
    tool: Annotated[str | None, typer.Argument(metavar="TOOL", help="The tool to judge.")] = None,
    pairs: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Its input.")
    ] = None,
    json_input: JsonInputOption = None,
    batch: Annotated[
        str | None,
        typer.Option(
            "--batch",
            metavar="FILE|-",
            help='Judge one {"tool", "input"} a line, from FILE or stdin.',
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against", metavar="SESSION", help="Judge the calls of a past session again."
        ),
    ] = None,
    provenance: Annotated[
        bool,
        typer.Option(
            "--provenance", help="With --against: show what asks because of untrusted text."
        ),
    ] = False,
    as_try: Annotated[
        bool,
        typer.Option("--try", help="Try the call, show its changes, and drop them."),
    ] = False,
    as_json: JsonOption = False,
    directory: DirectoryOption = None,
) -> None:
    """Show what the policy would decide on a call, without a model."""
    if as_try and tool is None:
        raise UsageError("--try needs a TOOL", hint="forge approve WORKER shell command=... --try")
    if sum(given is not None for given in (tool, batch, against)) != 1:
        hint = "forge approve WORKER TOOL KEY=VALUE ..."
        if tool is batch is against:  # all of them are None
            raise UsageError("name a TOOL, or --batch, or --against", hint=hint)
        raise UsageError("only one of TOOL, --batch and --against may be given", hint=hint)
    if against is not None and json_input is not None:
        raise UsageError("--against takes the input of each call from the session")
    if provenance:
        if against is None:
            raise UsageError("--provenance needs --against SESSION")
        from forge_cli.cli.untrusted import show_words

        show_words(find_worker(worker), against, directory, as_json=as_json)
        return
    if against is not None:
        from forge_cli.cli.against import judge_again

        judge_again(find_worker(worker), against, directory, as_json=as_json)
        return
    if batch is not None and (pairs or json_input is not None):
        raise UsageError("--batch takes the input of each call from the file")
    with _open_batch(batch) as lines, data_output() as out:
        if lines is None:
            given = json_object(json_input)
            path = find_worker(worker)
            folder = work_folder(directory)
            if as_try:
                from forge_cli.inspection.trying import try_line

                tried = in_loop(try_line, path, folder, str(tool), given, _options(pairs or []))
                _tell_trial(tried, out, as_json=as_json)
                return
            _approve_all(_one(str(tool), pairs or [], given), path, folder, out, as_json=as_json)
        else:
            _approve_all(
                _batch(lines), find_worker(worker), work_folder(directory), out, as_json=True
            )


def _approve_all(calls: Calls, worker: str, workspace: Path, out: TextIO, *, as_json: bool) -> None:
    """Judge all calls with one opened worker, and print each verdict."""

    async def judge_all() -> None:
        async with judging(worker, workspace) as judge:
            async for call in calls:
                if isinstance(call, dict):  # already the answer to an invalid line
                    answer = call
                else:
                    answer = (await judge(*call)).answer
                _tell(answer, out, as_json=as_json)

    in_loop(judge_all)


def _tell_trial(answer: VerdictAnswer, out: TextIO, *, as_json: bool) -> None:
    """Print the verdict, and what the line did on a copy."""
    tried = None if as_json else answer.pop("trial", None)
    _tell(answer, out, as_json=as_json)
    if tried:
        shown = visible(tried["shown"], keep="\n")
        out.write(f"{shown}\ndropped: nothing was changed\n")
        if tried.get("blocked"):
            out.write(f"blocked: {visible(tried['blocked'])}\n")


def _options(pairs: list[str]) -> dict[str, OptionValue]:
    others, options = parse_arguments(pairs)
    if others:
        raise UsageError(f"'{others[0]}' is not KEY=VALUE")
    return options


def _tell(answer: VerdictAnswer, out: TextIO, *, as_json: bool) -> None:
    if as_json:
        print_json(answer, out, indent=None)
    else:
        out.write(_sentences(answer, out))
    out.flush()


async def _one(tool: str, pairs: list[str], given: JsonObject) -> Calls:
    """Return the call of the command line; ``KEY=VALUE`` wins over ``--json-input``."""
    yield tool, given, _options(pairs)


@contextmanager
def _open_batch(source: str | None) -> Iterator[BinaryIO | None]:
    with ExitStack() as stack:
        try:
            if source not in (None, "-"):
                file = stack.enter_context(open(source, "rb"))
            else:
                file = None
        except OSError as error:
            path = Path(str(source))
            if not os.path.isfile(path):
                raise wrong_path("--batch", path, "file") from None
            raise UsageError(
                f"--batch {source}: {error.strerror}", hint="check its owner and mode"
            ) from None
        yield sys.stdin.buffer if source == "-" else file


async def _batch(source: BinaryIO) -> Calls:
    """Yield the calls of a batch in order, each as soon as its line has arrived."""
    from forge_cli.process.client_lines import read_lines

    number = 0
    async for line in read_lines(source.fileno()):
        number += 1
        try:
            call = json.loads(line)
            tool = call["tool"]
            given = call.get("input", {})
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            yield answer_of(None, "refused", f'line {number} is not a {{"tool", "input"}} object')
            continue
        if unknown := sorted(call.keys() - {"tool", "input"}):
            yield answer_of(
                tool,
                "refused",
                f"line {number}: '{unknown[0]}' is not a key; there are: tool, input",
            )
        elif not isinstance(tool, str):
            yield answer_of(tool, "refused", f"line {number}: the tool must be a string")
        else:
            # input that is no object is judged like a model's call with unreadable arguments
            args = given if isinstance(given, dict) else json.dumps(given)
            yield tool, args, {}


def _sentences(answer: VerdictAnswer, out: TextIO) -> str:
    lines = [f": {answer['tool']}", f"  reason: {answer['reason']}"]
    lines += [
        f"  {key + ':':<7} {answer[key]}" for key in ("rule", "where", "by", "risk") if answer[key]
    ]
    lines += [f"  {detail}" for detail in answer.get("details", ())]
    if "tries" in answer:
        lines.append(f"  tried first: {answer['tries']}")
    hooks = [f"{hook['hook']} ({hook['where']})" for hook in answer.get("hooks", ())]
    lines += [f"  the hook {hook} may make it stricter; it is not run here" for hook in hooks]
    grants = ["; ".join(grant["rules"]) for grant in answer.get("grants", ())]
    lines += [f"  can be allowed for a session by: {rules}" for rules in grants]
    return paint(answer["verdict"], stream=out) + "".join(
        f"{wrap_for(out, visible(line), 4)}\n" for line in lines
    )

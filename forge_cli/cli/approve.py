"""``forge approve``: the verdict on a call and every reason for it, with no model and nothing executed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from forge_cli.cli.common import DirectoryOption, JsonInputOption, JsonOption, in_loop, new_app, opened, work_folder
from forge_cli.core.errors import UsageError
from forge_cli.core.text import visible
from forge_cli.core.tool import ToolCall
from forge_cli.engine.guard import Caller, Guard, Refusal
from forge_cli.files.worker import load_worker
from forge_cli.ui.slash import input_of, parse_arguments

app = new_app()

Answer = dict[str, Any]


@app.command()
def approve(
    worker: Annotated[str, typer.Argument(metavar="WORKER", help="A worker file, or a folder with a worker.yaml.")],
    tool: Annotated[str | None, typer.Argument(metavar="[TOOL]", help="The tool that would be called.")] = None,
    pairs: Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Its input.")] = None,
    json_input: JsonInputOption = None,
    batch: Annotated[
        str | None,
        typer.Option("--batch", metavar="FILE|-", help='Judge one {"tool", "input"} a line, from FILE or stdin.'),
    ] = None,
    as_json: JsonOption = False,
    directory: DirectoryOption = None,
) -> None:
    """Say what the policy would decide, without a model."""
    if (tool is None) == (batch is None):
        raise UsageError("name either a TOOL or --batch", hint="forge approve WORKER TOOL KEY=VALUE ...")
    calls = _batch(batch) if batch is not None else iter([(str(tool), _given(pairs or [], json_input))])
    in_loop(_approve, worker, work_folder(directory), calls, as_json or batch is not None)


async def _approve(worker: str, workspace: Path, calls: Iterator[tuple[str | None, Any]], as_json: bool) -> None:
    async with opened(load_worker(worker), workspace=workspace) as assembly:
        for tool, given in calls:
            answer = await verdict_on(assembly.guard, tool, given)
            sys.stdout.write(json.dumps(answer, ensure_ascii=False) + "\n" if as_json else _sentences(answer))
            sys.stdout.flush()


def _given(pairs: list[str], json_input: str | None) -> Any:
    """The input from the command line: pairs over the JSON object."""
    words, options = parse_arguments(pairs)
    if words:
        raise UsageError(f"'{visible(words[0])}' is no KEY=VALUE")
    if json_input is None:
        return options
    try:
        given = json.loads(json_input)
    except ValueError as error:
        raise UsageError(f"--json-input is no JSON: {error}") from None
    if not isinstance(given, dict):
        raise UsageError("--json-input must be a JSON object")
    return {**given, **options}


def _batch(source: str) -> Iterator[tuple[str | None, Any]]:
    """The calls of a batch, in order; a line that is no call is given as (None, why)."""
    try:
        lines = sys.stdin.buffer.readlines() if source == "-" else Path(source).read_bytes().splitlines()
    except OSError as error:
        raise UsageError(f"--batch {source}: {error.strerror}") from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            call = json.loads(line)
            yield call["tool"], call.get("input", {})
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            yield None, f'line {number} is no {{"tool", "input"}} object'


async def verdict_on(guard: Guard, tool: str | None, given: Any) -> Answer:
    """What the gate says of one call; ``refused`` when it could not run at all."""
    if not isinstance(tool, str):
        return _answer(tool, "refused", str(given) if tool is None else "the tool's name must be a string")
    offer = guard.offers.get(tool)
    args = input_of(given, offer.tool.schema.json_schema) if offer and isinstance(given, dict) else given
    unreadable = None if isinstance(args, dict) else json.dumps(given)
    call = ToolCall("approve", tool, args if isinstance(args, dict) else {}, unreadable)
    try:
        judged = await guard.judge(call, Caller.MODEL)
    except Refusal as refusal:
        kind = "blocked" if refusal.status == "blocked" else "refused"
        return _answer(tool, kind, refusal.sentence, by=refusal.by)
    verdict = judged.verdict
    return _answer(
        tool,
        verdict.approval.value,
        verdict.reason,
        rule=verdict.rule,
        where=str(verdict.where) if verdict.where else None,
        by=verdict.by,
        risk=judged.offer.tool.risk,
    )


def _answer(tool: Any, verdict: str, reason: str, **more: str | None) -> Answer:
    empty = {"rule": None, "where": None, "by": None, "risk": None}
    return {"tool": tool, "verdict": verdict, "reason": reason, **empty, **more}


def _sentences(answer: Answer) -> str:
    lines = [f"{answer['verdict']}: {answer['tool']}", f"  reason: {answer['reason']}"]
    lines += [f"  {key + ':':<7} {answer[key]}" for key in ("rule", "where", "by", "risk") if answer[key]]
    return "".join(f"{visible(line)}\n" for line in lines)

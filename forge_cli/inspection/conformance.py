"""Conformance checks: the rules for tools of every source."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import anyio
from msgspec import Struct

from forge_cli.core.bus import new_id
from forge_cli.core.calls import ToolCall
from forge_cli.core.errors import InvalidInput
from forge_cli.core.events import Event, StatusEvent
from forge_cli.core.results import VALUE_LIMIT, shown_files
from forge_cli.core.text import visible
from forge_cli.core.thirdparty import before_call
from forge_cli.engine.gate.guard import Guard
from forge_cli.engine.gate.steps import Caller
from forge_cli.schema.json.fields import alternatives, json_type, kinds
from forge_cli.schema.json.forms import derive_fields
from forge_cli.schema.json.input_schema import lint
from forge_cli.schema.json.problems import expectation, shown
from forge_cli.schema.tool import Tool

MAX_TIMEOUT = 3600
TRIAL_TIMEOUT = 30
"""Seconds that a tool without a timeout of its own may take in a trial."""
_UNKNOWN = "no_such_field"
# an object, an array and a string: most declared types exclude at least one of them
_WRONG: tuple[Any, ...] = ({_UNKNOWN: True}, [[_UNKNOWN]], _UNKNOWN)
_MANY = 10


class ConformanceCheck(Struct, frozen=True):
    """The outcome of one check of one tool; ``detail`` is the problem, or what was done."""

    tool: str
    check: str
    ok: bool
    detail: str = ""

    @classmethod
    def of(cls, tool: str, check: str, *problems: str) -> ConformanceCheck:
        return cls(tool, check, not problems, "; ".join(problems))


def lines_of_checks(
    checks: Iterable[ConformanceCheck], indent: str = "", *, notes: bool = False
) -> Iterator[str]:
    """Yield a line for each subject that passed, and one for each failed check.

    With ``notes``, passed checks with a detail get a line, too.
    """
    for subject, group in groupby(checks, key=lambda each: each.tool):
        of_subject = list(group)
        told = [each for each in of_subject if not each.ok or (notes and each.detail)]
        if passed := ", ".join(each.check for each in of_subject if each not in told):
            yield visible(f"{indent}ok      {subject}: {passed}")
        for each in told:
            detail = each.detail.replace("\n", f"\n{indent}          ")
            mark = "ok    " if each.ok else "FAILED"
            yield visible(f"{indent}{mark}  {subject}: {each.check}: {detail}", keep="\n")


def examine(tool: Tool) -> list[ConformanceCheck]:
    """Return the checks that need no call of the tool."""
    unsound = lint(tool.schema.json_schema)
    accepted: Iterable[str] = ()
    if not unsound:  # the schema of a sample call has to be valid
        accepted = _input(tool)
    return [
        ConformanceCheck.of(tool.name, "schema", *unsound),
        ConformanceCheck.of(tool.name, "description", *_description(tool)),
        ConformanceCheck.of(tool.name, "parameters", *_parameters(tool)),
        ConformanceCheck.of(tool.name, "timeout", *_timeout(tool)),
        ConformanceCheck.of(tool.name, "input", *accepted),
    ]


async def check_tools(tools: Iterable[Tool], guard: Guard) -> list[ConformanceCheck]:
    """Examine each tool, and call the tools that only read and need no input."""
    found: list[ConformanceCheck] = []
    for tool in tools:
        found += examine(tool)
        found += await trial(tool, guard)
    return found


async def trial(tool: Tool, guard: Guard) -> list[ConformanceCheck]:
    """Call a tool through the gate if it only reads and needs no input."""
    if not tool.read_only or tool.schema.json_schema.get("required"):
        return []
    outcome = None
    warnings = list[str]()
    call = ToolCall(new_id("call"), tool.name, {})

    def notice(event: Event) -> None:
        if (
            isinstance(event, StatusEvent)
            and event.level == "warning"
            and event.tool_call_id == call.id
        ):
            warnings.append(event.message.removeprefix(f"{tool.name}: "))

    stop = guard.bus.subscribe(notice)
    before_call(f"the tool '{tool.name}'")
    with anyio.move_on_after(TRIAL_TIMEOUT):
        outcome = await guard.call(call, Caller.OPERATOR)
    stop()
    if outcome is None:
        return [
            ConformanceCheck.of(
                tool.name, "result", f"still running after {TRIAL_TIMEOUT} seconds; set a timeout"
            )
        ]
    if outcome.status == "blocked":
        return [ConformanceCheck(tool.name, "result", True, f"not called: {outcome.error}")]
    # an error that the tool reports by itself is a proper answer to a call without input
    if outcome.status == "error" and outcome.by == "tool":
        return [ConformanceCheck(tool.name, "result", True, f"it says: {outcome.error}")]
    if not outcome.ok:
        return [
            ConformanceCheck.of(
                tool.name, "result", f"a call without input failed: {outcome.error}"
            )
        ]
    problems = list(warnings)
    if not shown_files(outcome.value):
        problems += _result_problems(outcome.value.wire())
    return [ConformanceCheck.of(tool.name, "result", *problems)]


def _result_problems(value: Any) -> Iterator[str]:
    try:
        size = len(json.dumps(value, ensure_ascii=False, allow_nan=False))
    except (TypeError, ValueError) as error:
        yield f"not serializable as JSON: {error}"
        return
    if size > 2 * VALUE_LIMIT:
        yield f"{size} characters of JSON; return less"


def _description(tool: Tool) -> Iterator[str]:
    """Yield a problem if the tool has no description of its own.

    A function without a docstring is described as ``Custom tool: NAME``.
    """
    if tool.description.strip() in ("", f"Custom tool: {tool.name}"):
        yield "missing; describe the tool in a sentence"


def _parameters(tool: Tool) -> Iterator[str]:
    silent = [
        field.name
        for field in derive_fields(tool.schema.json_schema)
        if not (field.description or "").strip()
    ]
    if silent:
        yield f"{', '.join(silent)}: no description"


def _timeout(tool: Tool) -> Iterator[str]:
    if tool.timeout is not None and tool.timeout > MAX_TIMEOUT:
        yield f"{shown(tool.timeout)} is not a valid timeout; use at most {MAX_TIMEOUT} seconds"


def _input(tool: Tool) -> Iterator[str]:
    """Yield the invalid inputs that the schema accepts: unknown, missing and mistyped fields."""
    schema = tool.schema.json_schema
    if schema.get("additionalProperties") is False and not _refuses(tool, {_UNKNOWN: 1}, _UNKNOWN):
        yield "an undeclared field is accepted"
    for name in schema.get("required", []):
        if not _refuses(tool, {}, name):
            yield f"'{name}' is required, but a call without it is accepted"
    for name, declared in schema["properties"].items():
        admitted = frozenset[str]().union(*map(kinds, alternatives(declared, schema)))
        wrong = next((value for value in _WRONG if json_type(value) not in admitted), None)
        if wrong is not None and not _refuses(tool, {name: wrong}, name):
            expected = expectation(declared, schema)
            yield f"'{name}' takes {shown(wrong)}, but is declared as {expected}"


def _refuses(tool: Tool, args: dict[str, Any], field: str) -> bool:
    """Return True if the schema refuses ``args`` because of ``field``.

    Problems of other fields do not count, because they may be missing in ``args``.
    """
    try:
        tool.schema.validate(args)
    except InvalidInput as error:
        # a problem names the field as 'field', 'field.key' or 'field[0]'
        places = [f"'{field}{end}" for end in "'.["]
        for each in error.problems:
            if each.startswith(field) or any(place in each for place in places):
                return True
        return len(error.problems) > _MANY
    return False

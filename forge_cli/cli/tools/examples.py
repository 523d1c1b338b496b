"""A program under test: everything that any tool has to keep to, its source, and the examples of its ``tool.yaml``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import cast

from forge_cli.core.bus import new_id
from forge_cli.core.calls import ToolCall, ToolOutcome
from forge_cli.core.errors import ToolError
from forge_cli.core.problems import shown
from forge_cli.core.processes import Finished
from forge_cli.core.text import cut
from forge_cli.engine.gate.conformance import ConformanceCheck, examine
from forge_cli.engine.gate.judge import Caller
from forge_cli.engine.runtime.assemble import Assembly
from forge_cli.toolsets.executables.manage import ExecutableManager
from forge_cli.toolsets.executables.manifest import Example, ExampleExpectation
from forge_cli.toolsets.executables.registry import Program
from forge_cli.toolsets.executables.toolset import ExecutablesToolset

LOADS = "loads"
SAID = 400


async def check_program(program: Program, tools: ExecutableManager, assembly: Assembly) -> list[ConformanceCheck]:
    """Look at a program, make it ready, and run its examples through the gate."""
    offer = assembly.toolbox.offers.get(program.name)
    if offer is None:
        return [ConformanceCheck.of(program.name, LOADS, "it was changed while it was tested; try again")]
    checks = examine(replace(offer.tool, timeout=program.manifest.timeout))
    try:
        checks.append(ConformanceCheck(program.name, "build", True, await tools.build(program)))
    except ToolError as error:
        return [*checks, ConformanceCheck.of(program.name, "build", str(error))]
    for number, example in enumerate(program.manifest.examples, 1):
        problem = await _problem(program, example, assembly)
        checks.append(ConformanceCheck.of(program.name, f"example {number}", *([problem] if problem else [])))
    return checks


async def _problem(program: Program, example: Example, assembly: Assembly) -> str | None:
    [toolset] = (each.toolset for each in assembly.toolbox.toolsets)
    programs = cast(ExecutablesToolset, toolset)
    call = ToolCall(new_id("call"), program.name, example.arguments)
    with programs.observed() as runs:
        outcome = await assembly.guard.call(call, Caller.OPERATOR)
    done = runs[-1] if runs else None
    differences = list(_differences(example.expect, done)) if done else [_refusal(outcome)]
    if not differences:
        return None
    given = f"with {cut(json.dumps(example.arguments, ensure_ascii=False, default=str), SAID)}: "
    said = _quote_output(done) if done else ""
    return f"{given if example.arguments else ''}{', and '.join(differences)}{said}"


def _refusal(outcome: ToolOutcome) -> str:
    return outcome.error or outcome.status


def _differences(expected: ExampleExpectation, done: Finished) -> Iterator[str]:
    if done.timed_out:
        yield f"it was stopped after {done.duration_ms / 1000:.1f} seconds"
    elif done.exit_code != expected.exit:
        ended = f"exit code {done.exit_code}" if done.exit_code is not None else f"ended by signal {done.signal}"
        yield f"{ended} instead of {expected.exit}"
    if expected.stdout_contains is not None and expected.stdout_contains not in done.stdout:
        yield f"stdout does not contain {shown(expected.stdout_contains)}"


def _quote_output(done: Finished) -> str:
    streams = {"stdout": done.stdout, "stderr": done.stderr}
    return "".join(f"\n{name}: {cut(text.strip(), SAID)}" for name, text in streams.items() if text.strip())

"""A worker's gate kept as data, so that calls of plain tools are judged with next to nothing loaded."""

from __future__ import annotations

import json
from collections.abc import Coroutine, Iterable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from forge_cli.cli.looking.answers import answer
from forge_cli.cli.looking.trace import active_trace
from forge_cli.cli.verdict import VerdictAnswer, answer_on, call_of
from forge_cli.core.approval import Approval, Effect
from forge_cli.core.errors import ForgeError, Mark
from forge_cli.core.plain import PlainFields
from forge_cli.core.schema import InputSchema
from forge_cli.core.tool import ManualExecution, NeedsApproval, Tool
from forge_cli.core.wire import JsonObject
from forge_cli.core.zones import Zone
from forge_cli.engine.gate.judge import Caller, Judge
from forge_cli.engine.gate.offer import Offer
from forge_cli.engine.gate.policy import Policy, Stated
from forge_cli.files.home import forge_home, user_home
from forge_cli.sandbox.files.sandbox import Sandbox
from forge_cli.sandbox.zones.zones import open_declared
from forge_cli.ui.terminal.slash import OptionValue

T = TypeVar("T")


def judge_plainly(
    worker: str, workspace: Path, tool: str, args: JsonObject, typed: Mapping[str, OptionValue]
) -> VerdictAnswer | None:
    """The verdict of a worker's gate on a call that can run; None where it takes the opened worker to tell."""
    find, besides = partial(_describe, worker, workspace), partial(_besides, worker, workspace)
    kept = answer(("approve", worker, str(workspace)), find, besides)
    return judge_kept(kept, workspace, tool, args, typed)


def judge_kept(
    kept: str, workspace: Path, tool: str, args: JsonObject, typed: Mapping[str, OptionValue]
) -> VerdictAnswer | None:
    """The same by the facts of the gate, as JSON.

    They tell what files say, and nothing else: zones are opened, paths walked and verdicts found anew, by the same
    code as in an opened worker.
    """
    try:
        gate = json.loads(kept)
        facts = gate and gate["offers"].get(tool)
        if not facts:
            return None
        offer = offer_from(tool, facts)
        call = call_of(offer, tool, args, typed)
        return answer_on(_run(_judge_from(gate, workspace, offer).judge(call, Caller.MODEL)))
    except Exception:  # a refusal, too: the opened worker knows all that there is to say of it
        return None


def _judge_from(kept: JsonObject, workspace: Path, offer: Offer) -> Judge:
    """The judge of a worker that has only this tool."""
    declared = kept["zones"] and [_zone(facts) for facts in kept["zones"]]
    zones = open_declared(declared, workspace=workspace, user_home=user_home(), file=kept["file"], make=False)
    sandbox = Sandbox(zones, workspace=workspace, protected=map(Path, kept["protected"]))
    return Judge(offers={offer.tool.name: offer}, sandbox=sandbox, worker=kept["worker"], workspace=workspace)


def offer_from(name: str, facts: JsonObject) -> Offer:
    """The offer that ``gate_facts`` described."""
    tool = Tool(
        name=name,
        description="",
        input_schema=facts["schema"],
        execute=_never,
        needs_approval=_needs_approval(facts["needs_approval"]),
        manual=ManualExecution(facts["mode"]),
        effects=None if facts["effects"] is None else frozenset(map(Effect, facts["effects"])),
    )
    vars(tool)["schema"] = InputSchema(facts["schema"], plain=PlainFields.from_facts(facts["fields"]))
    toolset, original = facts["toolset"], facts["original"]
    policy = Policy.stated(original, toolset, _stated(facts["named"]), _stated(facts["default"]), facts["caution"])
    return Offer(tool, toolset, policy, original)


def _needs_approval(fact: Any) -> NeedsApproval:
    """The tool's own verdict: nothing, a fixed one, or the name of a function of forge."""
    if fact is None or isinstance(fact, bool):
        return fact
    if not _is_code(fact):
        return Approval(fact["approval"])
    check: NeedsApproval = getattr(import_module(f"forge_cli.{fact['module']}"), fact["function"])
    return check


def _is_code(fact: Any) -> bool:
    return isinstance(fact, dict) and "approval" not in fact


def _stated(fact: list[Any]) -> Stated:
    approval, where = fact
    return approval and Approval(approval), where and Mark(*where)


def _zone(facts: JsonObject) -> Zone:
    marks: JsonObject = {name: facts[name] and Mark(*facts[name]) for name in ("where", "write_where", "delete_where")}
    return Zone(facts["name"], facts["path"], facts["mode"], facts["approval"], **marks)


async def _never(args: object, context: object) -> NoReturn:
    raise AssertionError("calls are judged here, and never executed")


def _run(judging: Coroutine[Any, Any, T]) -> T:
    """The result of what has nothing to wait for, without an event loop."""
    try:
        judging.send(None)
    except StopIteration as ended:
        result: T = ended.value
        return result
    judging.close()
    raise RuntimeError("it waits for something")


def _describe(worker: str, workspace: Path) -> str:
    from forge_cli.cli.looking.gate_facts import gate_facts
    from forge_cli.cli.looking.looker import Looker
    from forge_cli.cli.signals import in_loop

    async def look() -> JsonObject | None:
        async with Looker(worker, workspace) as looker:
            facts = await looker(gate_facts, worker, str(workspace))
            return _without_code(facts) if facts and looker.has_child else facts

    try:
        return json.dumps(in_loop(look))
    except ForgeError:  # the opened worker says what is wrong with its code
        if trace := active_trace():
            trace.complete = False
        return "null"


def _without_code(facts: JsonObject) -> JsonObject | None:
    """What a child says names no function to be called here: third-party code may have put anything into it."""
    try:
        offers = {name: offer for name, offer in facts["offers"].items() if not _is_code(offer["needs_approval"])}
    except (KeyError, TypeError, AttributeError):
        return None
    return {**facts, "offers": offers}


def _besides(worker: str, workspace: Path) -> Iterable[Path]:
    """What is asked about without being opened: files that may not be there."""
    home, project = forge_home(), workspace / ".forge"
    return (Path(worker), home / "config.yaml", home / "trust.json", project, project / "config.yaml")

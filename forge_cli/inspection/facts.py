"""Facts about a worker before it runs: zones, tools, verdicts and child workers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from msgspec.structs import asdict

from forge_cli.core.approval import Approval, ApprovalMode, Verdict
from forge_cli.core.bus import EventBus
from forge_cli.core.errors import ForgeError
from forge_cli.core.wire import camel_keys
from forge_cli.core.zones import Zone
from forge_cli.engine.gate.guard import Guard
from forge_cli.engine.gate.judge import blocked_by_parent, same_tool
from forge_cli.engine.gate.offer import Offer
from forge_cli.engine.gate.policy import BY_ZONE
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.engine.runtime.children import MAX_DEPTH
from forge_cli.engine.runtime.wiring import Assembly
from forge_cli.engine.runtime.without_model import opened
from forge_cli.engine.turns.environment import (
    describe_zone,
    environment_of,
    system_prompt,
    wanted_output,
)
from forge_cli.engine.turns.limits import merged
from forge_cli.files.allowed import allowed_by, find_allowed
from forge_cli.files.home import forge_home
from forge_cli.files.settings import Settings
from forge_cli.files.settings_files import load_settings
from forge_cli.files.worker import Worker, load_worker
from forge_cli.inspection.model_window import defer_tools
from forge_cli.schema.tool import manual_tools
from forge_cli.ui.warnings import warn_of_events

WORKERS_TOOLSET = "workers"
"""The toolset whose tools are child workers."""

Facts = dict[str, Any]
OpenWorker = Callable[..., AbstractAsyncContextManager[Assembly]]
"""A function that opens a worker for inspection, capped by its ``parent``."""


@runtime_checkable
class Ruled(Protocol):
    """A toolset whose rules can be listed without a call."""

    def rules(self) -> Iterable[Verdict]: ...


def facts_of(worker: Worker, assembly: Assembly, settings: Settings | None) -> Facts:
    """Return the identity and the parts of a worker.

    ``settings`` are the user's, which apply to the started worker only, not to its children.
    """
    config = worker.config
    judged = assembly.guard.judge.worker
    network = judged.isolation.network
    hosts = network if isinstance(network, bool) else network.names()
    if settings:
        limits = merged(config.limits, settings.limits)
    else:
        limits = merged(config.limits)
    return {
        "name": worker.name,
        "file": str(worker.path),
        "description": config.description,
        "model": config.model or (settings.model if settings else None),
        "approvalMode": _mode(worker, settings),
        "limits": camel_keys(limits.model_dump(exclude_none=True)),
        "zones": [_zone(zone) for zone in judged.zones],
        "isolation": {"level": judged.isolation.level.value, "network": hosts},
        "toolsets": _toolsets(assembly),
        "manual": _manual(assembly),
    }


def _mode(worker: Worker, settings: Settings | None) -> str | None:
    """Return the approval mode that the worker or the settings name.

    A child worker has the stricter one of its own and its parent's mode.
    """
    own = worker.config.approval.mode
    if settings:
        own = ApprovalMode.strictest(own, settings.approval.mode) or ApprovalMode.INTERACTIVE
    return own.value if own else None


def _zone(zone: Zone) -> Facts:
    return {**describe_zone(zone), "where": str(zone.where) if zone.where else None}


def _toolsets(assembly: Assembly) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {opened.name: [] for opened in assembly.toolbox.toolsets}
    for offer in assembly.toolbox.offers.values():
        found[offer.toolset].append(offer.tool.name)
    return found


def _manual(assembly: Assembly) -> list[Facts]:
    """Return the tools that a person may call."""
    tools = manual_tools([offer.tool for offer in assembly.toolbox.offers.values()])
    return [{"name": tool.name, **asdict(tool.manual)} for tool in tools if tool.manual]


def policy_of(assembly: Assembly) -> Facts:
    """Return the verdict on every tool, and the rules that decide by arguments."""
    rules: list[Facts] = []
    # Several sections of a toolset that is repeatable have the same name.
    for each in assembly.toolbox.toolsets:
        if isinstance(each.toolset, Ruled):
            found = each.toolset.rules()
            rules += [{"toolset": each.name, **_wire(rule)} for rule in found]
    hooks = assembly.guard.judge.hooks
    return {
        "tools": [_said_of(offer, assembly.guard) for offer in assembly.toolbox.offers.values()],
        "rules": rules,
        "zones": [_zone(zone) for zone in assembly.guard.judge.worker.zones],
        "hooks": hooks.facts() if hooks else [],
    }


def _said_of(offer: Offer, guard: Guard) -> Facts:
    verdict = _always(offer, guard)
    known = {
        "tool": offer.tool.name,
        "toolset": offer.toolset,
        "mode": offer.tool.mode,
        "risk": offer.tool.risk,
    }
    if verdict is not None:
        return {**known, **_wire(verdict)}
    word = offer.policy.approval_word(offer.tool)
    if word == BY_ZONE:
        reason = "depends on the zones of its paths"
    else:
        reason = "depends on the arguments"
    facts = {**known, "verdict": word, "reason": reason, "rule": None, "where": None}
    named = offer.policy.named
    if named and named.approval is Approval.ASK:
        facts["reason"] = f"{reason}, and always asks"
        facts["rule"] = named.rule
        facts["where"] = str(named.where) if named.where else None
    return facts


def _always(offer: Offer, guard: Guard) -> Verdict | None:
    """Return the verdict on every call of a tool, or None if it depends on the arguments.

    Tools that a parent worker blocks are blocked here, too.
    """
    verdict = offer.policy.fixed(offer.tool)
    parent = guard.judge.parent
    while parent and not (verdict and verdict.approval is Approval.BLOCKED):
        same = same_tool(parent, offer)
        blocked = same.policy.fixed(same.tool) if same else None
        if blocked and blocked.approval is Approval.BLOCKED:
            return blocked_by_parent(parent.worker.name, blocked)
        parent = parent.parent
    return verdict


def _wire(verdict: Verdict) -> Facts:
    where = str(verdict.where) if verdict.where else None
    return {
        "verdict": verdict.approval.value,
        "reason": verdict.reason,
        "rule": verdict.rule,
        "where": where,
    }


async def tree_of(
    worker: Worker, assembly: Assembly, open_worker: OpenWorker, settings: Settings
) -> Facts:
    """Return the facts of a worker and its children, each capped by its parents."""

    async def node(
        worker: Worker, assembly: Assembly, path: tuple[Path, ...], user: Settings | None
    ) -> Facts:
        policy = policy_of(assembly)
        children = [
            find_allowed(worker.folder, entry, None)
            for entry in allowed_by(worker.section("toolsets", WORKERS_TOOLSET))
        ]
        offered = {
            offer.original: offer
            for offer in assembly.toolbox.offers.values()
            if offer.toolset == WORKERS_TOOLSET
        }
        workers: list[Facts] = []
        for each in children:
            if each.name in offered:
                workers.append(await visit(each, offered[each.name], assembly, path))
        tools = {said["tool"]: said["verdict"] for said in policy["tools"]}
        return {
            **facts_of(worker, assembly, user),
            "tools": tools,
            "rules": policy["rules"],
            "workers": workers,
        }

    async def visit(child: Worker, offer: Offer, parent: Assembly, path: tuple[Path, ...]) -> Facts:
        file = child.path.resolve()
        verdict = _always(offer, parent.guard)
        known = {
            "name": child.name,
            "file": str(child.path),
            "description": child.config.description,
        }
        if verdict and verdict.approval is Approval.BLOCKED:
            return {**known, "refused": f"blocked: {verdict.reason}"}
        if file in path:
            return {**known, "refused": "already running: a cycle"}
        if len(path) > MAX_DEPTH:
            return {
                **known,
                "refused": f"{len(path)} levels of workers; the maximum is {MAX_DEPTH}",
            }
        try:
            async with open_worker(child, parent=parent) as assembly:
                return await node(child, assembly, (*path, file), None)
        except ForgeError as error:
            return {**known, "refused": str(error)}

    return await node(worker, assembly, (worker.path.resolve(),), settings)


async def worker_view(
    name: str, folder: str, view: str, branch: str | None, guidance: str
) -> Facts:
    """Return one view of a worker: its facts, its policy, its tree or its prompt."""
    workspace = Path(folder)
    worker = load_worker(name)
    host = PluginHost()
    bus = EventBus()
    settings = load_settings(forge_home(), workspace)
    warn_of_events(bus)
    if os.environ.get("FORGE_MODEL"):
        settings = settings.model_copy(update={"model": os.environ["FORGE_MODEL"]})
    open_worker = partial(opened, workspace=workspace, host=host, bus=bus, make_zones=False)
    async with open_worker(worker) as assembly:
        match view:
            case "policy":
                return policy_of(assembly)
            case "tree":
                return await tree_of(worker, assembly, open_worker, settings)
            case "prompt":
                await defer_tools(worker, assembly, settings)
                return {"prompt": _prompt(worker, assembly, branch, guidance)}
            case _:
                return facts_of(worker, assembly, settings)


def _prompt(worker: Worker, assembly: Assembly, branch: str | None, guidance: str) -> str:
    environment = environment_of(worker, assembly.toolbox, assembly.guard.judge, branch)
    return system_prompt(worker, guidance, assembly.toolbox, wanted_output(worker), environment)

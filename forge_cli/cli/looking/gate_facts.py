"""A worker's gate as data: what its file, its toolsets and its modules say, where all of that is plain."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from forge_cli.cli.looking.kept_gate import offer_from
from forge_cli.cli.looking.trace import active_trace
from forge_cli.cli.opening import opened
from forge_cli.core.approval import Approval, Verdict
from forge_cli.core.errors import ForgeError, Mark
from forge_cli.core.paths import flat_paths
from forge_cli.core.plain import REQUIRED, PlainFields
from forge_cli.core.tool import NeedsApproval
from forge_cli.core.wire import JsonObject
from forge_cli.core.zones import Zone
from forge_cli.engine.gate.offer import Offer
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.engine.runtime.prepared import PreparedWorker
from forge_cli.files.home import user_home
from forge_cli.files.worker import load_worker
from forge_cli.sandbox.zones.zones import declared_zones


async def gate_facts(worker: str, workspace: str) -> JsonObject | None:
    """What ``judge_plainly`` needs to know; None where a worker has to be opened for each call."""
    try:
        prepared, folder = PreparedWorker(load_worker(worker), PluginHost()), Path(workspace)
        return await _facts(prepared, folder) if _is_plain(prepared, folder) else None
    except ForgeError:  # whoever opens the worker says so; what is missing may be there the next time
        if trace := active_trace():
            trace.complete = False
        return None


def _is_plain(prepared: PreparedWorker, workspace: Path) -> bool:
    """Whether only the worker's file, its modules, the settings and forge itself decide on its calls."""
    worker = prepared.worker
    if worker.config.plugins or prepared.settings(workspace).hooks:
        return False
    if not all(each.plugin.source.kind == "builtin" and not each.cls.dynamic for each in prepared.toolsets):
        return False
    others = [path for path in prepared.protected if path != worker.path and path.suffix != ".py"]
    return not others and not prepared.brought_zones(workspace)


async def _facts(prepared: PreparedWorker, workspace: Path) -> JsonObject:
    worker, file = prepared.worker, str(prepared.worker.path)
    zones = declared_zones(prepared.sandbox, workspace=workspace, user_home=user_home(), file=file)
    async with opened(worker, workspace=workspace, make_zones=False) as assembly:
        offers = {name: _offer(offer) for name, offer in assembly.toolbox.offers.items()}
    return {
        "worker": worker.name,
        "file": file,
        "protected": [str(path) for path in prepared.protected],
        "zones": None if zones is None else [_zone(zone) for zone in zones],
        "offers": {name: facts for name, facts in offers.items() if facts is not None},
    }


def _offer(offer: Offer) -> JsonObject | None:
    """A tool and the worker's policy for it; None where that is more than can be kept."""
    tool, policy = offer.tool, offer.policy
    fields, paths = tool.schema.plain_fields, flat_paths(tool.schema.json_schema)
    if fields is None or paths is None or tool.touches or tool.stands_for or not _is_kept(tool.needs_approval):
        return None
    fields = _without_defaults(fields, [name for name, *_ in paths])
    facts = {
        "toolset": offer.toolset,
        "original": offer.original,
        "needs_approval": _needs_approval(tool.needs_approval),
        "mode": tool.mode,
        "effects": None if tool.effects is None else sorted(effect.value for effect in tool.effects),
        "named": _stated(policy.named),
        "default": _stated(policy.default),
        "caution": policy.caution,
        "schema": tool.schema.json_schema,
        "fields": fields.facts(),
    }
    again = offer_from(tool.name, json.loads(json.dumps(facts)))
    schema = again.tool.schema
    same = again.policy == policy and schema.plain == fields and schema.json_schema == tool.schema.json_schema
    return facts if same else None


def _without_defaults(fields: PlainFields, names: Sequence[str]) -> PlainFields:
    """Where a path is not given, the folders of zones decide what it is: the opened worker looks at them."""
    return PlainFields(tuple(replace(each, default=REQUIRED) if each.name in names else each for each in fields.fields))


def _is_kept(needs: NeedsApproval) -> bool:
    """Is a tool's own verdict fixed, or that of a function of forge which has its name and waits for nothing?"""
    if not callable(needs):
        return not isinstance(needs, Verdict)
    module, name = getattr(needs, "__module__", ""), getattr(needs, "__name__", "")
    own = module.startswith("forge_cli.") and getattr(sys.modules[module], name, None) is needs
    return own and not inspect.iscoroutinefunction(needs)


def _needs_approval(needs: Any) -> Any:
    if callable(needs):
        return {"module": needs.__module__.removeprefix("forge_cli."), "function": needs.__name__}
    return {"approval": needs.value} if isinstance(needs, Approval) else needs


def _stated(verdict: Verdict | None) -> list[Any]:
    return [None, None] if verdict is None else [verdict.approval.value, _mark(verdict.where)]


def _mark(mark: Mark | None) -> list[Any] | None:
    return None if mark is None else [mark.file, mark.line, mark.column]


def _zone(zone: Zone) -> JsonObject:
    return {
        "name": zone.name,
        "path": str(zone.path),
        "mode": zone.mode.value,
        "approval": {"write": zone.write.value, "delete": zone.delete.value},
        "where": _mark(zone.where),
        "write_where": _mark(zone.write_where),
        "delete_where": _mark(zone.delete_where),
    }

"""The JSON Schema of worker files and config.yaml, with the sections of all installed toolsets."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from forge_cli.core.errors import ForgeError
from forge_cli.core.text import visible
from forge_cli.core.wire import JsonObject
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.files.cache import StampedCache
from forge_cli.files.home import forge_home
from forge_cli.files.replace import replace_file
from forge_cli.files.settings import Settings
from forge_cli.files.worker import WorkerConfig
from forge_cli.inspection.inspector import Inspector
from forge_cli.inspection.sections import section_schema, toolset_schema
from forge_cli.inspection.tool_row import plugin_stamp
from forge_cli.sandbox.zones.config import SandboxConfig
from forge_cli.ui.wrap import wrap_for

DIALECT = "https://json-schema.org/draft/2020-12/schema"
ANYTHING: JsonObject = {"anyOf": [{"type": "object"}, {"type": "array"}, {"type": "null"}]}
"""The schema of a section whose toolset cannot be loaded."""


async def worker_schema() -> JsonObject:
    """Return the schema of worker files."""
    found = _Definitions(section_schema(WorkerConfig))
    toolsets = await _sections("toolset")
    properties = found.schema["properties"]
    properties["sandbox"] |= {
        "anyOf": [found.add("sandbox", section_schema(SandboxConfig)), {"type": "null"}]
    }
    properties["toolsets"]["properties"] = {
        name: found.add(name, section) for name, section in toolsets.items()
    }
    # only the user can approve everything; a worker file that asks for it is invalid
    consent = {"properties": {"mode": {"const": "approve_all"}}, "required": ["mode"]}
    properties["approval"] = {**properties["approval"], "not": consent}
    # a worker's own plugins can add toolsets that are unknown here
    known = {"properties": {"toolsets": {"propertyNames": {"enum": list(toolsets)}}}}
    found.schema |= {"if": {"not": {"required": ["plugins"]}}, "then": known}
    return found.schema


async def config_schema() -> JsonObject:
    """Return the schema of ``config.yaml``."""
    found = _Definitions(section_schema(Settings))
    policies = await _sections("policy")
    properties = {name: found.add(name, section) for name, section in policies.items()}
    found.schema["properties"]["policy"] |= {
        "properties": properties,
        "additionalProperties": False,
    }
    return found.schema


class _Definitions:
    """A schema that collects other schemas, with their names prefixed to avoid clashes."""

    def __init__(self, schema: JsonObject) -> None:
        self.schema: JsonObject = {"$schema": DIALECT, **schema}

    def add(self, name: str, section: JsonObject) -> JsonObject:
        """Add a section and return a reference to it."""
        inner = section.get("$defs", {})
        # a reference can be anywhere, so it is replaced in the text, with both of its quotes
        texts = {f'"#/$defs/{each}"': f'"#/$defs/{name}.{each}"' for each in inner}
        text = json.dumps(
            {**{f"{name}.{each}": value for each, value in inner.items()}, name: section}
        )
        for old, new in texts.items():
            text = text.replace(old, new)
        added = json.loads(text)
        added[name].pop("$defs", None)
        self.schema.setdefault("$defs", {}).update(added)
        return {"$ref": f"#/$defs/{name}"}


async def write_worker_schema() -> Path | None:
    """Write the schema of worker files to ~/.forge for editors; return None if that fails."""
    file = forge_home() / "schemas" / "worker.json"
    with suppress(OSError):
        replace_file(file, json.dumps(await worker_schema(), indent=2, ensure_ascii=False) + "\n")
        return file
    return None


async def _sections(kind: str) -> dict[str, JsonObject]:
    """Return the sections of every installed toolset, for worker files or for config.yaml."""
    return {name: each[kind] for name, each in (await _all_sections()).items() if each.get(kind)}


async def _all_sections() -> dict[str, JsonObject]:
    """Return the sections of every plugin; answers are cached until the plugin changes.

    A plugin that cannot be loaded gets a warning and a section that accepts anything.
    """
    found = dict[str, JsonObject]()
    packages = dict[str, str]()
    with StampedCache(forge_home() / "cache" / "sections.json") as cache:
        async with Inspector() as inspector:
            for plugin in PluginHost().toolset_plugins():
                name = f"{plugin.name} of {plugin}"
                stamp = plugin_stamp(plugin, packages)
                kept: Any = cache.find(name, stamp)
                if not isinstance(kept, Mapping):
                    try:
                        kept = await inspector(sections_of_plugin, plugin.name, plugin.distribution)
                        cache.put(name, stamp, kept)
                    except ForgeError as error:
                        # not cached: the plugin may be repaired without a new version
                        kept = {"toolset": ANYTHING}
                        sys.stderr.write(
                            wrap_for(sys.stderr, f"warning: {visible(error.message)}") + "\n"
                        )
                found.setdefault(plugin.name, dict(kept))
    return found


async def sections_of_plugin(name: str, distribution: str) -> JsonObject:
    """Return the schemas of a toolset in worker files and of its policy in config.yaml."""
    host = PluginHost()
    toolset = host.toolset_of(host.named(name, distribution))
    return {
        "toolset": toolset_schema(toolset),
        "policy": section_schema(toolset.Policy) if toolset.Policy else None,
    }

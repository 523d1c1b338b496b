"""The grants of a worker: everything that it starts, allows or reaches without asking.

They are read from files in this process, after validation; no code of the worker runs.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from forge_cli.core.approval import Approval
from forge_cli.core.errors import Mark
from forge_cli.core.zones import Zone, ZoneMode
from forge_cli.files.home import forge_home
from forge_cli.files.mcp import McpServer
from forge_cli.files.mcp_project import project_servers, variables_in
from forge_cli.files.places import place_in
from forge_cli.files.settings_files import load_settings
from forge_cli.files.trust import with_children
from forge_cli.files.worker import Worker
from forge_cli.inspection.worker_zones import declared_zones, sandbox_section
from forge_cli.sandbox.processes.limits import DEFAULT_LIMITS, spell_size
from forge_cli.sandbox.zones.config import SandboxConfig
from forge_cli.sandbox.zones.zones import IsolationLevel
from forge_cli.schema.config import parse_config
from forge_cli.schema.marks import where_in
from forge_cli.schema.toolset import ApprovalConfig

Section = Mapping[str, Any]
ALLOWED = Approval.PRE_APPROVED.value
STARTS_COMMANDS = ("shell", "executables")
OF_SANDBOX = frozenset({"unconfined", "network", "read", "limits", "files", "outside"})
"""Kinds of grants that a child has only if each worker that calls it has them, too."""


class Grant(Struct, frozen=True):
    """Something that a worker may do without asking, with its kind and place."""

    kind: str
    detail: str


class NamedServer(Struct, frozen=True):
    """An MCP server that a worker names, and where it is defined."""

    name: str
    server: McpServer | None
    where: Mark | None


def grants_of(worker: Worker, workspace: Path) -> list[Grant]:
    """Return the grants of a worker and its children, the furthest-reaching first."""
    found: list[Grant] = []
    for each in with_children(worker):
        own = _own_grants(each, workspace)
        if each is worker:
            found += own
        else:
            found += [_of_child(row, each.name) for row in own]
    return found


def _of_child(row: Grant, name: str) -> Grant:
    capped = ", as far as its parents may" if row.kind in OF_SANDBOX else ""
    return replace(row, detail=f"{row.detail} (worker '{name}'{capped})")


def _own_grants(worker: Worker, workspace: Path) -> list[Grant]:
    sections = list(_sections(worker))
    sandbox = sandbox_section(worker)
    servers: list[NamedServer] = []
    for name, section in sections:
        if name == "mcp":
            servers += _servers(section, worker, workspace)
    zones: list[Grant] = []
    for zone in declared_zones(worker, workspace):
        zones += _zone(zone, worker.folder, workspace)
    return [
        *_code(worker, sections),
        *_programs(servers, workspace),
        *_executables(worker, workspace),
        *_isolation(sandbox, starts=any(name in STARTS_COMMANDS for name, _ in sections)),
        *_commands(sections),
        *_calls(worker, sections),
        *zones,
        *_variables(sections, servers),
        *_workers(sections),
    ]


def hooks_beside(workspace: Path) -> list[Grant]:
    """Return the hooks that the settings of the folder or the user add to every worker."""
    found = []
    for hook in load_settings(forge_home(), workspace).hooks:
        if hook.run:
            what = shlex.join(hook.argv)
        else:
            what = f"the observer {hook.observer}"
        found.append(Grant(hook.on, f"{what}{_at(hook.where(), workspace)}"))
    return found


def lines_of_grants(grants: list[Grant], title: str = "it grants itself") -> Iterator[str]:
    """Yield one aligned line for each grant."""
    if not grants:
        yield "nothing beyond the defaults"
        return
    yield f"{title}:"
    width = max(len(grant.kind) for grant in grants)
    for grant in grants:
        yield f"  {grant.kind:<{width}}  {grant.detail}"


def _sections(worker: Worker) -> Iterator[tuple[str, Section]]:
    """Yield every section of every toolset; a toolset that is used several times has a list."""
    for name in worker.config.toolsets:
        section = worker.section("toolsets", name)
        parts = section if isinstance(section, list) else [section]
        for part in parts:
            yield name, part if isinstance(part, Mapping) else {}


def _code(worker: Worker, sections: list[tuple[str, Section]]) -> Iterator[Grant]:
    for plugin in worker.config.plugins:
        yield Grant("code", f"{plugin} runs in forge's own process, unconfined")
    for name, section in sections:
        if name == "custom":
            yield Grant("code", f"{section.get('module')} runs in forge's own process, unconfined")
        elif name == "external":
            yield Grant(
                "code",
                f"the package {section.get('package')} runs in forge's own process, unconfined",
            )


def _servers(section: Section, worker: Worker, workspace: Path) -> Iterator[NamedServer]:
    """Yield each server from the place where a run would find it: worker, settings or folder."""
    given = section.get("servers")
    if isinstance(given, Mapping):
        named = given
    else:
        named = dict.fromkeys(given or ())
    if None in named.values():
        own = load_settings(forge_home()).mcp.servers
    else:
        own = {}
    for name, raw in named.items():
        if raw is None:
            server = own.get(name)
        else:
            server = parse_config(McpServer, raw, file=str(worker.path))
        if server:
            yield NamedServer(name, server, server.where("url" if server.url else "command"))
        else:
            yield _of_project(name, workspace) or NamedServer(
                name, None, where_in(section, ("servers", name))
            )


def _of_project(name: str, workspace: Path) -> NamedServer | None:
    for project in project_servers(workspace):
        if name in project.servers:
            text = project.content.decode("utf-8", "replace")
            key = re.search(rf"{re.escape(json.dumps(name))}\s*:", text)
            mark = Mark(str(project.file))
            if key:  # not found if the name is escaped in another way in the file
                mark = place_in(text[: key.start()], mark)
            return NamedServer(name, project.servers[name], mark)
    return None


def _programs(servers: Iterable[NamedServer], workspace: Path) -> Iterator[Grant]:
    for each in servers:
        server = each.server
        at = _at(each.where, workspace)
        if server is None:
            yield Grant("program", f"the MCP server {each.name}, as you define it{at}")
        elif server.url:
            yield Grant(
                "address", f"{server.url} receives the requests to the MCP server {each.name}{at}"
            )
        else:
            how = "confined as commands are" if server.confined else "unconfined"
            command = shlex.join([str(server.command), *server.args])
            yield Grant("program", f"{command} runs {how}, the MCP server {each.name}{at}")


def _executables(worker: Worker, workspace: Path) -> Iterator[Grant]:
    if "executables" in worker.config.toolsets:
        at = _at(worker.config.where("toolsets", "executables"), workspace)
        yield Grant(
            "program",
            f"the tools in {forge_home() / 'tools'} can be called, confined as commands are{at}",
        )


def _at(where: Mark | None, workspace: Path) -> str:
    """Return file and line, relative to the working directory if the file is inside."""
    if where is None:
        return ""
    file = Path(where.file).absolute()
    if file.is_relative_to(workspace):
        file = file.relative_to(workspace)
    return f" ({file}:{where.line})"


def _isolation(sandbox: SandboxConfig, *, starts: bool) -> Iterator[Grant]:
    wanted = sandbox.wanted()
    if wanted.level is IsolationLevel.OFF:
        yield Grant(
            "unconfined",
            "commands are not confined: they can access everything that you can (isolation: off)",
        )
    elif wanted.network and starts and sandbox.network != []:  # an empty list allows no host
        said: Any = sandbox.network
        reached = ", ".join(said) if isinstance(said, list) else "the network"
        yield Grant("network", f"commands reach {reached}")
    for path in sandbox.read:
        yield Grant("read", f"commands can read {path}")
    for name, value in asdict(sandbox.limits.limits()).items():
        usual = getattr(DEFAULT_LIMITS, name)
        if value is not None and value > usual:
            spell = str if name == "processes" else spell_size
            yield Grant("limits", f"{name} {spell(value)} instead of {spell(usual)}")


def _commands(sections: list[tuple[str, Section]]) -> Iterator[Grant]:
    for name, section in sections:
        if name == "shell":
            # slow to import, and needed only for a worker with a shell
            from forge_cli.bashrules.face import Decision, Rule, granting_rules

            rules: list[Rule] = []
            for rule in section.get("rules") or ():
                if "use" in rule:
                    rules.append(Rule(use=rule["use"]))
                else:
                    rules.append(
                        Rule(
                            pattern=str(rule.get("pattern")),
                            decision=Decision(rule.get("approval")),
                        )
                    )
            for granting in granting_rules(rules):
                yield Grant("command", granting.title)
            if section.get("default") == ALLOWED:
                yield Grant("command", "every command that no rule covers (default: preApproved)")


def _calls(worker: Worker, sections: list[tuple[str, Section]]) -> Iterator[Grant]:
    for name, section in sections:
        given = section.get("approval")
        approval = parse_config(
            ApprovalConfig, {} if given is None else given, file=str(worker.path)
        )
        for tool, verdict in approval.tools.items():
            if verdict is Approval.PRE_APPROVED:
                yield Grant("call", f"{tool} of {name}")
        if approval.default is Approval.PRE_APPROVED:
            yield Grant("call", f"every tool of {name} without a verdict of its own")


def _zone(zone: Zone, *inside: Path) -> Iterator[Grant]:
    if zone.mode is ZoneMode.RW:
        changes = {"write": zone.write, "delete": zone.delete}
    else:
        changes = {}
    allowed = [change for change, approval in changes.items() if approval is Approval.PRE_APPROVED]
    if allowed:
        yield Grant("files", f"{' and '.join(allowed)} in /{zone.name}")
    if not any(zone.path.is_relative_to(os.path.realpath(folder)) for folder in inside):
        able = "written" if zone.mode is ZoneMode.RW else "read"
        yield Grant(
            "outside", f"/{zone.name} is {zone.path}, outside of its folder, and can be {able}"
        )


def _variables(
    sections: list[tuple[str, Section]], servers: Iterable[NamedServer]
) -> Iterator[Grant]:
    for name, section in sections:
        given = section.get("env")
        if isinstance(given, list | Mapping):
            names = [each for each in given if isinstance(each, str)]
        else:
            names = []
        for variable in names:
            yield Grant("variable", f"{variable}, for commands of {name}")
    for each in servers:
        if each.server:
            for variable in variables_in(*each.server.env.values(), *each.server.headers.values()):
                yield Grant("variable", f"{variable}, for the MCP server {each.name}")


def _workers(sections: list[tuple[str, Section]]) -> Iterator[Grant]:
    for name, section in sections:
        if name == "workers":
            for entry in section.get("allowed") or ():
                yield Grant("worker", str(entry))

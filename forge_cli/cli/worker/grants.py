"""What a worker grants itself: everything in its file that lets something happen with nobody asked, in plain words.

Only files that people write are read, in this process, after they were found sound: no code of the worker has a say.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forge_cli.cli.looking.reach import declared_zones, sandbox_section
from forge_cli.core.approval import Approval
from forge_cli.core.config import parse_config
from forge_cli.core.toolset import ApprovalConfig
from forge_cli.core.zones import Zone, ZoneMode
from forge_cli.files.worker import Worker
from forge_cli.sandbox.processes.limits import DEFAULT_LIMITS, spelled
from forge_cli.sandbox.zones.config import SandboxConfig
from forge_cli.sandbox.zones.zones import IsolationLevel

Section = Mapping[str, Any]
ALLOWED = Approval.PRE_APPROVED.value
STARTS_COMMANDS = ("shell", "executables")


@dataclass(frozen=True)
class Grant:
    """One thing that is allowed, and by what it is known."""

    kind: str
    detail: str


def grants_of(worker: Worker, workspace: Path) -> list[Grant]:
    """All that a worker's file allows in advance, in the order of how far it reaches."""
    sections = list(_sections(worker))
    sandbox = sandbox_section(worker)
    return [
        *_code(sections),
        *_isolation(sandbox, starts=any(name in STARTS_COMMANDS for name, _ in sections)),
        *_commands(sections),
        *_calls(worker, sections),
        *(grant for zone in declared_zones(worker, workspace) for grant in _zone(zone, worker.folder, workspace)),
        *_variables(sections),
        *_workers(sections),
    ]


def lines_of_grants(grants: list[Grant]) -> Iterator[str]:
    """One line each, aligned."""
    if not grants:
        yield "it grants itself nothing"
        return
    yield "it grants itself:"
    width = max(len(grant.kind) for grant in grants)
    yield from (f"  {grant.kind:<{width}}  {grant.detail}" for grant in grants)


def _sections(worker: Worker) -> Iterator[tuple[str, Section]]:
    """Every section of every toolset; one that may be used several times has a list of them."""
    for name in worker.config.toolsets:
        section = worker.section("toolsets", name)
        for part in section if isinstance(section, list) else [section]:
            yield name, part if isinstance(part, Mapping) else {}


def _code(sections: list[tuple[str, Section]]) -> Iterator[Grant]:
    for name, section in sections:
        if name == "custom":
            yield Grant("code", f"{section.get('module')} runs in forge's own process, unconfined")
        elif name == "external":
            yield Grant("code", f"the package {section.get('package')} runs in forge's own process, unconfined")


def _isolation(sandbox: SandboxConfig, *, starts: bool) -> Iterator[Grant]:
    wanted = sandbox.wanted()
    if wanted.level is IsolationLevel.OFF:
        yield Grant("unconfined", "commands are not confined: they reach whatever you can (isolation: off)")
    elif wanted.network and starts and sandbox.network != []:
        said: Any = sandbox.network
        yield Grant("network", f"commands reach {', '.join(said) if isinstance(said, list) else 'the network'}")
    yield from (Grant("read", f"commands can read {path}") for path in sandbox.read)
    for name, value in vars(sandbox.limits.limits()).items():
        usual = getattr(DEFAULT_LIMITS, name)
        if value is not None and value > usual:
            shown = (str if name == "processes" else spelled)(value)
            yield Grant("limits", f"{name} {shown} instead of {spelled(usual) if name != 'processes' else usual}")


def _commands(sections: list[tuple[str, Section]]) -> Iterator[Grant]:
    for name, section in sections:
        if name == "shell":
            from forge_cli.toolsets.shell.lint import granting_rules
            from forge_cli.toolsets.shell.rules import ShellRule

            rules = [
                ShellRule(use=rule["use"])
                if "use" in rule
                else ShellRule(pattern=str(rule.get("pattern")), approval=Approval(rule.get("approval")))
                for rule in section.get("rules") or ()
            ]
            yield from (Grant("command", rule.title) for rule in granting_rules(rules))
            if section.get("default") == ALLOWED:
                yield Grant("command", "every command that no rule covers (default: preApproved)")


def _calls(worker: Worker, sections: list[tuple[str, Section]]) -> Iterator[Grant]:
    for name, section in sections:
        given = section.get("approval")
        approval = parse_config(ApprovalConfig, {} if given is None else given, file=str(worker.path))
        for tool, verdict in approval.tools.items():
            if verdict is Approval.PRE_APPROVED:
                yield Grant("call", f"{tool} of {name}")
        if approval.default is Approval.PRE_APPROVED:
            yield Grant("call", f"every tool of {name} that says nothing itself")


def _zone(zone: Zone, *inside: Path) -> Iterator[Grant]:
    changes = {"write": zone.write, "delete": zone.delete} if zone.mode is ZoneMode.RW else {}
    allowed = [change for change, approval in changes.items() if approval is Approval.PRE_APPROVED]
    if allowed:
        yield Grant("files", f"{' and '.join(allowed)} in /{zone.name}")
    if not any(zone.path.is_relative_to(os.path.realpath(folder)) for folder in inside):
        able = "written" if zone.mode is ZoneMode.RW else "read"
        yield Grant("outside", f"/{zone.name} is {zone.path}, outside of its folder, and can be {able}")


def _variables(sections: list[tuple[str, Section]]) -> Iterator[Grant]:
    for name, section in sections:
        given = section.get("env")
        names = [each for each in given if isinstance(each, str)] if isinstance(given, list | Mapping) else []
        yield from (Grant("variable", f"{each}, for commands of {name}") for each in names)


def _workers(sections: list[tuple[str, Section]]) -> Iterator[Grant]:
    for name, section in sections:
        if name == "workers":
            yield from (Grant("worker", str(entry)) for entry in section.get("allowed") or ())

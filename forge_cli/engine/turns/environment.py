"""The system prompt, with its generated part about the worker's environment."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from forge_cli.core.approval import Approval
from forge_cli.core.phrases import DRAFT_DROPPED, ENVIRONMENT_CHANGED
from forge_cli.core.text import visible
from forge_cli.core.zones import Zone, ZoneMode

if TYPE_CHECKING:
    from forge_cli.engine.gate.judge import Judge
    from forge_cli.engine.gate.toolbox import Toolbox
    from forge_cli.engine.turns.output import OutputSchema
    from forge_cli.files.worker import Worker
    from forge_cli.sandbox.network.rules import Network
    from forge_cli.sandbox.zones.zones import Isolation

TITLE = "Your environment:"
SHELL = "shell"
"""The toolset whose tools are command lines."""
_SYSTEMS = {"Darwin": "macOS"}
_CONSENT = {
    Approval.PRE_APPROVED: "freely",
    Approval.ASK: "after asking the user",
    Approval.BLOCKED: "never",
}


class CommandView(Struct, frozen=True):
    """The confinement and the network of a worker's commands."""

    confined: bool
    network: Network
    names: tuple[str, ...] = ()
    """The zones that commands can reach by their virtual names."""


class Environment(Struct, frozen=True, kw_only=True):
    """The description of the environment for the model."""

    directory: Path
    branch: str | None
    zones: tuple[Zone, ...] | None
    """None for a worker without tools."""
    commands: CommandView | None
    """None for a worker that has no shell."""
    system: str
    day: date
    read_only: bool = False
    copy_of: Path | None = None
    """The folder of which the working directory is a copy, in a draft without a view."""

    def paragraph(self) -> str:
        """Return the same text for the same values, so that a session's prompt can be cached."""
        return "\n".join([TITLE, *(f"- {line}" for line in self._lines())])

    def _lines(self) -> Iterator[str]:
        branch = ""
        if self.branch:
            branch = f", git branch {visible(self.branch)}"
        yield f"Working directory: {visible(str(self.directory))}{branch}"
        if self.copy_of:
            yield f"Copy: you work on a copy of {visible(str(self.copy_of))}, which stays as it is"
        if self.zones is not None:
            yield from self._zone_lines(self.zones)
        if self.read_only:
            yield "Session: read-only, nothing can be changed"
        if self.commands:
            yield f"Commands: {_describe_commands(self.commands)}"
            yield f"Network for commands: {_describe_network(self.commands.network)}"
        yield f"System: {self.system}"
        yield f"Date: {self.day:%A}, {self.day.isoformat()}"

    def _zone_lines(self, zones: Sequence[Zone]) -> Iterator[str]:
        if not zones:
            yield "Files: none, there are no zones"
            return
        for zone in zones:
            yield f"Zone /{zone.name}: {self._place(zone)}; {_describe_rights(zone)}"
        near = [zone for zone in zones if zone.path.is_relative_to(self.directory)]
        yield f"Paths: {self._spellings((near or list(zones))[0])}; only files in zones can be used"

    def _spellings(self, zone: Zone) -> str:
        # no name of a file: small models would believe that it exists
        by_zone = f"with its zone (/{zone.name}/...)"
        if not zone.path.is_relative_to(self.directory):
            return f"{by_zone}, absolute ({visible(str(zone.path))}/...) or in the home (~/...)"
        inside = visible(str(zone.path.relative_to(self.directory)))
        begin = "" if inside == "." else f" ({inside}/...)"
        return (
            f"relative to the working directory{begin}, {by_zone}, absolute or in the home (~/...)"
        )

    def _place(self, zone: Zone) -> str:
        if zone.path == self.directory:
            return "the working directory"
        if zone.path.is_relative_to(self.directory):
            return f"the folder {visible(str(zone.path.relative_to(self.directory)))}"
        return f"the folder {visible(str(zone.path))}"


def _describe_rights(zone: Zone) -> str:
    if zone.mode is ZoneMode.RO:
        return "read only"
    if zone.write is zone.delete:
        return f"read freely, write and delete {_CONSENT[zone.write]}"
    return f"read freely, write {_CONSENT[zone.write]}, delete {_CONSENT[zone.delete]}"


def _describe_commands(commands: CommandView) -> str:
    if not commands.confined:
        return "run in the working directory, not confined; they do not know zones by name"
    names = ", ".join(f"/{name}" for name in commands.names)
    seen = "they do not know zones by name"
    if names:
        seen = f"they find {names} by name, too"
    place = "run in the working directory, confined"
    return f"{place}: they write only to zones that can be written; {seen}"


def _describe_network(network: Network) -> str:
    if isinstance(network, bool):
        return "open" if network else "closed"
    names = ", ".join(network.names())
    return f"{names}; others ask" if names else "every host asks"


def describe_zone(zone: Zone) -> dict[str, Any]:
    """Return a zone as events describe it."""
    return {
        "name": zone.name,
        "path": str(zone.stands_for or zone.path),
        "mode": zone.mode.value,
        "write": zone.write.value,
        "delete": zone.delete.value,
    }


def environment_of(
    worker: Worker,
    toolbox: Toolbox,
    judge: Judge,
    branch: str | None,
    copy_of: Path | None = None,
) -> str | None:
    """Return the environment for the model; None if the worker does not want it.

    ``branch`` comes from ``git_branch``, because a confined process cannot ask git itself.
    """
    if not worker.config.environment:
        return None
    system = os.uname()
    has_shell = any(opened.name == SHELL for opened in toolbox.toolsets) and not toolbox.read_only
    environment = Environment(
        directory=judge.worker.workspace,
        branch=branch,
        zones=tuple(map(_declared, judge.worker.zones)) if toolbox.offers else None,
        commands=_command_view(judge.worker.zones, judge.worker.isolation) if has_shell else None,
        system=f"{_SYSTEMS.get(system.sysname, system.sysname)} {system.machine}",
        day=date.today(),
        read_only=toolbox.read_only,
        copy_of=copy_of,
    )
    return environment.paragraph()


def _declared(zone: Zone) -> Zone:
    # a missing folder is replaced by another one, which the model does not have to know
    if zone.stands_for:
        return replace(zone, path=zone.stands_for)
    return zone


def _command_view(zones: Sequence[Zone], wanted: Isolation) -> CommandView:
    from forge_cli.sandbox.isolation.isolation import find_isolation

    found = find_isolation(wanted.level, where=wanted.where)
    if found is None:
        return CommandView(confined=False, network=True)
    names: tuple[str, ...] = ()
    if found.shows_names:
        from forge_cli.sandbox.isolation.confinement import zone_names

        names = zone_names(zones)
    return CommandView(confined=True, network=wanted.network, names=names)


def describe_changes(before: str, now: str, *, is_dropped: bool = False) -> str | None:
    """Return the difference between two paragraphs as a message to the model, or None.

    If the draft ``is_dropped``, the message says so, too.
    """
    old = dict(map(_label, before.splitlines()[1:]))
    new = dict(map(_label, now.splitlines()[1:]))
    changed = [line for label, line in new.items() if old.get(label) != line]
    changed += [f"{label}: no longer there" for label in old if label not in new]
    if is_dropped:
        changed.append(DRAFT_DROPPED)
    if changed:
        return "\n".join([ENVIRONMENT_CHANGED, *changed])
    return None


def _label(line: str) -> tuple[str, str]:
    return line.partition(":")[0], line


def system_prompt(
    worker: Worker,
    guidance: str,
    toolbox: Toolbox,
    output: OutputSchema | None,
    environment: str | None,
) -> str:
    """Return the instructions of worker, workspace, toolsets and answer, and the environment."""
    answer = output.instructions() if output else None
    parts = [worker.instructions, guidance, *toolbox.instructions(), environment, answer]
    return "\n\n".join(filter(None, parts))


def wanted_output(worker: Worker) -> OutputSchema | None:
    """Return the schema of the answer that the worker's file requires, or None."""
    given = worker.config.output_schema
    if given is None:
        return None
    from forge_cli.engine.turns.output import OutputSchema

    where = worker.config.where("output_schema")
    return OutputSchema.load(given, where=where, folder=worker.folder)

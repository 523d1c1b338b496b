"""Opt-in rule sets that a person uses in a folder: builds, containers, local servers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import get_args

from forge_cli.bashrules.sets.rows import OptInSet, rows_of
from forge_cli.core.approval import NEW_ENTRY, GrantRule
from forge_cli.schema.config import Config
from forge_cli.toolsets.shell.rules import ShellRule

OPT_IN: tuple[OptInSet, ...] = get_args(OptInSet)
_TITLES = {
    "building": "builds on a copy (npm run build)",
    "containers": "commands that show containers (docker ps)",
    "localhost": "requests to servers on this machine (curl 127.0.0.1)",
}


class FolderSets(Config):
    """Rule sets for a folder and its subfolders."""

    path: str
    """The folder; ``~`` is your home."""
    use: list[OptInSet]
    """Sets that every worker uses there: building, containers, localhost; others are not offered.
    """

    def covers(self, workspace: Path) -> bool:
        folder = os.path.realpath(os.path.expanduser(self.path))
        return workspace.resolve().is_relative_to(folder)


def rules_in(folders: Iterable[FolderSets], workspace: Path) -> list[ShellRule]:
    """Return the rules for a working directory."""
    used: dict[OptInSet, None] = {}
    for each in folders:
        if each.covers(workspace):
            used.update(dict.fromkeys(each.use))
    return list(map(set_rule, used))


def is_settled(folders: Iterable[FolderSets], workspace: Path) -> bool:
    """Return True if the person has chosen the sets of a working directory, even none."""
    return any(each.covers(workspace) for each in folders)


def set_rule(name: OptInSet) -> ShellRule:
    """Return the rule that uses a set."""
    return ShellRule.model_validate({"use": name})


@cache
def opt_in_programs() -> frozenset[str]:
    """Return the first words of commands that these sets may cover."""
    programs: set[str] = set()
    for name in OPT_IN:
        for row in rows_of(name):
            programs.update(tokens[0] for tokens in row.tokens())
    return frozenset(programs)


def container_sockets() -> list[Path]:
    """Return the sockets of container engines, which commands of the set ``containers`` may use."""
    user = f"/run/user/{os.getuid()}"
    places = ("/var/run/docker.sock", f"{user}/docker.sock", f"{user}/podman/podman.sock")
    return [path for place in places if (path := Path(os.path.realpath(place))).is_socket()]


def offer_of(name: OptInSet, sets: Sequence[OptInSet], workspace: Path) -> GrantRule:
    """Return the rule that one set covers a line; keeping it keeps all ``sets`` of the question."""
    says: dict[str, object] = {"path": str(workspace), "use": list(sets)}
    return GrantRule(
        ("rules", NEW_ENTRY),
        {"use": name},
        f"{_TITLES[name]} in this folder",
        user_at=("folders", NEW_ENTRY),
        user_says=says,
        user_title=f"{', '.join(_TITLES[each] for each in sets)}, in this folder",
        user_refuses={**says, "use": []},
    )

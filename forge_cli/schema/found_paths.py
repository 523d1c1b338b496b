"""Paths found among the arguments of a call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

from forge_cli.core.wire import JsonObject
from forge_cli.schema.json.fields import alternatives, member
from forge_cli.schema.marks import Loc
from forge_cli.schema.paths import ACCESS, KIND, PathUse


def declared_paths(schema: JsonObject, args: Mapping[str, Any]) -> list[PathUse]:
    """Return the declared paths among valid args at any depth, each once."""
    return list({use.at: use for use in _found(schema, args, schema, ())}.values())


def _found(schema: Any, value: Any, root: JsonObject, at: Loc) -> Iterator[PathUse]:
    if not isinstance(value, str | Mapping | list):
        return
    # All alternatives are followed, because the value may fit any of them.
    for branch in alternatives(schema, root):
        match value:
            case str():
                if ACCESS in branch:
                    yield PathUse(value, branch[ACCESS], branch.get(KIND), at=at)
            case Mapping():
                for name, item in value.items():
                    yield from _found(member(branch, name), item, root, (*at, name))
            case list():
                for index, item in enumerate(value):
                    yield from _found(member(branch, index), item, root, (*at, index))


def with_paths(args: Mapping[str, Any], paths: Mapping[Loc, str]) -> dict[str, Any]:
    """Return the args with the values at these places replaced."""
    changed: Any = deepcopy(dict(args))
    for at, path in paths.items():
        around = changed
        for step in at[:-1]:
            around = around[step]
        around[at[-1]] = path
    return dict(changed)

"""The trust in a result: by the tool that brought it, the files that it read, and its command."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from msgspec import Struct

from forge_cli.core.approval import Effect
from forge_cli.engine.provenance.index import Trust
from forge_cli.engine.provenance.places import PlaceRead
from forge_cli.files.provenance import Provenance


class ResultFacts(Struct, frozen=True, kw_only=True):
    """Everything about a call that decides the trust in its result."""

    tool: str
    toolset: str = ""
    server: str | None = None
    """The MCP server of the tool."""
    effects: frozenset[Effect] | None = None
    output: str | None = None
    """What the tool says of its output: ``untrusted`` or ``trusted``."""
    places: tuple[PlaceRead, ...] = ()
    command: str | None = None
    """The shell line, if the tool runs one."""
    had_network: bool = False
    """True if its command may have used the network."""
    reached: bool | None = None
    """True if a connection of its command was recorded; None if connections are not recorded."""


class Trusted(Struct, frozen=True):
    """The trust in a result, and the files on which trust depends."""

    trust: Trust
    from_network: bool = False
    title: str = ""
    files: tuple[Path, ...] = ()
    """Trusted only if these are as they were when the session began."""
    tracked: bool = False
    """True if git has to track the files as well."""


def trust_in(
    facts: ResultFacts,
    args: Mapping[str, Any],
    rule: Provenance,
    zones: Mapping[str, Path],
    folder: Path,
) -> Trusted:
    """Return the trust in a result; ``zones`` are the folders of the zones by name.

    What the rule names exactly counts first, then what it trusts, then whole kinds of sources.
    """
    places = facts.places
    if facts.command is not None:
        from forge_cli.engine.provenance.commands import places_of_line

        places = tuple(places_of_line(facts.command, zones, folder))
    names = list(_names(facts, places, folder))
    network = _is_from_network(facts)
    title = _title(facts, args)
    exact = [name for name in names if ":" in name]
    if any(_is_among(rule.untrusted, name) for name in exact):
        return Trusted("untrusted", network, title)
    if _holds_untrusted_zone(places, rule, zones):
        return Trusted("untrusted", network, title)
    files = tuple(place.path for place in places)
    found = next((name for name in names if _is_among(rule.trusted, name)), None)
    if found is not None:
        is_file = found.startswith(("zone:", "file:"))
        return Trusted("trusted", network, title, files if is_file else ())
    if facts.output == "trusted":
        return Trusted("trusted", network, title)
    if facts.output == "untrusted" or any(name in rule.untrusted for name in names):
        return Trusted("untrusted", network, title)
    if _shows_files(facts, places):
        return Trusted("trusted", network, title, files, tracked=True)
    return Trusted("neutral", network, title)


def _names(facts: ResultFacts, places: Sequence[PlaceRead], folder: Path) -> Iterator[str]:
    """Yield the names by which a rule can mean a result."""
    yield f"tool:{facts.tool}"
    if facts.server is not None:
        yield from ("mcp", f"mcp:{facts.server}", f"mcp:{facts.server}/{facts.tool}")
    elif _is_from_network(facts) and facts.command is None:
        yield "web"
    if facts.command is not None:
        from forge_cli.engine.provenance.commands import first_words

        yield f"command:{facts.command}"
        for words in first_words(facts.command):
            yield f"command:{words}"
        if _may_have_reached(facts):
            yield "commands"
    for place in places:
        if place.zone is None:
            yield "files"
        else:
            yield f"zone:{place.zone}"
        yield f"file:{place.path}"
        relative = os.path.relpath(place.path, folder)
        if not relative.startswith(".."):
            yield f"file:{relative}"


def _is_among(sources: Sequence[str], name: str) -> bool:
    return any(_matches(source, name) for source in sources)


def _matches(source: str, name: str) -> bool:
    """Return True if an entry of a rule means a source; a command is meant by its first words."""
    kind, colon, what = source.partition(":")
    other, _, value = name.partition(":")
    if kind != other or bool(colon) != (":" in name):
        return False
    if kind != "command":
        return fnmatchcase(value, what)
    words, said = value.split(), what.removesuffix("*").split()
    return words[: len(said)] == said


def _is_from_network(facts: ResultFacts) -> bool:
    if facts.command is not None:
        return _may_have_reached(facts)
    reads_there = facts.effects is not None and facts.effects >= {Effect.READ, Effect.NETWORK}
    return facts.server is not None or facts.toolset == "web" or reads_there


def _may_have_reached(facts: ResultFacts) -> bool:
    """Return True if the command of a result reached the network, or nobody knows."""
    if not facts.had_network or facts.command is None:
        return False
    if facts.reached is not None:
        return facts.reached
    from forge_cli.engine.provenance.commands import stays_here

    return not stays_here(facts.command)


def _holds_untrusted_zone(
    places: Sequence[PlaceRead], rule: Provenance, zones: Mapping[str, Path]
) -> bool:
    """Return True if a folder that was read contains an untrusted zone."""
    untrusted = [folder for name, folder in zones.items() if f"zone:{name}" in rule.untrusted]
    return any(
        folder != place.path and folder.is_relative_to(place.path)
        for folder in untrusted
        for place in places
    )


def _shows_files(facts: ResultFacts, places: Sequence[PlaceRead]) -> bool:
    """Return True if a result is the text of files in zones, and of nothing else."""
    if not places or any(place.zone is None for place in places):
        return False
    if facts.command is None:
        return facts.toolset == "filesystem" and facts.effects == frozenset({Effect.READ})
    from forge_cli.engine.provenance.commands import shows_files

    return shows_files(facts.command)


def _title(facts: ResultFacts, args: Mapping[str, Any]) -> str:
    """Return what was read, for people."""
    if facts.command is not None:
        return facts.command
    for name in ("url", "uri", "path", "query", "name", "id"):
        value = args.get(name)
        if isinstance(value, str | int) and value != "":
            return str(value)
    return ""

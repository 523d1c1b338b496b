"""The trust in a result: by the tool that brought it, the files that it read, and its command."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from forge_cli.bashrules.face import ReadLine, read
from forge_cli.core.approval import Effect
from forge_cli.engine.provenance.data import load_table
from forge_cli.engine.provenance.index import Trust
from forge_cli.engine.provenance.named import command_words, only_reads
from forge_cli.engine.provenance.words import is_here
from forge_cli.files.provenance import Provenance

SHELL_TOOLS = ("shell", "exec_command", "write_stdin")
_READERS = frozenset(("cat", "head", "tail", "nl", "grep", "rg"))
"""Programs whose output is that of the files that they name."""
_RECURSIVE = frozenset(("grep", "rg", "find", "ls", "tree", "git"))


class PlaceRead(Struct, frozen=True):
    """A path that a call reads, and the zone of the real file; None outside of the zones."""

    path: Path
    zone: str | None


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
    source: str = ""
    """The trusted source, such as ``mcp:contacts``, which the session may have written to."""


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
        places = tuple(places_of_line(read(facts.command), zones, folder))
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
        return Trusted("trusted", network, title, files if is_file else (), source=found)
    if facts.output == "trusted":
        return Trusted("trusted", network, title, source=f"tool:{facts.tool}")
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
        yield f"command:{facts.command}"
        for words in command_words(read(facts.command)):
            yield f"command:{' '.join(words)}"
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
    parsed = read(facts.command)
    if parsed.unreadable is not None:
        return True
    return not all(map(_is_local, command_words(parsed)))


def _is_local(words: Sequence[str]) -> bool:
    table = _local_programs()
    program = os.path.basename(words[0])
    if program in ("curl", "wget") and is_here(" ".join(words[1:])):
        return True
    if program in ("python", "python3") and words[1:2] == ["-m"]:
        words = words[2:]
        program = words[0] if words else ""
    if program in table["local"]:
        return True
    if program == "git":
        words = _without_options(words)
    rest = [word for word in words[1:] if not word.startswith("-")]
    return bool(rest) and rest[0] in table["some"].get(program, ())


def _without_options(words: Sequence[str]) -> list[str]:
    """Return the words of a git command without ``-C FOLDER`` and ``-c KEY=VALUE``."""
    found: list[str] = []
    skips = False
    for word in words:
        if skips:
            skips = False
        elif word in ("-C", "-c"):
            skips = True
        else:
            found.append(word)
    return found


@cache
def _local_programs() -> Mapping[str, Any]:
    table: Mapping[str, Any] = load_table("commands.yaml")
    return table


def places_of_line(
    parsed: ReadLine, zones: Mapping[str, Path], folder: Path
) -> Iterator[PlaceRead]:
    """Yield the existing files and folders that a line names, with their zones."""
    for words in command_words(parsed):
        named = False
        for word in words[1:]:
            path = Path(os.path.realpath(folder / os.path.expanduser(word)))
            if word.startswith("-") or not os.path.lexists(path):
                continue
            named = True
            yield PlaceRead(path, zone_of(path, zones))
        if not named and os.path.basename(words[0]) in _RECURSIVE:
            real = Path(os.path.realpath(folder))
            yield PlaceRead(real, zone_of(real, zones))


def zone_of(path: Path, zones: Mapping[str, Path]) -> str | None:
    """Return the zone of a real path, the innermost of several; None outside of all."""
    around = [name for name, folder in zones.items() if path.is_relative_to(folder)]
    return max(around, key=lambda name: len(zones[name].parts), default=None)


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
    parsed = read(facts.command)
    words = list(command_words(parsed))
    return only_reads(parsed) and all(os.path.basename(each[0]) in _READERS for each in words)


def _title(facts: ResultFacts, args: Mapping[str, Any]) -> str:
    """Return what was read, for people."""
    if facts.command is not None:
        return facts.command
    for name in ("url", "uri", "path", "query", "name", "id"):
        value = args.get(name)
        if isinstance(value, str | int) and value != "":
            return str(value)
    return ""

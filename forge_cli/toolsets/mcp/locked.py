"""MCP servers in a lock file: the start of each, its tools, resources and prompts."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from hashlib import sha256
from itertools import pairwise
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

import yaml
from msgspec import Struct, field

from forge_cli.core.errors import ToolError
from forge_cli.core.locking import LockEntry, hash_of
from forge_cli.files.mcp import McpServer
from forge_cli.files.parsing import LOADER
from forge_cli.files.started import hashes_of, started_code
from forge_cli.toolsets.mcp.connection import Connection

if TYPE_CHECKING:
    import mcp_types

_EXACT = r"\d[\w.!+-]*"
_COMMIT = re.compile(r".*[@#][0-9a-f]{40}(#.*)?")
_REPOSITORY = re.compile(r"git\+|\w+://|(github|gitlab|bitbucket):|git@")
_NPM = re.compile(rf"(@[^/@]+/)?[^/@]+@v?{_EXACT}")
_PYTHON = re.compile(rf"[A-Za-z0-9][\w.-]*(\[[^\]]*\])?(==={_EXACT}|=={_EXACT}|@{_EXACT})")
_IMAGE = re.compile(r".+@sha256:[0-9a-f]{64}")
_GO = re.compile(r".+@v\d+\.\d+\.\d+\S*")
_DENO = re.compile(rf"(npm|jsr):/?(@[^/@]+/)?[^/@]+@v?{_EXACT}(/.*)?")


TABLE = Path(__file__).with_name("launchers.yaml")
_SPELLED: Mapping[str, tuple[re.Pattern[str], str]] = {
    "npm": (_NPM, "@VERSION"),
    "python": (_PYTHON, "==VERSION"),
    "image": (_IMAGE, "@sha256:DIGEST"),
    "go": (_GO, "@vVERSION"),
    "deno": (_DENO, "@VERSION"),
}
"""The pattern of a package with a fixed version, and how to write one."""
_TAKES_LINE = re.compile("-[A-Za-z]*[cS]")
"""Words that are followed by a whole command line: ``sh -c``, ``bash -lc``, ``env -S``."""


class Launcher(Struct, frozen=True):
    """A program that downloads the package it runs, such as npx: a row of launchers.yaml."""

    starts: str
    spells: str
    packages: str = ""
    also: str = ""
    values: str = ""
    fetched: str = ""
    floating: Mapping[str, str] = field(default_factory=dict)
    pinned: Sequence[str] = ()

    @property
    def named(self) -> tuple[str, ...]:
        """Options whose value is a package."""
        return (*self.packages.split(), *self.also.split())


@cache
def launchers() -> tuple[Launcher, ...]:
    """Return the rows of launchers.yaml."""
    rows = yaml.load(TABLE.read_text("utf-8"), LOADER)  # noqa: S506 - LOADER is a safe loader
    return tuple(Launcher(**row) for row in rows)


def pinned_spelling(command: str, args: Sequence[str]) -> str:
    """Return a command with fixed package versions; empty if they are fixed already."""
    words = [command, *args]
    for at, package, fixed in _floating(words):
        word = words[at].replace(package, fixed)
        if " " in word:  # a command line in one word, such as after sh -c
            word = shlex.quote(word)
        return " ".join([*words[:at], word, *words[at + 1 :]])
    return ""


def _floating(words: Sequence[str]) -> Iterator[tuple[int, str, str]]:
    """Yield packages without a version: position, package, and how to fix its version."""
    for at, package, launcher in _packages(words):
        if not _SPELLED[launcher.spells][0].fullmatch(package) and not _COMMIT.fullmatch(package):
            yield at, package, _fixed(package, launcher)
    for at, (before, line) in enumerate(pairwise(words), 1):
        if _TAKES_LINE.fullmatch(before):
            for _, package, fixed in _floating(_words(line)):
                yield at, package, fixed


def _words(line: str) -> list[str]:
    """Split a command line into words; operators are separate words."""
    # shlex does not treat the backquote of a command substitution as an operator.
    read = shlex.shlex(line.replace("`", " "), posix=True, punctuation_chars=True)
    read.whitespace_split, read.commenters = True, ""
    try:
        return list(read)
    except ValueError:  # a quote that is not closed
        return line.split()


def _packages(words: Sequence[str]) -> Iterator[tuple[int, str, Launcher]]:
    """Yield the packages that a command line downloads, with their positions.

    A launcher may be at any position, because ``env``, ``timeout 9`` and proxies start the words
    after them.
    """
    names = [
        PurePath(word).name.lower().removesuffix(".cmd").removesuffix(".exe") for word in words
    ]
    for begin, name in enumerate(names):
        named = [name, *words[begin + 1 :]]
        for launcher in launchers():
            if behind := _behind(named, launcher):
                for at, package in _named(named, behind, launcher):
                    yield begin + at, package, launcher
                break


def _behind(words: Sequence[str], launcher: Launcher) -> int:
    """Return the number of words up to the launcher, or 0 if it is another program."""
    at, wanted = 0, launcher.starts.split()
    while wanted and at < len(words):
        if words[at] == wanted[0]:
            wanted.pop(0)
        elif at == 0 or not words[at].startswith("-"):
            return 0
        at += 1
    return 0 if wanted else at


def _named(words: Sequence[str], at: int, launcher: Launcher) -> Iterator[tuple[int, str]]:
    given = False
    while at < len(words):
        word, option, value = words[at], *_option(words[at])
        if word == "--":
            at += 1
            break
        if not word.startswith("-"):
            break
        takes = option in (*launcher.named, *launcher.values.split())
        place = at if value or not takes else at + 1
        if option in launcher.named and place < len(words):
            given = given or option in launcher.packages.split()
            for package in (value or words[place]).split(","):
                yield place, package
        at = place + 1
    if (
        not given
        and at < len(words)
        and re.match(launcher.fetched, words[at])  # an empty pattern fits every operand
        and not words[at].startswith((".", "/", "~"))
    ):
        yield at, words[at]


def _option(word: str) -> tuple[str, str]:
    option, _, value = word.partition("=")
    return option, value


def _fixed(package: str, launcher: Launcher) -> str:
    """Return a package with its version, or a repository with a commit."""
    if launcher.spells in ("python", "npm") and _REPOSITORY.match(package):
        mark = "@COMMIT" if launcher.spells == "python" else "#COMMIT"
        return re.sub(r"(#.*)?$", mark, package, count=1)
    return f"{_bare(package, launcher)}{_SPELLED[launcher.spells][1]}"


def _bare(package: str, launcher: Launcher) -> str:
    """Return a package without its version."""
    if launcher.spells == "python":
        return re.split(r"[=<>!~@ ;]", package, maxsplit=1)[0]
    if launcher.spells == "image":
        return package.partition("@")[0]
    # The first character may be the @ of a scope, such as in @org/package@1.0.
    head, sep, _ = package[1:].partition("@")
    return package[0] + head if sep else package


def server_entry(name: str, server: McpServer, workspace: Path) -> LockEntry:
    """Return the lock entry of a server: its definition, and the files of its command line."""
    said = server.model_dump(mode="json", exclude_defaults=True)
    files: list[tuple[str, str]] = []
    if server.command is not None:
        files = _all_files([server.command, *server.args], server, workspace)
    origin = server.url or shlex.join([str(server.command), *server.args])
    floating = ""
    if server.command:
        floating = pinned_spelling(server.command, server.args)
    return LockEntry("mcp", name, origin, hash_of(said, files), floating=floating)


def _all_files(words: Sequence[str], server: McpServer, workspace: Path) -> list[tuple[str, str]]:
    """Return the files that a command line names, and the code beside them that they import."""
    named = dict(_files(words, workspace))
    found = hashes_of(
        path
        for path in started_code(words, workspace, server.env)
        if path.is_relative_to(workspace)
    )
    known = {os.path.normpath(workspace / name) for name in named}
    around: dict[str, str] = {}
    for path, content in found.items():
        if str(path) not in known:
            around[os.path.relpath(path, workspace)] = content
    return [*named.items(), *sorted(around.items())]


def _files(words: Sequence[str], workspace: Path) -> Iterator[tuple[str, str]]:
    """Yield the content of each file that a command line names.

    A program on the PATH counts only if it is a script, without its first line, which names the
    interpreter. Other programs belong to the machine.
    """
    for at, word in enumerate(words):
        given = word.partition("=")[2] if word.startswith("-") else word
        path = workspace / os.path.expanduser(given)
        if given and path.is_file():
            yield given, sha256(path.read_bytes()).hexdigest()
        elif at == 0 and os.sep not in word and (found := shutil.which(word)):
            with open(found, "rb") as file:
                if file.read(2) == b"#!":
                    file.readline()
                    yield word, sha256(file.read()).hexdigest()


async def offered_entries(server: Connection) -> list[LockEntry]:
    """Return lock entries for everything that a connected server offers."""
    offer, found = server.offer, dict[str, str]()
    found["tools"] = hash_of(sorted(tool.name for tool in offer.tools))
    found |= {f"tools/{tool.name}": tool.definition for tool in offer.tools}
    if offer.instructions:
        found["instructions"] = hash_of(offer.instructions)
    resources = await _resources(server) if offer.resources else []
    for part, things in (("resources", resources), ("prompts", server.prompts)):
        for thing in things:
            said = thing.model_dump(mode="json", by_alias=True, exclude={"meta"}, exclude_none=True)
            found[f"{part}/{said.get('uri') or said['name']}"] = hash_of(said)
    return [
        LockEntry("mcp", f"{server.name}/{name}", server.name, content)
        for name, content in found.items()
    ]


async def _resources(server: Connection) -> list[mcp_types.Resource]:
    """Return the resources of a server; none if it cannot list them."""
    try:
        return await server.list_resources()
    except ToolError:
        return []

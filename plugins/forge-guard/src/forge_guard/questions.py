"""The question of a hook as calls of forge's own tools in the folder of the project."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

Json = dict[str, Any]
Call = tuple[str, Json]
"""The name of a tool of forge and its arguments."""


MAX_SEARCHED = 50_000
"""Files below a folder that is searched for names of secrets."""
_NOT_SEARCHED = {".git", "node_modules"}
_ODD_GLOB = re.compile(r"[\[\\(!+@]")
"""Brackets and the like, which differ between tools."""


class NotUnderstood(Exception):
    """Raised for an unknown or invalid input of a hook; the message is the reason."""


@dataclass(frozen=True)
class Question:
    """Calls to be judged; if there are none, the tool's own rules decide."""

    tool: str
    event: str
    project: Path
    session: str
    calls: tuple[Call, ...]
    made: bool = False
    """True if the calls were made already, after a yes of the person."""
    given: Json = field(default_factory=dict)
    """The input of the tool, which an answer may change."""
    doubt: str | None = None
    """Why nothing is allowed without asking."""


def text_of(given: Mapping[str, Any], *names: str) -> str:
    """Return the text of the one of these keys that is given; several must have one value."""
    found = [name for name in names if name in given]
    if not found:
        raise NotUnderstood(f"there is no '{names[0]}'")
    text = given[found[0]]
    if not isinstance(text, str) or "\0" in text:
        raise NotUnderstood(f"'{found[0]}' is not a text")
    for other in found[1:]:
        if given[other] is not None and given[other] != text:
            raise NotUnderstood(f"'{found[0]}' and '{other}' differ, and either may count")
    return text


@dataclass(frozen=True)
class Place:
    """The folder in which a tool works, for judging paths relative to the project."""

    project: Path
    cwd: Path

    def path(self, given: str) -> str:
        """Return a path relative to the project, so that its first part is not read as a zone."""
        if given.startswith("~"):
            raise NotUnderstood(f"'{given}' may mean a home, or a file of that name")
        whole = os.path.join(self.cwd, given)
        plain = os.path.normpath(whole)
        if ".." in Path(whole).parts and os.path.realpath(whole) != os.path.realpath(plain):
            raise NotUnderstood(
                f"'{given}' leads through a link and back, which programs read in different ways"
            )
        if Path(plain).is_relative_to(self.project):
            inside = os.path.relpath(plain, self.project)
        else:
            inside = os.path.relpath(os.path.realpath(plain), os.path.realpath(self.project))
        before = "./" if inside.startswith("~") else ""
        after = "/" if given.endswith(("/", "/.")) else ""
        return f"{before}{inside}{after}"

    def shell(self, command: str, folder: str | None = None) -> Call:
        """Return the call for a command line; add a ``cd`` for a folder below the project."""
        inside = self.path(folder or ".").rstrip("/")
        if inside != ".":
            command = f"cd {shlex.quote(inside)}\n{command}"
        return "shell", {"command": command}

    def read(self, path: str) -> Call:
        return "read_file", {"path": self.path(path)}

    def list(self, path: str) -> Call:
        return "list_files", {"path": self.path(path)}

    def search(self, pattern: str, path: str) -> Call:
        return "grep_files", {"pattern": pattern, "path": self.path(path)}

    def secrets(self, pattern: str, path: str) -> Iterator[Call]:
        """Yield reads of the environment files below a folder that fit a pattern for names.

        A tool that gets a pattern for names reads hidden files, too, which a search skips.
        """
        # Separated by blanks or commas, which also stand in braces: then any name may fit.
        globs = re.split(r"[\s,]+", pattern) if "{" not in pattern else ["*"]
        names = [glob.rstrip("/").rsplit("/", 1)[-1].lower() for glob in globs if glob[:1] != "!"]
        names = ["*" if _ODD_GLOB.search(name) else name for name in names]
        seen = 0
        for folder, below, files in os.walk(os.path.join(self.cwd, path)):
            below[:] = sorted(set(below) - _NOT_SEARCHED)
            seen += len(files)
            if seen > MAX_SEARCHED:
                raise NotUnderstood(f"it searches more than {MAX_SEARCHED:,} files")
            for file in sorted(files):
                is_env = file.lower().startswith(".env")
                if is_env and any(fnmatchcase(file.lower(), name) for name in names):
                    yield self.read(os.path.join(folder, file))

    def write(self, path: str, content: str) -> Call:
        return "write_file", {"path": self.path(path), "content": content}

    def find(self, pattern: str, path: str) -> Call:
        """Return the call that lists the folder of a pattern for file names."""
        fixed: list[str] = []
        for part in pattern.split("/")[:-1]:
            if any(mark in part for mark in "*?[{!("):
                break
            fixed.append(part)
        below = "/".join(fixed) or ("/" if pattern.startswith("/") else ".")
        if ".." in pattern.split("/")[len(fixed) :]:
            raise NotUnderstood(f"the pattern '{pattern}' leads out of where it begins")
        return self.list(os.path.join(path, below))


Reader = Callable[[Place, Mapping[str, Any]], Iterator[Call]]
"""Converts the input of a tool to calls."""


@dataclass(frozen=True)
class Hook:
    """How a tool asks: the calls behind its tools, and the tools that need no verdict."""

    readers: Mapping[str, Reader]
    own: Collection[str]
    """Tools that affect nothing outside; the tool's own rules decide."""
    asks: Mapping[str, str]
    """Tools that always ask, with the reason."""
    mcp: Callable[[str, Mapping[str, Any], Place], tuple[str, str] | None]
    """Returns the server and the tool of an MCP tool, or None."""
    shell_of: Callable[[Mapping[str, str]], str | None]
    """Returns the shell that runs command lines."""
    event: str
    """The name of the event, if the input does not contain it."""
    project: Callable[[Mapping[str, Any], Mapping[str, str]], str | None] = lambda data, env: None
    """Returns the folder that the tool was started for, if it may differ from its working
    directory."""

    def calls(self, place: Place, data: Mapping[str, Any]) -> tuple[Call, ...]:
        """Return the calls that a question is about."""
        name, given = text_of(data, "tool_name"), data.get("tool_input")
        if name in self.own:
            return ()
        if name in self.asks:
            raise NotUnderstood(self.asks[name])
        if named := self.mcp(name, data, place):
            return (("call_mcp", {"server": named[0], "tool": named[1]}),)
        if (reader := self.readers.get(name)) is None:
            raise NotUnderstood(f"the tool '{name}' is not known here")
        if not isinstance(given, dict):
            raise NotUnderstood("its input is not an object")
        return tuple(reader(place, given))


def place_of(data: Mapping[str, Any], project: str | None) -> Place:
    """Return the folder in which a tool works; the policy is for the folder it was started in."""
    cwd = Path(text_of(data, "cwd"))
    place = Place(Path(project or cwd), cwd)
    if not (place.project.is_absolute() and cwd.is_absolute()):
        raise NotUnderstood(f"the working directory '{cwd}' is not absolute")
    return place

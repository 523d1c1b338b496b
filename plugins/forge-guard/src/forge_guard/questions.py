"""The question of a hook, read from its JSON: calls of forge's own tools, in the folder of the project."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = dict[str, Any]
Call = tuple[str, Json]
"""The name of one of forge's tools, and its args."""


class NotUnderstood(Exception):
    """The hook's input is not what is known of this tool; the sentence says why."""


@dataclass(frozen=True)
class Question:
    """May these calls be made? With none of them the tool decides by itself."""

    tool: str
    event: str
    project: Path
    session: str
    calls: tuple[Call, ...]
    made: bool = False
    """They were made already: a person has said yes to what asked."""
    doubt: str | None = None
    """Why nothing is allowed without being asked about."""


def text_of(given: Mapping[str, Any], *names: str) -> str:
    """The text that stands under the first of these names."""
    for name in names:
        if name in given:
            if isinstance(given[name], str) and "\0" not in given[name]:
                return str(given[name])
            raise NotUnderstood(f"'{name}' is not a text")
    raise NotUnderstood(f"there is no '{names[0]}'")


@dataclass(frozen=True)
class Place:
    """The folder a tool works in: files and commands are judged from the project's folder."""

    project: Path
    cwd: Path

    def path(self, given: str) -> str:
        """A path as the gate reads it: relative to the project, so that no first part is taken for a zone's name."""
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
        before, after = (
            "./" if inside.startswith("~") else "",
            "/" if given.endswith(("/", "/.")) else "",
        )
        return f"{before}{inside}{after}"

    def shell(self, command: str, folder: str | None = None) -> Call:
        """A command line; one that runs below the project's folder is judged as if it went there first."""
        inside = self.path(folder or ".").rstrip("/")
        return "shell", {
            "command": command if inside == "." else f"cd {shlex.quote(inside)}\n{command}"
        }

    def read(self, path: str) -> Call:
        return "read_file", {"path": self.path(path)}

    def list(self, path: str) -> Call:
        return "list_files", {"path": self.path(path)}

    def search(self, pattern: str, path: str) -> Call:
        return "grep_files", {"pattern": pattern, "path": self.path(path)}

    def write(self, path: str, content: str) -> Call:
        return "write_file", {"path": self.path(path), "content": content}

    def find(self, pattern: str, path: str) -> Call:
        """The folder in which a pattern of file names is looked for."""
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
"""The calls that a tool's input stands for."""


@dataclass(frozen=True)
class Hook:
    """How one tool asks: the calls behind its tools' names, and which of its tools are none of the gate's business."""

    readers: Mapping[str, Reader]
    own: Collection[str]
    """Tools that touch nothing themselves: the tool's own rules decide."""
    mcp: Callable[[str, Mapping[str, Any]], tuple[str, str] | None]
    """Server and tool behind the name of an MCP tool, or None."""
    shell_of: Callable[[Mapping[str, str]], str | None]
    """The shell that runs its command lines."""
    event: str
    """The name of its hook, where the input does not say."""
    project: Callable[[Mapping[str, Any], Mapping[str, str]], str | None] = lambda data, env: None
    """The folder that the tool was started for, where that may be another than its working directory."""

    def calls(self, place: Place, data: Mapping[str, Any]) -> tuple[Call, ...]:
        """The calls that a question is about."""
        name, given = text_of(data, "tool_name"), data.get("tool_input")
        if name in self.own:
            return ()
        if named := self.mcp(name, data):
            return (("call_mcp", {"server": named[0], "tool": named[1]}),)
        if (reader := self.readers.get(name)) is None:
            raise NotUnderstood(f"the tool '{name}' is not known here")
        if not isinstance(given, dict):
            raise NotUnderstood("its input is not an object")
        return tuple(reader(place, given))


def place_of(data: Mapping[str, Any], project: str | None) -> Place:
    """The folder a tool works in; the policy is about the folder that it was started for."""
    cwd = Path(text_of(data, "cwd"))
    place = Place(Path(project or cwd), cwd)
    if not (place.project.is_absolute() and cwd.is_absolute()):
        raise NotUnderstood(f"the working directory '{cwd}' is not absolute")
    return place

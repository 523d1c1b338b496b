"""The known tools, and the calls of forge's own tools that their calls correspond to."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from forge_guard.confined import original
from forge_guard.questions import (
    Call,
    Hook,
    NotUnderstood,
    Place,
    Question,
    Reader,
    place_of,
    text_of,
)
from forge_guard.settings import read_settings

_KNOWN: dict[str, Any] = json.loads(
    files("forge_guard").joinpath("known_tools.json").read_text(encoding="utf-8")
)
"""The tools of each coding tool that no reader converts, and the newest version looked at.

``own`` affect nothing outside of the coding tool, or only start agents whose calls are judged. With
``asks`` are the reasons why the others ask. ``unhooked`` are never passed to a hook, and
``hooked_as`` are passed by another name than the model knows.
"""
_ADDRESS = re.compile(r"\S*://\S+")
_ABSOLUTE = re.compile(r"(?m)^\s*\*\*\*[^:\n]*:\s*[/~]")
UNASKED = frozenset({"bypassPermissions", "dontAsk", "auto"})
"""Modes of Claude Code in which calls run without a yes of the person."""


def _runs(line: str, *folder: str) -> Reader:
    """Return a reader for a command line, and the folder it runs in."""

    def read(place: Place, given: Mapping[str, Any]) -> Iterator[Call]:
        yield place.shell(original(text_of(given, line)), _optional(given, *folder))

    return read


def _reads(*path: str) -> Reader:
    return lambda place, given: iter([place.read(text_of(given, *path))])


def _lists(*path: str) -> Reader:
    return lambda place, given: iter([place.list(_optional(given, *path) or ".")])


def _finds(*path: str) -> Reader:
    return lambda place, given: iter(
        [place.find(text_of(given, "pattern"), _optional(given, *path) or ".")]
    )


def _searches(*path: str, names: tuple[str, ...] = ()) -> Reader:
    """Return a reader for a search; ``names`` are the keys of a pattern for names of files."""

    def read(place: Place, given: Mapping[str, Any]) -> Iterator[Call]:
        folder = _optional(given, *path) or "."
        yield place.search(text_of(given, "pattern"), folder)
        if names and (pattern := _optional(given, *names)):
            yield from place.secrets(pattern, folder)

    return read


def _writes(path: str, content: str) -> Reader:
    return lambda place, given: iter(
        [place.write(text_of(given, path), _optional(given, content) or "")]
    )


def _patches(*text: str) -> Reader:
    """Return a reader for patches in the format of codex, which forge's tool accepts."""

    def read(place: Place, given: Mapping[str, Any]) -> Iterator[Call]:
        if place.cwd != place.project:
            raise NotUnderstood("a patch is only judged in the project's own folder")
        patch = text_of(given, *text)
        if _ABSOLUTE.search(patch):  # whose first part the gate could take for the name of a zone
            raise NotUnderstood(
                "a patch is only judged with paths that begin in the project's folder"
            )
        yield "apply_patch", {"input": patch}

    return read


def _opens(place: Place, given: Mapping[str, Any]) -> Iterator[Call]:
    yield "open_url", {"url": text_of(given, "url")}


def _asks_the_web(place: Place, given: Mapping[str, Any]) -> Iterator[Call]:
    yield "search_web", {"query": text_of(given, "query")}


def _optional(given: Mapping[str, Any], *names: str) -> str | None:
    if all(given.get(name) is None for name in names):
        return None
    return text_of(given, *names)


def _edited_often(place: Place, given: Mapping[str, Any]) -> Iterator[Call]:
    edits = [each for each in given.get("edits") or () if isinstance(each, dict)]
    new = "\n".join(text_of(each, "new_string", "newString") for each in edits)
    yield place.write(text_of(given, "file_path", "filePath"), new)


def _watched(place: Place, given: Mapping[str, Any]) -> Iterator[Call]:
    if "command" in given:
        yield place.shell(text_of(given, "command"))
    if isinstance(given.get("ws"), dict):
        yield from _opens(place, given["ws"])
    elif "command" not in given:
        raise NotUnderstood("it watches neither a command nor an address")


def _addresses_in(place: Place, given: Mapping[str, Any]) -> Iterator[Call]:
    """Yield every address in a prompt, because Gemini CLI fetches each."""
    found = _ADDRESS.findall(text_of(given, "prompt", "url"))
    if not found:
        raise NotUnderstood("there is no address in it")
    for each in found:
        yield "open_url", {"url": each}


def _read_many(place: Place, given: Mapping[str, Any]) -> Iterator[Call]:
    wanted = given.get("include")
    if not isinstance(wanted, list) or not wanted:
        raise NotUnderstood("'include' is not a list")
    for each in wanted:
        pattern = text_of({"include": each}, "include")
        if any(mark in pattern for mark in "*?[{"):
            yield place.find(pattern, ".")
            yield from place.secrets(pattern, ".")
        else:
            yield place.read(pattern)


def _two_lines(name: str, data: Mapping[str, Any], place: Place) -> tuple[str, str] | None:
    """Split ``mcp__SERVER__TOOL``, the format of Claude Code and codex; resources by server."""
    given = data.get("tool_input")
    if name.startswith("ReadMcpResource") and isinstance(given, dict):
        return text_of(given, "server"), "resources"
    server, parted, tool = name.removeprefix("mcp__").partition("__")
    if not name.startswith("mcp__") or not parted:
        return None
    if "__" in tool or tool.startswith("_"):
        raise NotUnderstood(f"'{name}' may be a tool of several servers")
    return server, tool


def _named_beside(name: str, data: Mapping[str, Any], place: Place) -> tuple[str, str] | None:
    """Return the server and the tool that Gemini CLI passes besides the name."""
    context = data.get("mcp_context")
    if not isinstance(context, dict):
        return None
    return text_of(context, "server_name"), text_of(context, "tool_name")


def _one_line(name: str, data: Mapping[str, Any], place: Place) -> tuple[str, str] | None:
    """Split ``SERVER_TOOL``, the format of opencode, at the end of a server that it knows.

    Without one, the name is split at its first ``_``.
    """
    if "_" not in name or name in OPENCODE.readers:
        return None
    fitting = [each for each in _servers_of_opencode(place) if name.startswith(f"{each}_")]
    if len(fitting) > 1:
        raise NotUnderstood(f"'{name}' may be a tool of {' or '.join(sorted(fitting))}")
    server = fitting[0] if fitting else name.partition("_")[0]
    return server, name.removeprefix(f"{server}_")


def _servers_of_opencode(place: Place) -> set[str]:
    """Return the MCP servers that the settings of opencode name, as its tools spell them."""
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    found: set[str] = set()
    for folder in (home / "opencode", place.project, place.project / ".opencode"):
        for name in ("opencode.json", "opencode.jsonc"):
            try:
                settings = read_settings((folder / name).read_text(encoding="utf-8"))
                servers = settings.get("mcp") or {}
            except (OSError, ValueError, AttributeError):
                continue
            found |= {re.sub(r"[^A-Za-z0-9_-]", "_", server) for server in servers}
    return found


CLAUDE = Hook(
    readers={
        "Bash": _runs("command"),
        "Monitor": _watched,
        "Read": _reads("file_path"),
        "NotebookRead": _reads("notebook_path"),
        "LS": _lists("path"),
        "Glob": _finds("path"),
        "Grep": _searches("path", names=("glob",)),
        "Write": _writes("file_path", "content"),
        "Edit": _writes("file_path", "new_string"),
        "MultiEdit": _edited_often,
        "NotebookEdit": _writes("notebook_path", "new_source"),
        "LSP": _reads("filePath", "file_path"),
        "WebFetch": _opens,
        "WebSearch": _asks_the_web,
    },
    own=frozenset(_KNOWN["claude"]["own"]),
    asks=_KNOWN["claude"]["asks"],
    mcp=_two_lines,
    project=lambda data, env: env.get("CLAUDE_PROJECT_DIR"),
    shell_of=lambda env: env.get("CLAUDE_CODE_SHELL") or env.get("SHELL"),
    event="PreToolUse",
)


def _start_of_codex(data: Mapping[str, Any], env: Mapping[str, str]) -> str:
    """Return the folder in which the session began; the model chooses ``cwd``."""
    try:
        with open(text_of(data, "transcript_path"), encoding="utf-8") as transcript:
            first = json.loads(transcript.readline())
        return text_of(first["payload"], "cwd")
    except (OSError, ValueError, KeyError, TypeError, NotUnderstood) as error:
        raise NotUnderstood("the folder that the session began in cannot be found") from error


CODEX = Hook(
    readers={
        "Bash": _runs("command"),
        "apply_patch": _patches("command", "input", "patch"),
        "view_image": _reads("path"),
    },
    own=frozenset(_KNOWN["codex"]["own"]),
    asks=_KNOWN["codex"]["asks"],
    mcp=_two_lines,
    project=_start_of_codex,
    shell_of=lambda env: env.get("SHELL"),
    event="PreToolUse",
)
GEMINI = Hook(
    readers={
        "run_shell_command": _runs("command", "dir_path", "directory"),
        "read_file": _reads("file_path", "absolute_path"),
        "read_many_files": _read_many,
        "list_directory": _lists("dir_path", "path"),
        "glob": _finds("dir_path", "path"),
        "grep_search": _searches("dir_path", "path", names=("include", "include_pattern")),
        "search_file_content": _searches("dir_path", "path", names=("include", "include_pattern")),
        "write_file": _writes("file_path", "content"),
        "replace": _writes("file_path", "new_string"),
        "web_fetch": _addresses_in,
        "google_web_search": _asks_the_web,
    },
    own=frozenset(_KNOWN["gemini"]["own"]),
    asks=_KNOWN["gemini"]["asks"],
    mcp=_named_beside,
    shell_of=lambda env: "bash",
    event="BeforeTool",
)
OPENCODE = Hook(
    readers={
        "bash": _runs("command", "workdir"),
        "read": _reads("filePath"),
        "list": _lists("path"),
        "glob": _finds("path"),
        "grep": _searches("path", names=("include",)),
        "write": _writes("filePath", "content"),
        "edit": _writes("filePath", "newString"),
        "multiedit": _edited_often,
        "apply_patch": _patches("patchText"),
        "patch": _patches("patchText"),
        "webfetch": _opens,
        "websearch": _asks_the_web,
    },
    own=frozenset(_KNOWN["opencode"]["own"]),
    asks=_KNOWN["opencode"]["asks"],
    mcp=_one_line,
    shell_of=lambda env: env.get("SHELL"),
    event="tool.execute.before",
)
HOOKS = {"claude": CLAUDE, "codex": CODEX, "gemini": GEMINI, "opencode": OPENCODE}


def read_question(tool: str, text: str, env: Mapping[str, str]) -> Question:
    """Parse the input of a hook; raise NotUnderstood if it is invalid."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise NotUnderstood("the hook's input is not JSON") from None
    if not isinstance(data, dict):
        raise NotUnderstood("the hook's input is not an object")
    hook, event = HOOKS[tool], text_of(data, "hook_event_name")
    place = place_of(data, hook.project(data, env))
    project, session = Path(os.path.realpath(place.project)), str(data.get("session_id"))
    asked = Question(tool, event, project, session, (), made=event == "PostToolUse")
    if asked.made and data.get("permission_mode") in UNASKED:
        return asked
    try:
        calls = hook.calls(place, data)
    except NotUnderstood as doubt:
        # Judged by a name that no tool of forge has, so that it is on record.
        unknown = f"{tool}:{data.get('tool_name')}", {"input": data.get("tool_input")}
        return replace(asked, calls=(unknown,), doubt=str(doubt))
    shell: str | None = "bash"
    if any(name == "shell" for name, _ in calls):
        shell = hook.shell_of(env)
    given = data.get("tool_input")
    unconfined = isinstance(given, dict) and bool(given.get("dangerouslyDisableSandbox"))
    why = _other_shell(tool, shell)
    if unconfined:
        why = f"it wants to leave the sandbox of {tool}"
    kept = given if isinstance(given, dict) else {}
    return replace(asked, calls=calls, doubt=why, given=kept)


def _other_shell(tool: str, shell: str | None) -> str | None:
    """Return why a line may mean something else in a shell other than bash."""
    if shell and os.path.basename(shell) == "bash":
        return None
    remedy = "CLAUDE_CODE_SHELL" if tool == "claude" else "SHELL"
    used = Path(shell).name if shell else "another shell"
    return f"the rules read bash, and {tool} may run this with {used}: set {remedy}=/bin/bash"

"""The tools whose hooks are known: how each asks, and in which words it takes an answer."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from forge_guard.questions import Call, Hook, Json, NotUnderstood, Place, Question, place_of, text_of

Decision = Literal["allow", "ask", "deny"]


@dataclass(frozen=True)
class Answer:
    """What a hook gives back: standard output, standard error and exit code."""

    out: str = ""
    err: str = ""
    code: int = 0


def _written(place: Place, given: Mapping[str, Any]) -> Iterator[Call]:
    yield place.write(text_of(given, "file_path"), text_of(given, "content"))


def _edited(place: Place, given: Mapping[str, Any]) -> Iterator[Call]:
    yield place.write(text_of(given, "file_path"), text_of(given, "new_string"))


def _edited_often(place: Place, given: Mapping[str, Any]) -> Iterator[Call]:
    edits = [each for each in given.get("edits") or () if isinstance(each, dict)]
    yield place.write(text_of(given, "file_path"), "\n".join(text_of(each, "new_string") for each in edits))


def _watched(place: Place, given: Mapping[str, Any]) -> Iterator[Call]:
    if "command" in given:
        yield place.shell(text_of(given, "command"))
    if isinstance(given.get("ws"), dict):
        yield "open_url", {"url": text_of(given["ws"], "url")}
    elif "command" not in given:
        raise NotUnderstood("it watches neither a command nor an address")


def _mcp_of_claude(name: str, data: Mapping[str, Any]) -> tuple[str, str] | None:
    given = data.get("tool_input")
    if name in ("ReadMcpResourceTool", "ReadMcpResourceDirTool", "ReadMcpResource", "ReadMcpResourceDir"):
        return (text_of(given, "server") if isinstance(given, dict) else "?"), "resources"
    server, parted, tool = name.removeprefix("mcp__").partition("__")
    return (server, tool) if name.startswith("mcp__") and parted else None


CLAUDE = Hook(
    readers={
        "Bash": lambda place, given: iter([place.shell(text_of(given, "command"))]),
        "Monitor": _watched,
        "Read": lambda place, given: iter([place.read(text_of(given, "file_path"))]),
        "NotebookRead": lambda place, given: iter([place.read(text_of(given, "notebook_path"))]),
        "LS": lambda place, given: iter([place.list(text_of(given, "path"))]),
        "Glob": lambda place, given: iter([place.find(text_of(given, "pattern"), given.get("path") or ".")]),
        "Grep": lambda place, given: iter([place.search(text_of(given, "pattern"), given.get("path") or ".")]),
        "Write": _written,
        "Edit": _edited,
        "MultiEdit": _edited_often,
        "NotebookEdit": lambda place, given: iter(
            [place.write(text_of(given, "notebook_path"), str(given.get("new_source", "")))]
        ),
        "WebFetch": lambda place, given: iter([("open_url", {"url": text_of(given, "url")})]),
        "WebSearch": lambda place, given: iter([("search_web", {"query": text_of(given, "query")})]),
    },
    own=frozenset(
        [
            "Agent",
            "Task",
            "TaskCreate",
            "TaskGet",
            "TaskList",
            "TaskOutput",
            "TaskStop",
            "TaskUpdate",
            "TodoWrite",
            "AskUserQuestion",
            "EnterPlanMode",
            "ExitPlanMode",
            "Skill",
            "ToolSearch",
            "BashOutput",
            "KillShell",
            "KillBash",
            "ListMcpResources",
            "ListMcpResourcesTool",
            "ReportFindings",
            "StructuredOutput",
            "CronList",
            "ScheduleWakeup",
        ]
    ),
    mcp=_mcp_of_claude,
    project="CLAUDE_PROJECT_DIR",
)

HOOKS = {"claude": CLAUDE}
BYPASSED = frozenset({"bypassPermissions", "dontAsk", "auto"})
"""Modes of Claude Code in which a call is made that no person has said yes to."""


def read_question(tool: str, text: str, env: Mapping[str, str]) -> Question:
    """The question in a hook's input; NotUnderstood where it is none."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise NotUnderstood("the hook's input is not JSON") from None
    if not isinstance(data, dict):
        raise NotUnderstood("the hook's input is not an object")
    hook = HOOKS[tool]
    event, session = text_of(data, "hook_event_name"), str(data.get("session_id", ""))
    place = place_of(data, env.get(hook.project) if hook.project else None)
    asked = Question(tool, event, place.project, session, (), made=event == "PostToolUse")
    if asked.made and data.get("permission_mode") in BYPASSED:
        return asked
    try:
        calls = hook.calls(place, data)
    except NotUnderstood as doubt:  # judged by a name that no tool of forge has, so that it is on record
        unknown = f"{tool}:{data.get('tool_name')}", {"input": data.get("tool_input")}
        return replace(asked, calls=(unknown,), doubt=str(doubt))
    shell = any(name == "shell" for name, _ in calls)
    return replace(asked, calls=calls, doubt=_other_shell(tool, env) if shell else None)


def _other_shell(tool: str, env: Mapping[str, str]) -> str | None:
    """Why a command line may mean something else than the rules think: they read bash."""
    shell = env.get("CLAUDE_CODE_SHELL") or env.get("SHELL") or ""
    if os.path.basename(shell) == "bash":
        return None
    used = f"{tool} may run commands with {shell or 'another shell'}"
    return f"the rules read bash, and {used}: set {'CLAUDE_CODE_SHELL' if tool == 'claude' else 'SHELL'}=/bin/bash"


def say(tool: str, event: str, decision: Decision | None, reason: str) -> Answer:
    """An answer in the words of a tool; None leaves it to the tool's own rules."""
    if decision is None or event == "PostToolUse":
        return Answer()
    said: Json = {"hookEventName": event, "permissionDecision": decision, "permissionDecisionReason": reason}
    return Answer(json.dumps({"hookSpecificOutput": said}) + "\n")

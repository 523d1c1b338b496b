"""Where the hook of each tool is installed, and what stands there then."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from forge_cli import ForgeError
from forge_guard import hook
from forge_guard.hooks import Answer, say
from forge_guard.settings import with_entry, without_entries

MARK = os.path.join("forge_guard", "hook.py")
"""What tells our entries from others."""
FAILED = "forge guard cannot be started; forge guard status says more"


@dataclass(frozen=True)
class Target:
    """A tool and its settings: files, and the lists in them that get an entry each."""

    tool: str
    user: str
    project: str
    entries: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Of each event: what stands beside the command."""
    home: str | None = None
    """The variable that names the tool's own folder."""
    told: str = ""
    """What else a person has to know or do."""

    def file(self, *, project: bool) -> Path:
        """The settings that are meant."""
        if project:
            return Path.cwd() / self.project
        named = os.environ.get(self.home) if self.home else None
        return Path(named) / Path(self.user).name if named else Path.home() / self.user

    def installed(self, text: str) -> str:
        """The settings with our hook, once."""
        text = self.removed(text)
        for event, more in self.entries.items():
            entry = {**more, "hooks": [{"type": "command", "command": command_line(self.tool, event), "timeout": 30}]}
            text = with_entry(text, ("hooks", event), entry)
        return text

    def removed(self, text: str) -> str:
        """The settings as they were before."""
        for event in self.entries:
            text = without_entries(text, ("hooks", event), _is_ours)
        return text

    def is_installed(self, text: str) -> bool:
        """Is our hook there, as this version of it writes it?"""
        return bool(text.strip()) and self.installed(text) == text


def command_line(tool: str, event: str) -> str:
    """What a hook runs; where even Python cannot be started, it still does not say yes."""
    line = shlex.join([sys.executable, "-I", "-S", hook.__file__, tool])
    failed = say(tool, event, "ask", FAILED)
    if failed == Answer():
        return line
    if failed.code:
        return f"{line} || {{ echo {shlex.quote(failed.err.strip())} >&2; exit {failed.code}; }}"
    return f"{line} || echo {shlex.quote(failed.out.strip())}"


def _is_ours(entry: Any) -> bool:
    return isinstance(entry, dict) and MARK in json.dumps(entry.get("hooks"))


TARGETS = {
    "claude": Target(
        "claude",
        ".claude/settings.json",
        ".claude/settings.local.json",
        {"PreToolUse": {"matcher": "*"}, "PostToolUse": {"matcher": "*"}},
        home="CLAUDE_CONFIG_DIR",
    ),
}


def read_settings(file: Path) -> str:
    """The text of settings that are JSON; nothing where there are none."""
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise ForgeError(f"{file} cannot be read: {error}") from None
    try:
        found = json.loads(text) if text.strip() else {}
    except ValueError as error:
        raise ForgeError(f"{file} is not plain JSON: {error}", hint="take its comments out, and try again") from None
    hooks = found.get("hooks", {}) if isinstance(found, dict) else None
    if not isinstance(hooks, dict) or not all(isinstance(each, list) for each in hooks.values()):
        raise ForgeError(f"{file}: 'hooks' is not an object of lists", hint="repair it, and try again")
    return text


def write_settings(file: Path, text: str) -> None:
    """Write settings in one piece; those that hold nothing any more are removed."""
    if not text.strip() or json.loads(text) == {}:
        file.unlink(missing_ok=True)
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_name(f".{file.name}.forge-new")
    new.write_text(text, encoding="utf-8")
    if file.exists():
        new.chmod(file.stat().st_mode & 0o777)
    os.replace(new, os.path.realpath(file))

"""The settings file of each tool, and the entry of the hook in it."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from forge_cli import ForgeError
from forge_guard import hook
from forge_guard.answers import SILENCE, say
from forge_guard.settings import EMPTY, had_settings, read_settings, with_entry, without_entries

MARK = os.path.join("forge_guard", "hook.py")
"""The part of a command by which our entries are recognized."""
FAILED = "forge guard cannot be started; run: forge guard status"


@dataclass(frozen=True)
class Target:
    """A tool with JSON settings: their location, and the keys beside our command for each event."""

    tool: str
    user: str
    project: str
    events: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    home: str | None = None
    """The variable that names the folder of the tool."""
    timeout: int = 30
    """The time limit of an answer, in the unit of the tool."""
    told: str = ""
    """Further steps for the person after the installation."""

    def file(self, *, project: bool) -> Path:
        """Return the settings file."""
        return self.folder(project=project) / (
            self.project if project else self.user.partition("/")[2]
        )

    def folder(self, *, project: bool) -> Path:
        """Return the folder above the settings that must not be removed."""
        if project:
            return Path.cwd()
        named = os.environ.get(self.home) if self.home else None
        return Path(named or Path.home() / self.user.partition("/")[0])

    def read(self, file: Path) -> str:
        """Return the text of the settings; empty if there are none."""
        text = _text_of(file)
        try:
            found = read_settings(text)
        except ValueError as error:
            raise ForgeError(
                f"{file} is not valid JSON: {error}", hint="repair it and try again"
            ) from None
        hooks = found.get("hooks", {}) if isinstance(found, dict) else None
        if not isinstance(hooks, dict) or not all(
            isinstance(hooks.get(event, []), list) for event in self.events
        ):
            raise ForgeError(
                f"{file}: 'hooks' is not an object of lists", hint="repair it and try again"
            )
        return text

    def installed(self, text: str) -> str:
        """Return the settings with our hook."""
        text = self.removed(text)
        for event, more in self.events.items():
            run = {
                "type": "command",
                "command": command_line(self.tool, event),
                "timeout": self.timeout,
            }
            text = with_entry(text, ("hooks", event), {**more, "hooks": [run]})
        return text

    def removed(self, text: str) -> str:
        """Return the settings without our hook."""
        for event in self.events:
            text = without_entries(text, ("hooks", event), is_own_entry)
        return text

    def is_installed(self, text: str) -> bool:
        """Return True if our hook is installed in the form of this version."""
        hooks = read_settings(text).get("hooks", {})
        return all(
            any(
                _command_of(each) == command_line(self.tool, event) for each in hooks.get(event, ())
            )
            for event in self.events
        )


@dataclass(frozen=True)
class PluginFile(Target):
    """A tool that loads a plugin file instead of settings."""

    def read(self, file: Path) -> str:
        return _text_of(file)

    def installed(self, text: str) -> str:
        source = files("forge_guard").joinpath(f"{self.tool}.js").read_text(encoding="utf-8")
        return source.replace("COMMAND", json.dumps(_program(self.tool)))

    def removed(self, text: str) -> str:
        return ""

    def is_installed(self, text: str) -> bool:
        return text == self.installed(text)


def command_line(tool: str, event: str) -> str:
    """Return the command line of a hook; it asks if even Python cannot be started."""
    line, failed = shlex.join(_program(tool)), say(tool, event, "ask", FAILED)
    if failed == SILENCE:
        return line
    return f"{line} || echo {shlex.quote(failed.out.strip())}"


def _program(tool: str) -> list[str]:
    # Isolated and without site-packages: it starts fast, and runs no other code.
    return [sys.executable, "-I", "-S", hook.__file__, tool]


def _command_of(entry: Any) -> str | None:
    hooks = entry.get("hooks") if isinstance(entry, dict) else None
    first = hooks[0] if isinstance(hooks, list) and hooks else None
    command = first.get("command") if isinstance(first, dict) else None
    return command if isinstance(command, str) else None


def is_own_entry(entry: Any) -> bool:
    """Return True if an entry of settings runs our hook."""
    return MARK in (_command_of(entry) or "")


def _text_of(file: Path) -> str:
    try:
        with open(file, encoding="utf-8", newline="") as stream:  # which keeps the ends of lines
            return stream.read()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise ForgeError(f"{file} cannot be read: {error}") from None


EVERY = {"matcher": "*"}
TARGETS = {
    "claude": Target(
        "claude",
        ".claude/settings.json",
        ".claude/settings.local.json",
        {"PreToolUse": EVERY, "PostToolUse": EVERY},
        home="CLAUDE_CONFIG_DIR",
        told=(
            "claude no longer asks about calls that the policy allows, except changes of files, "
            "which its own mode decides on; it asks about everything else, in every mode"
        ),
    ),
    "codex": Target(
        "codex",
        ".codex/hooks.json",
        ".codex/hooks.json",
        {"PreToolUse": EVERY, "PermissionRequest": EVERY},
        home="CODEX_HOME",
        told="codex runs hooks that you trust: type /hooks in codex and review both",
    ),
    "gemini": Target(
        "gemini",
        ".gemini/settings.json",
        ".gemini/settings.json",
        {"BeforeTool": EVERY},
        timeout=30_000,
    ),
    "opencode": PluginFile(
        "opencode",
        ".config/opencode/plugin/forge-guard.js",
        ".opencode/plugin/forge-guard.js",
        home="XDG_CONFIG_HOME",
    ),
}


def write_settings(file: Path, text: str, within: Path) -> None:
    """Write settings atomically, following links; delete a file that only contained our entry.

    Folders that become empty below ``within`` are deleted, too.
    """
    is_ours = text in ("", EMPTY) and not had_settings(_text_of(file))
    if is_ours and not file.is_symlink():
        file.unlink(missing_ok=True)
        with suppress(OSError):  # folders that are not empty stay
            for folder in file.parents[: len(file.relative_to(within).parts) - 1]:
                folder.rmdir()
        return
    real = Path(os.path.realpath(file))
    real.parent.mkdir(parents=True, exist_ok=True)
    new = real.with_name(f".{real.name}.forge-new")
    with open(new, "w", encoding="utf-8", newline="") as stream:
        stream.write(text or EMPTY)
        stream.flush()
        os.fsync(stream.fileno())
    if real.exists():  # its mode may keep keys from other users
        new.chmod(real.stat().st_mode & 0o777)
    os.replace(new, real)

"""Probes: is the installed hook of a tool in force, in each of its modes?

A probe runs the tool in a home of its own, with a model from a script on this machine, and lets
the model run a command that the policy asks about. It sees whether the hook was started, and
whether the command ran. Nothing leaves the machine, and no setting of the person changes.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import termios
import time
import tomllib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from forge_guard.installing import is_own_entry
from forge_guard.policy import PRESETS, last_seen, policy_file
from forge_guard.scripted import Call, Script, serving
from forge_guard.settings import read_settings

MAX_KEPT = 32
"""Kept results of earlier probes."""
_GIT = shutil.which("git") or "git"
_LINE = "touch probe.txt"
State = Literal["in force", "not in force", "unknown"]


@dataclass(frozen=True)
class Probed:
    """The state of a hook in one mode of a tool."""

    mode: str
    state: State
    why: str = ""

    @property
    def text(self) -> str:
        """The state with its reason."""
        return f"{self.state}: {self.why}" if self.why else self.state


@dataclass
class Stage:
    """A home and a project in which a tool runs for a probe."""

    home: Path
    project: Path
    script: Script
    program: str
    env: dict[str, str] = field(default_factory=dict)

    @property
    def forge(self) -> Path:
        """The home of forge."""
        return self.home / ".forge"

    @property
    def was_asked(self) -> bool:
        """True if the hook was started."""
        return (self.forge / "guard").exists()

    @property
    def has_run(self) -> bool:
        """True if the command of the model ran."""
        return (self.project / "probe.txt").exists()

    def write(self, name: str, content: Any) -> None:
        """Write a file below the home; anything but text as JSON."""
        file = self.home / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content))


@dataclass(frozen=True)
class Probe:
    """How to run a tool for a probe."""

    call: Call
    prepare: Callable[[Stage, Path, str], None]
    """Writes the settings with our hook, from the installed file and its text."""
    alone: tuple[str, ...]
    """The arguments of a run without a person; the first names the mode."""
    on_terminal: tuple[str, ...] = ()
    """The arguments of a run on a terminal; without any, the other run stands for it."""
    untrusted: Callable[[Path, str], str | None] = lambda file, text: None
    """Returns why the tool does not run the hook at all, by its own state."""
    seconds: float = 60.0
    """The time limit of one run."""


def probe(tool: str, file: Path, text: str, say: Callable[[str], None]) -> list[Probed]:
    """Return the state of the hook that a settings file installs, for each mode of the tool.

    ``say`` gets a sentence before the tool is started.
    """
    how = PROBES[tool]
    alone, terminal = how.alone[0], "interactive"
    program = shutil.which(tool)
    if program is None:
        why = f"{tool} is not on PATH, and the hook was never seen"
        if seen := last_seen(tool):
            why = f"{tool} is not on PATH; the hook was last seen on {seen:%Y-%m-%d at %H:%M}"
        return [Probed(f"{alone}, {terminal}", "unknown", why)]
    if doubt := how.untrusted(file, text):
        return [Probed(alone, "not in force", doubt), Probed(terminal, "not in force", doubt)]
    key = _key(tool, program, file, text)
    if kept := _kept().get(key):
        return [Probed(*each) for each in kept]
    say(f"probing {tool} with a model from a script, for up to {how.seconds:.0f} s a mode...")
    found = [_run(tool, program, file, text, alone, how.alone)]
    if how.on_terminal:
        found.append(_run(tool, program, file, text, terminal, how.on_terminal))
    else:
        found.append(replace(found[0], mode=terminal))
    if all(each.state != "unknown" for each in found):
        _keep(key, found)
    return found


def _key(tool: str, program: str, file: Path, text: str) -> str:
    """Return a text that changes with everything that a result depends on."""
    real = os.path.realpath(program)
    stamps = [os.stat(path).st_mtime_ns for path in (real, __file__)]
    parts = [tool, real, *map(str, stamps), str(file), text, _text_of(_codex_config())]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _kept_file() -> Path:
    return policy_file().parent / "guard" / "probes.json"


def _kept() -> dict[str, list[list[Any]]]:
    try:
        found = json.loads(_kept_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _keep(key: str, found: list[Probed]) -> None:
    """Keep the results of a probe, so that the next look does not start the tool again."""
    kept = dict(list(_kept().items())[-MAX_KEPT:])
    kept[key] = [[each.mode, each.state, each.why] for each in found]
    _kept_file().parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = _kept_file().with_name(f".probes.{os.getpid()}")
    new.write_text(json.dumps(kept), encoding="utf-8")
    os.replace(new, _kept_file())


def _run(
    tool: str, program: str, file: Path, text: str, mode: str, arguments: tuple[str, ...]
) -> Probed:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        root = Path(os.path.realpath(place))
        home, project = root / "home", root / "project"
        project.mkdir()
        home.mkdir()
        with serving(PROBES[tool].call) as script:
            stage = Stage(home, project, script, program)
            stage.write(".forge/guard.yaml", PRESETS["tests"].text)
            subprocess.run([_GIT, "init", "-q", project], check=False, capture_output=True)
            kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
            stage.env = {
                **kept,
                "HOME": str(home),
                "FORGE_HOME": str(stage.forge),
                "FORGE_GUARD_IDLE": "5",
                "SHELL": "/bin/bash",
                "TERM": "xterm-256color",
                "NO_UPDATE_NOTIFIER": "1",
            }
            PROBES[tool].prepare(stage, file, text)
            seconds = PROBES[tool].seconds
            _carry_out(stage, [program, *arguments], seconds, on_terminal=mode == "interactive")
            _wait_for(lambda: not stage.was_asked or _is_answered(stage), 3)
            if stage.has_run:
                return Probed(mode, "not in force", f"hooks do not run in {tool} {mode}")
            if stage.was_asked:
                return Probed(mode, "in force")
            return Probed(mode, "unknown", f"{tool} did not come as far as a call")


def _is_answered(stage: Stage) -> bool:
    return stage.has_run or len(stage.script.seen) > 1


def _carry_out(stage: Stage, command: list[str], seconds: float, *, on_terminal: bool) -> None:
    """Run a tool until its end, or until the hook was started or the command ran."""
    if not on_terminal:
        process = subprocess.Popen(
            command,
            cwd=stage.project,
            env=stage.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        _end(process.pid)
        process.wait()
        return
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(stage.project)
        os.execve(command[0], command, stage.env)  # noqa: S606 - a tool of the person
    set_size = struct.pack("HHHH", 30, 100, 0, 0)  # 30 rows and 100 columns
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, set_size)
    os.set_blocking(terminal, False)

    def is_over() -> bool:
        with suppress(OSError):  # nothing to read now, or the tool has ended
            while os.read(terminal, 65536):
                pass
        return stage.was_asked or stage.has_run

    _wait_for(is_over, seconds)
    _wait_for(lambda: is_over() and _is_answered(stage), 3)
    _end(pid)
    os.waitpid(pid, 0)
    os.close(terminal)


def _end(pid: int) -> None:
    """Kill a process that leads a session, with everything in it."""
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def _wait_for(is_over: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not is_over() and time.monotonic() < end:
        time.sleep(0.1)


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _own_hooks(text: str) -> dict[str, list[Any]]:
    """Return our entries of JSON settings, with harmless ones in the places of others."""
    hooks = read_settings(text).get("hooks", {})
    other = {"matcher": "none", "hooks": [{"type": "command", "command": "true"}]}
    found: dict[str, list[Any]] = {}
    for event, entries in hooks.items():
        if isinstance(entries, list) and any(map(is_own_entry, entries)):
            found[event] = [each if is_own_entry(each) else other for each in entries]
    return found


def _prepare_claude(stage: Stage, file: Path, text: str) -> None:
    settings = {"hooks": _own_hooks(text), "permissions": {"allow": ["Bash(touch:*)"]}}
    if read_settings(text).get("disableAllHooks"):
        settings["disableAllHooks"] = True  # type: ignore[assignment]
    stage.write(".claude/settings.json", settings)
    project = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
    state = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "customApiKeyResponses": {"approved": ["sk-x"], "rejected": []},
        "projects": {str(stage.project): project},
    }
    stage.write(".claude.json", state)
    stage.env |= {
        "ANTHROPIC_BASE_URL": stage.script.url,
        "ANTHROPIC_API_KEY": "sk-x",
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }


def _codex_config() -> Path:
    return Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex") / "config.toml"


def _codex_state() -> Mapping[str, Any]:
    """Return the settings of codex, or nothing if they cannot be read."""
    try:
        return tomllib.loads(_text_of(_codex_config()))
    except tomllib.TOMLDecodeError:
        return {}


def _codex_trust(file: Path, text: str) -> dict[str, str | None]:
    """Return the trusted hash of each of our hooks, by its event and place."""
    state = _codex_state().get("hooks", {}).get("state", {})
    found: dict[str, str | None] = {}
    for event, entries in _own_hooks(text).items():
        name = re.sub(r"(?<=.)([A-Z])", r"_\1", event).lower()
        for at, entry in enumerate(entries):
            if is_own_entry(entry):
                place = f"{name}:{at}:0"
                found[place] = state.get(f"{file}:{place}", {}).get("trusted_hash")
    return found


def _untrusted_by_codex(file: Path, text: str) -> str | None:
    if _codex_state().get("features", {}).get("hooks") is False:
        return f"hooks are off in {_codex_config()}"
    if all(_codex_trust(file, text).values()):
        return None
    return "codex runs no hook that you do not trust; type /hooks in codex"


def _prepare_codex(stage: Stage, file: Path, text: str) -> None:
    stage.write(".codex/hooks.json", {"hooks": _own_hooks(text)})
    new = stage.home / ".codex/hooks.json"
    lines = [
        'model = "m"',
        'model_provider = "script"',
        'sandbox_mode = "danger-full-access"',
        'approval_policy = "never"',
        "[model_providers.script]",
        'name = "script"',
        f'base_url = "{stage.script.url}/v1"',
        'wire_api = "responses"',
        f'[projects."{stage.project}"]',
        'trust_level = "trusted"',
    ]
    for place, trusted in _codex_trust(file, text).items():
        lines += [f'[hooks.state."{new}:{place}"]', f'trusted_hash = "{trusted}"']
    stage.write(".codex/config.toml", "\n".join(lines) + "\n")


def _prepare_gemini(stage: Stage, file: Path, text: str) -> None:
    settings = {
        "hooks": _own_hooks(text),
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
    }
    for key in ("hooksConfig", "tools"):
        if key in read_settings(text):
            settings[key] = read_settings(text)[key]
    stage.write(".gemini/settings.json", settings)
    stage.env |= {"GOOGLE_GEMINI_BASE_URL": stage.script.url, "GEMINI_API_KEY": "x"}


def _prepare_opencode(stage: Stage, file: Path, text: str) -> None:
    stage.write(f".config/opencode/plugin/{file.name}", text)
    model = {"name": "m", "tool_call": True, "limit": {"context": 100_000, "output": 1000}}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "script",
        "options": {"baseURL": f"{stage.script.url}/v1", "apiKey": "x"},
        "models": {"m": model},
    }
    config = {"provider": {"script": provider}, "permission": {"*": "allow"}, "autoupdate": False}
    (stage.project / "opencode.json").write_text(json.dumps(config))


PROBES = {
    "claude": Probe(
        ("Bash", {"command": _LINE, "description": "x"}),
        _prepare_claude,
        ("-p", "do it"),
        ("do it",),
    ),
    "codex": Probe(
        ("exec_command", {"cmd": _LINE}),
        _prepare_codex,
        ("exec", "do it"),
        ("do it",),
        _untrusted_by_codex,
    ),
    "gemini": Probe(
        ("run_shell_command", {"command": _LINE}),
        _prepare_gemini,
        ("-p", "do it", "--approval-mode", "yolo", "-m", "gemini-2.5-flash"),
        ("-i", "do it", "--approval-mode", "yolo", "-m", "gemini-2.5-flash"),
    ),
    "opencode": Probe(
        ("bash", {"command": _LINE, "description": "x"}),
        _prepare_opencode,
        ("run", "do it", "-m", "script/m"),
        seconds=180.0,  # in a new home it installs packages first
    ),
}

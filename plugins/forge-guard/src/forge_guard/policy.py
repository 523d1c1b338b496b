"""The policy: ``~/.forge/guard.yaml``, a worker without a model, written from a preset."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files
from pathlib import Path

from forge_cli.embedding import forge_home


@dataclass(frozen=True)
class Preset:
    """A policy that an installation can write."""

    name: str
    means: str
    """What it makes of changes, tests and linters, for the question."""

    @property
    def text(self) -> str:
        """The policy."""
        place = files("forge_guard").joinpath("presets", f"{self.name}.yaml")
        return place.read_text(encoding="utf-8")


PRESETS = {
    preset.name: preset
    for preset in (
        Preset("tests", "they run as the tool runs them; its own mode decides on changes of files"),
        Preset("confined", "they run without network and write only in the project (Claude Code)"),
        Preset("careful", "they run, and every change of a file asks, so that you see the code"),
    )
}
DEFAULT_ANSWER = "tests"
"""The preset of a plain yes on a terminal."""
UNASKED = "careful"
"""The preset if nobody can be asked."""


def policy_file() -> Path:
    """Return the path of the policy, which may not exist."""
    return forge_home() / "guard.yaml"


def preset_of(text: str) -> str | None:
    """Return the name of the preset with this text; None for a policy of the person's own."""
    return next((name for name, preset in PRESETS.items() if preset.text == text), None)


def last_seen(tool: str) -> datetime | None:
    """Return when the hook of a tool last asked; None if it never did."""
    try:
        return datetime.fromtimestamp(_seen_file(tool).stat().st_mtime)
    except FileNotFoundError:
        return None


def note_seen(tool: str) -> None:
    """Note that the hook of a tool asks."""
    with suppress(OSError):
        _seen_file(tool).touch(mode=0o600)


def _seen_file(tool: str) -> Path:
    return policy_file().parent / "guard" / f"{tool}.seen"

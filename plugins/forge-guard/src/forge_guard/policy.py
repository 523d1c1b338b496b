"""The policy: ``~/.forge/guard.yaml``, a worker without a model, written from a preset."""

from __future__ import annotations

from dataclasses import dataclass
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

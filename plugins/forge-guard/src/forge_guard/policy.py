"""The one policy: ``~/.forge/guard.yaml``, a worker without a model."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from forge_cli.embedding import forge_home


def policy_file() -> Path:
    """The policy, whether or not it is there."""
    return forge_home() / "guard.yaml"


def default_policy() -> str:
    """The policy that a first installation writes."""
    return files("forge_guard").joinpath("guard.yaml").read_text(encoding="utf-8")

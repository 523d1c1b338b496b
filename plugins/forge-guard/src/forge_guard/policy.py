"""The policy: ``~/.forge/guard.yaml``, a worker without a model."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from forge_cli.embedding import forge_home


def policy_file() -> Path:
    """Return the path of the policy, which may not exist."""
    return forge_home() / "guard.yaml"


def default_policy() -> str:
    """Return the policy that the first installation writes."""
    return files("forge_guard").joinpath("guard.yaml").read_text(encoding="utf-8")

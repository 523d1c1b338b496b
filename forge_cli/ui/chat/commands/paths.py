"""Paths that people type in a conversation: relative to the working directory, and how they are completed."""

from __future__ import annotations

from pathlib import Path

from forge_cli.ui.chat.facts import Facts


def typed_path(facts: Facts, text: str) -> Path:
    """The file or folder that is meant."""
    return Path(facts.workspace or ".") / Path(text).expanduser()


def complete_path(facts: Facts, text: str) -> list[str]:
    """What a path that begins so could become; a folder ends in a slash."""
    folder, slash, start = text.rpartition("/")
    try:
        found = sorted(typed_path(facts, f"{folder}{slash}").iterdir())
    except (OSError, RuntimeError):
        return []
    names = [path.name + ("/" if path.is_dir() else "") for path in found if path.name.startswith(start)]
    return [f"{folder}{slash}{name}" for name in names if start or not name.startswith(".")]


def complete_folder(facts: Facts, text: str) -> list[str]:
    return [path for path in complete_path(facts, text) if path.endswith("/")]

"""Scripts for the model, and the logs of their sessions."""

import json
from pathlib import Path
from typing import Any

from forge_cli.testing import Project


def script(project: Project, *turns: Any, name: str = "script.yaml") -> None:
    """Write the turns of the model; a plain string is a turn of text."""
    spoken = [{"text": turn} if isinstance(turn, str) else turn for turn in turns]
    project.write(name, json.dumps({"turns": spoken}))


def sessions(project: Project) -> list[Path]:
    """Return the logs, the latest first."""
    return sorted(
        (project.home / "sessions").glob("*.jsonl"),
        key=lambda path: path.stat().st_mtime_ns,
        reverse=True,
    )

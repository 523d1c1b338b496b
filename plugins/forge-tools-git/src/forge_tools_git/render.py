"""The renderers of ``git.status`` and ``git.diff``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from forge_cli import Custom, Text, hookimpl
from forge_cli.results import DisplayHints

GROUPS = ("conflicted", "staged", "modified", "untracked")


def render_status(value: Custom) -> Text:
    """Return a line for each file: its state and its name."""
    if not isinstance(value.data, Mapping):  # too long, and cut to text on its way here
        return Text(value.text())
    data: Mapping[str, Any] = value.data
    lines: list[str] = []
    for group in GROUPS:
        lines += [f"  {group:<11}{_named(data, path)}" for path in data.get(group, ())]
    more = [f"  ... and {count} more {group}" for group, count in data.get("omitted", {}).items()]
    return Text("\n".join([value.summary or "git status", *lines, *more]))


def _named(data: Mapping[str, Any], path: str) -> str:
    former = data.get("renamed", {}).get(path)
    notes = [f"was {former}"] if former else []
    if path in data.get("deleted", ()):
        notes.append("deleted")
    if notes:
        return f"{path} ({', '.join(notes)})"
    return path


def render_diff(value: Custom) -> Text:
    """Return the patch as code below its summary."""
    patch = value.data if isinstance(value.data, str) else ""
    return Text(
        "\n\n".join(filter(None, [value.summary, patch])), display=DisplayHints("code", "diff")
    )


@hookimpl
def forge_renderers() -> Mapping[str, Callable[[Custom], Text]]:
    """Offer the renderers."""
    return {"git.status": render_status, "git.diff": render_diff}

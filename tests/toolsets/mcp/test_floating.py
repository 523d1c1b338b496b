"""Commands that fetch a package when they start, and whether they say which: the table and its own lines.

Covers forge_cli.toolsets.mcp.locked.
"""

import shlex

from forge_cli.toolsets.mcp.locked import launchers, pinned_spelling


def spelled(line: str) -> str:
    command, *args = shlex.split(line)
    return pinned_spelling(command, args)


def test_launcher_line_without_a_version_is_corrected() -> None:
    lines = {line: fixed for row in launchers() for line, fixed in row.floating.items()}
    assert {line: spelled(line) for line in lines} == lines


def test_launcher_line_with_a_version_is_unchanged() -> None:
    assert [line for row in launchers() for line in row.pinned if spelled(line)] == []

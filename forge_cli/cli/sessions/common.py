"""Shared code of the commands on sessions."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

from forge_cli.record.log import random_end, session_files

NAMED = "by its id, the beginning or end of the id, or 'last'"


def shorten_ids(rows: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
    """Replace each id by its end on a terminal, if that is enough to name the session."""
    if not sys.stdout.isatty():
        return rows
    ends = Counter(random_end(path.stem) for path in session_files())
    short: list[dict[str, Any]] = []
    for row in rows:
        end = random_end(row["session"])
        if ends[end] == 1:
            row = {**row, "session": end}
        short.append(row)
    return short

"""The check that every line of a log is still the one that was written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from forge_cli.core.errors import WorkerError
from forge_cli.record.log import broken_link, read_session


def verified(path: Path) -> dict[str, Any]:
    try:
        log = read_session(path)
    except WorkerError as error:
        place = f"line {error.where.line}: " if error.where else ""
        return {"session": path.stem, "ok": False, "problem": f"{place}{error.message}"}
    problem = broken_link(log)
    return {
        "session": log.session,
        "ok": problem is None,
        "problem": problem,
        "lines": len(log.lines),
        "unfinished": log.dropped,
    }


def verdict_sentence(row: dict[str, Any]) -> str:
    if not row["ok"]:
        return f"{row['session']}: {row['problem']}"
    half = ", and an unfinished one at the end, which does not count" if row["unfinished"] else ""
    return f"{row['session']}: ok, {row['lines']} lines{half}"

"""Sessions on disk: which there are, which of them a name means, and whether every line is the one that was written."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from forge_cli.core.errors import ForgeError, Mark, WorkerError
from forge_cli.record.log import broken_link, read_session
from forge_cli.record.places import SUFFIX, sessions_folder

LAST = "last"
"""Names the session that was worked on last."""
CANDIDATES = 5
"""Sessions that are listed where a name could be several."""


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


def session_files() -> list[Path]:
    """Every session, the one that was worked on last first."""
    return [path for _, path in sorted(files_by_time(), reverse=True)]


def files_by_time() -> list[tuple[int, Path]]:
    """The logs that have a line, each with the time of its last one; other files are not sessions."""
    found, folder = list[tuple[int, Path]](), sessions_folder()
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                with suppress(OSError):
                    if entry.name.endswith(SUFFIX):
                        info = entry.stat()
                        if stat.S_ISREG(info.st_mode) and info.st_size:
                            found.append((info.st_mtime_ns, Path(entry.path)))
    except FileNotFoundError:
        pass
    except OSError as error:
        hint = "FORGE_HOME names the folder in which sessions are kept"
        raise ForgeError(f"{folder} cannot be read: {error.strerror}", hint=hint) from None
    return found


def find_session(name: str) -> Path:
    """The file of a session by its id, a part that only it has, or ``last``; a path to a log is taken as it is."""
    given = Path(name)
    return given if given.suffix == SUFFIX and given.is_file() else find_kept(name)


def find_record(name: str) -> Path:
    """The file of a record, with any name, or of a session."""
    path = Path(name)
    if path.is_file():
        return path
    if path.suffix == SUFFIX or os.sep in name:
        raise WorkerError(Mark(name), "there is no such record", hint="forge run WORKER TASK --record FILE makes one")
    return find_session(name)


def find_kept(name: str) -> Path:
    """The same among forge's own sessions only; the random end of an id will do, too, and ``last`` is the last one."""
    files = session_files()
    match [*files[:1]] if name == LAST else _named(name, files):
        case [path]:
            return path
        case []:
            recent = f"; the last is {files[0].stem}" if files else ""
            raise WorkerError(None, f"there is no session '{name}'", hint=f"forge sessions list shows them{recent}")
        case several:
            ids = "\n  ".join(path.stem for path in several[:CANDIDATES])
            more = f"\n  and {len(several) - CANDIDATES} more" if len(several) > CANDIDATES else ""
            raise WorkerError(None, f"'{name}' could be {len(several)} sessions; type more of it", hint=ids + more)


def _named(name: str, files: Sequence[Path]) -> list[Path]:
    """The session of this very id; else those that begin so; else the one whose random end it is."""
    ids = {path.stem: path for path in files if name}
    exact = [path for session, path in ids.items() if session == name]
    begin = [path for session, path in ids.items() if session.startswith(name)]
    return exact or begin or [path for session, path in ids.items() if random_end(session) == name]


def random_end(session: str) -> str:
    """The part that tells a session from all others; its id for one that is called otherwise."""
    return session.rpartition("-")[2]

"""Files that changed both in a draft and outside of it, merged by git from three versions."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from msgspec import Struct

TIMEOUT = 20.0
"""Seconds for git to read or merge one file."""
MAX_BYTES = 1 << 24
"""The largest file that is merged."""
_FAILED = 128
"""Exit codes of git from here on are errors, such as for binary files; lower ones count overlaps.
"""


class Merge(Struct, frozen=True):
    """The result of a merge."""

    content: bytes
    """The merged file, with git's conflict markers around each overlap."""
    overlaps: int
    """The number of places that both sides changed differently."""


def merge_versions(base: bytes, real: bytes, draft: bytes) -> Merge | None:
    """Merge the real file and the draft's, which both began as ``base``.

    Return None if one of them is binary or too large, or if git is missing.
    """
    versions = {"real file": real, "start of the draft": base, "draft": draft}
    if any(len(each) > MAX_BYTES for each in versions.values()):
        return None
    argv = ["git", "merge-file", "-p", "--diff3"]
    with tempfile.TemporaryDirectory(prefix="forge-merge-") as folder:
        files: list[str] = []
        for number, (label, content) in enumerate(versions.items()):
            file = Path(folder, str(number))
            file.write_bytes(content)
            files.append(str(file))
            argv += ["-L", label]
        code, output = _run([*argv, *files], Path(folder))
    if not 0 <= code < _FAILED:
        return None
    return Merge(output, code)


def staged_content(top: Path, object: str) -> bytes | None:
    """Return an object of a git repository; None if git no longer has it."""
    code, output = _run(["git", "cat-file", "blob", object], top)
    return output if code == 0 else None


def _run(argv: list[str], folder: Path) -> tuple[int, bytes]:
    """Run git, and return its exit code and output; -1 if it cannot run."""
    program = shutil.which(argv[0], path=os.pathsep.join(filter(os.path.isabs, os.get_exec_path())))
    if program is None:
        return -1, b""
    # git must not fetch what a partial clone lacks.
    environment = {**os.environ, "GIT_NO_LAZY_FETCH": "1", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            [program, *argv[1:]],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return -1, b""
    return done.returncode, done.stdout

"""Drafts as ratios: a run in a draft against the same run without, and applying against ``cp -a``."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from table import Row, main

from forge_cli.sandbox.changes.apply import apply_changes
from forge_cli.sandbox.drafts.changes import ChangedDraft, read_draft
from forge_cli.sandbox.drafts.draft import SessionDraft, drop_draft, new_draft
from forge_cli.toolsets.shell.shown import show_changes

ENTERING, REVIEWING, APPLYING = 1.25, 0.5, 3.5
"""The most that a run in a draft, a review in seconds, and applying may take."""
FILES = 1_000
WORKER = """
name: bench
instructions: Answer.
model: script:script.yaml
sandbox: {zones: [{name: code, path: ., mode: rw}]}
toolsets: {filesystem: {}, shell: {}}
"""
SCRIPT = """
turns:
  - calls: [{tool: read_file, input: {path: a.txt}}, {tool: shell, input: {command: ls}}]
  - text: done
"""


def cpu_of(argv: list[str], folder: Path) -> float:
    """Seconds of CPU of a command with all that it starts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(argv, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def changed_draft(folder: Path) -> tuple[SessionDraft, ChangedDraft]:
    """A draft in which 1,000 files were made, as its session leaves it."""
    zone = folder / "zone"
    shutil.rmtree(zone, ignore_errors=True)
    zone.mkdir()
    draft = new_draft("bench", "bench", folder / "worker.yaml", zone, [("zone", zone)])
    upper = draft.upper(draft.zones[0])
    for number in range(FILES):
        path = upper / str(number // 100) / f"{number}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"line {number}\n" * 20)
    return draft, read_draft(draft)


def measure(rounds: int) -> list[Row]:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(os.path.realpath(place))
        os.environ["FORGE_HOME"] = str(folder / "home")
        for name, text in {"worker.yaml": WORKER, "script.yaml": SCRIPT, "a.txt": "a\n"}.items():
            (folder / name).write_text(text)
        plain = [sys.executable, "-m", "forge_cli", "run", "worker.yaml", "go", "-p"]
        without = min(cpu_of(plain, folder) for _ in range(rounds + 1))
        within = min(cpu_of([*plain, "--draft"], folder) for _ in range(rounds + 1))
        shown: list[float] = []
        applied: list[float] = []
        copied: list[float] = []
        for _ in range(rounds):
            draft, changed = changed_draft(folder)
            upper = draft.upper(draft.zones[0])
            copied.append(cpu_of(["cp", "-a", str(upper), str(folder / "copy")], folder))
            shutil.rmtree(folder / "copy")
            began = time.process_time()
            show_changes(changed.change_set(), folder / "zone")
            shown.append(time.process_time() - began)
            began = time.process_time()
            apply_changes(changed.change_set())
            applied.append(time.process_time() - began)
            drop_draft(draft)
    return [
        Row("a run in a draft, x the same without", within / without, ENTERING),
        Row(f"showing {FILES} files, s CPU", min(shown), REVIEWING),
        Row(f"applying {FILES} files, x cp -a", min(applied) / min(copied), APPLYING),
    ]


if __name__ == "__main__":
    main(measure, rounds=3)

"""An answer of forge guard, with and without the resident gate, against ``python -c pass``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from table import Row, Sample, best, main, take_turns

PASS = "python -c pass"
RESIDENT, PLAIN = "an answer, resident", "an answer, not resident"


def ask(command: list[str], text: bytes, folder: Path, env: dict[str, str]) -> Sample:
    """Run the program of a hook, and wait for its answer."""
    began = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=folder, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin
    assert process.stdout
    with process.stdin as pipe:
        pipe.write(text)
    said = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode or (command[1] != "-c" and b'"allow"' not in said):
        raise SystemExit(
            f"{' '.join(command)}: exit {process.returncode}: {said.decode(errors='replace')}"
        )
    return Sample(usage.ru_utime + usage.ru_stime, wall)


def measure(rounds: int) -> list[Row]:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place).resolve()
        env = {**os.environ, "HOME": place, "FORGE_HOME": f"{place}/.forge", "SHELL": "/bin/bash"}
        env |= {"FORGE_GUARD_IDLE": "30", "CLAUDE_PROJECT_DIR": str(folder / "work")}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        subprocess.run(["git", "init", "-q", folder / "work"], check=True)
        forge = str(Path(sys.executable).with_name("forge"))
        install = [forge, "guard", "install", "claude", "--project"]
        subprocess.run(install, cwd=folder / "work", env=env, stdout=subprocess.DEVNULL, check=True)
        settings = json.loads((folder / "work/.claude/settings.local.json").read_text())
        hook = (
            settings["hooks"]["PreToolUse"][0]["hooks"][0]["command"].partition(" || ")[0].split()
        )
        question = {"hook_event_name": "PreToolUse", "session_id": "1", "cwd": str(folder / "work")}
        text = json.dumps(
            {**question, "tool_name": "Bash", "tool_input": {"command": "git log -3 | head"}}
        ).encode()
        commands = {
            PASS: [sys.executable, "-c", "pass"],
            RESIDENT: hook,
            PLAIN: [sys.executable, "-P", "-m", "forge_guard.plain", "claude"],
        }
        actions = {
            name: partial(ask, command, text, folder / "work", env)
            for name, command in commands.items()
        }
        taken = take_turns(actions, rounds, warm_up=1)
    samples = {name: best(each) for name, each in taken.items()}
    least = {name: min(sample.wall for sample in each) for name, each in taken.items()}
    return [
        Row(
            "an answer, resident, ms on the wall at best",
            1000 * least[RESIDENT],
            detail="60 on a machine at rest",
        ),
        _against_pass(RESIDENT, samples, 2.0),
        _against_pass(PLAIN, samples, None),
    ]


def _against_pass(name: str, samples: dict[str, Sample], limit: float | None) -> Row:
    """Measure wall time, because the resident gate is another process."""
    mine, floor = samples[name], samples[PASS]
    figures = f"{mine.wall * 1000:.0f} / {floor.wall * 1000:.0f} ms on the wall"
    return Row(f"{name}, x {PASS}", mine.wall / floor.wall, limit, figures)


if __name__ == "__main__":
    main(measure, rounds=10)

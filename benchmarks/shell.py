"""The verdict on a shell line: how long it takes for everyday lines, and whether long ones stay linear."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

from forge_cli.core.approval import Approval
from forge_cli.toolsets.shell.rules import ShellRule, judge_line

CASES = Path(__file__).resolve().parent.parent / "tests" / "cases" / "shell_rules.jsonl"
RULES = [
    ShellRule(pattern="git status", approval=Approval.PRE_APPROVED),
    ShellRule(pattern="ls", approval=Approval.PRE_APPROVED),
    ShellRule(pattern="echo", approval=Approval.PRE_APPROVED),
    ShellRule(pattern="git push", approval=Approval.BLOCKED),
    ShellRule(pattern="rm", approval=Approval.BLOCKED),
]
LONG = 128 * 1024
SHAPES = {
    "one long word": lambda size: "echo " + "a" * size,
    "one quoted text": lambda size: "echo '" + "a b " * (size // 4) + "'",
    "a here-document": lambda size: "cat <<'END'\n" + "some text\n" * (size // 10) + "END",
    "many words": lambda size: "ls " + "file.txt " * (size // 9),
    "many commands": lambda size: "git status; " * (size // 12),
    "tiny commands": lambda size: "a;" * (size // 2),
}


def taken(line: str, rounds: int) -> float:
    """Seconds of CPU for one verdict: the least of a few rounds, since noise only adds to it."""
    found = []
    for _ in range(rounds):
        begin = time.process_time()
        judge_line(line, RULES, Approval.ASK)
        found.append(time.process_time() - begin)
    return min(found)


def everyday(rounds: int) -> float:
    """Milliseconds for the median line of the test cases."""
    lines = [json.loads(line)["command"] for line in CASES.read_text().splitlines()]
    short = [line for line in lines if len(line) < 200 and "\0" not in line]
    return 1000 * statistics.median(taken(line, rounds) for line in short)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = [("median line, ms", everyday(options.rounds), 0.2)]
    for name, shape in SHAPES.items():
        half, whole = (taken(shape(size), options.rounds) for size in (LONG // 2, LONG))
        rows += [(f"128 kB, {name}, s", whole, 0.5), (f"128 kB / 64 kB, {name}", whole / half, 3.0)]
    if options.json:
        print(json.dumps([{"row": name, "value": value, "limit": limit} for name, value, limit in rows], indent=2))
    else:
        for name, value, limit in rows:
            print(f"{name:<40} {value:>7.2f} {limit:>6.2f}  {'ok' if value <= limit else 'over'}")
    return 0 if all(value <= limit for _, value, limit in rows) else 1


if __name__ == "__main__":
    sys.exit(main())

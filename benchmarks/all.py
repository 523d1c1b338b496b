"""All benchmarks: every figure in one table, and those that take more CPU than in the results that are kept."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from table import Row, report

FOLDER = Path(__file__).resolve().parent
KEPT = FOLDER / "results.json"
MEASURED = (
    "startup",
    "first_request",
    "loop",
    "caching",
    "files",
    "search",
    "gate",
    "guard",
    "shell",
    "process",
    "trial",
    "parallel",
    "executables",
    "mcp_calls",
    "sessions",
    "long_session",
    "redaction",
    "chat",
    "batch",
    "web",
)
WORSE = 1.1
"""How many times the kept figure is a regression."""


def figures(benchmark: Path) -> list[Row]:
    """The figures of one benchmark; a process of its own, as each would be alone."""
    done = subprocess.run([sys.executable, benchmark, "--json"], stdout=subprocess.PIPE, text=True, check=False)
    try:
        found = json.loads(done.stdout)
    except ValueError:
        raise SystemExit(f"{benchmark.name}: exit {done.returncode}, and no figures") from None
    return [Row(f"{benchmark.stem}: {each['what']}", each["value"], each["limit"], each["detail"]) for each in found]


def regressions(rows: Iterable[Row], kept: Mapping[str, float]) -> list[str]:
    """Sentences on figures that are a tenth above what was kept; most are ratios, so the machine hardly counts."""
    return [
        f"{row.what}: {row.value:.3f}, {row.value / kept[row.what]:.2f} x the kept {kept[row.what]:.3f}"
        for row in rows
        if kept.get(row.what, 0) > 0 and row.value > WORSE * kept[row.what]
    ]


def read_kept(file: Path = KEPT) -> dict[str, float]:
    try:
        kept: dict[str, Any] = json.loads(file.read_text())
    except FileNotFoundError:
        return {}
    return {what: float(value) for what, value in kept.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("benchmarks", nargs="*", type=Path, help="files; without them, all")
    parser.add_argument(
        "--keep", action="store_true", help=f"write the figures to {KEPT.name}, in the place of the old"
    )
    parser.add_argument("--json", action="store_true", dest="as_json", help="print the rows as JSON")
    given = parser.parse_args()
    chosen = given.benchmarks or [FOLDER / f"{name}.py" for name in MEASURED]
    rows = [row for benchmark in chosen for row in figures(benchmark)]
    code, kept = report(rows, as_json=given.as_json), read_kept()
    worse = regressions(rows, kept)
    for sentence in worse:
        print(f"regression: {sentence}", file=sys.stderr)
    if given.keep:
        found = {**kept, **{row.what: round(row.value, 3) for row in rows}}
        KEPT.write_text(json.dumps(found, indent=2, sort_keys=True) + "\n")
        return code
    return code or int(bool(worse))


if __name__ == "__main__":
    sys.exit(main())

"""Run all benchmarks and print their figures in one table."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from table import Row, report

FOLDER = Path(__file__).resolve().parent
MEASURED = (
    "startup",
    "first_request",
    "loop",
    "caching",
    "files",
    "search",
    "gate",
    "day",
    "guard",
    "shell",
    "process",
    "trial",
    "reading",
    "parallel",
    "executables",
    "mcp_calls",
    "sessions",
    "background",
    "long_session",
    "redaction",
    "chat",
    "batch",
    "web",
)


def figures(benchmark: Path) -> list[Row]:
    """Run one benchmark in its own process, as it would run alone."""
    done = subprocess.run(
        [sys.executable, benchmark, "--json"], stdout=subprocess.PIPE, text=True, check=False
    )
    try:
        found = json.loads(done.stdout)
    except ValueError:
        raise SystemExit(f"{benchmark.name}: exit {done.returncode}, and no figures") from None
    return [
        Row(f"{benchmark.stem}: {each['what']}", each["value"], each["limit"], each["detail"])
        for each in found
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("benchmarks", nargs="*", type=Path, help="files; without them, all")
    parser.add_argument(
        "--json", action="store_true", dest="as_json", help="print the rows as JSON"
    )
    given = parser.parse_args()
    chosen = given.benchmarks or [FOLDER / f"{name}.py" for name in MEASURED]
    rows = [row for benchmark in chosen for row in figures(benchmark)]
    return report(rows, as_json=given.as_json)


if __name__ == "__main__":
    sys.exit(main())

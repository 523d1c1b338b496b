"""What the benchmarks share: rows of figures with their limits, printed as a table or as JSON."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Row:
    """One figure; without a limit it is shown only."""

    what: str
    value: float
    limit: float | None = None
    detail: str = ""

    @property
    def ok(self) -> bool:
        return self.limit is None or self.value <= self.limit


def report(rows: list[Row], *, as_json: bool) -> int:
    """Print the rows; 1 when one of them is over its limit."""
    if as_json:
        print(json.dumps([{**asdict(row), "ok": row.ok} for row in rows], indent=2))
    else:
        width = max(len(row.what) for row in rows)
        for row in rows:
            limit = "" if row.limit is None else f"  limit {row.limit:g}"
            print(
                f"{row.what:<{width}}  {row.value:8.3f}{limit:<14}  {'' if row.ok else 'OVER  '}{row.detail}".rstrip()
            )
    return 0 if all(row.ok for row in rows) else 1


def main(measure: Callable[[int], list[Row]], *, rounds: int) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--json", action="store_true", dest="as_json")
    given = parser.parse_args()
    sys.exit(report(measure(given.rounds), as_json=given.as_json))

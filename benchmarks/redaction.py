"""Redaction: texts without secrets, with many, and in pieces, against counting one word."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path

from table import Row, least_cpu, main

from forge_cli.sandbox.secrets import RedactedStream, Redactor

ROOT = Path(__file__).resolve().parent.parent
SIZE = 1_000_000
REDACTOR = Redactor({"SOME_TOKEN": "correct horse battery", "OTHER_KEY": "a1b2c3d4e5f6"})
ABSENT = "no such " + "text"
LIMITS = {
    "documents": 80,
    "documents with keys": 80,
    "source code of forge": 80,
    "one letter": 200,
    "colons": 150,
}
LIMIT_IN_PIECES = 130
NUMBERS = count()


def texts() -> dict[str, str]:
    documents = "".join(path.read_text() for path in sorted(ROOT.glob("docs/*.md")))
    source = "".join(path.read_text() for path in sorted(ROOT.glob("forge_cli/**/*.py")))
    keys = f" AKIAABCD1234EFGH5678 ghp_{'Ab1' * 12} https://me:password@example.org correct horse battery "
    return {
        "documents": _long(documents),
        "documents with keys": _long(documents[:50_000] + keys),
        "source code of forge": _long(source),
        "one letter": _long("a"),
        "colons": _long("12345678:"),
    }


def _long(text: str) -> str:
    return (text * (SIZE // len(text) + 1))[:SIZE]


def in_pieces(text: str) -> None:
    stream = RedactedStream(REDACTOR)
    for at in range(0, len(text), 4096):
        stream.add(text[at : at + 4096])
    stream.close()


def redact(text: str) -> None:
    """Return a new text, because redaction remembers earlier ones."""
    REDACTOR.redact_text(f"{next(NUMBERS)} {text}")


def measure(rounds: int) -> list[Row]:
    found = texts()
    rows = [
        _row(name, text, lambda text=text: redact(text), LIMITS[name], rounds)
        for name, text in found.items()
    ]
    documents = found["documents"]
    return [
        *rows,
        _row(
            "documents in pieces of 4 kB",
            documents,
            lambda: in_pieces(documents),
            LIMIT_IN_PIECES,
            rounds,
        ),
    ]


def _row(name: str, text: str, action: Callable[[], object], limit: float, rounds: int) -> Row:
    floor, mine = least_cpu(lambda: text.count(ABSENT), rounds), least_cpu(action, rounds)
    return Row(
        f"{name}, x counting a word", mine / floor, limit, f"{len(text) / mine / 1e6:.0f} MB/s"
    )


if __name__ == "__main__":
    main(measure, rounds=10, at_least=5)

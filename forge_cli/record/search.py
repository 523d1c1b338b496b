"""Lines of logs that may hold a text, found in their bytes, so that few have to be parsed.

ripgrep does it where it is installed; otherwise blocks are searched here. Either may name a line that has not got the
text; neither misses one that has it, in whatever case and spelled as JSON spells it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

from forge_cli.files.regular import open_regular, read_regular
from forge_cli.record.log import SUFFIX, session_files, sessions_folder

BLOCK = 256 * 1024
"""Bytes that are searched at once: what fits into the caches of a processor."""
PROBE_MAX = 50
"""Characters of a text that are looked for at first."""
_RIPGREP = (
    *("--no-config", "--no-ignore", "--hidden", "--follow", "--max-depth=1", f"--glob=*{SUFFIX}", "--no-messages"),
    *("--text", "--encoding=none", "--case-sensitive", "--no-mmap", "--color=never", "--no-heading", "--with-filename"),
    *("--null", "--line-number", "--byte-offset", "--only-matching", "--replace="),
)
_PLACE = re.compile(rb"([^\0]*)\0(\d+):(\d+):\n")
_BROKEN = re.compile("[\ufffd\ud800-\udfff]")
"""What bytes that are not text are read as, and what no text has."""
_ESCAPED = re.compile(r'[^ -~]|["\\]')

Candidate = tuple[int, bytes]
"""A line and its number."""


def search_sessions(wanted: str) -> Iterator[tuple[Path, Iterator[Candidate]]]:
    """The logs that may hold a text, which is in folded case, the last one first, each with the lines to look at."""
    probe = Probe(wanted)
    found = _ask_ripgrep(probe)
    for path in session_files():
        if found is None:
            yield path, probe.candidates(path)
        elif path.name in found:
            yield path, _lines_at(path, found[path.name])


class Probe:
    """What is in the bytes of every line with a text: a part of it, in any case."""

    def __init__(self, wanted: str) -> None:
        self.text = max(_BROKEN.split(wanted), key=len)[:PROBE_MAX]
        """Empty where nothing can be said about the bytes."""
        plain = max(_ESCAPED.split(self.text), key=len)
        self._plain = plain.encode()
        self._lookalikes = [char.encode() for char, folded in _foldings().items() if _overlap(folded, plain)]

    def expressions(self) -> list[str]:
        """The same for ripgrep: the text, raw or as JSON, and characters that become more than one of its letters.

        As one expression they would keep some versions of it from skipping what cannot match.
        """
        written = json.dumps(self.text, ensure_ascii=False)[1:-1]
        forms = [written] if self.text == written or "\n" in self.text else [self.text, written]
        longer = [
            _rust_code(char)
            for char, folded in _foldings().items()
            if len(folded) > 1 and any(_overlap(folded, form) for form in forms)
        ]
        return ["|".join("".join(map(_any_case, form)) for form in forms), *(["|".join(longer)] if longer else [])]

    def candidates(self, path: Path) -> Iterator[Candidate]:
        """The lines of one log; a log that cannot be read has none."""
        with suppress(OSError):
            if self._may_be_in(path):
                for number, line in enumerate(read_regular(path).split(b"\n"), 1):
                    if self._fits(line):
                        yield number, line

    def _may_be_in(self, path: Path) -> bool:
        with open_regular(path) as file:
            while block := file.read(BLOCK):
                if self._fits(block + file.readline()):
                    return True
        return False

    def _fits(self, data: bytes) -> bool:
        if self._plain in data.lower():
            return True
        return not data.isascii() and any(char[0] in data and char in data for char in self._lookalikes)


def _ask_ripgrep(probe: Probe) -> dict[str, list[tuple[int, int]]] | None:
    """By the name of each log: the numbers of lines, and a place in each of them. None where it cannot be asked."""
    program = shutil.which("rg")
    if not program or not os.path.isabs(program) or not probe.text:
        return None
    found: dict[str, list[tuple[int, int]]] = {}
    for expression in probe.expressions():
        argv = [program, *_RIPGREP, f"--regexp=(?:{expression})(?-u:.*)", "--", "."]
        try:
            done = subprocess.run(argv, cwd=sessions_folder(), capture_output=True, check=False)
        except OSError:
            return None
        if done.returncode > 1:
            return None
        for path, number, at in _PLACE.findall(done.stdout):
            found.setdefault(os.path.basename(os.fsdecode(path)), []).append((int(number), int(at)))
    return found


def _lines_at(path: Path, places: list[tuple[int, int]]) -> Iterator[Candidate]:
    with suppress(OSError), open_regular(path) as file:
        data, last = file.read(), 0
        for number, at in sorted(places):
            if number != last:
                end = data.find(b"\n", at)
                yield number, data[data.rfind(b"\n", 0, at) + 1 : end if end >= 0 else len(data)]
            last = number


@cache
def _foldings() -> dict[str, str]:
    """What the characters beyond ASCII that have another case become without it; there are none behind these planes."""
    return {char: folded for char in map(chr, range(0x80, 0x20000)) if (folded := char.casefold()) != char}


def _any_case(char: str) -> str:
    """A set of what becomes this character when the case is folded."""
    others = (other for other, folded in _foldings().items() if folded == char)
    found = dict.fromkeys(each for each in (char, char.upper(), *others) if each.casefold() == char)
    return f"[{''.join(map(_rust_code, found))}]"


def _rust_code(char: str) -> str:
    """A character as ripgrep's expressions spell it."""
    return char if char.isascii() and char.isalnum() else f"\\x{{{ord(char):x}}}"


def _overlap(folded: str, text: str) -> bool:
    """Whether a text may begin, end or lie in what a character becomes, or have it within."""
    return (
        folded in text
        or text in folded
        or any(text.startswith(folded[cut:]) or text.endswith(folded[:cut]) for cut in range(1, len(folded)))
    )

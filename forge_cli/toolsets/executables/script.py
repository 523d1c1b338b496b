"""What a Python program says it needs, in a comment at its top (PEP 723), and whether that is there."""

from __future__ import annotations

import re
import sys
import tomllib
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from forge_cli.core.errors import Mark, WorkerError

_BLOCK = re.compile(r"(?m)^# /// script\n(?P<content>(?:^#(?:| .*)\n)+)^# ///$")
_BEGIN = re.compile(r"(?m)^# /// script$")
_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_NAME = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")
_VERSIONS = re.compile(r"(?:\s*(?:~=|[=!<>]=|<|>)\s*\d[\w.*]*\s*(?:,|$))*")
_AT_LEAST = re.compile(r">=\s*(\d+(?:\.\d+)*)")


@dataclass(frozen=True)
class Requirements:
    """The packages and the Python that a program needs."""

    dependencies: tuple[str, ...] = ()
    requires_python: str = ""

    def missing(self) -> list[str]:
        """What forge's own Python lacks; a requirement for some machines only is left to the program."""
        wanted = _AT_LEAST.search(self.requires_python)
        old = wanted is not None and sys.version_info < tuple(map(int, wanted[1].split(".")))
        packages = [each for each in self.dependencies if ";" not in each and not _is_installed(each)]
        return [*([f"Python {self.requires_python}"] if old else []), *packages]


def read_script(file: Path) -> Requirements | None:
    """The metadata in a source; None where there is none, and a WorkerError with its place where it is wrong."""
    text = file.read_bytes().decode(errors="replace").replace("\r\n", "\n")
    begins = list(_BEGIN.finditer(text))
    if not begins:
        return None
    line = _line_of(text, begins[-1].start())
    if len(begins) > 1:
        raise WorkerError(Mark(str(file), line), "there is another '# /// script' above; keep one of them")
    block = _BLOCK.search(text)
    if block is None:
        problem = "'# /// script' has no end; write '# ///' below it, with nothing but comments between them"
        raise WorkerError(Mark(str(file), line), problem)
    return _parse(block["content"], file, line)


def _parse(content: str, file: Path, begin: int) -> Requirements:
    said = "\n".join(line[2:] for line in content.split("\n"))
    try:
        data = tomllib.loads(said)
    except tomllib.TOMLDecodeError as error:
        place = _PLACE.search(str(error))
        line, column = (int(place[1]), int(place[2]) + 2) if place and place[1] else (content.count("\n"), 1)
        problem = f"the script's metadata is not TOML: {_PLACE.sub('', str(error))}"
        raise WorkerError(Mark(str(file), begin + line, column), problem) from None
    dependencies, python = data.get("dependencies", []), data.get("requires-python", "")
    if not _are_texts(dependencies):
        raise WorkerError(Mark(str(file), begin), 'dependencies: must be a list of strings, as in ["rich>=14"]')
    if not isinstance(python, str) or not _VERSIONS.fullmatch(python):
        raise WorkerError(Mark(str(file), begin), 'requires-python: must be versions, as in ">=3.11"')
    if _has_editable(data):
        problem = "tool.uv.sources: an editable package runs code while it is installed; name a wheel instead"
        raise WorkerError(Mark(str(file), begin), problem)
    return Requirements(tuple(dependencies), python)


def _has_editable(data: Any) -> bool:
    """Whether anything under ``tool`` asks for it, however it is written."""
    match data:
        case {"editable": editable} if editable:
            return True
        case dict():
            return any(_has_editable(value) for value in data.values())
        case list():
            return any(_has_editable(value) for value in data)
        case _:
            return False


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _is_installed(requirement: str) -> bool:
    name = _NAME.match(requirement)
    try:
        return name is not None and bool(metadata.distribution(name[1]))
    except metadata.PackageNotFoundError:
        return False

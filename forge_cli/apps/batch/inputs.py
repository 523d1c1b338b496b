"""The inputs of a batch: rows of a file or of standard input, or files.

Each is an item with a unique key.
"""

from __future__ import annotations

import csv
import glob
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO

from msgspec import Struct

from forge_cli.core.errors import ForgeError, Mark, UsageError, WorkerError
from forge_cli.core.text import did_you_mean, visible
from forge_cli.core.wire import JsonObject
from forge_cli.files.places import cannot_read, decode_utf8, parse_json, whole_file
from forge_cli.files.regular import open_regular, read_regular

STDIN = "-"
MAX_LINE = 64 * 1024 * 1024
"""The most bytes of a line, so that a file without line ends does not fill the memory."""
MAX_NAME = 200
"""The most bytes of a folder name, with room for the text around the key in `--each-in`."""
_MAGIC = "*?["
_MISSING = "there is no such file or folder"
_canonical = json.JSONEncoder(sort_keys=True).encode
_PART = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_DOUBLE_BRACE = "write a literal brace twice"


class InputRow(Struct, frozen=True):
    """The input of one item: its key, its fields and its place."""

    key: str
    fields: JsonObject
    where: Mark
    recorded: JsonObject
    """The fields that its result line repeats; the text of a file is not repeated."""


class InputItem(Struct, frozen=True):
    """An item that can be worked on."""

    key: str
    task: str
    recorded: JsonObject
    digest: str
    """The hash of its task and fields; another one means that the input has changed."""
    where: Mark


class BatchInputs:
    """The items of a batch, read again on each iteration, so that many of them need little memory.

    ``source`` is a ``.jsonl`` or ``.csv`` file, a folder, or a pattern of files. Rows and files
    that are added later are ignored. ``data`` is a file with the lines of standard input.
    """

    def __init__(
        self,
        source: str,
        template: TaskTemplate,
        *,
        workspace: Path | None = None,
        data: BinaryIO | None = None,
        leave_out: Iterable[Path] = (),
    ) -> None:
        """Make the inputs; paths of files are relative to ``workspace`` if it is given."""
        if source != STDIN and not _is_pattern(source) and not os.path.exists(source):
            raise whole_file(source, _MISSING)
        self.source = source
        self._template = template
        self._workspace = workspace
        self._data = data
        self._left_out = frozenset(path.resolve() for path in leave_out)
        self._paths: list[Path] | None = None

    def __iter__(self) -> Iterator[InputItem]:
        for row in self._rows():
            task = self._template.fill(row.fields, row.where)
            yield InputItem(row.key, task, row.recorded, _digest(task, row.fields), row.where)

    def checked(self) -> Iterator[InputItem]:
        """Yield the items; raise WorkerError for a duplicate key, or if there are none."""
        seen: dict[str, int] = {}
        for item in self:
            if item.key in seen:
                problem = f"duplicate key '{visible(item.key)}' (first on line {seen[item.key]})"
                raise WorkerError(item.where, problem, hint="give each row a unique id")
            seen[item.key] = item.where.line
            yield item
        if not seen:
            raise whole_file(self.source, "it is empty")

    def _rows(self) -> Iterator[InputRow]:
        if self.source == STDIN:
            return _json_rows(self._copied(), Mark("-"))
        path = Path(self.source)
        if os.path.isdir(path) or self._paths is not None:
            return self._files(lambda: _visible_files(path))
        match path.suffix.lower():
            case ".jsonl" | ".ndjson" if not _is_pattern(self.source):
                return _json_rows(self._copied(), Mark(self.source))
            case ".csv" if not _is_pattern(self.source):
                return _csv_rows(self._copied(), path)
        if _is_pattern(self.source) and not os.path.exists(path):
            return self._files(lambda: _matches(self.source))
        hint = (
            "give a .jsonl or .csv file, a folder, a quoted pattern such as 'notes/*.md',"
            " or - for standard input"
        )
        raise whole_file(self.source, "unknown file type", hint=hint)

    def _copied(self) -> BinaryIO:
        """Return a copy of the file, at its start."""
        if self._data is None:
            self._data = _copy(Path(self.source))
        self._data.seek(0)
        return self._data

    def _files(self, find: Callable[[], Iterable[Path]]) -> Iterator[InputRow]:
        if self._paths is None:
            self._paths = sorted(find())
        for path in self._paths:
            if path.is_file() and path.resolve() not in self._left_out:
                shown = {"path": self._shown(path), "name": path.name}
                yield InputRow(str(path), {**shown, "text": _text(path)}, Mark(str(path)), shown)

    def _shown(self, path: Path) -> str:
        """Return a path as the tools of the worker find it."""
        real = path.resolve()
        if self._workspace is not None and real.is_relative_to(self._workspace):
            return str(real.relative_to(self._workspace))
        return str(real)


def default_results(source: str) -> str:
    """Return the default name of the results file."""
    if source == STDIN:
        return "stdin.results.jsonl"
    plain = [part for part in Path(source).parts if not _is_pattern(part)]
    name = Path(plain[-1] if plain else "").name
    if Path(name).suffix.lower() in (".jsonl", ".ndjson", ".csv"):
        name = Path(name).stem
    return f"{name.strip('.') or 'batch'}.results.jsonl"


def _matches(pattern: str) -> set[Path]:
    """Return the files of a pattern.

    ``**`` does not follow links to folders, which may be circular.
    """
    parts = Path(pattern).parts
    if "**" not in parts:
        return {Path(found) for found in glob.glob(pattern)}
    at = parts.index("**")
    rest = parts[at + 1 :] or ("*",)
    bases = glob.glob(str(Path(*parts[:at]))) if at else ["."]
    found = set[Path]()
    for base in bases:
        for folder, folders, _ in os.walk(base):
            folders[:] = [name for name in folders if not name.startswith(".")]
            found |= _matches(os.path.join(glob.escape(folder), *rest))
    return found


def _visible_files(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if not _is_hidden(path.relative_to(folder)):
            yield path


def _is_pattern(text: str) -> bool:
    return any(sign in text for sign in _MAGIC)


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _digest(task: str, fields: Mapping[str, Any]) -> str:
    return hashlib.sha256(_canonical([task, fields]).encode()).hexdigest()[:32]


def _unreadable(path: Path, error: OSError) -> ForgeError:
    if isinstance(error, FileNotFoundError):
        return whole_file(path, _MISSING)
    return cannot_read(path, error)


def _text(path: Path) -> str:
    try:
        return read_regular(path).decode("utf-8", "replace")
    except OSError as error:
        raise _unreadable(path, error) from None


def _copy(path: Path) -> BinaryIO:
    try:
        with open_regular(path) as file:
            # It stays open for as long as the batch.
            copy = TemporaryFile(prefix="forge-inputs-")  # noqa: SIM115
            shutil.copyfileobj(file, copy)
    except OSError as error:
        raise _unreadable(path, error) from None
    return copy


def _lines(file: BinaryIO, source: Mark) -> Iterator[bytes]:
    """Yield the lines of a file; raise WorkerError for one that is too long."""
    number = 0
    while line := file.readline(MAX_LINE + 1):
        number += 1
        if len(line) > MAX_LINE:
            raise WorkerError(
                Mark(source.file, number), f"this line is longer than {MAX_LINE >> 20} MiB"
            )
        yield line


def _json_rows(file: BinaryIO, source: Mark) -> Iterator[InputRow]:
    for number, line in enumerate(_lines(file, source), 1):
        where = Mark(source.file, number)
        text = decode_utf8(line.rstrip(b"\r\n"), where)
        if text.strip():
            fields = _json_object(text, where)
            yield InputRow(_key(fields, number, where), fields, where, fields)


def _json_object(text: str, where: Mark) -> JsonObject:
    found = parse_json(text, where)
    if not isinstance(found, dict):
        raise WorkerError(
            where, "a row must be a JSON object", hint='such as {"id": "a", "task": "Sum up a.txt"}'
        )
    return found


def _csv_rows(file: BinaryIO, path: Path) -> Iterator[InputRow]:
    csv.field_size_limit(MAX_LINE)  # the default of Python is 128 KiB
    whole = enumerate(_lines(file, Mark(str(path))), 1)
    lines = (decode_utf8(line, Mark(str(path), number)) for number, line in whole)
    reader = csv.reader(lines, strict=True)
    names: list[str] | None = None
    number = 0
    line = 1
    try:
        for cells in reader:
            where = Mark(str(path), line)
            line = reader.line_num + 1
            if not cells:
                continue
            if names is None:
                names = _header(cells, where)
                continue
            number += 1
            if len(cells) != len(names):
                problem = f"this row has {len(cells)} fields, the first one has {len(names)}"
                column = min(len(cells), len(names)) + 1
                raise WorkerError(Mark(where.file, where.line, column), problem)
            fields: JsonObject = dict(zip(names, cells, strict=True))
            yield InputRow(_key(fields, number, where), fields, where, fields)
    except csv.Error as error:  # an unclosed quote is found only at the end of the file
        raise WorkerError(Mark(str(path), line), f"invalid CSV: {error}") from None


def _header(names: list[str], where: Mark) -> list[str]:
    for column, name in enumerate(names, 1):
        if not name.strip():
            raise WorkerError(Mark(where.file, where.line, column), f"column {column} has no name")
        if name in names[: column - 1]:
            problem = f"duplicate column '{visible(name)}'"
            raise WorkerError(Mark(where.file, where.line, column), problem)
    return names


def _key(fields: Mapping[str, Any], number: int, where: Mark) -> str:
    """Return the field ``id`` or ``key``, or the number of the row."""
    name = "id" if "id" in fields else "key"
    if name not in fields:
        return str(number)
    key = fields[name]
    if not isinstance(key, str | int) or isinstance(key, bool) or not str(key).strip():
        raise WorkerError(where, f"the field '{name}' must be a non-empty string or an integer")
    return str(key)


def folder_name(key: str) -> str:
    """Return a key as a folder name; different keys have different names."""
    kept = "".join(char if char.isalnum() or char in "-_. " else _quoted(char) for char in key)
    if len(kept.encode()) > MAX_NAME:
        # 34 bytes are for the digest and the two characters before it.
        digest = hashlib.sha256(kept.encode()).hexdigest()[:32]
        return f"{kept.encode()[: MAX_NAME - 34].decode(errors='ignore')}%-{digest}"
    # "." and ".." are the folder itself and its parent.
    return kept if kept.strip(".") else kept.replace(".", "%2E")


def _quoted(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))


class TaskTemplate(Struct, frozen=True):
    """A template such as ``Sum up {title}``.

    ``{{`` is a brace. Without a text, the field ``task`` is the task.
    """

    text: str | None = None

    def fill(self, fields: Mapping[str, Any], where: Mark) -> str:
        """Return the task of an item.

        Raise UsageError for an unknown field, WorkerError for an empty task.
        """
        if self.text is None:
            task = fields.get("task")
            if not isinstance(task, str):
                hint = "give each item a task, or fill one from its fields: --task 'Sum up {FIELD}'"
                raise UsageError(
                    "the field 'task' is missing or not a string", where=where, hint=hint
                )
        elif not self.text.strip():
            raise UsageError("--task is empty", hint="for example: --task 'Sum up {FIELD}'")
        else:
            task = _PART.sub(lambda part: self._replace(part, fields, where), self.text)
        if not task.strip():
            raise WorkerError(where, "the task is empty")
        return task

    def _replace(self, part: re.Match[str], fields: Mapping[str, Any], where: Mark) -> str:
        if part[0] in ("{{", "}}"):
            return part[0][0]
        if part[0] in ("{", "}"):
            raise UsageError(
                f"--task: unmatched '{part[0]}' at character {part.start() + 1}", hint=_DOUBLE_BRACE
            )
        if (name := part[1]) not in fields:
            hint = f"{did_you_mean(name, fields)} ({_DOUBLE_BRACE})"
            raise UsageError(f"--task: there is no field '{name}'", where=where, hint=hint)
        return field_text(fields[name])


def field_text(value: Any) -> str:
    """Return a field as text: a string as it is, nothing for null, anything else as JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)

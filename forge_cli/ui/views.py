"""How a result is shown, whichever UI draws it: its renderer, its hints and its content type choose the form."""

from __future__ import annotations

import base64
import binascii
import csv
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from io import StringIO
from itertools import chain, zip_longest
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from forge_cli.core.bounds import CALL_LIMIT, call_within, fault_text
from forge_cli.core.hookspecs import Renderer
from forge_cli.core.media import Blob, DisplayHints, Image, decoded_text
from forge_cli.core.pictures import HEAD, dimensions, file_size
from forge_cli.core.results import Custom, Diff, FileContent, FileList, Json, ResultValue, Text
from forge_cli.core.text import visible
from forge_cli.core.wire import jsonable
from forge_cli.files.difference import unified_diff
from forge_cli.files.home import user_home
from forge_cli.files.lookup import SHIPPED

FindRenderer = Callable[[Custom, str | None], Renderer | None]
"""The renderer of a custom result that a tool of this distribution gave, where there is one."""
Form = Literal["text", "markdown", "code", "json", "checklist", "table", "tree", "diff", "hidden"]

MIME_TYPES = {
    "text/markdown": "markdown",
    "application/json": "json",
    "text/csv": "csv",
    "text/tab-separated-values": "tsv",
    "text/x-diff": "diff",
    "text/x-patch": "diff",
}
FORMS: dict[str, Form] = {
    "markdown": "markdown",
    "csv": "table",
    "tsv": "table",
    "diff": "diff",
    "checklist": "checklist",
}
"""The form of a language where no view is preferred; every other one is code."""
DELIMITERS = {"csv": ",", "tsv": "\t"}
_NAMES = ("name", "path", "filename", "file")
_CONTENTS = ("data", "base64", "content")


def short_place(where: object) -> str:
    """The place of a rule for people: a worker that comes with forge without its folder."""
    return str(where).removeprefix(f"{SHIPPED}{os.sep}")


def near_home(folder: str) -> str:
    """A folder as people write it, with ``~`` for their home."""
    home = str(user_home())
    return (
        f"~{folder.removeprefix(home)}"
        if folder == home or folder.startswith(home + os.sep)
        else folder
    )


def no_renderers(value: Custom, distribution: str | None) -> Renderer | None:
    """Custom kinds as they are."""
    return None


class Grid(Struct, frozen=True):
    """A table: every row is as long as the columns are many."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class View(Struct, frozen=True):
    """A result ready to be drawn."""

    form: Form
    data: Any
    """A string or plain JSON data; a Grid for a table."""
    head: str = ""
    """A line above it, such as the summary of a custom result."""
    note: str = ""
    """The problem on the way here."""
    label: str = ""
    """The root of a tree."""
    names_only: bool = False
    """A tree of names, where nothing is said of those at its ends."""
    language: str = "text"
    name: str = ""
    """Of the file that it is, whose end may tell the language."""
    collapsed: bool | None = None
    max_height: int | None = None
    exact: bool = False
    """Also the invisible parts of emoji and writing systems are shown."""

    @property
    def text(self) -> str:
        """The content as text."""
        return (
            self.data
            if isinstance(self.data, str)
            else json.dumps(self.data, indent=2, ensure_ascii=False)
        )

    def height(self, lines: int | None) -> int | None:
        """How many lines to show where ``lines`` is the most; None shows all."""
        wanted = 1 if self.collapsed else self.max_height
        return lines if lines is None or wanted is None else min(lines, wanted)

    def with_hints(self, hints: DisplayHints) -> View:
        """Bounded as the hints say; they are third-party data, and one that makes no sense is not followed."""
        height = (
            hints.max_height if isinstance(hints.max_height, int) and hints.max_height > 0 else None
        )
        heights = [each for each in (self.max_height, height) if each is not None]
        collapsed = hints.collapsed if isinstance(hints.collapsed, bool) else self.collapsed
        return replace(self, max_height=min(heights, default=None), collapsed=collapsed)


def is_command(value: ResultValue) -> bool:
    """Is it the output of a command, whose last lines matter most?"""
    return (
        isinstance(value, Custom)
        and isinstance(value.data, dict)
        and bool({"exitCode", "running"} & set(value.data))
    )


def as_printed(text: str) -> str:
    """The output of a program as a terminal leaves it, without colours: of a line that was written over, the last."""
    plain = re.sub(r"\x1b\[[\d;]*[mK]", "", text)
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in plain.split("\n"))


def is_hidden(value: ResultValue) -> bool:
    """Is it for the model only?"""
    return value.display is not None and value.display.preferred_view == "hidden"


def view_of(
    value: ResultValue,
    find: FindRenderer = no_renderers,
    distribution: str | None = None,
    *,
    exact: bool = False,
) -> View:
    """How to show a result that a tool of this distribution gave.

    ``exact`` is for what somebody decides upon: nothing of it is hidden, or drawn so that a part of it could vanish.
    """
    if is_hidden(value) and not exact:
        return View("hidden", "")
    hints = value.display or DisplayHints()
    view = _view(value, hints, find, distribution, exact).with_hints(hints)
    return replace(view, exact=exact or isinstance(value, Diff | FileList))


def _view(
    value: ResultValue,
    hints: DisplayHints,
    find: FindRenderer,
    distribution: str | None,
    exact: bool,
) -> View:
    match value:
        case Text(content=content):
            return _formed(View("text", content), hints, exact)
        case FileContent(content=content):
            return _formed(
                View("text" if exact else "code", content, name=value.path), hints, exact
            )
        case Diff():
            return _diff(value, hints, exact)
        case FileList():
            return _files(value, hints, exact)
        case Json():
            data = jsonable(value.data)
            return _formed(View("text" if isinstance(data, str) else "json", data), hints, exact)
        case Image():
            return View("text", value.text())
        case Blob():
            return _blob(value, hints, exact)
        case Custom():
            return _custom(value, hints, find, distribution, exact)


def _blob(value: Blob, hints: DisplayHints, exact: bool) -> View:
    """A file by its name and size, and its content where that is text."""
    content = decoded_text(value)
    if content is None:
        return View("text", f"[file: {value.about()}]")
    language = hints.language or MIME_TYPES.get(value.media_type.partition(";")[0])
    view = View("text", content, value.about(), name=value.name)
    return _formed(view, replace(hints, language=language), exact)


def _custom(
    value: Custom, hints: DisplayHints, find: FindRenderer, distribution: str | None, exact: bool
) -> View:
    note = ""
    if renderer := find(value, distribution):
        try:
            drawn = call_within(CALL_LIMIT, f"the renderer of {value.kind}", renderer, value)
            if not exact and isinstance(drawn, Text) and is_command(value):
                drawn = replace(drawn, content=as_printed(drawn.content))
            return view_of(drawn, exact=exact)
        except Exception as error:  # third-party code: a renderer that fails only loses its looks
            note = f"(the renderer of {value.kind} failed: {fault_text(error)})"
    data = jsonable(value.data)
    form: Form = "tree" if isinstance(data, dict | list) and data and not exact else "text"
    view = View(form, data, value.summary or "", note, value.kind)
    mime = (value.mime_type or "").partition(";")[0].strip().lower()
    if mime.startswith("image/") and hints.preferred_view is None and not exact:
        return replace(view, form="text", data=describe_image(mime, value.data))
    language = "json" if mime.endswith("+json") else MIME_TYPES.get(mime)
    return _formed(view, hints if hints.language else replace(hints, language=language), exact)


def _formed(view: View, hints: DisplayHints, exact: bool) -> View:
    """In the form that is preferred, or that its language has; where the data is not of that form, as text."""
    data = view.data
    known = hints.language if isinstance(hints.language, str) else None
    language = known or ("text" if isinstance(data, str) else "json")
    match hints.preferred_view or (FORMS.get(known, "code") if known else None):
        case "table" if grid := _grid(_parsed(data, language)):
            return replace(view, form="table", data=grid)
        case "tree" if isinstance(tree := _parsed(data, language), dict | list):
            return replace(view, form="tree", data=tree)
        case "code" if language == "diff" and isinstance(data, str):
            return replace(view, form="diff")
        case "code":
            tidy = (
                _parsed(data, language) if language == "json" else data
            )  # also JSON in a string is laid out
            return replace(view, form="code", data=tidy, language=language)
        case "markdown" | "diff" | "checklist" as form if isinstance(data, str) and not (
            exact and form == "markdown"
        ):
            return replace(view, form=form)
        case "text":
            return replace(view, form="text")
        case _:
            return view


def _parsed(data: Any, language: str) -> Any:
    """The data in a string, where it holds some; else the same."""
    if not isinstance(data, str):
        return data
    try:
        if delimiter := DELIMITERS.get(language):
            return _padded([*csv.reader(StringIO(data), delimiter=delimiter)])
        return json.loads(data)
    except (csv.Error, ValueError, RecursionError):
        return data


def _padded(rows: Sequence[Sequence[str]]) -> Grid | None:
    columns = [*zip_longest(*(row for row in rows if row), fillvalue="")]
    first, *others = zip(*columns, strict=True) if columns else ((),)
    return Grid(first, tuple(others)) if first else None


def _grid(data: Any) -> Grid | None:
    """A table of the objects in a list, or the one that was read already."""
    if isinstance(data, Grid):
        return data
    if not isinstance(data, list) or not data or not all(isinstance(row, dict) for row in data):
        return None
    columns = tuple(dict.fromkeys(chain.from_iterable(data)))
    rows = []
    for row in data:
        rows.append(tuple(cell(row.get(column, "")) for column in columns))
    return Grid(columns, tuple(rows))


def cell(item: Any) -> str:
    return item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)


def _files(value: FileList, hints: DisplayHints, exact: bool) -> View:
    more = [f"... {value.count - len(value.files)} more"] if value.count > len(value.files) else []
    names = [*value.files, *more]
    match hints.preferred_view:
        case "table":
            return View("table", Grid(("name",), tuple((name,) for name in names)))
        case "tree" if names:
            return View("tree", _nested(names), label=value.path, names_only=True)
        case _:
            return _formed(View("text", "\n".join(names) or "(empty)"), hints, exact)


def _nested(names: Iterable[str]) -> dict[str, Any]:
    """Names as a tree of folders."""
    tree: dict[str, Any] = {}
    for name in names:
        folders = name.rstrip("/").split("/")
        last = "/" if name.endswith("/") else ""
        place = tree
        for folder in folders[:-1]:
            place = place.setdefault(f"{folder}/", {})
        place.setdefault(folders[-1] + last, {})
    return tree


def _diff(diff: Diff, hints: DisplayHints, exact: bool) -> View:
    """The changes, line by line; a new file is all additions.

    A result may prefer to be shown as the new content; what somebody decides upon is always the difference.
    """
    content = View("text", diff.modified)
    if diff.original is None and not diff.is_new:
        return replace(
            content,
            head=f"replaces {diff.path}; the old content is too long to compare, or not text:",
        )
    lines = unified_diff(
        diff.original or "", diff.modified, "/dev/null" if diff.is_new else diff.path, diff.path
    )
    if not lines:
        return View(
            "text", f"{visible(diff.path)}: {'an empty file' if diff.is_new else 'no change'}"
        )
    drawn = View("diff", "\n".join(lines))
    match hints.preferred_view:
        case "text":
            return replace(drawn, form="text")
        case "markdown" | "code" if not exact:
            return _formed(content, hints, exact)
        case _:
            return drawn


def describe_image(mime: str, data: Any) -> str:
    """``image.png, 640x480, 32 KB``, as far as it can be seen without drawing it."""
    fields = data if isinstance(data, Mapping) else {}
    content = (
        data
        if isinstance(data, str)
        else next((fields[key] for key in _CONTENTS if _is_text(fields, key)), None)
    )
    name = next((fields[key] for key in _NAMES if _is_text(fields, key)), None)
    kind = mime.removeprefix("image/").partition("+")[0]
    size = dimensions(_decoded(content[: HEAD * 4 // 3])) if content else None
    facts = [name.rpartition("/")[2] if name else f"image.{kind}"]
    facts += [f"{size[0]}x{size[1]}"] if size else []
    facts += [file_size(len(content.rstrip("=")) * 3 // 4)] if content else []
    return ", ".join(facts)


def _is_text(fields: Mapping[str, Any], key: str) -> bool:
    return isinstance(fields.get(key), str) and fields[key] != ""


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text[: len(text) // 4 * 4])
    except (binascii.Error, ValueError):
        return b""

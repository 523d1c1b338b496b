"""The views of results for every UI: the renderer, hints or content type choose the form."""

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
from forge_cli.core.results import (
    Custom,
    Diff,
    FileContent,
    FileList,
    Json,
    ResultValue,
    Table,
    Text,
)
from forge_cli.core.tables import cell_text
from forge_cli.core.text import visible
from forge_cli.core.wire import jsonable
from forge_cli.files.difference import unified_diff
from forge_cli.files.home import user_home
from forge_cli.files.lookup import SHIPPED

FindRenderer = Callable[[Custom, str | None], Renderer | None]
"""Returns the renderer of a custom result of a tool of this distribution, if there is one."""
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
"""The forms of languages if no view is preferred; all others are code."""
DELIMITERS = {"csv": ",", "tsv": "\t"}
_NAMES = ("name", "path", "filename", "file")
_CONTENTS = ("data", "base64", "content")


def short_place(where: object) -> str:
    """Return the place of a rule for people, without the folder of a shipped worker."""
    return str(where).removeprefix(f"{SHIPPED}{os.sep}")


def near_home(folder: str) -> str:
    """Return a folder with ``~`` for the home of the person."""
    home = str(user_home())
    if folder == home or folder.startswith(home + os.sep):
        return f"~{folder.removeprefix(home)}"
    return folder


def no_renderers(value: Custom, distribution: str | None) -> Renderer | None:
    """Return None: no custom kind has a renderer."""
    return None


class Grid(Struct, frozen=True):
    """A table whose rows have one cell for each column."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class View(Struct, frozen=True):
    """A result that is ready to draw."""

    form: Form
    data: Any
    """A string, plain JSON data, or a Grid for a table."""
    head: str = ""
    """A line above the content, such as the summary of a custom result."""
    note: str = ""
    """A problem, such as a failed renderer."""
    label: str = ""
    """The root of a tree."""
    names_only: bool = False
    """Whether a tree has names without values."""
    language: str = "text"
    name: str = ""
    """The name of the file, whose suffix can give the language."""
    collapsed: bool | None = None
    max_height: int | None = None
    exact: bool = False
    """Whether the invisible parts of emoji and scripts are shown, too."""

    @property
    def text(self) -> str:
        """The content as text."""
        if isinstance(self.data, str):
            return self.data
        return json.dumps(self.data, indent=2, ensure_ascii=False)

    def height(self, lines: int | None) -> int | None:
        """Return the number of lines to show, at most ``lines``; None shows all."""
        wanted = 1 if self.collapsed else self.max_height
        if lines is None or wanted is None:
            return lines
        return min(lines, wanted)

    def with_hints(self, hints: DisplayHints) -> View:
        """Return the view with the limits of hints; invalid third-party hints are ignored."""
        height = self.max_height
        if isinstance(hints.max_height, int) and hints.max_height > 0:
            if height is None:
                height = hints.max_height
            else:
                height = min(height, hints.max_height)
        collapsed = self.collapsed
        if isinstance(hints.collapsed, bool):
            collapsed = hints.collapsed
        return replace(self, max_height=height, collapsed=collapsed)


def is_command(value: ResultValue) -> bool:
    """Return True for the output of a command, whose last lines matter most."""
    if not isinstance(value, Custom) or not isinstance(value.data, dict):
        return False
    return "exitCode" in value.data or "running" in value.data


def as_printed(text: str) -> str:
    """Return program output as a terminal shows it: without colours and overwritten text."""
    plain = re.sub(r"\x1b\[[\d;]*[mK]", "", text)
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in plain.split("\n"))


def is_hidden(value: ResultValue) -> bool:
    """Return True if the result is for the model only."""
    return value.display is not None and value.display.preferred_view == "hidden"


def view_of(
    value: ResultValue,
    find: FindRenderer = no_renderers,
    distribution: str | None = None,
    *,
    exact: bool = False,
) -> View:
    """Return the view of a result of a tool of this distribution.

    ``exact`` is for previews that a person decides on: nothing is hidden or could vanish.
    """
    if is_hidden(value) and not exact:
        return View("hidden", "")
    hints = value.display or DisplayHints()
    view = _view(value, hints, find, distribution, exact).with_hints(hints)
    # Names of files and changes of code must not hide characters, in any UI.
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
            form: Form = "text" if exact else "code"
            return _formed(View(form, content, name=value.path), hints, exact)
        case Diff():
            return _diff(value, hints, exact)
        case FileList():
            return _files(value, hints, exact)
        case Json():
            data = jsonable(value.data)
            return _formed(View("text" if isinstance(data, str) else "json", data), hints, exact)
        case Table():
            return _table(value, hints)
        case Image():
            return View("text", value.text())
        case Blob():
            return _blob(value, hints, exact)
        case Custom():
            return _custom(value, hints, find, distribution, exact)


def _blob(value: Blob, hints: DisplayHints, exact: bool) -> View:
    """Return the name and size of a file, and its content if it is text."""
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
    # Only nonempty data, because an empty tree shows nothing. A preview shows the plain JSON.
    form: Form = "text"
    if isinstance(data, dict | list) and data and not exact:
        form = "tree"
    view = View(form, data, value.summary or "", note, value.kind)
    mime = (value.mime_type or "").partition(";")[0].strip().lower()
    if mime.startswith("image/") and hints.preferred_view is None and not exact:
        return replace(view, form="text", data=describe_image(mime, value.data))
    if not hints.language:
        language = "json" if mime.endswith("+json") else MIME_TYPES.get(mime)
        hints = replace(hints, language=language)
    return _formed(view, hints, exact)


def _formed(view: View, hints: DisplayHints, exact: bool) -> View:
    """Return the view in the preferred form, or the form of its language, if the data allows it."""
    data = view.data
    known = ""
    if isinstance(hints.language, str):  # a plugin can give anything
        known = hints.language
    language = known or ("text" if isinstance(data, str) else "json")
    wanted: str | None = hints.preferred_view
    if not wanted and known:
        wanted = FORMS.get(known, "code")
    match wanted:
        case "table" if grid := _grid(_parsed(data, language)):
            return replace(view, form="table", data=grid)
        case "tree" if isinstance(tree := _parsed(data, language), dict | list):
            return replace(view, form="tree", data=tree)
        case "code" if language == "diff" and isinstance(data, str):
            return replace(view, form="diff")
        case "code":
            if language == "json":
                data = _parsed(data, language)  # so that JSON in a string is indented, too
            return replace(view, form="code", data=data, language=language)
        case "markdown" if exact:
            return view  # drawn Markdown hides its markup
        case "markdown" | "diff" | "checklist" as form if isinstance(data, str):
            return replace(view, form=form)
        case "text":
            return replace(view, form="text")
        case _:
            return view


def _parsed(data: Any, language: str) -> Any:
    """Return the data in a string if it is valid, else the string itself."""
    if not isinstance(data, str):
        return data
    try:
        if delimiter := DELIMITERS.get(language):
            return _padded([*csv.reader(StringIO(data), delimiter=delimiter)])
        return json.loads(data)
    # RecursionError: JSON that is nested too deeply.
    except (csv.Error, ValueError, RecursionError):
        return data


def _padded(rows: Sequence[Sequence[str]]) -> Grid | None:
    # Transposed twice, so that short rows get the cells that they lack.
    columns = [*zip_longest(*filter(None, rows), fillvalue="")]
    if not columns:
        return None
    first, *others = zip(*columns, strict=True)
    return Grid(first, tuple(others))


def _grid(data: Any) -> Grid | None:
    """Return a table of the objects in a list, or the table that was parsed already."""
    if isinstance(data, Grid):
        return data
    if not isinstance(data, list) or not data or not all(isinstance(row, dict) for row in data):
        return None
    columns = tuple(dict.fromkeys(chain.from_iterable(data)))
    rows = []
    for row in data:
        rows.append(tuple(cell_text(row.get(column, "")) for column in columns))
    return Grid(columns, tuple(rows))


def _table(value: Table, hints: DisplayHints) -> View:
    """Return the view of a table, by default its rows, with the number of rows left out."""
    missing = value.missing_rows()
    head = "; ".join(filter(None, (value.summary, missing and f"and {missing}")))
    if hints.preferred_view in ("text", "code", "markdown"):
        return View("text", value.csv(), head)
    rows = (tuple(map(cell_text, row)) for row in value.rows)
    return View("table", Grid(value.columns, tuple(rows)), head)


def _files(value: FileList, hints: DisplayHints, exact: bool) -> View:
    names = list(value.files)
    if value.count > len(value.files):
        names.append(f"... {value.count - len(value.files)} more")
    match hints.preferred_view:
        case "table":
            return View("table", Grid(("name",), tuple((name,) for name in names)))
        case "tree" if names:
            return View("tree", _nested(names), label=value.path, names_only=True)
        case _:
            return _formed(View("text", "\n".join(names) or "(empty)"), hints, exact)


def _nested(names: Iterable[str]) -> dict[str, Any]:
    """Return names as a tree of folders."""
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
    """Return the view of a change, by default its diff.

    Hints can ask for the new content instead, but not if a person decides on it.
    """
    content = View("text", diff.modified)
    if diff.original is None and not diff.is_new:
        head = f"replaces {diff.path}; the old content is too long to compare, or not text:"
        return replace(content, head=head)
    before = "/dev/null" if diff.is_new else diff.path  # as git writes it
    lines = unified_diff(diff.original or "", diff.modified, before, diff.path)
    if not lines:
        state = "an empty file" if diff.is_new else "no change"
        return View("text", f"{visible(diff.path)}: {state}")
    drawn = View("diff", "\n".join(lines))
    match hints.preferred_view:
        case "text":
            return replace(drawn, form="text")
        case "markdown" | "code" if not exact:
            return _formed(content, hints, exact)
        case _:
            return drawn


def describe_image(mime: str, data: Any) -> str:
    """Return a description of image data such as ``image.png, 640x480, 32 KB``."""
    kind = mime.removeprefix("image/").partition("+")[0]
    facts = [_first_text(data, _NAMES).rpartition("/")[2] or f"image.{kind}"]
    content = image_content(data)
    if content:
        # The dimensions are in the head of the file; base64 takes 4 characters for 3 bytes.
        if size := dimensions(_decoded(content[: HEAD * 4 // 3])):
            facts.append(f"{size[0]}x{size[1]}")
        facts.append(file_size(len(content.rstrip("=")) * 3 // 4))
    return ", ".join(facts)


def image_content(data: Any) -> str:
    """Return the base64 text of image data; empty if there is none."""
    if isinstance(data, str):
        return data
    return _first_text(data, _CONTENTS)


def _first_text(data: Any, keys: Iterable[str]) -> str:
    """Return the first nonempty text of an object under these keys."""
    if isinstance(data, Mapping):
        for key in keys:
            if isinstance(data.get(key), str) and data[key]:
                return str(data[key])
    return ""


def _decoded(text: str) -> bytes:
    try:
        # A text that was cut may end within a group of 4 characters.
        return base64.b64decode(text[: len(text) // 4 * 4])
    except (binascii.Error, ValueError):
        return b""

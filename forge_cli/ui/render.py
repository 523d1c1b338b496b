"""Results on a terminal: each well-known kind has its looks, a custom kind goes through its renderer or its hints."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text as Styled
from rich.tree import Tree

from forge_cli.core.hookspecs import Renderer
from forge_cli.core.results import Custom, Diff, FileContent, FileList, Json, ResultValue, Text
from forge_cli.core.text import visible
from forge_cli.core.wire import jsonable

FindRenderer = Callable[[str], Renderer | None]
LINES = 20


def no_renderers(kind: str) -> Renderer | None:
    """Custom kinds as they are."""
    return None


def render(value: ResultValue, find: FindRenderer = no_renderers, *, lines: int | None = LINES) -> RenderableType:
    """A result as something rich can print; ``lines`` bounds long text, None shows all of it."""
    match value:
        case Text(content=content) | FileContent(content=content):
            return _text(content, value.display.preferred_view if value.display else None, lines)
        case Diff():
            return render_diff(value, lines=lines)
        case FileList():
            return plain("\n".join(value.files) or "(empty)", lines)
        case Json():
            return plain(_pretty(value.data), lines)
        case Custom():
            return _custom(value, find, lines)


def plain(text: str, lines: int | None = None, style: str = "") -> Styled:
    """Foreign text: control characters escaped, no markup read from it, cut after so many lines."""
    shown = visible(text, keep="\n\t").split("\n")
    if lines is not None and len(shown) > lines:
        shown = [*shown[:lines], f"... {len(shown) - lines} more lines"]
    return Styled("\n".join(shown), style=style)


def render_diff(diff: Diff, *, lines: int | None = None) -> RenderableType:
    """What changes, line by line; a new file is all additions."""
    if diff.original is None and not diff.is_new:
        return Group(
            plain(f"replaces {diff.path}; the old content is too long to compare:"), plain(diff.modified, lines)
        )
    return Group(*_styled_lines(_unified(diff), lines))


def _unified(diff: Diff) -> list[str]:
    before, after = (diff.original or "").splitlines(), diff.modified.splitlines()
    old_name = "/dev/null" if diff.is_new else diff.path
    changes = list(difflib.unified_diff(before, after, old_name, diff.path, lineterm=""))
    return changes or [f"{diff.path}: {'an empty file' if diff.is_new else 'no change'}"]


def _styled_lines(lines: Sequence[str], limit: int | None) -> list[Styled]:
    styles = {"+": "green", "-": "red", "@": "cyan"}
    shown = [plain(line, style=styles.get(line[:1], "")) for line in lines[:limit]]
    if limit is not None and len(lines) > limit:
        shown.append(plain(f"... {len(lines) - limit} more lines", style="dim"))
    return shown


def _text(content: str, view: str | None, lines: int | None) -> RenderableType:
    return _markdown(content) if view == "markdown" else plain(content, lines)


def _custom(value: Custom, find: FindRenderer, lines: int | None) -> RenderableType:
    renderer = find(value.kind)
    if renderer:
        try:
            return render(renderer(value), no_renderers, lines=lines)
        except Exception as error:  # foreign code: a renderer that fails only loses its looks
            return Group(
                plain(f"(renderer of {value.kind} failed: {type(error).__name__}: {error})"), _hinted(value, lines)
            )
    return _hinted(value, lines)


def _hinted(value: Custom, lines: int | None) -> RenderableType:
    view = value.display.preferred_view if value.display else None
    data = jsonable(value.data)
    head = [plain(value.summary)] if value.summary else []
    match view:
        case "hidden":
            return Group(*head)
        case "table" if isinstance(data, list) and data and all(isinstance(row, dict) for row in data):
            return Group(*head, _table(data))
        case "tree":
            return Group(*head, _tree(value.kind, data))
        case "code":
            language = (value.display.language if value.display else None) or "text"
            return Group(*head, _code(_pretty(data), language))
        case "markdown" if isinstance(data, str):
            return Group(*head, _markdown(data))
        case _:
            return Group(*head, plain(_pretty(data), lines))


def _markdown(text: str) -> RenderableType:
    from rich.markdown import Markdown

    return Markdown(visible(text, keep="\n\t"))


def _code(text: str, language: str) -> RenderableType:
    from rich.syntax import Syntax

    return Syntax(visible(text, keep="\n\t"), language, background_color="default")


def _pretty(data: Any) -> str:
    return data if isinstance(data, str) else json.dumps(jsonable(data), indent=2, ensure_ascii=False)


def _table(rows: Sequence[dict[str, Any]]) -> Table:
    columns = list(dict.fromkeys(key for row in rows for key in row))
    table = Table(*(visible(column) for column in columns), box=None)
    for row in rows:
        table.add_row(*(plain(_pretty(row.get(column, ""))) for column in columns))
    return table


def _tree(label: str, data: Any) -> Tree:
    tree = Tree(plain(label))
    entries = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else [("", data)]
    for key, item in entries:
        if isinstance(item, dict | list) and item:
            tree.children.append(_tree(str(key), item))
        else:
            tree.add(plain(f"{key}: {_pretty(item)}"))
    return tree

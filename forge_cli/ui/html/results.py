"""Results as HTML: texts, diffs with line numbers, tables, trees and pictures."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from forge_cli.core.media import Image
from forge_cli.core.results import Custom, ResultValue, Table, shown_files
from forge_cli.core.tables import cell_text
from forge_cli.core.text import counted
from forge_cli.files.attachment import media_type
from forge_cli.ui.html.markdown import draw_code, draw_markdown, element, many_lines, one_line
from forge_cli.ui.terminal.render import DiffLine, number_lines
from forge_cli.ui.views import (
    FindRenderer,
    Grid,
    View,
    describe_image,
    image_content,
    is_hidden,
    no_renderers,
    view_of,
)

FOLD_AFTER = 30
"""Lines after which a result is folded."""
MAX_ROWS = 2000
"""Rows of a table, or entries of a tree, to show."""
PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_CHECKS = {"[x] ": ("done", "✓ "), "[>] ": ("now", "▸ "), "[ ] ": ("open", "☐ ")}
_SIGNS = {"+": "plus", "-": "minus", "file": "file"}


def draw_result(
    value: ResultValue, find: FindRenderer = no_renderers, distribution: str | None = None
) -> str:
    """Return the result of a tool of this distribution as HTML."""
    if not is_hidden(value) and (picture := _draw_picture(value)):
        return picture
    drawn = draw_view(view_of(value, find, distribution))
    if not is_hidden(value):
        drawn += "".join(filter(None, map(_draw_picture, shown_files(value))))
    if isinstance(value, Table) and not is_hidden(value):
        drawn += _link_csv(value)
    return drawn


def draw_view(view: View, *, fold: bool = True) -> str:
    """Return a view as HTML, folded if it is long or asks for it."""
    if view.form == "hidden":
        return ""
    above = ""
    if view.note:
        above = element("p", one_line(view.note), "quiet")
    if view.head:
        above += element("p", many_lines(view.head, exact=view.exact), "head")
    drawn = _draw(view)
    return above + (fold_away(drawn, _height(view), view) if fold else drawn)


def fold_away(drawn: str, lines: int, view: View) -> str:
    """Fold long content behind a line that opens it."""
    if view.collapsed is None:
        folded = lines > FOLD_AFTER
    else:
        folded = view.collapsed
    if not folded:
        return drawn
    return f'<details class="fold"><summary>{counted(lines, "line")}</summary>{drawn}</details>'


def _height(view: View) -> int:
    if isinstance(view.data, Grid):
        return len(view.data.rows)
    return view.text.removesuffix("\n").count("\n") + 1


def _draw(view: View) -> str:
    bounded = "short" if view.max_height else ""
    match view.form:
        case "table":
            return _draw_table(view.data, view)
        case "tree":
            if view.label:
                label = element("p", one_line(view.label), "label")
            else:
                label = ""
            return element("div", label + _draw_tree(view.data, view), "tree", bounded)
        case "diff":
            return draw_diff(view.text.removesuffix("\n"), bounded, exact=view.exact)
        case "markdown":
            return draw_markdown(view.text)
        case "checklist":
            return _draw_checklist(view)
        case "code":
            code = view.text.removesuffix("\n")
            return draw_code(code, view.language, view.name, exact=view.exact)
        case "json":
            return draw_code(view.text, "json", exact=view.exact)
        case _:
            shown = many_lines(view.text.removesuffix("\n"), exact=view.exact)
            return element("pre", shown, "text", bounded)


def draw_diff(patch: str, *classes: str, exact: bool = True) -> str:
    """Return a patch with the line numbers of the old and the new file."""
    lines = list(number_lines(patch.split("\n")))
    widths = {}
    for side in ("old", "new"):
        widths[side] = len(str(max((getattr(line, side) or 0 for line in lines), default=0)))
    drawn = [_draw_line(line, widths, exact) for line in lines]
    return element("pre", "\n".join(drawn), "diff", *classes)


def _draw_line(line: DiffLine, widths: Mapping[str, int], exact: bool) -> str:
    text = many_lines(line.text, exact=exact)
    # A tuple, because the empty sign of other lines is "in" every string.
    if line.sign not in tuple(" +-"):
        sign = line.sign
        if not sign and not line.text.startswith(("+++", "---")):
            sign = line.text[:1]  # a patch without hunks still has lines with signs
        return element("span", text, _SIGNS.get(sign, "about"))
    numbers = ""
    for side, width in widths.items():
        numbers += element("span", f"{str(getattr(line, side) or '').rjust(width)} ", side)
    inside = f"{element('span', numbers, 'gutter')}<span>{line.sign}{text}</span>"
    return element("span", inside, _SIGNS.get(line.sign, "same"))


def _draw_table(grid: Grid, view: View) -> str:
    heads = "".join(f'<th scope="col">{one_line(column)}</th>' for column in grid.columns)
    rows = ""
    for row in grid.rows[:MAX_ROWS]:
        cells = "".join(element("td", many_lines(item, exact=view.exact)) for item in row)
        rows += element("tr", cells)
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"
    if len(grid.rows) > MAX_ROWS:
        table += element("p", counted(len(grid.rows) - MAX_ROWS, "more row"), "quiet")
    return element("div", table, "table")


def _draw_tree(data: Mapping[str, Any] | list[Any], view: View) -> str:
    entries = list(data.items() if isinstance(data, Mapping) else enumerate(data))
    items = []
    for key, item in entries[:MAX_ROWS]:
        if isinstance(data, Mapping):
            name = str(key)
        else:
            name = f"[{key}]"
        if isinstance(item, dict | list) and item:
            items.append(f"<li>{one_line(name)}{_draw_tree(item, view)}</li>")
        elif view.names_only:
            items.append(f"<li>{one_line(name)}</li>")
        else:
            if isinstance(data, Mapping):
                shown = f"{key}: {cell_text(item)}"
            else:
                shown = cell_text(item)
            items.append(f"<li>{many_lines(shown, exact=view.exact)}</li>")
    if len(entries) > MAX_ROWS:
        items.append(f"<li>... {len(entries) - MAX_ROWS} more</li>")
    return f"<ul>{''.join(items)}</ul>"


def _draw_checklist(view: View) -> str:
    items = []
    for line in view.text.removesuffix("\n").split("\n"):
        look, mark = _CHECKS.get(line[:4], ("", ""))
        words = line[4:] if mark else line
        items.append(element("li", mark + many_lines(words, exact=view.exact), look))
    return element("ul", "".join(items), "checklist")


def _draw_picture(value: ResultValue) -> str | None:
    """Return a picture; None if the result is none, or its bytes are of another type."""
    if isinstance(value, Image):
        mime = value.media_type.partition(";")[0].strip().lower()
        if mime not in PICTURES or media_type(value.data) != mime:  # no SVG, which can have scripts
            return None
        return draw_picture(mime, value.data, ", ".join(filter(None, (value.alt, value.about()))))
    if not isinstance(value, Custom) or (value.display and value.display.preferred_view):
        return None
    mime = (value.mime_type or "").partition(";")[0].strip().lower()
    content = image_content(value.data)
    if mime not in PICTURES or not content:
        return None
    try:
        data = base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError):
        return None
    if media_type(data) != mime:  # a plugin can declare any type
        return None
    return draw_picture(mime, data, describe_image(mime, value.data))


def _link_csv(table: Table) -> str:
    """Return a link that saves a table as CSV."""
    data = base64.b64encode(table.csv().encode()).decode()
    source = f"data:text/csv;charset=utf-8;base64,{data}"
    link = f'<a download="table.csv" href="{source}" rel="noopener noreferrer">Save as CSV</a>'
    return element("p", link, "quiet")


def draw_picture(mime: str, data: bytes, about: str) -> str:
    """Return a picture with a caption; ``mime`` has to be a type without scripts."""
    source = f"data:{mime};base64,{base64.b64encode(data).decode()}"
    caption = element("figcaption", one_line(about), "quiet")
    return f'<figure class="picture"><img src="{source}" alt="{one_line(about)}">{caption}</figure>'

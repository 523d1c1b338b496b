"""Results as HTML: each form of a view drawn, with the numbers of a diff, the rows of a table and pictures as such."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from forge_cli.core.media import Image
from forge_cli.core.results import Custom, ResultValue, shown_files
from forge_cli.core.text import counted
from forge_cli.files.attachment import media_type
from forge_cli.ui.html.markdown import draw_code, draw_markdown, element, many_lines, one_line
from forge_cli.ui.terminal.render import DiffLine, number_lines
from forge_cli.ui.views import (
    FindRenderer,
    Grid,
    View,
    cell,
    describe_image,
    is_hidden,
    no_renderers,
    view_of,
)

LONG = 30
"""Lines of a result; a longer one is folded away."""
MOST = 2000
"""Rows of a table, or entries of a tree."""
PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_CHECKS = {"[x] ": ("done", "✓ "), "[>] ": ("now", "▸ "), "[ ] ": ("open", "☐ ")}
_SIGNS = {"+": "plus", "-": "minus", "file": "file"}


def draw_result(
    value: ResultValue, find: FindRenderer = no_renderers, distribution: str | None = None
) -> str:
    """A result that a tool of this distribution gave."""
    if not is_hidden(value) and (picture := _draw_picture(value)):
        return picture
    pictures = () if is_hidden(value) else map(_draw_picture, shown_files(value))
    return "".join([draw_view(view_of(value, find, distribution)), *filter(None, pictures)])


def draw_view(view: View, *, fold: bool = True) -> str:
    """A view, folded away where it is long or says so."""
    if view.form == "hidden":
        return ""
    above = element("p", one_line(view.note), "quiet") if view.note else ""
    above += element("p", many_lines(view.head, exact=view.exact), "head") if view.head else ""
    return above + (fold_away(_draw(view), _height(view), view) if fold else _draw(view))


def fold_away(drawn: str, lines: int, view: View) -> str:
    """Put long content behind a line that opens it."""
    folded = lines > LONG if view.collapsed is None else view.collapsed
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
            label = element("p", one_line(view.label), "label") if view.label else ""
            return element("div", label + _draw_tree(view.data, view), "tree", bounded)
        case "diff":
            return draw_diff(view.text.removesuffix("\n"), bounded, exact=view.exact)
        case "markdown":
            return draw_markdown(view.text)
        case "checklist":
            return _draw_checklist(view)
        case "code":
            return draw_code(
                view.text.removesuffix("\n"), view.language, view.name, exact=view.exact
            )
        case "json":
            return draw_code(view.text, "json", exact=view.exact)
        case _:
            return element(
                "pre", many_lines(view.text.removesuffix("\n"), exact=view.exact), "text", bounded
            )


def draw_diff(patch: str, *classes: str, exact: bool = True) -> str:
    """A patch, each line with its number in the old and in the new file."""
    lines = list(number_lines(patch.split("\n")))
    widths = [
        len(str(max((getattr(line, side) or 0 for line in lines), default=0)))
        for side in ("old", "new")
    ]
    return element(
        "pre", "\n".join(_draw_line(line, widths, exact) for line in lines), "diff", *classes
    )


def _draw_line(line: DiffLine, widths: list[int], exact: bool) -> str:
    text = many_lines(line.text, exact=exact)
    if line.sign not in tuple(" +-"):
        bare = (
            line.sign == "" and line.text[:1] in tuple("+-") and line.text[:3] not in ("+++", "---")
        )
        return element(
            "span", text, _SIGNS[line.text[0]] if bare else _SIGNS.get(line.sign, "about")
        )
    numbers = "".join(
        element("span", f"{str(getattr(line, side) or '').rjust(width)} ", side)
        for side, width in zip(("old", "new"), widths, strict=True)
    )
    return element(
        "span",
        f"{element('span', numbers, 'gutter')}<span>{line.sign}{text}</span>",
        _SIGNS.get(line.sign, "same"),
    )


def _draw_table(grid: Grid, view: View) -> str:
    heads = "".join(f'<th scope="col">{one_line(column)}</th>' for column in grid.columns)
    rows = "".join(
        "<tr>" + "".join(f"<td>{many_lines(item, exact=view.exact)}</td>" for item in row) + "</tr>"
        for row in grid.rows[:MOST]
    )
    more = (
        element("p", f"{counted(len(grid.rows) - MOST, 'more row')}", "quiet")
        if len(grid.rows) > MOST
        else ""
    )
    return f'<div class="table"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>{more}</div>'


def _draw_tree(data: Mapping[str, Any] | list[Any], view: View) -> str:
    entries = list(data.items() if isinstance(data, Mapping) else enumerate(data))
    items = []
    for key, item in entries[:MOST]:
        name = str(key) if isinstance(data, Mapping) else f"[{key}]"
        if isinstance(item, dict | list) and item:
            items.append(f"<li>{one_line(name)}{_draw_tree(item, view)}</li>")
        elif view.names_only:
            items.append(f"<li>{one_line(name)}</li>")
        else:
            shown = f"{key}: {cell(item)}" if isinstance(data, Mapping) else cell(item)
            items.append(f"<li>{many_lines(shown, exact=view.exact)}</li>")
    if len(entries) > MOST:
        items.append(f"<li>... {len(entries) - MOST} more</li>")
    return f"<ul>{''.join(items)}</ul>"


def _draw_checklist(view: View) -> str:
    items = []
    for line in view.text.removesuffix("\n").split("\n"):
        look, mark = _CHECKS.get(line[:4], ("", ""))
        items.append(
            element("li", mark + many_lines(line[4:] if mark else line, exact=view.exact), look)
        )
    return element("ul", "".join(items), "checklist")


def _draw_picture(value: ResultValue) -> str | None:
    """A picture as such, where its bytes are what its type says."""
    if isinstance(value, Image):
        mime = value.media_type.partition(";")[0].strip().lower()
        if mime not in PICTURES or media_type(value.data) != mime:
            return None
        return draw_picture(mime, value.data, ", ".join(filter(None, (value.alt, value.about()))))
    if not isinstance(value, Custom) or (value.display and value.display.preferred_view):
        return None
    mime = (value.mime_type or "").partition(";")[0].strip().lower()
    fields = value.data if isinstance(value.data, Mapping) else {}
    named = (fields.get(key) for key in ("data", "base64", "content"))
    content = (
        value.data
        if isinstance(value.data, str)
        else next((each for each in named if isinstance(each, str)), "")
    )
    if mime not in PICTURES or not content:
        return None
    try:
        data = base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError):
        return None
    if media_type(data) != mime:
        return None
    return draw_picture(mime, data, describe_image(mime, value.data))


def draw_picture(mime: str, data: bytes, about: str) -> str:
    """A picture of a type that browsers only draw."""
    source = f"data:{mime};base64,{base64.b64encode(data).decode()}"
    caption = element("figcaption", one_line(about), "quiet")
    return f'<figure class="picture"><img src="{source}" alt="{one_line(about)}">{caption}</figure>'

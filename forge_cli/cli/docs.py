"""``forge docs``: the documentation of the installed version."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from forge_cli.cli.options import JsonOption, new_app
from forge_cli.core.errors import ForgeError, UsageError
from forge_cli.core.text import did_you_mean, visible
from forge_cli.ui.table import Column, has_colours, print_json, print_table
from forge_cli.ui.terminal.console import new_console
from forge_cli.ui.terminal.live import can_draw
from forge_cli.ui.terminal.markdown import draw_markdown

app = new_app()

PLACES = (Path(__file__).parent.parent / "docs", Path(__file__).parent.parent.parent / "docs")
"""The folder in the wheel, and the one in a checkout."""
_FENCE = re.compile(r"^( *`{3,}\w+) .*$", re.MULTILINE)
"""The first line of a code block, with the attributes for tests behind the language."""
_COMMENT = re.compile(r"^ *<!--.*?-->\n", re.MULTILINE)
_PICTURE = re.compile(r"^!\[(.*?)\]\(.*?\)\n\n?", re.MULTILINE)
_LINK = re.compile(r"\[([^\]\[]+)\]\(([\w./-]*?)(#[\w-]*)?\)")
_PAGE = re.compile(r"([\w-]+)\.md")


@app.command()
def docs(
    page: Annotated[
        str | None, typer.Argument(metavar="PAGE", help="The page. Default: list all pages.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Read the documentation, which comes with forge.

    On a terminal, pages are formatted, and long ones open in $PAGER or less; otherwise the Markdown
    is printed.
    """
    pages = find_pages()
    if page is None:
        rows = [
            {"page": name, **_describe(file.read_text("utf-8"))} for name, file in pages.items()
        ]
        if as_json:
            print_json(rows)
        else:
            print_table(["page", Column("title", drop=1), "about"], rows)
        return
    name = page.removesuffix(".md").lower()
    if name not in pages:
        hint = did_you_mean(name, pages, f"there are: {', '.join(pages)}")
        raise UsageError(f"there is no page '{visible(page)}'", hint=hint)
    text = pages[name].read_text("utf-8")
    if as_json:
        print_json({"page": name, "text": text})
    elif sys.stdout.isatty():
        columns, height = new_console(sys.stdout).size
        lines = draw_markdown(for_terminal(text), columns - 1, styled=has_colours(), joined=True)
        shown = "".join(f"{line}\n" for line in lines)
        if (
            len(lines) < height
            or not can_draw(sys.stdout)
            or not sys.stdin.isatty()
            or not show_in_pager(shown)
        ):
            sys.stdout.write(shown)
    else:
        sys.stdout.write(text)


def find_pages() -> dict[str, Path]:
    """Return the pages by name."""
    folder = next((place for place in PLACES if (place / "concepts.md").is_file()), None)
    if folder is None:
        raise ForgeError(
            "this installation has no documentation", hint="reinstall forge from its wheel"
        )
    return {file.stem: file for file in sorted(folder.glob("*.md"))}


def for_terminal(text: str) -> str:
    """Return a page without the marks for browsers and tests, and with links as commands."""
    for pattern, shown in ((_COMMENT, ""), (_FENCE, r"\1"), (_PICTURE, "")):
        text = pattern.sub(shown, text)
    return _LINK.sub(_shown_link, text)


def show_in_pager(text: str) -> bool:
    """Show a text in $PAGER or less; return False if there is neither."""
    command = shlex.split(os.environ.get("PAGER") or "less")
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C is for the pager
    # for less: quit if the text fits, show colours, and leave the text on the screen
    environment = {"LESS": "FRX", **os.environ}
    try:
        return subprocess.run(command, input=text, text=True, env=environment).returncode == 0
    except OSError:
        return False
    finally:
        signal.signal(signal.SIGINT, before)


def _shown_link(link: re.Match[str]) -> str:
    page = _PAGE.fullmatch(link[2])
    return f"{link[1]} (forge docs {page[1]})" if page else link[1]


def _describe(text: str) -> dict[str, str]:
    """Return the title and the first sentence of a page, without Markdown."""
    title, _, rest = text.partition("\n\n")
    paragraph = " ".join(rest.partition("\n\n")[0].split())
    plain = re.sub(r"\[([^\]\[]+)\]\([^)]*\)|[*`]", r"\1", paragraph)
    return {
        "title": title.removeprefix("# "),
        "about": re.split(r"(?<=[.:])\s", plain)[0].rstrip(":"),
    }

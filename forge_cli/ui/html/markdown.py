"""Markdown of a model as HTML: no markup of its own, links that lead to the web only, and no images from elsewhere."""

from __future__ import annotations

import re
from collections.abc import MutableMapping, Sequence
from functools import cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token

from forge_cli.core.text import readable
from forge_cli.ui.html.code import draw_code, element, many_lines

LONGEST = 200_000
"""Characters that are read as Markdown; what is longer is shown as it is."""
_LINK = re.compile(r"(https?://|mailto:)[^\s]+", re.IGNORECASE)
_ALIGNED = re.compile(r"text-align:\s*(left|center|right)")
_BELOW = 2
"""A page has headings of its own above those of an answer."""
Tokens = Sequence[Token]


def draw_markdown(text: str) -> str:
    """Text that a model wrote."""
    if len(text) > LONGEST:
        return element("div", many_lines(text), "words", "plain")
    return element("div", _parser().render(readable(text)), "words")


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "linkify": False, "typographer": False})
    parser.enable(["table", "strikethrough"]).disable(["image", "html_block", "html_inline"])
    parser.validateLink = lambda url: _LINK.fullmatch(url) is not None  # type: ignore[method-assign]
    for name in ("fence", "code_block"):
        parser.add_render_rule(name, _draw_fence)
    for name in ("heading_open", "heading_close"):
        parser.add_render_rule(name, _draw_heading)
    for name in ("th_open", "td_open"):
        parser.add_render_rule(name, _draw_cell)
    parser.add_render_rule("link_open", _draw_link)
    parser.add_render_rule("table_open", _open_table)
    parser.add_render_rule("table_close", _close_table)
    return parser


def _draw_fence(self: RendererHTML, tokens: Tokens, at: int, options: Any, env: MutableMapping[str, Any]) -> str:
    token = tokens[at]
    language = token.info.split()[0] if token.info.split() else "text"
    return draw_code(token.content.removesuffix("\n"), language) + "\n"


def _draw_heading(self: RendererHTML, tokens: Tokens, at: int, options: Any, env: MutableMapping[str, Any]) -> str:
    token = tokens[at]
    tag = f"h{min(int(token.tag[1:]) + _BELOW, 6)}"
    return f"<{tag}>" if token.nesting == 1 else f"</{tag}>\n"


def _draw_cell(self: RendererHTML, tokens: Tokens, at: int, options: Any, env: MutableMapping[str, Any]) -> str:
    """Alignment is a class: the page allows no style in an element."""
    token = tokens[at]
    aligned = _ALIGNED.search(str(token.attrGet("style") or ""))
    return f'<{token.tag} class="{aligned[1]}">' if aligned else f"<{token.tag}>"


def _draw_link(self: RendererHTML, tokens: Tokens, at: int, options: Any, env: MutableMapping[str, Any]) -> str:
    token = tokens[at]
    token.attrs = {"href": token.attrGet("href") or "", "rel": "noopener noreferrer", "target": "_blank"}
    return self.renderToken(tokens, at, options, env)


def _open_table(self: RendererHTML, tokens: Tokens, at: int, options: Any, env: MutableMapping[str, Any]) -> str:
    return '<div class="table"><table>\n'


def _close_table(self: RendererHTML, tokens: Tokens, at: int, options: Any, env: MutableMapping[str, Any]) -> str:
    return "</table></div>\n"

"""Markdown of a model as HTML: no markup of its own, links that lead to the web only, and no images from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from functools import cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore
from markdown_it.token import Token

from forge_cli.core.text import readable
from forge_cli.ui.html.code import draw_code, element, many_lines

LONGEST = 200_000
"""Characters that are read as Markdown; what is longer is shown as it is."""
_LINK = re.compile(r"(https?://|mailto:)[^\s]+", re.IGNORECASE)
_END = "\\s<>\"'`|\\\\。、，；：！？）」』】"
_BARE = re.compile(rf"https?://[^{_END}]*[^{_END}.,;:!?)\]}}*_~]", re.IGNORECASE)
"""An address in the middle of a sentence, without what ends the sentence."""
_ALIGNED = re.compile(r"text-align:\s*(left|center|right)")
_BELOW = 2
"""A page has headings of its own above those of an answer."""
Tokens = Sequence[Token]


def draw_markdown(text: str) -> str:
    """Text that a model wrote."""
    if len(text) > LONGEST:
        return element("div", many_lines(text), "words", "plain")
    return element("div", markdown_parser().render(readable(text)), "words")


@cache
def markdown_parser() -> MarkdownIt:
    """The one parser and renderer of answers."""
    parser = MarkdownIt("commonmark", {"html": False, "linkify": False, "typographer": False})
    parser.enable(["table", "strikethrough"]).disable(["image", "html_block", "html_inline"])
    parser.validateLink = lambda url: _LINK.fullmatch(url) is not None  # type: ignore[method-assign]
    for name in ("fence", "code_block"):
        parser.add_render_rule(name, _draw_fence)
    for name in ("heading_open", "heading_close"):
        parser.add_render_rule(name, _draw_heading)
    for name in ("th_open", "td_open"):
        parser.add_render_rule(name, _draw_cell)
    parser.core.ruler.push("bare links", _link_addresses)
    parser.add_render_rule("link_open", _draw_link)
    parser.add_render_rule("table_open", _open_table)
    parser.add_render_rule("table_close", _close_table)
    return parser


def _link_addresses(state: StateCore) -> None:
    for block in state.tokens:
        if block.type == "inline" and "://" in block.content:
            block.children = list(_with_links(block.children or []))


def _with_links(tokens: Iterable[Token]) -> Iterator[Token]:
    """The same, with a link for each address that is not part of one."""
    inside = 0
    for token in tokens:
        inside += token.nesting if token.type in ("link_open", "link_close") else 0
        if token.type != "text" or inside:
            yield token
            continue
        end = 0
        for found in _BARE.finditer(token.content):
            yield Token("text", "", 0, content=token.content[end : found.start()])
            yield Token("link_open", "a", 1, attrs={"href": found[0]})
            yield Token("text", "", 0, content=found[0])
            yield Token("link_close", "a", -1)
            end = found.end()
        yield Token("text", "", 0, content=token.content[end:])


def _draw_fence(self: RendererHTML, tokens: Tokens, at: int, options: Any, env: MutableMapping[str, Any]) -> str:
    token = tokens[at]
    language = token.info.split()[0] if token.info.split() else "text"
    return draw_code(token.content.removesuffix("\n"), language) + "\n"


def _draw_heading(self: RendererHTML, tokens: Tokens, at: int, options: Any, env: MutableMapping[str, Any]) -> str:
    """A level below the heading that it belongs to, whichever level the model began with and left out."""
    above: list[str] = env.setdefault("headings", [])
    if tokens[at].nesting == 1:
        above[:] = [*(tag for tag in above if tag < tokens[at].tag), tokens[at].tag]
    tag = f"h{min(len(above) + _BELOW, 6)}"
    return f"<{tag}>" if tokens[at].nesting == 1 else f"</{tag}>\n"


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

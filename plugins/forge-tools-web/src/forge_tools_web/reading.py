"""Conversion of pages for models: HTML to Markdown, other text unchanged."""

from __future__ import annotations

import codecs
import copy
import re
from typing import Any

from forge_cli import Text, ToolError
from forge_cli.results import DisplayHints
from forge_tools_web.fetch import Page

HTML = {"text/html", "application/xhtml+xml"}
PLAIN = re.compile(
    r"text/.+|application/(json|xml|yaml|toml|javascript|x-ndjson|jsonl)|.+\+(json|xml|yaml)"
)
BOMS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
# The repetitions are bounded, because a page could make the search slow.
META = re.compile(
    rb"""<meta[^>]{0,200}charset\s{0,5}=\s{0,5}["']?([a-zA-Z0-9_:.-]{1,40})""", re.IGNORECASE
)
WEB_CODECS = re.compile(
    r"utf-(8|16|32).*|ascii|iso8859.*|cp\d+|koi8.*|gb\w+|big5.*|euc_.*|shift_jis.*|iso2022.*|mac-.*"
)
"""Codecs that pages may name; Python knows others, such as unicode_escape."""
SMALL = 1000
"""Characters of text up to which a page is converted whole, not only its main part."""
BESIDE = ("nav", "footer", "aside", "script", "style", "noscript", "template", "iframe", "head")
"""Elements that are not part of the content."""
BLOCKS = frozenset(
    {
        "div",
        "section",
        "article",
        "main",
        "header",
        "p",
        "ul",
        "ol",
        "dl",
        "dt",
        "dd",
        "table",
        "pre",
        "hr",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "blockquote",
        "figure",
        "figcaption",
        "address",
        "form",
        "details",
    }
)


def read(page: Page) -> Text:
    """Return the page as a result; raise ToolError if it has no readable text."""
    media_type = page.media_type or _guess(page.body)
    if media_type in HTML:
        return Text(_markdown(page), display=DisplayHints("markdown"))
    if not PLAIN.fullmatch(media_type):
        raise ToolError(
            f"{page.url} is {media_type}, but only HTML, JSON, XML and plain text can be read"
        )
    text = decoded(page)
    if "\0" in text[:4096]:
        raise ToolError(f"{page.url} is declared as {media_type}, but it is not text")
    if not text.strip():
        raise ToolError(f"{page.url} is empty")
    language = next((name for name in ("json", "xml", "yaml") if media_type.endswith(name)), None)
    if media_type == "text/markdown":
        return Text(text, display=DisplayHints("markdown"))
    return Text(text, display=DisplayHints("code", language) if language else None)


def decoded(page: Page) -> str:
    """Decode a page by its byte order mark, header or own declaration, else by trial."""
    declared = META.search(page.body[:2048])
    names = [
        *(name for mark, name in BOMS.items() if page.body.startswith(mark)),
        page.charset,
        declared[1].decode("ascii") if declared else None,
    ]
    for name in filter(None, names):
        codec = _codec(name)
        if codec:
            return page.body.decode(codec, errors="replace")
    try:
        return page.body.decode()
    except UnicodeDecodeError:
        return page.body.decode("cp1252", errors="replace")


def _codec(name: str) -> str | None:
    """Return Python's name of a web charset, in which Latin-1 means Windows-1252."""
    try:
        codec = codecs.lookup(name).name
    except (LookupError, ValueError):
        return None
    if codec in ("ascii", "iso8859-1"):
        return "cp1252"
    return codec if WEB_CODECS.fullmatch(codec) else None


def _guess(body: bytes) -> str:
    """Guess the media type of a document without one."""
    if b"\0" in body[:4096]:
        return "application/octet-stream"
    if re.match(rb"\s*<(!doctype html|html|head|body)\b", body, re.IGNORECASE):
        return "text/html"
    return "text/plain"


def _markdown(page: Page) -> str:
    import trafilatura

    text = decoded(page)
    tree = trafilatura.load_html(text)
    if tree is None or tree.tag != "html":  # trafilatura takes some fragments for no HTML at all
        text = f"<html><body>{text}</body></html>"
        tree = trafilatura.load_html(text)
    title = ""
    if tree is not None:
        title = " ".join((tree.findtext(".//title") or "").split())
    content = convert_small(tree, page.url) or trafilatura.extract(
        text,
        url=page.url,
        output_format="markdown",
        include_links=True,
        include_formatting=True,
        include_comments=False,
    )
    content = content or trafilatura.html2txt(text)
    if not content.strip():
        raise ToolError(f"{page.url} has no text; scripts may create its content in a browser")
    return f"[{_label(title or page.url)}]({page.url})\n\n{content.strip()}\n"


def convert_small(tree: Any, url: str) -> str:
    """Convert the whole body of a page with little text; empty for any other page.

    The search for the main part would lose headings and links of so little text.
    """
    from trafilatura.htmlprocessing import convert_tags, tree_cleaning
    from trafilatura.settings import Extractor
    from trafilatura.xml import xmltotxt

    body = None if tree is None else copy.deepcopy(tree.find(".//body"))
    if body is None:
        return ""
    for element in list(body.iter(*BESIDE)):
        element.drop_tree()
    if len(" ".join(body.text_content().split())) > SMALL:
        return ""
    body.make_links_absolute(url, handle_failures="ignore")
    options = Extractor(
        url=url, output_format="markdown", links=True, formatting=True, comments=False, tables=True
    )
    body = tree_cleaning(body, options)
    for element in body.iter(
        "div", "section", "article", "main", "header", "dt", "dd", "address", "figcaption"
    ):
        if not any(child.tag in BLOCKS for child in element):
            element.tag = "p"
        elif element.tail and element.tail.strip():
            element.tail = f"\n\n{element.tail}"
    for block in body.iter("pre"):
        _mark_code(block)
    converted = convert_tags(body, options, url)
    _mark_cells(converted)
    return str(xmltotxt(converted, include_formatting=True)).strip()


def _mark_code(block: Any) -> None:
    """Wrap preformatted text in ``code``, as only that is converted to a code block."""
    if block.find("code") is None and len(block) == 0:
        code = block.makeelement("code", {})
        code.text, block.text = block.text, None
        block.append(code)


def _mark_cells(converted: Any) -> None:
    """Rename the rows and cells of tables as the Markdown converter expects them."""
    for row in converted.iter("tr"):
        row.tag = "row"
    for cell in converted.iter("th", "td"):
        if cell.tag == "th":
            cell.set("role", "head")
        cell.tag = "cell"


def _label(text: str) -> str:
    return re.sub(r"([\[\]\\])", r"\\\1", text)

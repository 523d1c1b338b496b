"""Hooks of mkdocs: the files beside docs/ as pages, and code blocks that name a file."""

from __future__ import annotations

import importlib
import os
import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
BESIDE = (
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "CODE_OF_CONDUCT.md",
    "SECURITY.md",
    "changes/README.md",
)
PUBLIC = (
    "forge_cli",
    "forge_cli.embedding",
    "forge_cli.errors",
    "forge_cli.events",
    "forge_cli.executors",
    "forge_cli.hooks",
    "forge_cli.results",
    "forge_cli.terminal",
    "forge_cli.testing",
)
"""The modules whose names are public, as docs/stability.md lists them."""
_LINK = re.compile(r"\[([^\]\[]*)\]\((?![a-z]+:|#)([^)\s#]+)(#[^)\s]*)?\)")
_FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,})(?P<kind>\w+)? +(?P<file>\S+)$", re.MULTILINE)
_KINDS = {"console": "console", "terminal": "console", "jsonl": "json"}


def on_files(files: Files, config: Any) -> Files:
    """Add the README as the first page, and the other documents that pages link to."""
    for page, source in _pages().items():
        if source.is_relative_to(ROOT / "docs"):
            continue
        text = source.read_text("utf-8")
        files.append(File.generated(config, page, content=text))
    files.append(File.generated(config, "names.md", content=_names()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return the text of a page with links between pages, and code blocks with titles."""
    pages = _pages()
    source = pages.get(page.file.src_uri)
    if source is None:
        return markdown
    places = {str(path.relative_to(ROOT)): name for name, path in pages.items()}

    def linked(match: re.Match[str]) -> str:
        text, named, anchor = match.groups(default="")
        target = os.path.normpath(source.parent.relative_to(ROOT) / named)
        if target not in places and not target.startswith("docs/"):
            return text  # a file of the repository that is no page, such as data of the tests
        target = places.get(target, target.removeprefix("docs/"))
        here = str(PurePosixPath(page.file.src_uri).parent)
        return f"[{text}]({os.path.relpath(target, here)}{anchor})"

    def titled(match: re.Match[str]) -> str:
        kind = _KINDS.get(match["kind"] or "", match["kind"] or "text")
        return f'{match["indent"]}{match["fence"]}{kind} title="{match["file"]}"'

    text = _FENCE.sub(titled, _LINK.sub(linked, markdown))
    return re.sub(r"^( *`{3,})(terminal|jsonl)$", lambda m: m[1] + _KINDS[m[2]], text, flags=re.M)


def _pages() -> dict[str, Path]:
    """Return the repository's file of each page, by the page's name in the site."""
    found = {"index.md": ROOT / "README.md"}
    for path in sorted((ROOT / "docs").rglob("*.md")):
        found[path.relative_to(ROOT / "docs").as_posix()] = path
    for name in BESIDE:
        found[name] = ROOT / name
    for group in ("plugins", "examples"):
        for path in sorted((ROOT / group).glob("*/README.md")):
            found[f"{group}/{path.parent.name}.md"] = path
    return found


def _names() -> str:
    """Return the page of all public Python names: name, module, and the page that explains it."""
    texts = {path.name: path.read_text("utf-8") for path in sorted((ROOT / "docs").glob("*.md"))}
    order = ["python.md", "tools.md", "plugins.md", "events.md", "hooks.md", *texts]
    rows = []
    for module in PUBLIC:
        for name in getattr(importlib.import_module(module), "__all__", ()):
            if name.startswith("_"):
                continue
            word = re.compile(rf"\b{re.escape(name)}\b")
            page = next((each for each in order if word.search(texts[each])), None)
            where = f"[{page.removesuffix('.md')}]({page})" if page else ""
            rows.append((name.lower(), f"| `{name}` | `{module}` | {where} |"))
    lines = [line for _, line in sorted(rows)]
    head = ["# Public Python names", "", "| name | module | page |", "|---|---|---|"]
    return "\n".join([*head, *lines]) + "\n"

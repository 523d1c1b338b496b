"""Task lists of GitHub's Markdown: ``- [x] done`` and ``- [ ] open``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it.token import Token

TASK = "task"
"""The CSS class of an item."""
_MARK = re.compile(r"\[([ xX])\] ")


def mark_tasks(tokens: Sequence[Token]) -> None:
    """Draw the box of each task: ``☑`` if it is done, else ``☐``."""
    for place, token in enumerate(tokens[:-2]):
        words = tokens[place + 2].children if tokens[place + 2].type == "inline" else None
        if token.type != "list_item_open" or not words or words[0].type != "text":
            continue
        if found := _MARK.match(words[0].content):
            box = "☐" if found[1] == " " else "☑"
            words[0].content = f"{box} {words[0].content[found.end() :]}"
            token.attrJoin("class", TASK)

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
        # The text of an item follows its list_item_open and paragraph_open.
        inline = tokens[place + 2]
        if token.type != "list_item_open" or inline.type != "inline":
            continue
        words = inline.children
        if not words or words[0].type != "text":
            continue
        if found := _MARK.match(words[0].content):
            box = "☐" if found[1] == " " else "☑"
            words[0].content = f"{box} {words[0].content[found.end() :]}"
            token.attrJoin("class", TASK)

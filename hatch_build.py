"""The README for package indexes, where relative links become names of ``forge docs`` pages."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

PICTURE = re.compile(r"^!\[.*?\]\((?!https?:).*?\)\n\n?", re.MULTILINE)
PAGE = re.compile(r"\[([^\]\[]+)\]\(docs/([\w-]+)\.md(?:#[\w-]*)?\)")
OTHER = re.compile(r"\[([^\]\[]+)\]\((?!https?:|docs/)[^)]*\)")
FENCE = re.compile(r"^(```\w+) \S+$", re.MULTILINE)
START = re.compile(r"From a clone; .*?```\n\n.*?```\n", re.DOTALL)
INSTALL = """```bash
uv tool install forge-workers      # or: pipx install forge-workers
forge docs getting-started         # the documentation comes with it
```
"""


def for_index(readme: str) -> str:
    """Return the README without pictures and relative links."""
    text = START.sub(INSTALL, PICTURE.sub("", readme), count=1)
    text = PAGE.sub(r"\1 (`forge docs \2`)", text)
    return FENCE.sub(r"\1", OTHER.sub(r"\1", text))


class CustomMetadataHook(MetadataHookInterface):
    """The hook that fills in ``readme``, which pyproject.toml declares as dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = for_index(Path(self.root, "README.md").read_text("utf-8"))
        metadata["readme"] = {"content-type": "text/markdown", "text": text}

"""Secrets: known values of the environment and known shapes of keys, taken out of what is stored or sent."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

MARK = "[redacted:{name}]"
SHORTEST = 8
MARKS = re.compile(r"\[redacted:[A-Za-z0-9_-]+\]")

KEY_NAME = re.compile(r"(^|_)(API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?)(_|$)", re.IGNORECASE)
_SHAPES = {
    "anthropic": r"sk-ant-[A-Za-z0-9_-]{16,}",
    "openai": r"sk-(?:proj-)?[A-Za-z0-9_-]{32,}",
    "github": r"(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{40,})",
    "aws": r"(?:AKIA|ASIA)[A-Z0-9]{16}",
    "slack": r"xox[abprs]-[A-Za-z0-9-]{10,}",
    "private-key": r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----",
}


class Redactor:
    """Replaces each secret by a mark that says which one it was."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._values = {
            value: MARK.format(name=name)
            for name, value in sorted(environ.items())
            if KEY_NAME.search(name) and len(value) >= SHORTEST
        }
        longest_first = sorted(self._values, key=len, reverse=True)
        known = [f"(?P<known>{'|'.join(map(re.escape, longest_first))})"] if longest_first else []
        shapes = [f"(?P<{name.replace('-', '_')}>{shape})" for name, shape in _SHAPES.items()]
        self._pattern = re.compile("|".join(known + shapes), re.DOTALL)

    def redact(self, value: Any) -> Any:
        """JSON data with every secret in it replaced, in keys and values alike."""
        if isinstance(value, str):
            return self._pattern.sub(self._mark, value)
        if isinstance(value, dict):
            return {self.redact(key): self.redact(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.redact(item) for item in value]
        return value

    def _mark(self, match: re.Match[str]) -> str:
        kind = match.lastgroup or "secret"
        return self._values[match.group()] if kind == "known" else MARK.format(name=kind.replace("_", "-"))


def has_mark(value: Any) -> bool:
    """Whether this JSON data has the mark of a redacted secret."""
    if isinstance(value, str):
        return MARKS.search(value) is not None
    if isinstance(value, dict):
        return any(has_mark(key) or has_mark(item) for key, item in value.items())
    return isinstance(value, list) and any(map(has_mark, value))


def added_mark(before: str, after: str) -> str | None:
    """A mark that a text has more often than it had before, if any."""
    added = Counter(MARKS.findall(after)) - Counter(MARKS.findall(before))
    return next(iter(added), None)

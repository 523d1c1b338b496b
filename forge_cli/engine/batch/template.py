"""The task of an item: a template that is filled from its fields, or the field ``task``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from forge_cli.core.errors import Mark, UsageError, WorkerError
from forge_cli.core.text import did_you_mean

_PART = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_TWICE = "a brace that is meant is written twice"


@dataclass(frozen=True)
class TaskTemplate:
    """``Sum up {title}``; a brace is written twice. Without a text, the field ``task`` is the task."""

    text: str | None = None

    def fill(self, fields: Mapping[str, Any], where: Mark) -> str:
        """The task of an item; an unknown field is a UsageError, an empty task an invalid input."""
        if self.text is None:
            task = fields.get("task")
            if not isinstance(task, str):
                hint = "give each item a task, or fill one from its fields: --task 'Sum up {FIELD}'"
                raise UsageError("there is no field 'task' with a text", where=where, hint=hint)
        elif not self.text.strip():
            raise UsageError("--task is empty", hint="say what is to be done: --task 'Sum up {FIELD}'")
        else:
            task = _PART.sub(lambda part: self._replace(part, fields, where), self.text)
        if not task.strip():
            raise WorkerError(where, "the task is empty")
        return task

    def _replace(self, part: re.Match[str], fields: Mapping[str, Any], where: Mark) -> str:
        if part[0] in ("{{", "}}"):
            return part[0][0]
        if part[0] in ("{", "}"):
            raise UsageError(f"--task: a '{part[0]}' stands alone, at character {part.start() + 1}", hint=_TWICE)
        if (name := part[1]) not in fields:
            hint = f"{did_you_mean(name, fields)} ({_TWICE})"
            raise UsageError(f"--task: there is no field '{name}'", where=where, hint=hint)
        return field_text(fields[name])


def field_text(value: Any) -> str:
    """A field as text: a string as it is, nothing for null, anything else as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

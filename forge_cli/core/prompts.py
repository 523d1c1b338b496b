"""Prompts: messages with gaps that a toolset offers to people, who fill them in and send them by a slash command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from forge_cli.core.errors import ToolError


@dataclass(frozen=True)
class PromptArgument:
    """An argument of a prompt."""

    name: str
    description: str = ""
    required: bool = False


@dataclass(frozen=True)
class PromptSpec:
    """What a person sees of a prompt before it is filled in."""

    name: str
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()

    def read_args(self, given: Sequence[str]) -> Mapping[str, str]:
        """``key=value`` as it was typed; the only argument of a prompt needs no key."""
        names = [argument.name for argument in self.arguments]
        pairs = [text.partition("=")[::2] for text in given]
        if len(names) == 1 and given and not all(key in names for key, _ in pairs):
            pairs = [(names[0], " ".join(given))]
        if wrong := [key for key, _ in pairs if key not in names]:
            takes = f"it takes {', '.join(names)}" if names else "it takes none"
            raise ToolError(f"/{self.name} has no argument '{wrong[0]}'; {takes}")
        found = dict(pairs)
        if missing := [each.name for each in self.arguments if each.required and each.name not in found]:
            raise ToolError(f"/{self.name} needs {', '.join(f'{name}=...' for name in missing)}")
        return found

"""Prompts that toolsets offer to people: their list, completion and messages."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from forge_cli.core.errors import ForgeError, ToolError
from forge_cli.core.requests import PromptSpec
from forge_cli.core.results import ResultValue, as_result
from forge_cli.core.tool import LONGEST
from forge_cli.core.wire import wire
from forge_cli.engine.gate.toolbox import OpenToolset, Toolbox, prefixed


class Prompts:
    """The prompts of all open toolsets, except those that cannot list them."""

    def __init__(self, toolbox: Toolbox) -> None:
        self._toolbox = toolbox

    async def announced(self) -> tuple[dict[str, Any], ...]:
        """Return each prompt as menus show it."""
        found = await self._find()
        return tuple(wire(replace(spec, name=name)) for name, (_, spec) in found.items())

    async def fill(self, name: str, given: Sequence[str]) -> str | None:
        """Return the message of a prompt with these words, or None if there is no such prompt."""
        value = await self.value(name, given)
        return None if value is None else value.text()

    async def specs(self) -> dict[str, PromptSpec]:
        """Return each prompt by its name in this worker."""
        return {name: spec for name, (_, spec) in (await self._find()).items()}

    async def complete(self, name: str, argument: str, text: str) -> list[str]:
        """Return the values that a toolset suggests for an argument of a prompt."""
        found = (await self._find()).get(name)
        if found is None:
            return []
        opened, spec = found
        what = f"the prompt '{name}' cannot be completed"
        known = await opened.ask(
            what, "complete_prompt()", opened.toolset.complete_prompt, spec.name, argument, text
        )
        return [str(value) for value in known]

    async def value(self, name: str, given: Sequence[str]) -> ResultValue | None:
        """Return the message of a prompt, with images and files."""
        found = (await self._find()).get(name)
        if found is None:
            return None
        opened, spec = found
        args = replace(spec, name=name).read_args(given)
        what = f"the prompt '{name}' cannot be filled in"
        fill = opened.toolset.get_prompt
        return as_result(
            await opened.ask(what, "get_prompt()", fill, spec.name, args, seconds=LONGEST)
        )

    async def _find(self) -> dict[str, tuple[OpenToolset, PromptSpec]]:
        found: dict[str, tuple[OpenToolset, PromptSpec]] = {}
        for opened in self._toolbox.toolsets:
            with suppress(ForgeError, ToolError):
                for spec in await opened.ask(
                    "it cannot list its prompts", "prompts()", opened.toolset.prompts
                ):
                    found.setdefault(
                        prefixed(opened.toolset.config.prefix, spec.name), (opened, spec)
                    )
        return found

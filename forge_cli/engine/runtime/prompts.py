"""The prompts of a worker's toolsets: listed for people, and filled in when a command names one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from forge_cli.core.bounds import CALL_LIMIT, fault_text, wait_within
from forge_cli.core.errors import ToolError
from forge_cli.core.tool import LONGEST
from forge_cli.core.toolset import leaves_as_is
from forge_cli.core.wire import wire
from forge_cli.engine.gate.toolbox import OpenToolset, Toolbox, prefixed

if TYPE_CHECKING:
    from forge_cli.core.prompts import PromptSpec


class Prompts:
    """Those of the toolsets that are open; a toolset that cannot list its own has none."""

    def __init__(self, toolbox: Toolbox) -> None:
        self._toolbox = toolbox

    async def announced(self) -> tuple[dict[str, Any], ...]:
        """For the menus of people."""
        return tuple(wire(replace(spec, name=name)) for name, (_, spec) in (await self._find()).items())

    async def fill(self, name: str, given: Sequence[str]) -> str | None:
        """The message that a prompt makes of what was typed after its name; None where there is no such prompt."""
        found = (await self._find()).get(name)
        if found is None:
            return None
        opened, spec = found
        args = replace(spec, name=name).read_args(given)
        try:
            fill = opened.toolset.get_prompt
            return str(await wait_within(LONGEST, "get_prompt()", fill, spec.name, args, of=opened.title))
        except ToolError:
            raise
        except Exception as error:  # third-party code
            raise ToolError(f"{opened.title}: the prompt '{name}' cannot be filled in: {fault_text(error)}") from error

    async def _find(self) -> dict[str, tuple[OpenToolset, PromptSpec]]:
        found: dict[str, tuple[OpenToolset, PromptSpec]] = {}
        for opened in self._toolbox.toolsets:
            for spec in await _prompts_of(opened):
                found.setdefault(prefixed(opened.toolset.config.prefix, spec.name), (opened, spec))
        return found


async def _prompts_of(opened: OpenToolset) -> Sequence[PromptSpec]:
    if leaves_as_is(opened.toolset, "prompts"):
        return ()
    try:
        return list(await wait_within(CALL_LIMIT, "prompts()", opened.toolset.prompts, of=opened.title))
    except Exception:  # third-party code
        return ()

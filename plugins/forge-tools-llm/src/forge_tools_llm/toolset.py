"""The toolset ``llm``: the tools of llm's plugins behind forge's gate."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from pydantic import Field

from forge_cli import Tool, ToolContext, Toolset, ToolsetConfig, hookimpl
from forge_cli.errors import WorkerError
from forge_tools_llm.registry import Registered, registered
from forge_tools_llm.toolbox import OwnThread, missing_settings, open_toolbox


class LlmConfig(ToolsetConfig):
    """Settings such as ``toolsets: {llm: {toolboxes: {SQLite: {path: shop.db}}}}``."""

    toolboxes: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """The arguments of toolboxes by name; a toolbox that lacks required ones is left out."""


class LlmToolset(Toolset):
    """The tools of llm's plugins."""

    name = "llm"
    Config = LlmConfig

    async def tools(self) -> Sequence[Tool]:
        if "_found" not in vars(self):
            self._found = await self._find()
        return self._found

    async def _find(self) -> list[Tool]:
        found = list(registered())
        self._check_names([each.name for each in found if each.is_toolbox])
        tools: list[Tool] = []
        for each in found:
            if each.is_toolbox:
                tools += await self._toolbox(each)
            else:
                tools.append(self._tool(each))
        return tools

    def _check_names(self, known: Sequence[str]) -> None:
        for name in self.config.toolboxes:
            if name not in known:
                problem = f"toolsets.llm.toolboxes: there is no toolbox '{name}'"
                hint = f"there are: {', '.join(known) or 'none'}; llm install adds plugins"
                raise WorkerError(self.config.where("toolboxes", name), problem, hint=hint)

    def _tool(self, each: Registered) -> Tool:
        thread = self._own_thread()
        return adapt(each.thing, each.name, each.origin, thread)

    async def _toolbox(self, each: Registered) -> list[Tool]:
        settings = self.config.toolboxes.get(each.name, {})
        if missing := missing_settings(each.thing, settings):
            problem = f"the toolbox {each.name} of {each.origin} needs {', '.join(missing)}"
            if each.name in self.config.toolboxes:
                raise WorkerError(
                    self.config.where("toolboxes", each.name), f"toolsets.llm.toolboxes: {problem}"
                )
            self.env.notify("info", f"toolsets.llm: {problem} under toolboxes, and is left out")
            return []
        thread = self._own_thread()
        try:
            tools = await open_toolbox(each.thing, settings, thread)
        except Exception as error:  # code of the plugin
            why = f"{type(error).__name__}: {error}"
            problem = f"toolsets.llm.toolboxes: {each.name} cannot be opened: {why}"
            raise WorkerError(self.config.where("toolboxes", each.name), problem) from error
        return [adapt(tool, tool.name, each.origin, thread) for tool in tools]

    def _own_thread(self) -> OwnThread:
        thread = OwnThread()
        self.stack.callback(thread.close)
        return thread


def adapt(tool: Any, name: str, origin: str, thread: OwnThread) -> Tool:
    """Convert a tool of llm; it has no approval or effects, so that it asks."""

    async def execute(args: dict[str, Any], context: ToolContext) -> Any:
        result = await thread.call(tool.implementation, **args)
        # llm lets a tool return a ToolOutput, with attachments beside its output.
        return result.output if hasattr(result, "attachments") else result

    return Tool(
        name=name,
        description=inspect.cleandoc(tool.description or "") or f"Custom tool: {name}",
        input_schema={"type": "object", "properties": {}, **tool.input_schema},
        execute=execute,
        bound_to_zones=False,
        origin=origin,
    )


@hookimpl
def forge_toolsets() -> list[type[Toolset]]:
    """Offer the toolset."""
    return [LlmToolset]

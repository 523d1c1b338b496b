"""Choices of a person in an editor's session: its mode, its model, and what a message may begin with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from acp import schema

from forge_cli.core.approval import MODE_TITLES, SessionMode
from forge_cli.core.text import visible
from forge_cli.ui.facts import Facts

COMMANDS = {
    "add-dir": ("let the worker use a folder", "DIR[:ro]"),
    "clear": ("forget what was said so far", ""),
    "compact": ("replace what was said by a summary", ""),
    "mcp": ("list MCP servers, turn them off and on", "[off|on|reconnect NAME]"),
    "name": ("give the session a title", "TITLE"),
    "reload": ("read the worker's file again", ""),
    "revoke": ("take back what was allowed for the session", "N|all"),
    "rewind": ("go back to a message, with files and conversation", "[N]"),
    "undo": ("restore files that were changed", "[--list]"),
}
"""The slash commands of a session; mode and model are options."""
Option = schema.SessionConfigOptionSelect | schema.SessionConfigOptionBoolean


def modes_of(facts: Facts) -> schema.SessionModeState:
    """The modes, for editors that know no options."""
    return schema.SessionModeState(
        current_mode_id=facts.mode,
        available_modes=[schema.SessionMode(id=mode, name=_mode_title(facts, mode)) for mode in facts.modes],
    )


def options_of(facts: Facts) -> list[Option]:
    models = dict.fromkeys([facts.model, *facts.models()])
    return [
        _select("mode", "Mode", facts.mode, {mode: _mode_title(facts, mode) for mode in facts.modes}),
        _select("model", "Model", facts.model, {name: name for name in models}),
    ]


def commands_of(facts: Facts) -> schema.AvailableCommandsUpdate:
    """Forge's own commands, tools for people, and prompts of toolsets."""
    found = dict(COMMANDS)
    for tool in facts.manual_tools.values():
        found.setdefault(tool.name, (tool.summary or tool.label, "--KEY VALUE"))
    for name, prompt in facts.prompts.items():
        found.setdefault(name, (str(prompt.get("description") or "a prompt"), "[KEY=VALUE]"))
    return schema.AvailableCommandsUpdate(
        session_update="available_commands_update",
        available_commands=[
            schema.AvailableCommand(name=name, description=visible(summary), input=_hint(hint))
            for name, (summary, hint) in found.items()
        ],
    )


def _mode_title(facts: Facts, mode: SessionMode) -> str:
    """The approval mode, where it answers in the place of the person."""
    if mode == "ask" and facts.approval_mode != "interactive":
        return facts.approval_mode.replace("_", " ")
    return MODE_TITLES[mode]


def _select(id: Literal["mode", "model"], name: str, current: str, choices: Mapping[str, str]) -> Option:
    return schema.SessionConfigOptionSelect(
        type="select",
        id=id,
        name=name,
        category=id,
        current_value=current,
        options=[schema.SessionConfigSelectOption(value=value, name=title) for value, title in choices.items()],
    )


def _hint(hint: str) -> schema.AvailableCommandInput | None:
    return schema.AvailableCommandInput(schema.UnstructuredCommandInput(hint=hint)) if hint else None

"""The help: commands by what they are for, and the options of a command by how often they are used."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

COMMANDS = {
    "run": "Run a worker on one task.",
    "chat": "Talk with a worker.",
    "web": "Talk with workers in a browser, and watch them there.",
    "batch": "Run a worker on many inputs; the same command again resumes it.",
    "batch status": "Say how a batch stands.",
    "tools list": "List every tool, and what is broken.",
    "tools show": "Show one tool, or a toolset with its settings.",
    "tools call": "Call one tool by hand, through the same gate as the model's calls.",
    "tools new": "Make a new tool in ~/.forge/tools.",
    "tools build": "Compile a tool, or read its script for errors.",
    "tools test": "Check tools, and run the examples of a tool.yaml.",
    "tools diff": "Show what changed since a tool was last approved.",
    "tools remove": "Delete a tool, without asking.",
    "tools suggest": "Name shell commands that recur in your sessions.",
    "plugins list": "List every package with plugins, and what it offers.",
    "plugins new": "Make a package with a plugin, in a new folder.",
    "plugins check": "Load a plugin in a process of its own, and say what is wrong with it.",
    "plugins install": "Install a package with plugins, or bring it up to date.",
    "plugins uninstall": "Remove a package with plugins, without asking.",
    "worker new": "Make a worker file: answer a few questions, or give flags.",
    "worker list": "List the workers that can be named, and where they are.",
    "worker check": "Say whether a worker file is sound.",
    "worker show": "Show what a worker is, may do and is told.",
    "worker schema": "Print the JSON Schema of worker files, for editors.",
    "mcp list": "List MCP servers, without starting any.",
    "mcp test": "Connect to MCP servers, and list what they offer.",
    "mcp login": "Log in to an MCP server, in a browser.",
    "mcp logout": "Forget the login to an MCP server, without asking.",
    "mcp add": "Define an MCP server in your own config.yaml.",
    "mcp remove": "Delete an MCP server from your own config.yaml, without asking.",
    "serve acp": "Put a worker into editors that speak the Agent Client Protocol.",
    "serve mcp": "Offer a worker's tools, and the worker itself, to MCP clients.",
    "models list": "List the models that -m takes, with their prices and windows.",
    "keys set": "Store the key of a provider.",
    "keys list": "List keys, and where each comes from.",
    "keys remove": "Forget a stored key, without asking.",
    "config show": "Show every setting that holds here, and where it comes from.",
    "lock": "Write what a worker consists of to a file, for a review.",
    "trust": "Trust the workers, settings, skills and more of a folder.",
    "doctor": "Check that everything is there that forge needs.",
    "sessions list": "List the sessions of this folder and below, the latest first.",
    "sessions show": "Show what was said and done in a session.",
    "sessions search": "Look for TEXT in what was said, in calls and in their results.",
    "sessions export": "Write a session as Markdown, as a page that loads nothing, or its decisions as csv.",
    "sessions verify": "Check that no line of a log was changed, dropped or moved.",
    "sessions rm": "Delete sessions, without asking; one that is in use stays.",
    "approvals list": "List the requests that wait for an answer, of parked sessions and of those at work.",
    "approvals answer": "Answer a request of a parked session, or of one at work.",
    "approvals review": "Answer what waits, one request after the other, as at a prompt.",
    "approvals audit": "List rules that no call of your past sessions has met.",
    "approvals suggest": "Suggest rules that would have answered past questions with yes.",
    "replay": "Replay a session without a model, and show where it differs.",
    "undo": "Restore the files that a session changed.",
    "test": "Replay the recorded tests of workers.",
    "approve": "Say what the policy would decide, without a model.",
    "docs": "Read the documentation, which comes with forge.",
    "help": "Show the help of a command, or of forge.",
}
"""What the help of forge says of its own commands; entry points ``command.NAME`` say where they are."""

GROUPS = {
    "tools": "List, show, call, make and test tools.",
    "plugins": "List, make, check, install and remove packages with plugins.",
    "worker": "Make, list, check and show workers.",
    "models": "List models.",
    "keys": "Store, list and remove the keys of providers.",
    "config": "Show settings.",
    "mcp": "List, test, add and remove MCP servers, and log in to them.",
    "serve": "Offer workers to other programs.",
    "sessions": "List, show, search, export, verify and delete sessions.",
    "approvals": "Answer what waits, and find rules that save questions.",
}
SECTIONS = {
    "Everyday": ("run", "chat", "web", "undo", "approvals", "sessions"),
    "Look": ("approve", "replay", "models", "config", "doctor", "docs", "help"),
    "Make": ("worker", "tools", "plugins", "mcp", "test", "keys", "lock", "trust"),
    "Run elsewhere": ("batch", "serve"),
}
"""The help of forge lists its commands so; what packages bring comes last."""
FROM_PACKAGES = "From packages"
OPTIONS = {
    "Often used": ("model", "interactive", "print", "y", "cd", "attach", "task", "output", "port", "no-open"),
    "Limits": ("max-turns", "max-tokens", "max-cost", "max-time", "concurrency", "retries"),
    "Sessions": ("continue", "resume", "fork", "ephemeral", "record", "replay", "restart"),
    "Output": ("output-format", "json", "output-schema", "trace"),
}
"""The options of commands that have many; the others follow."""
MANY = 12


def write_overview(commands: Mapping[str, Any], formatter: Any, *, by_sections: bool) -> None:
    """Write a line for each command."""
    order = [name.split()[-1] for name in COMMANDS]
    listed = {"Commands": tuple(sorted(commands, key=[*order, *commands].index))}
    if by_sections:
        known = {name for names in SECTIONS.values() for name in names}
        listed = {**SECTIONS, FROM_PACKAGES: tuple(sorted(commands.keys() - known))}
    width = max(map(len, commands), default=0)
    for title, names in listed.items():
        rows = [(f"{name:<{width}}", commands[name].get_short_help_str(200)) for name in names if name in commands]
        _write_rows(title, rows, formatter)


def write_parameters(parameters: Sequence[Any], context: Any, formatter: Any) -> None:
    """Write a line for each argument and option, without the types that typer would write."""
    arguments = [each for each in parameters if each.param_type_name == "argument"]
    _write_rows(
        "Arguments", [(re.sub(r" <.*>$", "", name), text) for name, text in _rows(arguments, context)], formatter
    )
    options = [each for each in parameters if each.param_type_name == "option"]
    listed = {"Options": options}
    if len(options) > MANY:
        title = {name: title for title, names in OPTIONS.items() for name in names}
        listed = {known: [] for known in (*OPTIONS, "More")}
        for option in options:
            listed[title.get(max(option.opts, key=len).lstrip("-"), "More")].append(option)
    for name, group in listed.items():
        _write_rows(name, _rows(group, context), formatter)


def _rows(parameters: Sequence[Any], context: Any) -> list[tuple[str, str]]:
    return [record for each in parameters if (record := each.get_help_record(context))]


def _write_rows(title: str, rows: Sequence[tuple[str, str]], formatter: Any) -> None:
    if rows:
        with formatter.section(title):
            formatter.write_dl([(re.sub(r"<(.*)>$", r"\1", name), text) for name, text in rows])

"""The checks of ``forge plugins check``: metadata in this process, the rest in a child."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import typer

from forge_cli.core.approval import ApprovalMode
from forge_cli.core.errors import ForgeError
from forge_cli.core.results import is_valid_kind, is_well_known_kind
from forge_cli.core.text import cut
from forge_cli.core.thirdparty import LONGEST_ERROR
from forge_cli.core.wire import error_text
from forge_cli.engine.plugins.distributions import shared_names
from forge_cli.engine.plugins.foreign import as_command
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.engine.plugins.requirements import missing, unfit
from forge_cli.engine.plugins.scan import COMMAND, Plugin, kind_and_name
from forge_cli.inspection.conformance import ConformanceCheck, check_tools
from forge_cli.inspection.inspector import Inspector
from forge_cli.inspection.sections import COMMON, settings_of
from forge_cli.inspection.tool_rows import needed_settings, only_plugin

NAME = re.compile(r"[A-Za-z0-9][\w-]*( [A-Za-z0-9][\w-]*)*")
"""The pattern of a plugin's name; a command's name has a space for each dot of its entry point."""
VALUE = re.compile(r"\s*[\w.]+\s*(:\s*[\w.]+\s*)?")


def _check(subject: str, check: str, *problems: str) -> ConformanceCheck:
    """Return a check of a distribution, an entry point or a tool; it passes without problems."""
    return ConformanceCheck(subject, check, not problems, cut("; ".join(problems), LONGEST_ERROR))


async def check_distribution(plugins: list[Plugin]) -> list[ConformanceCheck]:
    """Return all checks of one distribution; each of its plugins is loaded in its own process."""
    host = PluginHost()
    distribution = plugins[0].distribution
    built = unfit(distribution)
    of_forge = [f"{distribution} {built}"] if built else []
    absent = missing(distribution)
    not_installed = [f"not installed: {', '.join(absent)}"] if absent else []
    checks = [
        _check(distribution, "forge", *of_forge),
        _check(distribution, "requirements", *not_installed),
    ]
    for plugin in plugins:
        problems = [*_unsound(plugin), *shared_names(plugin, host)]
        checks.append(_check(plugin.name, "entry point", *problems))
        if not problems:
            checks += await look_at(plugin)
    return checks


def _unsound(plugin: Plugin) -> Iterator[str]:
    kind, name = kind_and_name(plugin.name)
    if " " in plugin.name or not NAME.fullmatch(name) or len(name) > 64:
        yield f"'{name}' is not a valid name of a {kind}: use up to 64 letters, digits, '_' and '-'"
    if not VALUE.fullmatch(plugin.value):
        yield f"'{plugin.value}' is not a reference: write 'module' or 'module:attribute'"


async def look_at(plugin: Plugin) -> list[ConformanceCheck]:
    """Check a plugin in a child process."""
    try:
        async with Inspector(calls_tools=True) as inspector:
            return await inspector.in_child(check_plugin, plugin.name, plugin.distribution)
    except ForgeError as error:
        return [_check(plugin.name, "loads", error.message)]


async def check_plugin(name: str, distribution: str) -> list[ConformanceCheck]:
    """Load one plugin and check what it offers. Runs in the child."""
    host = PluginHost(only=[distribution])
    plugin = host.named(name, distribution)
    kind, _ = kind_and_name(name)
    checks = [_attempt(host, plugin, "loads", _loads)]
    if checks[0].ok:
        checks += [_attempt(host, plugin, "hooks", _hooks), _attempt(host, plugin, *_DETAILS[kind])]
        if kind == "toolset":
            checks += await _conformance(host, plugin)
    return checks


Problems = Callable[[PluginHost, Plugin], list[str]]


def _attempt(host: PluginHost, plugin: Plugin, check: str, look: Problems) -> ConformanceCheck:
    try:
        return _check(plugin.name, check, *look(host, plugin))
    except ForgeError as error:
        return _check(plugin.name, check, error.message)
    except BaseException as error:  # third-party code: whatever it raises
        return _check(plugin.name, check, error_text(error))


def _loads(host: PluginHost, plugin: Plugin) -> list[str]:
    match kind_and_name(plugin.name)[0]:
        case "toolset":
            host.toolset_of(plugin)
        case "model provider":
            host.model_of(plugin)
        case "executor":
            host.executor_of(plugin)
        case "observer":
            host.observer_of(plugin)
        case "command":
            host.command_of(plugin)
        case _:
            host.renderers_of(plugin)
    return []


def _hooks(host: PluginHost, plugin: Plugin) -> list[str]:
    """Return the hooks without an entry point of their name, which forge would never call."""
    if plugin.name.startswith(COMMAND):
        return []
    known = {each.name for each in host.plugins if each.distribution == plugin.distribution}
    lost = sorted(set(host.offered_names(plugin)) - known)
    return [
        f"{' '.join(kind_and_name(name))} has no entry point '{name}', so forge does not find it"
        for name in lost
    ]


def _settings(host: PluginHost, plugin: Plugin) -> list[str]:
    settings = settings_of(host.toolset_of(plugin))
    silent = [
        each["name"]
        for each in settings
        if each["name"] not in COMMON and not each["description"].strip()
    ]
    return [f"{', '.join(silent)}: no description"] if silent else []


def _model(host: PluginHost, plugin: Plugin) -> list[str]:
    factory = host.model_of(plugin)
    lacking: object = factory.missing()  # a plugin can return anything, whatever it declares
    problems: list[str] = []
    if not callable(factory.make):
        problems.append("make is not callable")
    if lacking is not None and not isinstance(lacking, str):
        problems.append("missing() returns neither None nor a sentence")
    if not all(isinstance(key, str) for key in factory.keys):
        problems.append("keys are not names of environment variables")
    if not all(isinstance(each.name, str) for each in factory.catalog()):
        problems.append("catalog() returns models without a name")
    return problems


def _executor(host: PluginHost, plugin: Plugin) -> list[str]:
    if callable(host.executor_of(plugin).make):
        return []
    return ["make is not callable"]


def _observer(host: PluginHost, plugin: Plugin) -> list[str]:
    if callable(host.observer_of(plugin).observe):
        return []
    return ["observe is not callable"]


def _command(host: PluginHost, plugin: Plugin) -> list[str]:
    problems: list[str] = []
    if not plugin.summary:
        problems.append("the distribution has no description, so forge --help cannot describe it")
    path = kind_and_name(plugin.name)[1]
    if not as_command(host.command_of(plugin), path, typer.Typer(add_completion=False)).help:
        problems.append("no help; write a docstring")
    return problems


def _renderer(host: PluginHost, plugin: Plugin) -> list[str]:
    drawn = host.renderers_of(plugin)
    # forge draws the well-known kinds itself, so a plugin may not replace them
    odd = [kind for kind in drawn if not is_valid_kind(kind) or is_well_known_kind(kind)]
    problems = [f"{kind!r} is not a kind of custom results" for kind in odd]
    for kind, draw in drawn.items():
        if not callable(draw):
            problems.append(f"the renderer of {kind!r} is not callable")
    return problems


_DETAILS: dict[str, tuple[str, Problems]] = {
    "toolset": ("settings", _settings),
    "model provider": ("factory", _model),
    "executor": ("factory", _executor),
    "observer": ("observer", _observer),
    "renderer": ("kinds", _renderer),
    "command": ("help", _command),
}


async def _conformance(host: PluginHost, plugin: Plugin) -> list[ConformanceCheck]:
    """Return the conformance checks of the plugin's tools, unless its toolset needs settings."""
    if needed := needed_settings(host, plugin):
        detail = f"not checked: a worker has to set {', '.join(needed)}"
        return [ConformanceCheck(plugin.name, "tools", True, detail)]
    try:
        async with only_plugin(host, plugin, mode=ApprovalMode.APPROVE_ALL) as assembly:
            tools = [offer.tool for offer in assembly.toolbox.offers.values()]
            found = await check_tools(tools, assembly.guard)
    except ForgeError as error:
        return [_check(plugin.name, "tools", error.message)]
    except BaseException as error:  # third-party code: a toolset is opened, asked and closed here
        return [_check(plugin.name, "tools", error_text(error))]
    if not tools:
        return [ConformanceCheck(plugin.name, "tools", True, "no tools without settings")]
    return found

"""The plugin host: finds plugins by the names of their entry points, and imports only the one that is asked for."""

from __future__ import annotations

import reprlib
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from typing import Any

import pluggy

from forge_cli.core import hookspecs
from forge_cli.core.bounds import OPENING, call_within, fault_text, is_fault
from forge_cli.core.errors import ExitCode, ForgeError, Mark, WorkerError
from forge_cli.core.executors import ExecutorFactory
from forge_cli.core.hookspecs import GROUP, Renderer
from forge_cli.core.messages import ModelFactory
from forge_cli.core.results import Custom
from forge_cli.core.text import cut, did_you_mean
from forge_cli.core.thirdparty import LONGEST_ERROR
from forge_cli.core.toolset import Toolset, ToolsetConfig
from forge_cli.engine.plugins.local import LocalCode, LocalPlugin, local_plugins
from forge_cli.engine.plugins.scan import EXECUTOR, MODEL, RENDER, Plugin, allowed, installed, toolset_plugins
from forge_cli.files.home import forge_home
from forge_cli.files.worker import Worker


class PluginError(ForgeError):
    """A plugin cannot be used; only what names it is concerned."""

    exit_code = ExitCode.INVALID


class PluginHost:
    """Every plugin that is installed, loaded one by one and late; a broken one harms nobody else.

    ``FORGE_LOAD_PLUGINS=a,b`` limits third-party plugins to these distributions; forge's own are always there.
    """

    def __init__(self, only: Collection[str] | None = None, *, worker: Worker | None = None) -> None:
        """``worker`` may name plugins that lie beside it."""
        self._stated, self._worker = only, worker
        self._manager = pluggy.PluginManager(GROUP)
        self._manager.add_hookspecs(hookspecs)

    @cached_property
    def plugins(self) -> tuple[Plugin, ...]:
        """All that are installed and allowed, forge's own first, and those that the worker names."""
        found = allowed(installed(forge_home() / "cache"), self._stated)
        for local in local_plugins(self._worker) if self._worker else ():
            found += [local] if isinstance(local, Plugin) else self._offered(local)
        return tuple(found)

    def beside(self, worker: Worker) -> PluginHost:
        """The host of this worker, which knows the plugins that its file names."""
        known = self._worker.config.plugins if self._worker else []
        same = not known and not worker.config.plugins
        return self if same or self._worker is worker else PluginHost(self._stated, worker=worker)

    def _offered(self, code: LocalCode) -> list[LocalPlugin]:
        """A plugin for each thing that a file or package offers by its hooks."""
        plugin = code.plugin(code.module)
        toolsets = [getattr(cls, "name", None) for cls in self._call_hook(plugin, "forge_toolsets")]
        models = [getattr(factory, "prefix", None) for factory in self._call_hook(plugin, "forge_models")]
        drawn = {str(kind).split(".")[0] for kind in self._call_hook(plugin, "forge_renderers")}
        names = [*toolsets, *(f"{MODEL}{prefix}" for prefix in models), *(f"{RENDER}{name}" for name in sorted(drawn))]
        if not names:
            problem = f"plugins: {code.spelled} has no hooks, so it offers nothing"
            raise WorkerError(code.where, problem, hint="mark forge_toolsets with @hookimpl, or use toolsets.custom")
        return [code.plugin(name) for name in names if isinstance(name, str)]

    def toolsets_of(self, plugin: object, name: str) -> list[type[Toolset]]:
        """What a module beside a worker offers, once it is registered like every other plugin; the last one counts."""
        if self._manager.has_plugin(name):
            self._manager.unregister(name=name)
        self._register(plugin, name)
        return [cls for answer in self._ask(plugin, "forge_toolsets") for cls in answer]

    def named(self, name: str, distribution: str) -> Plugin:
        """One of the plugins, by what tells them apart."""
        return next(each for each in self.plugins if (each.name, each.distribution) == (name, distribution))

    def toolset_plugins(self) -> list[Plugin]:
        return toolset_plugins(self.plugins)

    def toolset(self, name: str, where: Mark | None = None) -> tuple[type[Toolset], Plugin]:
        """The toolset class of that name, with the plugin it comes from."""
        plugin = self._find(name, f"toolset '{name}'", where)
        if plugin is None:
            known = [plugin.name for plugin in self.toolset_plugins()]
            package = f"if it is a package: pip install forge-tools-{name}"
            hint = f"{did_you_mean(name, known, '')} {package}".lstrip()
            raise WorkerError(where, f"toolsets.{name}: no such toolset; installed are {', '.join(known)}", hint=hint)
        try:
            return self.toolset_of(plugin), plugin
        except PluginError as error:
            error.where = where
            raise

    def toolset_of(self, plugin: Plugin) -> type[Toolset]:
        classes: list[type[Toolset]] = self._call_hook(plugin, "forge_toolsets")
        for cls in classes:
            if isinstance(cls, type) and issubclass(cls, Toolset) and getattr(cls, "name", None) == plugin.name:
                return _check_config(cls, plugin)
        offered = ", ".join(repr(getattr(cls, "name", cls)) for cls in classes) or "none"
        raise PluginError(
            f"the plugin '{plugin.name}' of {plugin} offers no toolset of its own name (offered: {offered})",
            hint="the entry point's name must equal the name of the Toolset class that forge_toolsets returns",
        )

    def model_plugins(self) -> list[Plugin]:
        return [plugin for plugin in self.plugins if plugin.name.startswith(MODEL)]

    def model(self, prefix: str) -> ModelFactory:
        """The factory behind ``PREFIX:NAME``."""
        plugin = self._find_offered(MODEL, prefix, "model provider", "providers are: {}")
        for factory in self._call_hook(plugin, "forge_models"):
            if isinstance(factory, ModelFactory) and factory.prefix == prefix:
                return factory
        raise PluginError(f"the plugin '{plugin.name}' of {plugin} offers no model provider '{prefix}'")

    def executor(self, name: str) -> ExecutorFactory:
        """The factory behind ``--executor NAME``."""
        more = f"executors are: {{}}; pip install forge-executor-{name}"
        plugin = self._find_offered(EXECUTOR, name, "executor", more)
        for factory in self._call_hook(plugin, "forge_executors"):
            if isinstance(factory, ExecutorFactory) and factory.name == name:
                return factory
        raise PluginError(f"the plugin '{plugin.name}' of {plugin} offers no executor '{name}'")

    def _find_offered(self, group: str, name: str, what: str, hint: str) -> Plugin:
        """The plugin of a group that has this name; ``hint`` is what to say of those that there are."""
        plugin = self._find(group + name, f"{what} '{name}'", None)
        if plugin is None:
            known = [each.name.removeprefix(group) for each in self.plugins if each.name.startswith(group)]
            told = did_you_mean(name, known, hint.format(", ".join(known)))
            raise WorkerError(None, f"there is no {what} '{name}'", hint=told)
        return plugin

    def renderer(self, value: Custom, distribution: str | None = None) -> Renderer | None:
        """The renderer of a custom result, where a plugin has one; a plugin that fails here only costs its rendering.

        ``distribution`` is that of the tool which gave the result: hints of another author count more than a renderer.
        """
        kind = value.kind
        try:
            plugin = self._find(RENDER + kind.split(".")[0], f"renderer of '{kind}'", None)
            if plugin is None or (value.display is not None and distribution != plugin.distribution):
                return None
            offered = self._call_hook(plugin, "forge_renderers", merge=False)
        except ForgeError:
            return None
        return next((mapping[kind] for mapping in offered if isinstance(mapping, Mapping) and kind in mapping), None)

    def _find(self, name: str, what: str, where: Mark | None) -> Plugin | None:
        plugins = [plugin for plugin in self.plugins if plugin.name == name]
        if len(plugins) > 1:
            both = " and ".join(str(plugin) for plugin in plugins)
            hint = "uninstall one of them, or set FORGE_LOAD_PLUGINS to the distributions you want"
            raise WorkerError(where, f"{what} is offered by {both}", hint=hint)
        return plugins[0] if plugins else None

    def _call_hook(self, plugin: Plugin, hook: str, *, merge: bool = True) -> list[Any]:
        """What one plugin answers to a hook; third-party code, so what it raises becomes a sentence with its name."""
        plugin.announce()
        try:
            answers = call_within(OPENING, "it", self._answers, plugin, hook)
            return [item for answer in answers for item in answer] if merge else list(answers)
        except BaseException as error:
            if not is_fault(error):
                raise
            raise PluginError(
                f"the plugin '{plugin.name}' of {plugin} cannot be loaded: {cut(fault_text(error), LONGEST_ERROR)}",
                hint=_remedy(plugin),
            ) from error

    def _answers(self, plugin: Plugin, hook: str) -> list[Iterable[Any]]:
        loaded = plugin.load()
        self._register(loaded, plugin.name)
        return self._ask(loaded, hook)

    def _ask(self, loaded: Any, hook: str) -> list[Iterable[Any]]:
        others = [other for other in self._manager.get_plugins() if other is not loaded]
        return list(self._manager.subset_hook_caller(hook, others)())

    def _register(self, loaded: Any, name: str) -> None:
        if not self._manager.is_registered(loaded):
            try:
                self._manager.register(loaded, name)
                self._manager.check_pending()
            except pluggy.PluginValidationError:
                if self._manager.is_registered(loaded):
                    self._manager.unregister(loaded)
                raise


def _remedy(plugin: Plugin) -> str | None:
    return None if isinstance(plugin, LocalPlugin) else f"ask its author, or pip uninstall {plugin.distribution}"


def _check_config(cls: type[Toolset], plugin: Plugin) -> type[Toolset]:
    config: Any = cls.Config
    if isinstance(config, type) and issubclass(config, ToolsetConfig):
        return cls
    raise PluginError(
        f"the plugin '{plugin.name}' of {plugin} has a Config that is not a ToolsetConfig, but {reprlib.repr(config)}",
        hint="the Config of a Toolset class must derive from ToolsetConfig",
    )

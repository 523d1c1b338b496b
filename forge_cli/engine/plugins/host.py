"""The plugin host, which finds plugins by their entry points and imports them when needed."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import pluggy

from forge_cli.core import hookspecs
from forge_cli.core.bounds import MORE_TIME_TO_LOAD, call_within, fault_text
from forge_cli.core.errors import ExitCode, ForgeError, Mark, WorkerError
from forge_cli.core.messages import ModelFactory
from forge_cli.core.source import GROUP, OWN
from forge_cli.core.text import cut, did_you_mean
from forge_cli.core.thirdparty import LONGEST_ERROR
from forge_cli.engine.plugins.scan import (
    EXECUTOR,
    KINDS,
    MODEL,
    OBSERVER,
    RENDER,
    Plugin,
    allowed,
    find_unknown_names,
    installed,
    kind_and_name,
    takes_name,
    toolset_plugins,
)
from forge_cli.files.home import forge_home
from forge_cli.files.settings_files import import_timeout, organisation_policy
from forge_cli.schema.toolset import Toolset, ToolsetConfig

if TYPE_CHECKING:
    from forge_cli.core.executors import ExecutorFactory
    from forge_cli.core.hookspecs import Renderer
    from forge_cli.core.observers import Observer
    from forge_cli.core.results import Custom
    from forge_cli.files.sources import Sources
    from forge_cli.files.worker import Worker

MAX_NAMED = 20
"""The most toolsets that an error lists."""
T = TypeVar("T")


class PluginError(ForgeError):
    """Raised if a plugin cannot be used; other plugins are not affected."""

    exit_code = ExitCode.INVALID


class PluginHost:
    """All installed plugins, each loaded when it is needed; a broken one does not affect others.

    ``FORGE_LOAD_PLUGINS=a,b`` limits third-party plugins to these distributions. Forge's own are
    always available.
    """

    def __init__(
        self, only: Collection[str] | None = None, *, worker: Worker | None = None
    ) -> None:
        """``worker`` may name plugins beside its file."""
        self.stated = only
        self._worker = worker
        self.check_code: Callable[[Sources], None] | None = None
        """A function that refuses code beside the worker that its lock does not list."""
        self._models: dict[str, ModelFactory] = {}
        self._manager = pluggy.PluginManager(GROUP)
        self._manager.add_hookspecs(hookspecs)

    @cached_property
    def plugins(self) -> tuple[Plugin, ...]:
        """Installed and allowed plugins, forge's own first, and those that the worker names."""
        found = allowed(self._installed, self.stated)
        if self._worker and self._worker.config.plugins:
            from forge_cli.engine.plugins.local import LocalPlugin, local_plugins, plugins_of

            for local in local_plugins(self._worker):
                if self.check_code:
                    self.check_code(local.code.sources)
                if isinstance(local, LocalPlugin):
                    found.append(local)
                else:
                    found += plugins_of(local, self.offered_names(local.plugin(local.module)))
        return tuple(found)

    @cached_property
    def _installed(self) -> tuple[Plugin, ...]:
        return installed(forge_home() / "cache")

    @property
    def left_out(self) -> tuple[Plugin, ...]:
        """Plugins that are installed but not allowed."""
        loaded = allowed(self._installed, self.stated)
        return tuple(plugin for plugin in self._installed if plugin not in loaded)

    def unknown_names(self) -> Iterator[str]:
        """Yield a message for each name in FORGE_LOAD_PLUGINS that has no plugins."""
        if self.stated is None:
            return find_unknown_names(self._installed)
        return iter(())

    def clash(self, plugin: Plugin) -> str | None:
        """Return why a third-party plugin is never used: forge's own plugins keep their names."""
        if plugin.distribution == OWN or plugin.is_local or plugin.name.startswith(RENDER):
            return None
        if not any(own.distribution == OWN and takes_name(plugin, own) for own in self._installed):
            return None
        kind, name = kind_and_name(plugin.name)
        return f"the {kind} '{name}' of {plugin} is not used: forge has its own {kind} '{name}'"

    def problems(self, names: Collection[str]) -> Iterator[str]:
        """Yield notes for users of these toolsets: conflicting packages, and missing ones."""
        for plugin in self.plugins:
            if plugin.name in names and (clash := self.clash(plugin)):
                yield clash
        yield from self.unknown_names()

    def beside(self, worker: Worker) -> PluginHost:
        """Return the host of this worker, with the plugins that its file names."""
        if self._worker is worker:
            return self
        has_known = self._worker is not None and bool(self._worker.config.plugins)
        if not has_known and not worker.config.plugins:
            return self
        return PluginHost(self.stated, worker=worker)

    def offered_names(self, plugin: Plugin) -> list[str]:
        """Return the entry points that a plugin would need for all that its hooks return."""
        hooks = (
            ("", "forge_toolsets", "name"),
            (MODEL, "forge_models", "prefix"),
            (RENDER, "forge_renderers", ""),
            (EXECUTOR, "forge_executors", "name"),
            (OBSERVER, "forge_observers", "name"),
        )
        entry_points: list[str] = []
        for prefix, hook, attribute in hooks:
            offered = self._call_hook(plugin, hook)
            names: list[Any]
            if prefix == RENDER:  # an entry point is for a namespace of kinds
                names = sorted({str(kind).split(".")[0] for kind in offered})
            else:
                names = [getattr(each, attribute, None) for each in offered]
            entry_points += [prefix + name for name in names if isinstance(name, str)]
        return entry_points

    def toolsets_of(self, plugin: object, name: str) -> list[type[Toolset]]:
        """Return the toolsets of a module beside a worker; a later version replaces it."""
        if self._manager.has_plugin(name):
            self._manager.unregister(name=name)
        self._register(plugin, name)
        return list(chain.from_iterable(self._ask(plugin, "forge_toolsets")))

    def named(self, name: str, distribution: str) -> Plugin:
        """Return a plugin by its name and distribution."""
        for each in self.plugins:
            if (each.name, each.distribution) == (name, distribution):
                return each
        raise LookupError(f"{name} of {distribution}")

    def toolset_plugins(self) -> list[Plugin]:
        return toolset_plugins(self.plugins)

    def toolset(self, name: str, where: Mark | None = None) -> tuple[type[Toolset], Plugin]:
        """Return the toolset class of that name, with its plugin."""
        plugin = self._find(name, f"toolset '{name}'", where)
        if plugin is None:
            from forge_cli.engine.plugins.own_tools import meant

            known = list(dict.fromkeys(plugin.name for plugin in self.toolset_plugins()))
            problem = f"toolsets.{name}: no such toolset; installed are {', '.join(known)}"
            raise WorkerError(where, problem, hint=meant(name, known))
        try:
            return self.toolset_of(plugin), plugin
        except PluginError as error:
            error.where = where
            raise

    def toolset_of(self, plugin: Plugin) -> type[Toolset]:
        classes: list[type[Toolset]] = self._call_hook(plugin, "forge_toolsets")
        for cls in classes:
            is_toolset = isinstance(cls, type) and issubclass(cls, Toolset)
            if is_toolset and getattr(cls, "name", None) == plugin.name:
                return _check_config(cls, plugin)
        names = [reprlib.repr(getattr(cls, "name", cls)) for cls in classes[:MAX_NAMED]]
        offered = ", ".join(names) or "none"
        raise PluginError(
            f"the plugin '{plugin.name}' of {plugin} offers no toolset of its own name "
            f"(offered: {offered})",
            hint="the entry point's name must equal the name of the Toolset class that "
            "forge_toolsets returns",
        )

    def model_plugins(self) -> list[Plugin]:
        return [plugin for plugin in self.plugins if plugin.name.startswith(MODEL)]

    def model(self, prefix: str) -> ModelFactory:
        """Return the factory of ``PREFIX:NAME``."""
        if prefix not in self._models:
            self._models[prefix] = self.model_of(
                self._find_offered(MODEL, prefix, "providers are: {}")
            )
        return self._models[prefix]

    def model_of(self, plugin: Plugin) -> ModelFactory:
        return self._factory(plugin, "forge_models", ModelFactory, lambda factory: factory.prefix)

    def executor(self, name: str) -> ExecutorFactory:
        """Return the factory of ``--executor NAME``."""
        from forge_cli.engine.plugins.origin import how_to_install
        from forge_cli.engine.plugins.own_tools import EXECUTORS

        more = "executors are: {}; forge plugins install PACKAGE adds one"
        if name in EXECUTORS:
            more = f"executors are: {{}}; add it: {how_to_install(f'forge-executor-{name}')}"
        return self.executor_of(self._find_offered(EXECUTOR, name, more))

    def executor_of(self, plugin: Plugin) -> ExecutorFactory:
        from forge_cli.core.executors import ExecutorFactory

        return self._factory(
            plugin, "forge_executors", ExecutorFactory, lambda factory: factory.name
        )

    def observer_names(self) -> list[str]:
        return [
            plugin.name.removeprefix(OBSERVER)
            for plugin in self.plugins
            if plugin.name.startswith(OBSERVER)
        ]

    def observer(self, name: str) -> Observer:
        """Return the observer of ``observer: NAME``, which is closed when the process exits."""
        from forge_cli.core.observers import close_at_exit

        observer = self.observer_of(self._find_offered(OBSERVER, name, "observers are: {}"))
        close_at_exit(observer)
        return observer

    def observer_of(self, plugin: Plugin) -> Observer:
        from forge_cli.core.observers import Observer

        return self._factory(plugin, "forge_observers", Observer, lambda observer: observer.name)

    def command_of(self, plugin: Plugin) -> Callable[..., Any]:
        """Return the Typer app or the function that is a command."""
        command: object = self._within(plugin, plugin.load)
        if not callable(command):
            problem = f"names neither a Typer app nor a function, but {reprlib.repr(command)}"
            raise _plugin_error(plugin, problem)
        return command

    def _factory(self, plugin: Plugin, hook: str, cls: type[T], name_of: Callable[[T], str]) -> T:
        """Return the object of a plugin's entry point."""
        kind, name = kind_and_name(plugin.name)
        for factory in self._call_hook(plugin, hook):
            if isinstance(factory, cls) and name_of(factory) == name:
                return factory
        raise PluginError(f"the plugin '{plugin.name}' of {plugin} offers no {kind} '{name}'")

    def _find_offered(self, group: str, name: str, hint: str) -> Plugin:
        """Return the plugin of a group that has this name; the hint lists the known names."""
        what = KINDS[group]
        plugin = self._find(group + name, f"{what} '{name}'", None)
        if plugin is None:
            known = list(
                dict.fromkeys(
                    each.name.removeprefix(group)
                    for each in self.plugins
                    if each.name.startswith(group)
                )
            )
            told = did_you_mean(name, known, hint.format(", ".join(known)))
            raise WorkerError(None, f"there is no {what} '{name}'", hint=told)
        return plugin

    def renderer(self, value: Custom, distribution: str | None = None) -> Renderer | None:
        """Return the renderer of a custom result, or None; broken plugins are skipped.

        ``distribution`` is that of the tool which gave the result. Hints of the result's author
        take precedence over a renderer of another package. Packages may share a namespace: of two
        renderers for one kind, forge's own is used first, then the one of the tool's package.
        """
        namespace = RENDER + value.kind.split(".")[0]
        found = [plugin for plugin in self.plugins if plugin.name == namespace]
        found.sort(key=lambda each: (each.distribution != OWN, each.distribution != distribution))
        for plugin in found:
            if value.display is not None and distribution != plugin.distribution:
                continue
            try:
                renderer = self.renderers_of(plugin).get(value.kind)
            except PluginError:
                continue
            if renderer is not None:
                return renderer
        return None

    def renderers_of(self, plugin: Plugin) -> dict[str, Renderer]:
        """Return the renderers of a plugin by kind."""
        offered = self._call_hook(plugin, "forge_renderers", merge=False)
        if not offered or not all(isinstance(each, dict) for each in offered):
            raise _plugin_error(plugin, "offers no renderers: forge_renderers gives them by kind")
        renderers: dict[str, Renderer] = {}
        for mapping in offered:
            renderers |= mapping
        return renderers

    def _find(self, name: str, what: str, where: Mark | None) -> Plugin | None:
        found = [
            plugin for plugin in self.plugins if plugin.name == name and not self.clash(plugin)
        ]
        if len(found) > 1:
            both = " and ".join(str(plugin) for plugin in found)
            hint = "uninstall one of them, or set FORGE_LOAD_PLUGINS to the distributions you want"
            if any(plugin.is_local for plugin in found):
                hint = "rename that of the file, or take it out of the worker's plugins"
            raise WorkerError(where, f"{what} is offered by {both}", hint=hint)
        return found[0] if found else None

    def _call_hook(self, plugin: Plugin, hook: str, *, merge: bool = True) -> list[Any]:
        """Return the answers of one plugin to a hook."""
        return self._within(plugin, self._answers, plugin, hook, merge)

    def _within(self, plugin: Plugin, function: Callable[..., T], *args: Any) -> T:
        """Call a plugin's code; its exceptions become PluginErrors with the plugin's name."""
        if clash := self.clash(plugin):
            raise PluginError(clash, hint=_remedy(plugin))
        plugin.announce()
        if plugin.distribution != OWN and not plugin.is_local and (policy := organisation_policy()):
            policy.check_plugin(plugin.distribution)
        try:
            what = f"loading the plugin '{plugin.name}' of {plugin}"
            return call_within(
                import_timeout(),
                what,
                function,
                *args,
                exit_code=ExitCode.INVALID,
                remedy=MORE_TIME_TO_LOAD,
            )
        except PluginError:
            raise
        except Exception as error:
            from forge_cli.engine.plugins.requirements import unfit

            problem = f"cannot be loaded: {cut(fault_text(error), LONGEST_ERROR)}"
            if built := unfit(plugin.distribution):
                problem = f"{problem}; it {built}"
            raise _plugin_error(plugin, problem) from error

    def _answers(self, plugin: Plugin, hook: str, merge: bool) -> list[Any]:
        loaded = plugin.load()
        self._register(loaded, f"{plugin.name} of {plugin.distribution}")
        answers = self._ask(loaded, hook)
        for answer in answers:
            if isinstance(answer, str) or not isinstance(answer, Iterable):
                problem = f"gives {reprlib.repr(answer)} by {hook}, which has to give a list"
                raise _plugin_error(plugin, problem)
        if merge:
            return list(chain.from_iterable(answers))
        return list(answers)

    def _ask(self, loaded: Any, hook: str) -> list[Iterable[Any]]:
        # pluggy asks all plugins at once; leaving out all others asks only this one
        others = [other for other in self._manager.get_plugins() if other is not loaded]
        return list(self._manager.subset_hook_caller(hook, others)())

    def _register(self, loaded: Any, name: str) -> None:
        if not self._manager.is_registered(loaded):
            try:
                self._manager.register(loaded, name)
                self._manager.check_pending()
            except pluggy.PluginValidationError:
                # A plugin that stays would make every later check fail, too.
                if self._manager.is_registered(loaded):
                    self._manager.unregister(loaded)
                raise


def _plugin_error(plugin: Plugin, problem: str) -> PluginError:
    return PluginError(f"the plugin '{plugin.name}' of {plugin} {problem}", hint=_remedy(plugin))


def _remedy(plugin: Plugin) -> str | None:
    if plugin.is_local:
        return None
    return f"ask its author, or forge plugins uninstall {plugin.distribution}"


def _check_config(cls: type[Toolset], plugin: Plugin) -> type[Toolset]:
    config: Any = cls.Config
    if isinstance(config, type) and issubclass(config, ToolsetConfig):
        return cls
    problem = f"has a Config that is not a ToolsetConfig, but {reprlib.repr(config)}"
    raise PluginError(
        f"the plugin '{plugin.name}' of {plugin} {problem}",
        hint="the Config of a Toolset class must derive from ToolsetConfig",
    )

"""The plugin host: finds plugins by the names of their entry points, and imports only the one that is asked for."""

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

MOST_NAMED = 20
T = TypeVar("T")


class PluginError(ForgeError):
    """A plugin cannot be used; only what names it is concerned."""

    exit_code = ExitCode.INVALID


class PluginHost:
    """Every plugin that is installed, loaded one by one and late; a broken one does not harm others.

    ``FORGE_LOAD_PLUGINS=a,b`` limits third-party plugins to these distributions; forge's own are always there.
    """

    def __init__(
        self, only: Collection[str] | None = None, *, worker: Worker | None = None
    ) -> None:
        """``worker`` may name plugins that lie beside it."""
        self.stated, self._worker = only, worker
        self.check_code: Callable[[Sources], None] | None = None
        """Refuses code beside the worker that is not what its lock says."""
        self._models: dict[str, ModelFactory] = {}
        self._manager = pluggy.PluginManager(GROUP)
        self._manager.add_hookspecs(hookspecs)

    @cached_property
    def plugins(self) -> tuple[Plugin, ...]:
        """All that are installed and allowed, forge's own first, and those that the worker names."""
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
        """Those that are installed and not allowed."""
        loaded = allowed(self._installed, self.stated)
        return tuple(plugin for plugin in self._installed if plugin not in loaded)

    def unknown_names(self) -> Iterator[str]:
        """A sentence for each name in FORGE_LOAD_PLUGINS that is not a distribution with plugins."""
        return find_unknown_names(self._installed) if self.stated is None else iter(())

    def clash(self, plugin: Plugin) -> str | None:
        """Why a third-party plugin is never used: what comes with forge keeps its name."""
        if plugin.distribution == OWN or plugin.is_local or plugin.name.startswith(RENDER):
            return None
        if not any(own.distribution == OWN and takes_name(plugin, own) for own in self._installed):
            return None
        kind, name = kind_and_name(plugin.name)
        return (
            f"the {kind} '{name}' of {plugin} is not used: forge has a {kind} of that name itself"
        )

    def problems(self, names: Collection[str]) -> Iterator[str]:
        """Notes for people who use these toolsets: packages that would take their names, and lost ones."""
        yield from filter(
            None, (self.clash(plugin) for plugin in self.plugins if plugin.name in names)
        )
        yield from self.unknown_names()

    def beside(self, worker: Worker) -> PluginHost:
        """The host of this worker, which knows the plugins that its file names."""
        known = self._worker.config.plugins if self._worker else []
        same = not known and not worker.config.plugins
        return self if same or self._worker is worker else PluginHost(self.stated, worker=worker)

    def offered_names(self, plugin: Plugin) -> list[str]:
        """Return the entry points that a plugin would need for all that its hooks return."""
        toolsets = [getattr(cls, "name", None) for cls in self._call_hook(plugin, "forge_toolsets")]
        models = [
            getattr(factory, "prefix", None) for factory in self._call_hook(plugin, "forge_models")
        ]
        executors = [
            getattr(factory, "name", None) for factory in self._call_hook(plugin, "forge_executors")
        ]
        observers = [
            getattr(observer, "name", None)
            for observer in self._call_hook(plugin, "forge_observers")
        ]
        namespaces = sorted(
            {str(kind).split(".")[0] for kind in self._call_hook(plugin, "forge_renderers")}
        )
        offered: dict[str, list[Any]] = {
            "": toolsets,
            MODEL: models,
            RENDER: namespaces,
            EXECUTOR: executors,
            OBSERVER: observers,
        }
        entry_points: list[str] = []
        for prefix, names in offered.items():
            entry_points += [prefix + name for name in names if isinstance(name, str)]
        return entry_points

    def toolsets_of(self, plugin: object, name: str) -> list[type[Toolset]]:
        """The offer of a module beside a worker, once it is registered like every other plugin; the last one counts."""
        if self._manager.has_plugin(name):
            self._manager.unregister(name=name)
        self._register(plugin, name)
        return list(chain.from_iterable(self._ask(plugin, "forge_toolsets")))

    def named(self, name: str, distribution: str) -> Plugin:
        """One of the plugins, by what tells them apart."""
        return next(
            each for each in self.plugins if (each.name, each.distribution) == (name, distribution)
        )

    def toolset_plugins(self) -> list[Plugin]:
        return toolset_plugins(self.plugins)

    def toolset(self, name: str, where: Mark | None = None) -> tuple[type[Toolset], Plugin]:
        """The toolset class of that name, with the plugin it comes from."""
        plugin = self._find(name, f"toolset '{name}'", where)
        if plugin is None:
            from forge_cli.engine.plugins.own_tools import meant

            known = list(dict.fromkeys(plugin.name for plugin in self.toolset_plugins()))
            hint = meant(name, known)
            raise WorkerError(
                where,
                f"toolsets.{name}: no such toolset; installed are {', '.join(known)}",
                hint=hint,
            )
        try:
            return self.toolset_of(plugin), plugin
        except PluginError as error:
            error.where = where
            raise

    def toolset_of(self, plugin: Plugin) -> type[Toolset]:
        classes: list[type[Toolset]] = self._call_hook(plugin, "forge_toolsets")
        for cls in classes:
            if (
                isinstance(cls, type)
                and issubclass(cls, Toolset)
                and getattr(cls, "name", None) == plugin.name
            ):
                return _check_config(cls, plugin)
        offered = (
            ", ".join(reprlib.repr(getattr(cls, "name", cls)) for cls in classes[:MOST_NAMED])
            or "none"
        )
        raise PluginError(
            f"the plugin '{plugin.name}' of {plugin} offers no toolset of its own name (offered: {offered})",
            hint="the entry point's name must equal the name of the Toolset class that forge_toolsets returns",
        )

    def model_plugins(self) -> list[Plugin]:
        return [plugin for plugin in self.plugins if plugin.name.startswith(MODEL)]

    def model(self, prefix: str) -> ModelFactory:
        """The factory behind ``PREFIX:NAME``."""
        if prefix not in self._models:
            self._models[prefix] = self.model_of(
                self._find_offered(MODEL, prefix, "providers are: {}")
            )
        return self._models[prefix]

    def model_of(self, plugin: Plugin) -> ModelFactory:
        return self._factory(plugin, "forge_models", ModelFactory, lambda factory: factory.prefix)

    def executor(self, name: str) -> ExecutorFactory:
        """The factory behind ``--executor NAME``."""
        more = (
            f"executors are: {{}}; if it is a package: forge plugins install forge-executor-{name}"
        )
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
        """Return the observer behind ``observer: NAME``, which is closed when the process exits."""
        from forge_cli.core.observers import close_at_exit

        observer = self.observer_of(self._find_offered(OBSERVER, name, "observers are: {}"))
        close_at_exit(observer)
        return observer

    def observer_of(self, plugin: Plugin) -> Observer:
        from forge_cli.core.observers import Observer

        return self._factory(plugin, "forge_observers", Observer, lambda observer: observer.name)

    def command_of(self, plugin: Plugin) -> Callable[..., Any]:
        """The Typer app or the function that is a command."""
        command: object = self._within(plugin, plugin.load)
        if not callable(command):
            problem = f"names neither a Typer app nor a function, but {reprlib.repr(command)}"
            raise PluginError(
                f"the plugin '{plugin.name}' of {plugin} {problem}", hint=_remedy(plugin)
            )
        return command

    def _factory(self, plugin: Plugin, hook: str, cls: type[T], name_of: Callable[[T], str]) -> T:
        """The object of a plugin's entry point."""
        kind, name = kind_and_name(plugin.name)
        for factory in self._call_hook(plugin, hook):
            if isinstance(factory, cls) and name_of(factory) == name:
                return factory
        raise PluginError(f"the plugin '{plugin.name}' of {plugin} offers no {kind} '{name}'")

    def _find_offered(self, group: str, name: str, hint: str) -> Plugin:
        """The plugin of a group that has this name; ``hint`` is what to say of those that there are."""
        what = KINDS[group]
        plugin = self._find(group + name, f"{what} '{name}'", None)
        if plugin is None:
            found = (
                each.name.removeprefix(group)
                for each in self.plugins
                if each.name.startswith(group)
            )
            known = list(dict.fromkeys(found))
            told = did_you_mean(name, known, hint.format(", ".join(known)))
            raise WorkerError(None, f"there is no {what} '{name}'", hint=told)
        return plugin

    def renderer(self, value: Custom, distribution: str | None = None) -> Renderer | None:
        """The renderer of a custom result, where a plugin has one; a plugin that fails here only costs its rendering.

        ``distribution`` is that of the tool which gave the result: hints of another author count more than a renderer.
        Packages may share a namespace: of two that draw the same kind forge's own counts, then that of the tool.
        """
        namespace = RENDER + value.kind.split(".")[0]
        found = [plugin for plugin in self.plugins if plugin.name == namespace]
        for plugin in sorted(
            found, key=lambda each: (each.distribution != OWN, each.distribution != distribution)
        ):
            if value.display is None or distribution == plugin.distribution:
                try:
                    renderer = self.renderers_of(plugin).get(value.kind)
                except PluginError:
                    continue
                if renderer is not None:
                    return renderer
        return None

    def renderers_of(self, plugin: Plugin) -> dict[str, Renderer]:
        """By kind."""
        offered = self._call_hook(plugin, "forge_renderers", merge=False)
        if not offered or not all(isinstance(each, dict) for each in offered):
            problem = "offers no renderers: forge_renderers gives them by kind"
            raise PluginError(
                f"the plugin '{plugin.name}' of {plugin} {problem}", hint=_remedy(plugin)
            )
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
        """The answer of one plugin to a hook."""
        return self._within(plugin, self._answers, plugin, hook, merge)

    def _within(self, plugin: Plugin, function: Callable[..., T], *args: Any) -> T:
        """Call what calls a plugin; third-party code, so what it raises becomes a sentence with its name."""
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
            raise PluginError(
                f"the plugin '{plugin.name}' of {plugin} {problem}", hint=_remedy(plugin)
            ) from error

    def _answers(self, plugin: Plugin, hook: str, merge: bool) -> list[Any]:
        loaded = plugin.load()
        self._register(loaded, f"{plugin.name} of {plugin.distribution}")
        answers = self._ask(loaded, hook)
        for answer in answers:
            if isinstance(answer, str) or not isinstance(answer, Iterable):
                problem = f"gives {reprlib.repr(answer)} by {hook}, which has to give a list"
                raise PluginError(
                    f"the plugin '{plugin.name}' of {plugin} {problem}", hint=_remedy(plugin)
                )
        return list(chain.from_iterable(answers)) if merge else list(answers)

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
    return (
        None
        if plugin.is_local
        else f"ask its author, or forge plugins uninstall {plugin.distribution}"
    )


def _check_config(cls: type[Toolset], plugin: Plugin) -> type[Toolset]:
    config: Any = cls.Config
    if isinstance(config, type) and issubclass(config, ToolsetConfig):
        return cls
    raise PluginError(
        f"the plugin '{plugin.name}' of {plugin} has a Config that is not a ToolsetConfig, but {reprlib.repr(config)}",
        hint="the Config of a Toolset class must derive from ToolsetConfig",
    )

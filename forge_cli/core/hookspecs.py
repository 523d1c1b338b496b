"""The hooks of forge for plugins.

The name of an entry point shows what it provides, so only the plugins that a worker names are
imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import pluggy

from forge_cli.core.results import Custom, ResultValue
from forge_cli.core.source import GROUP

if TYPE_CHECKING:
    from forge_cli.core.executors import ExecutorFactory
    from forge_cli.core.messages import ModelFactory
    from forge_cli.core.observers import Observer

hookspec = pluggy.HookspecMarker(GROUP)
hookimpl = pluggy.HookimplMarker(GROUP)


def is_hook(thing: object) -> bool:
    """Return True for a function marked with ``@hookimpl``."""
    return hasattr(thing, f"{GROUP}_impl")


Renderer = Callable[[Custom], ResultValue]
"""Converts a custom result to a well-known kind that every UI can show."""


@hookspec
def forge_toolsets() -> Iterable[type]:  # type: ignore[empty-body]
    """Return the toolset classes of this plugin, subclasses of ``Toolset``.

    Called when a worker names a toolset, and the plugin's entry point has that name.
    """


@hookspec
def forge_models() -> Iterable[ModelFactory]:  # type: ignore[empty-body]
    """Return the model providers of this plugin.

    Called when a model ``PREFIX:NAME`` is requested, and the entry point is named ``model.PREFIX``.
    """


@hookspec
def forge_renderers() -> Mapping[str, Renderer]:  # type: ignore[empty-body]
    """Return the renderers of custom result kinds, by kind.

    Called when a result of kind ``NAMESPACE.something`` is shown, and the entry point is named
    ``render.NAMESPACE``.
    """


@hookspec
def forge_executors() -> Iterable[ExecutorFactory]:  # type: ignore[empty-body]
    """Return the executors of this plugin.

    Called for ``forge batch --executor NAME``, if the entry point is named ``executor.NAME``.
    """


@hookspec
def forge_observers() -> Iterable[Observer]:  # type: ignore[empty-body]
    """Return the observers of this plugin: hooks in Python, named in a person's config.

    Called when the event of a hook ``observer: NAME`` occurs, and the entry point is named
    ``observer.NAME``.
    """

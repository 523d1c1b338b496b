"""The hooks of forge; an entry point's name tells what is behind it, so only what a worker names is imported."""

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
    """Return True if a function is marked with ``@hookimpl``."""
    return hasattr(thing, f"{GROUP}_impl")


Renderer = Callable[[Custom], ResultValue]
"""Turns a custom result into a well-known one, so that every UI can show it."""


@hookspec
def forge_toolsets() -> Iterable[type]:  # type: ignore[empty-body]
    """The toolset classes of this plugin, derived from ``Toolset``.

    Called when a worker names a toolset whose name is the name of the plugin's entry point.
    """


@hookspec
def forge_models() -> Iterable[ModelFactory]:  # type: ignore[empty-body]
    """The model providers of this plugin.

    Called when a model ``PREFIX:NAME`` is asked for and the plugin's entry point is called ``model.PREFIX``.
    """


@hookspec
def forge_renderers() -> Mapping[str, Renderer]:  # type: ignore[empty-body]
    """Renderers for custom result kinds, by kind.

    Called when a result of a kind ``NAMESPACE.something`` is shown; the entry point is called ``render.NAMESPACE``.
    """


@hookspec
def forge_executors() -> Iterable[ExecutorFactory]:  # type: ignore[empty-body]
    """The executors of this plugin.

    Called when ``forge batch --executor NAME`` is asked for and the plugin's entry point is called ``executor.NAME``.
    """


@hookspec
def forge_observers() -> Iterable[Observer]:  # type: ignore[empty-body]
    """The observers of this plugin: hooks in Python that the config of a person names.

    Called when an entry of ``hooks`` says ``observer: NAME`` and its event comes; the plugin's entry point is called
    ``observer.NAME``.
    """

"""Executors, which run the items of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forge_cli.core.executors import (
    BatchItem,
    Executor,
    ExecutorEnv,
    ExecutorFactory,
    ItemEnd,
    RemoteWork,
    Taken,
)
from forge_cli.engine.batch.parcel import ItemHost, missing_here

__all__ = [
    "BatchItem",
    "Executor",
    "ExecutorEnv",
    "ExecutorFactory",
    "ItemEnd",
    "ItemHost",
    "RemoteWork",
    "Taken",
    "missing_here",
]


if not TYPE_CHECKING:  # with it, a type checker would accept every name

    def __getattr__(name: str) -> None:
        from forge_cli.homes import missing

        raise missing(__name__, name)

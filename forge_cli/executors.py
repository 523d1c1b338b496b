"""Executors, which carry out the items of a batch wherever they like."""

from __future__ import annotations

from forge_cli.core.executors import BatchItem, Executor, ExecutorEnv, ExecutorFactory, ItemEnd, RemoteWork, Taken
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

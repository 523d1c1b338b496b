"""Errors that forge raises, and that tools, models and plugins raise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forge_cli.core.errors import (
    BlockedError,
    ExitCode,
    Mark,
    ModelError,
    Stale,
    ToolInterrupted,
    ToolTimeout,
    UsageError,
    WorkerError,
)

__all__ = [
    "BlockedError",
    "ExitCode",
    "Mark",
    "ModelError",
    "Stale",
    "ToolInterrupted",
    "ToolTimeout",
    "UsageError",
    "WorkerError",
]


if not TYPE_CHECKING:  # with it, a type checker would accept every name

    def __getattr__(name: str) -> None:
        from forge_cli.homes import missing

        raise missing(__name__, name)

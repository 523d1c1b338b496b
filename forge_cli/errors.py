"""Errors that forge raises, and that tools, models and plugins raise."""

from __future__ import annotations

from forge_cli.core.errors import (
    BlockedError,
    ExitCode,
    ForgeError,
    Mark,
    ModelError,
    Stale,
    ToolError,
    ToolInterrupted,
    ToolTimeout,
    UsageError,
    WorkerError,
)

__all__ = [
    "BlockedError",
    "ExitCode",
    "ForgeError",
    "Mark",
    "ModelError",
    "Stale",
    "ToolError",
    "ToolInterrupted",
    "ToolTimeout",
    "UsageError",
    "WorkerError",
]

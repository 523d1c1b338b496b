"""Types that the hooks of plugins return and receive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forge_cli.core.context import CallContext, Delegation, InnerCalls
from forge_cli.core.hookspecs import Renderer
from forge_cli.core.locking import LockEntry
from forge_cli.core.messages import (
    Delta,
    ListedModel,
    ModelEnv,
    ModelFactory,
    ModelProvider,
    ModelRequest,
    Restart,
    TextDelta,
    ToolSpec,
    TurnEnd,
)
from forge_cli.core.notify import Notify
from forge_cli.core.observers import HookAnswer, HookCall, Observer
from forge_cli.core.processes import CommandOptions, Finished, Piece, Processes, ProcessStream
from forge_cli.core.requests import (
    AgreeRequest,
    PromptArgument,
    PromptSpec,
    ResourceSpec,
    SampleReply,
    SampleRequest,
    SessionRequests,
)
from forge_cli.core.sandbox import FileInfo, FolderEntry, SandboxView
from forge_cli.core.source import Source
from forge_cli.core.tool import NeedsApproval, Tried, Validated
from forge_cli.core.zones import Access, ZoneApproval, ZoneMode
from forge_cli.files.keys import ProviderKey, find_key
from forge_cli.schema.paths import PathUse
from forge_cli.schema.tool_fields import ManualExecution
from forge_cli.schema.toolset import ApprovalConfig, ToolsetEnv, ToolsetPlaces

__all__ = [
    "Access",
    "AgreeRequest",
    "ApprovalConfig",
    "CallContext",
    "CommandOptions",
    "Delegation",
    "Delta",
    "FileInfo",
    "Finished",
    "FolderEntry",
    "HookAnswer",
    "HookCall",
    "InnerCalls",
    "ListedModel",
    "LockEntry",
    "ManualExecution",
    "ModelEnv",
    "ModelFactory",
    "ModelProvider",
    "ModelRequest",
    "NeedsApproval",
    "Notify",
    "Observer",
    "PathUse",
    "Piece",
    "ProcessStream",
    "Processes",
    "PromptArgument",
    "PromptSpec",
    "ProviderKey",
    "Renderer",
    "ResourceSpec",
    "Restart",
    "SampleReply",
    "SampleRequest",
    "SandboxView",
    "SessionRequests",
    "Source",
    "TextDelta",
    "ToolSpec",
    "ToolsetEnv",
    "ToolsetPlaces",
    "Tried",
    "TurnEnd",
    "Validated",
    "ZoneApproval",
    "ZoneMode",
    "find_key",
]


if not TYPE_CHECKING:  # with it, a type checker would accept every name

    def __getattr__(name: str) -> None:
        from forge_cli.homes import missing

        raise missing(__name__, name)

"""Workers in your own program: sessions, the gate, replays, and forge's toolsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forge_cli.engine.gate.controller import ApprovalController
from forge_cli.engine.replay.drift import Drift
from forge_cli.engine.runtime.judging import Examined, Gate, open_gate
from forge_cli.engine.runtime.repeat import replay
from forge_cli.files.home import forge_home
from forge_cli.files.worker import Limits
from forge_cli.record.open import OpenSession, open_session
from forge_cli.sandbox.files.sandbox import Sandbox
from forge_cli.schema.json.forms import FormField
from forge_cli.schema.tool import is_manual_tool, llm_tools, manual_tools
from forge_cli.toolsets.executables.toolset import ExecutablesToolset
from forge_cli.toolsets.filesystem import FilesystemToolset
from forge_cli.toolsets.mcp.toolset import McpToolset
from forge_cli.toolsets.memory import MemoryToolset
from forge_cli.toolsets.plan import PlanToolset
from forge_cli.toolsets.shell.toolset import ShellToolset
from forge_cli.toolsets.workers import WorkersToolset

__all__ = [
    "ApprovalController",
    "Drift",
    "Examined",
    "ExecutablesToolset",
    "FilesystemToolset",
    "FormField",
    "Gate",
    "Limits",
    "McpToolset",
    "MemoryToolset",
    "OpenSession",
    "PlanToolset",
    "Sandbox",
    "ShellToolset",
    "WorkersToolset",
    "forge_home",
    "is_manual_tool",
    "llm_tools",
    "manual_tools",
    "open_gate",
    "open_session",
    "replay",
]


if not TYPE_CHECKING:  # with it, a type checker would accept every name

    def __getattr__(name: str) -> None:
        from forge_cli.homes import missing

        raise missing(__name__, name)

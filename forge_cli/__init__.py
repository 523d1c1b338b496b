"""forge: give language models tools and stay in control.

What is importable from here is the public API; each name is loaded when it is first used.
"""

from __future__ import annotations

__version__ = "0.1.0"

TYPE_CHECKING = False  # what type checkers know by this name; importing typing would slow `forge --version` down
if TYPE_CHECKING:
    from forge_cli.core.approval import Approval as Approval
    from forge_cli.core.approval import ApprovalDecision as ApprovalDecision
    from forge_cli.core.approval import ApprovalMode as ApprovalMode
    from forge_cli.core.approval import ApprovalRequest as ApprovalRequest
    from forge_cli.core.approval import Effect as Effect
    from forge_cli.core.approval import OnAsk as OnAsk
    from forge_cli.core.approval import Verdict as Verdict
    from forge_cli.core.bus import EventBus as EventBus
    from forge_cli.core.bus import RuntimeUI as RuntimeUI
    from forge_cli.core.calls import ToolCall as ToolCall
    from forge_cli.core.calls import ToolOutcome as ToolOutcome
    from forge_cli.core.context import ToolContext as ToolContext
    from forge_cli.core.errors import BlockedError as BlockedError
    from forge_cli.core.errors import ForgeError as ForgeError
    from forge_cli.core.errors import ModelError as ModelError
    from forge_cli.core.errors import Stale as Stale
    from forge_cli.core.errors import ToolError as ToolError
    from forge_cli.core.errors import WorkerError as WorkerError
    from forge_cli.core.fields import FormField as FormField
    from forge_cli.core.fields import derive_fields as derive_fields
    from forge_cli.core.hookspecs import hookimpl as hookimpl
    from forge_cli.core.interrupt import InterruptSignal as InterruptSignal
    from forge_cli.core.messages import Attachment as Attachment
    from forge_cli.core.messages import CallResult as CallResult
    from forge_cli.core.messages import Message as Message
    from forge_cli.core.messages import ModelEnv as ModelEnv
    from forge_cli.core.messages import ModelFactory as ModelFactory
    from forge_cli.core.messages import ModelProvider as ModelProvider
    from forge_cli.core.messages import ModelRequest as ModelRequest
    from forge_cli.core.messages import TextDelta as TextDelta
    from forge_cli.core.messages import TurnEnd as TurnEnd
    from forge_cli.core.messages import Usage as Usage
    from forge_cli.core.paths import DeletePath as DeletePath
    from forge_cli.core.paths import PathUse as PathUse
    from forge_cli.core.paths import ReadPath as ReadPath
    from forge_cli.core.paths import WritePath as WritePath
    from forge_cli.core.processes import Finished as Finished
    from forge_cli.core.processes import Piece as Piece
    from forge_cli.core.processes import Processes as Processes
    from forge_cli.core.processes import ProcessStream as ProcessStream
    from forge_cli.core.results import Custom as Custom
    from forge_cli.core.results import Diff as Diff
    from forge_cli.core.results import DisplayHints as DisplayHints
    from forge_cli.core.results import FileContent as FileContent
    from forge_cli.core.results import FileList as FileList
    from forge_cli.core.results import Json as Json
    from forge_cli.core.results import Text as Text
    from forge_cli.core.results import is_valid_kind as is_valid_kind
    from forge_cli.core.results import is_well_known_kind as is_well_known_kind
    from forge_cli.core.sandbox import FileInfo as FileInfo
    from forge_cli.core.sandbox import FolderEntry as FolderEntry
    from forge_cli.core.sandbox import SandboxView as SandboxView
    from forge_cli.core.tool import ManualExecution as ManualExecution
    from forge_cli.core.tool import Preview as Preview
    from forge_cli.core.tool import Tool as Tool
    from forge_cli.core.tool import is_manual_tool as is_manual_tool
    from forge_cli.core.tool import llm_tools as llm_tools
    from forge_cli.core.tool import manual_tools as manual_tools
    from forge_cli.core.tool import tool as tool
    from forge_cli.core.toolset import Toolset as Toolset
    from forge_cli.core.toolset import ToolsetConfig as ToolsetConfig
    from forge_cli.core.toolset import ToolsetEnv as ToolsetEnv
    from forge_cli.core.zones import Access as Access
    from forge_cli.core.zones import Zone as Zone
    from forge_cli.engine.gate.controller import ApprovalController as ApprovalController
    from forge_cli.engine.replay.drift import Drift as Drift
    from forge_cli.engine.replay.repeat import replay as replay
    from forge_cli.engine.runtime.result import WorkerResult as WorkerResult
    from forge_cli.engine.runtime.runtime import WorkerRuntime as WorkerRuntime
    from forge_cli.files.worker import Limits as Limits
    from forge_cli.files.worker import Worker as Worker
    from forge_cli.files.worker import load_worker as load_worker
    from forge_cli.record.line import Line as Line
    from forge_cli.record.open import OpenSession as OpenSession
    from forge_cli.record.open import open_session as open_session
    from forge_cli.ui.terminal.prompts import cli_approval_callback as cli_approval_callback
    from forge_cli.ui.terminal.slash import classify_command as classify_command
    from forge_cli.ui.terminal.slash import is_command as is_command
    from forge_cli.ui.terminal.slash import parse_command as parse_command
    from forge_cli.ui.terminal.trace import trace_formatter as trace_formatter

_ROOMS = {
    "core.approval": "Approval ApprovalDecision ApprovalMode ApprovalRequest Effect OnAsk Verdict",
    "core.bus": "EventBus RuntimeUI",
    "core.errors": "BlockedError ForgeError ModelError Stale ToolError WorkerError",
    "core.fields": "FormField derive_fields",
    "core.hookspecs": "hookimpl",
    "core.interrupt": "InterruptSignal",
    "core.messages": "Attachment CallResult Message ModelEnv ModelFactory ModelProvider ModelRequest TextDelta TurnEnd"
    " Usage",
    "core.processes": "Finished Piece ProcessStream Processes",
    "core.results": "Custom Diff DisplayHints FileContent FileList Json Text is_valid_kind is_well_known_kind",
    "core.calls": "ToolCall ToolOutcome",
    "core.context": "ToolContext",
    "core.paths": "DeletePath PathUse ReadPath WritePath",
    "core.sandbox": "FileInfo FolderEntry SandboxView",
    "core.zones": "Access Zone",
    "core.tool": "ManualExecution Preview Tool is_manual_tool llm_tools manual_tools tool",
    "core.toolset": "Toolset ToolsetConfig ToolsetEnv",
    "engine.gate.controller": "ApprovalController",
    "engine.replay.drift": "Drift",
    "engine.replay.repeat": "replay",
    "engine.runtime.result": "WorkerResult",
    "engine.runtime.runtime": "WorkerRuntime",
    "files.worker": "Limits Worker load_worker",
    "record.line": "Line",
    "record.open": "OpenSession open_session",
    "ui.terminal.prompts": "cli_approval_callback",
    "ui.terminal.slash": "classify_command is_command parse_command",
    "ui.terminal.trace": "trace_formatter",
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names.split()}

__all__ = ["__version__", *sorted(_ROOM_OF)]


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in _ROOM_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"forge_cli.{_ROOM_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__

"""forge: give language models tools and stay in control.

What is importable from here is the public API; each name is loaded when it is first used.
"""

from __future__ import annotations

__version__ = "0.1.0"

_ROOMS = {
    "core.approval": "Approval ApprovalDecision ApprovalMode ApprovalRequest CommandRun Effect JudgedPart OnAsk"
    " Verdict",
    "core.bus": "EventBus RuntimeUI",
    "core.calls": "ToolCall ToolOutcome",
    "core.context": "CallContext ToolContext",
    "core.errors": "BlockedError ForgeError ModelError Stale ToolError ToolInterrupted ToolTimeout WorkerError",
    "core.events": "ApprovalDecided ApprovalRequired ApprovalResponse CommandEvent ContextUsage Event GrantsEvent"
    " InputPrompt Interrupt ManualToolInvoke ManualToolsAvailable MessageEvent Origin OtherEvent SessionEnd"
    " SessionGrant SessionStart SessionUpdate StatusEvent Streaming ToolOutput ToolResult ToolStarted"
    " TurnEndEvent TurnStart UserInput WorkerUpdate",
    "core.executors": "BatchItem Executor ExecutorEnv ExecutorFactory ItemEnd RemoteWork Taken",
    "core.fields": "FormField derive_fields",
    "core.grants": "GrantOffer GrantRule",
    "core.hookspecs": "hookimpl",
    "core.interrupt": "InterruptSignal",
    "core.messages": "Attachment CallResult ListedModel Message ModelEnv ModelFactory ModelProvider ModelRequest"
    " TextDelta TurnEnd Usage",
    "core.paths": "DeletePath PathUse ReadPath WritePath",
    "core.processes": "Finished Piece ProcessStream Processes",
    "core.prompts": "PromptArgument PromptSpec",
    "core.results": "Custom Diff DisplayHints FileContent FileList Json Text is_valid_kind is_well_known_kind",
    "core.sandbox": "FileInfo FolderEntry SandboxView",
    "core.tool": "ManualExecution Preview Tool Validated is_manual_tool llm_tools manual_tools tool",
    "core.toolset": "Toolset ToolsetConfig ToolsetEnv",
    "core.zones": "Access Zone",
    "engine.batch.host": "ItemHost",
    "engine.batch.parcel": "missing_here",
    "engine.gate.controller": "ApprovalController",
    "engine.replay.drift": "Drift",
    "engine.replay.repeat": "replay",
    "engine.runtime.result": "WorkerResult",
    "engine.runtime.runtime": "WorkerRuntime",
    "engine.sync": "run_sync",
    "files.keys": "ProviderKey find_key",
    "files.worker": "Limits Worker load_worker",
    "record.line": "Line",
    "record.open": "OpenSession open_session",
    "sandbox.files.sandbox": "Sandbox",
    "toolsets.executables.toolset": "ExecutablesToolset",
    "toolsets.filesystem": "FilesystemToolset",
    "toolsets.memory": "MemoryToolset",
    "toolsets.plan": "PlanToolset",
    "toolsets.shell.toolset": "ShellToolset",
    "ui.terminal.prompts": "cli_approval_callback",
    "ui.terminal.slash": "classify_command is_command parse_command",
    "ui.terminal.terminal": "TerminalUI",
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

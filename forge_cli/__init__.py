"""forge: give language models tools and stay in control.

What is importable from here is the public API; each name is loaded when it is first used.
"""

from __future__ import annotations

__version__ = "0.2.0"

_ROOMS = {
    "core.approval": "Approval ApprovalDecision ApprovalMode ApprovalRequest CommandRun Effect JudgedPart OnAsk"
    " Verdict",
    "core.bus": "EventBus",
    "core.calls": "Denial OutcomeStatus ToolCall ToolOutcome",
    "core.config": "Config",
    "core.context": "CallContext Delegation InnerCalls ToolContext",
    "core.errors": "BlockedError ExitCode ForgeError Mark ModelError Stale ToolError ToolInterrupted ToolTimeout"
    " UsageError WorkerError",
    "core.events": "ApprovalDecided ApprovalRequired ApprovalResponse CommandEvent CommandTried ContextUsage Event"
    " GrantsEvent InputPrompt Interrupt ManualToolInvoke ManualToolsAvailable MessageEvent ModeChanged NetworkAccess"
    " Origin OtherEvent SessionEnd SessionGrant SessionStart SessionUpdate StatusEvent Streaming ToolOutput ToolResult"
    " ToolStarted TurnEndEvent TurnStart UserInput WorkerUpdate",
    "core.observers": "HookAnswer HookCall Observer",
    "core.executors": "BatchItem Executor ExecutorEnv ExecutorFactory ItemEnd RemoteWork Taken",
    "core.forms": "FormField derive_fields",
    "core.grants": "GrantOffer GrantRule",
    "core.hints": "DisplayHints",
    "core.hookspecs": "Renderer hookimpl",
    "core.interrupt": "InterruptSignal",
    "core.locking": "LockEntry",
    "core.media": "Blob Image",
    "core.messages": "Attachment CallResult Delta ListedModel Message ModelEnv ModelFactory ModelProvider ModelRequest"
    " Restart StopReason Summary TextDelta ToolSpec TurnEnd Usage",
    "core.notify": "Notify",
    "core.paths": "DeletePath PathUse ReadPath WritePath",
    "core.processes": "Finished Piece ProcessStream Processes",
    "core.prompts": "PromptArgument PromptSpec",
    "core.requests": "SampleReply SampleRequest SessionRequests",
    "core.results": "Custom Diff FileContent FileList Json ResultValue Text is_valid_kind is_well_known_kind",
    "core.runtime_ui": "RuntimeUI",
    "core.sandbox": "FileInfo FolderEntry SandboxView",
    "core.source": "Source",
    "core.tool": "Args ManualExecution NeedsApproval Preview Tool Validated is_manual_tool llm_tools manual_tools tool",
    "core.toolset": "ApprovalConfig Toolset ToolsetConfig ToolsetEnv ToolsetPlaces",
    "core.wire": "JsonObject",
    "core.zones": "Access Zone ZoneApproval ZoneMode",
    "engine.batch.host": "ItemHost",
    "engine.batch.parcel": "missing_here",
    "engine.gate.controller": "ApprovalController",
    "engine.replay.drift": "Drift",
    "engine.replay.repeat": "replay",
    "engine.runtime.judging": "Gate open_gate",
    "engine.runtime.result": "WorkerResult",
    "engine.runtime.runtime": "WorkerRuntime",
    "engine.sync": "run_sync",
    "files.home": "forge_home",
    "files.key_store": "ProviderKey find_key",
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
    "ui.terminal.slash": "ClassifiedCommand ParsedCommand classify_command is_command parse_command",
    "ui.terminal.terminal": "TerminalUI",
    "ui.terminal.trace": "trace_formatter",
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names.split()}
_PACKAGES = frozenset({"cli", "models", *(room.partition(".")[0] for room in _ROOMS)})
"""What ``from forge_cli import core`` looks for here before it loads it."""

__all__ = ["__version__", *sorted(_ROOM_OF)]


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in _ROOM_OF:
        problem = f"module {__name__!r} has no attribute {name!r}"
        if not name.startswith("_") and name not in _PACKAGES:
            from forge_cli.core.renamed import called_here

            meant = called_here(name, _ROOM_OF)
            if meant and _is_imported(name):
                raise ImportError(f"cannot import name {name!r} from {__name__!r}; {meant}", name=__name__)
            problem += f"; {meant}" if meant else ""
        raise AttributeError(problem)
    value = getattr(import_module(f"forge_cli.{_ROOM_OF[name]}"), name)
    globals()[name] = value
    return value


def _is_imported(name: str) -> bool:
    """Does ``from forge_cli import name`` ask, for what is not a module? It says nothing of an AttributeError."""
    import sys
    from importlib.util import find_spec

    asks = sys._getframe(2).f_code
    return asks.co_name == "_handle_fromlist" and find_spec(f"{__name__}.{name}") is None


def __dir__() -> list[str]:
    return __all__

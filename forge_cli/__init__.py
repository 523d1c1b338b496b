"""forge: give language models tools and stay in control.

What most people need is importable from here; each name is loaded when it is first used. The rest of the public API is
in ``errors``, ``events``, ``results``, ``hooks``, ``executors``, ``embedding``, ``terminal`` and ``testing``.
"""

__version__ = "0.2.0"

_ROOMS = {
    "core.approval": "Approval ApprovalDecision ApprovalRequest Effect Verdict",
    "core.bus": "EventBus",
    "core.context": "ToolContext",
    "core.errors": "ForgeError ToolError",
    "core.events": "Event",
    "core.hookspecs": "hookimpl",
    "core.interrupt": "InterruptSignal",
    "core.media": "Image",
    "core.results": "Custom Diff Json Text",
    "core.tool": "Args Preview",
    "core.zones": "Zone",
    "engine.runtime.result": "WorkerResult",
    "engine.runtime.runtime": "WorkerRuntime",
    "engine.sync": "run_sync",
    "files.worker": "Worker load_worker",
    "schema.config": "Config",
    "schema.forms": "derive_fields",
    "schema.paths": "DeletePath ReadPath WritePath",
    "schema.tool": "Tool tool",
    "schema.toolset": "Toolset ToolsetConfig",
    "ui.runtime_ui": "RuntimeUI",
    "ui.terminal.prompts": "cli_approval_callback",
    "ui.terminal.slash": "classify_command parse_command",
    "ui.terminal.trace": "trace_formatter",
}
"""The room in which each name of this module is made."""
_MOVED = {
    "embedding": "ApprovalController Drift ExecutablesToolset FilesystemToolset FormField Gate Limits"
    " MemoryToolset OpenSession PlanToolset Sandbox ShellToolset forge_home"
    " is_manual_tool llm_tools manual_tools open_gate open_session replay",
    "errors": "BlockedError ExitCode Mark ModelError Stale ToolInterrupted ToolTimeout UsageError WorkerError",
    "events": "ApprovalDecided ApprovalMode ApprovalRequired ApprovalResponse Attachment CallResult CommandEvent"
    " CommandRun CommandTried ContextUsage Denial GrantOffer GrantRule GrantsEvent InputPrompt Interrupt"
    " JsonObject JudgedPart Line ManualToolInvoke ManualToolsAvailable Message MessageEvent ModeChanged"
    " NetworkAccess OnAsk Origin OtherEvent OutcomeStatus SessionEnd SessionGrant SessionStart"
    " SessionUpdate StatusEvent StopReason Streaming Summary ToolCall ToolOutcome ToolOutput ToolResult"
    " ToolStarted TurnEndEvent TurnStart Usage UserInput WorkerUpdate",
    "executors": "BatchItem Executor ExecutorEnv ExecutorFactory ItemEnd ItemHost RemoteWork Taken missing_here",
    "hooks": "Access ApprovalConfig CallContext Delegation Delta FileInfo Finished FolderEntry HookAnswer HookCall"
    " InnerCalls ListedModel LockEntry ManualExecution ModelEnv ModelFactory ModelProvider ModelRequest"
    " NeedsApproval Notify Observer PathUse Piece ProcessStream Processes PromptArgument PromptSpec"
    " ProviderKey Renderer Restart SampleReply SampleRequest SandboxView SessionRequests Source TextDelta"
    " ToolSpec ToolsetEnv ToolsetPlaces TurnEnd Validated ZoneApproval ZoneMode find_key",
    "results": "Blob DisplayHints FileContent FileList ResultValue is_valid_kind is_well_known_kind",
    "terminal": "ClassifiedCommand ParsedCommand TerminalUI is_command",
}
"""Names that were here, by the modules that have them now; they are found for one version more."""
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names.split()}
_MOVED_TO = {name: place for place, names in _MOVED.items() for name in names.split()}
_PACKAGES = frozenset(
    {
        *("apps", "cli", "core", "engine", "files", "inspection", "models", "process"),
        *("record", "sandbox", "schema", "toolsets", "ui"),
        *_MOVED,
    }
)
"""Packages that ``from forge_cli import core`` looks for here before it loads them."""

__all__ = ["__version__", *sorted(_ROOM_OF)]


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in _MOVED_TO:
        import warnings

        place = f"{__name__}.{_MOVED_TO[name]}"
        warnings.warn(f"import {name} from {place}; {__name__} has it until 0.5", DeprecationWarning, stacklevel=2)
        return getattr(import_module(place), name)
    if name not in _ROOM_OF:
        if not name.startswith("_") and name not in _PACKAGES:
            from forge_cli.renamed import not_found

            raise not_found(name, (*_ROOM_OF, *_MOVED_TO))
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"forge_cli.{_ROOM_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__

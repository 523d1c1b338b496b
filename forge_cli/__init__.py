"""forge: language models with tools, under your control.

The most common names can be imported from here; each is loaded when it is first used. The rest of
the public API is in ``errors``, ``events``, ``results``, ``hooks``, ``executors``, ``embedding``,
``export``, ``terminal`` and ``testing``.
"""

__version__ = "0.3.0.dev0"

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
    "schema.json.forms": "derive_fields",
    "schema.paths": "DeletePath ReadPath WritePath",
    "schema.tool": "Tool tool",
    "schema.toolset": "Toolset ToolsetConfig",
    "ui.runtime_ui": "RuntimeUI",
    "ui.terminal.prompts": "cli_approval_callback",
    "ui.terminal.slash": "classify_command parse_command",
    "ui.terminal.trace": "trace_formatter",
}
"""The modules that define the names of this module."""
_ROOM_OF: dict[str, str] = {}
for _room, _names in _ROOMS.items():
    _ROOM_OF.update(dict.fromkeys(_names.split(), _room))
_PACKAGES = frozenset(
    {
        *("apps", "cli", "core", "engine", "files", "inspection", "models", "process"),
        *("record", "sandbox", "schema", "toolsets", "ui"),
        *(
            "embedding",
            "errors",
            "events",
            "executors",
            "export",
            "hooks",
            "results",
            "terminal",
            "testing",
        ),
    }
)
"""Names that the import system looks up here before it imports them as modules."""

__all__ = ["__version__", *sorted(_ROOM_OF)]


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in _ROOM_OF:
        if name in _PACKAGES or name.startswith("_"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from forge_cli.homes import missing

        raise missing(__name__, name)
    value = getattr(import_module(f"forge_cli.{_ROOM_OF[name]}"), name)
    globals()[name] = value  # so that Python does not call this again for the name
    return value


def __dir__() -> list[str]:
    return __all__

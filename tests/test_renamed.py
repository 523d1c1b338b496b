"""Names of other languages, and near misses, are told what they are called here."""

import subprocess
import sys

import pytest

import forge_cli

from .rows import each_row


@each_row(
    ("name", "told"),
    [
        ("UIEventBus", "here it is called 'EventBus'"),
        ("createUIEventBus", "here it is called 'EventBus'"),
        ("create_ui_event_bus", "here it is called 'EventBus'"),
        ("createRuntimeUI", "here it is called 'RuntimeUI'"),
        ("createInterruptSignal", "here it is called 'InterruptSignal'"),
        ("getLLMTools", "here it is called 'llm_tools'"),
        ("get_manual_tools", "here it is called 'manual_tools'"),
        ("isManualTool", "here it is called 'is_manual_tool'"),
        ("parseCommand", "here it is called 'parse_command'"),
        ("classifyCommand", "here it is called 'classify_command'"),
        ("isCommand", "here it is called 'is_command'"),
        ("deriveFieldsFromSchema", "here it is called 'derive_fields'"),
        ("derive_fields_from_schema", "here it is called 'derive_fields'"),
        ("isValidKind", "here it is called 'is_valid_kind'"),
        ("isWellKnownKind", "here it is called 'is_well_known_kind'"),
        ("NamedTool", "here it is called 'Tool'"),
        ("createEventCLIAdapter", "here it is called 'TerminalUI'"),
        ("createTraceFormatter", "here it is called 'trace_formatter'"),
        ("createCLIApprovalCallback", "here it is called 'cli_approval_callback'"),
        ("createReadFileTool", "here it is called 'FilesystemToolset'"),
        ("CustomResultValue", "here it is called 'Custom'"),
        ("WellKnownResultValue", "here it is called 'ResultValue'"),
        ("loadCustomTools", "a worker names its tools.py under toolsets.custom"),
        ("WorkerCallToolset", "a worker names others under toolsets.workers"),
        ("WorkerRunime", "did you mean 'WorkerRuntime'?"),
        ("toolset", "here it is called 'Toolset'"),
    ],
)
def test_what_it_is_called_here(name: str, told: str) -> None:
    with pytest.raises(AttributeError) as error:
        getattr(forge_cli, name)
    assert str(error.value) == f"module 'forge_cli' has no attribute '{name}'; {told}"
    assert not hasattr(forge_cli, name)
    with pytest.raises(ImportError) as failed:
        exec(f"from forge_cli import Tool, {name}")
    assert str(failed.value) == f"cannot import name '{name}' from 'forge_cli'; {told}"
    known = {*forge_cli._ROOM_OF, *forge_cli._MOVED_TO}
    assert told.startswith(("a worker", "a plugin")) or told.split("'")[1] in known


@each_row("name", ["__wrapped__", "_private", "zzzzzzzz"])
def test_what_nobody_knows(name: str) -> None:
    with pytest.raises(AttributeError) as error:
        getattr(forge_cli, name)
    assert str(error.value) == f"module 'forge_cli' has no attribute '{name}'"
    with pytest.raises(ImportError, match=f"cannot import name '{name}' from 'forge_cli' "):
        exec(f"from forge_cli import {name}")


@pytest.mark.long
def test_modules_are_imported_whatever_name_is_like_theirs() -> None:
    for name in ("testing", "pytest_plugin", "core", "toolsets", "cli"):
        done = subprocess.run([sys.executable, "-c", f"from forge_cli import {name}"], timeout=60, check=False)
        assert done.returncode == 0, name

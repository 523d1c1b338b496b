"""The table of known tools: complete for the version that is installed, and without contradictions."""

import json
import shutil
import subprocess
from importlib.resources import files

import pytest
from forge_guard.hooks import HOOKS
from forge_guard.scripted import serving

from .conftest import Machine
from .test_real import LIMIT, TOOLS, Tool

KNOWN = json.loads(files("forge_guard").joinpath("known_tools.json").read_text(encoding="utf-8"))


def test_a_tool_is_known_in_one_way() -> None:
    for tool, hook in HOOKS.items():
        known = KNOWN[tool]
        groups = [hook.readers, known["own"], known["asks"], known["unhooked"], known["hooked_as"]]
        names = [name for group in groups for name in group]
        assert sorted(names) == sorted(set(names)), tool
        assert set(known["hooked_as"].values()) <= set(hook.readers), tool


def test_known_tools_of_claude_ask_with_a_reason(machine: Machine) -> None:
    machine.guard("install", "claude", "--project")
    assert machine.claude("EnterWorktree", {"name": "x"})[0] == "ask"
    assert "it makes a worktree of git" in machine.claude("EnterWorktree", {})[1]
    for name in ("ListAgents", "Workflow", "SendMessage"):
        assert machine.claude(name, {})[0] is None
    assert machine.claude("LSP", {"filePath": "/etc/hosts", "operation": "hover"})[0] == "ask"


@pytest.mark.long
@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_every_tool_that_the_model_gets_is_known(machine: Machine, tool: Tool) -> None:
    if shutil.which(tool.name) is None:
        pytest.skip(f"{tool.name} is not installed")
    with serving() as script:
        command = tool.prepare(machine, script)
        subprocess.run(
            command,
            cwd=machine.project,
            env=machine.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LIMIT,
            check=False,
        )
        offered = script.offered
    known = KNOWN[tool.name]
    names = {*HOOKS[tool.name].readers, *known["own"], *known["asks"], *known["unhooked"]}
    assert len(offered) > 5
    assert sorted(offered - names - set(known["hooked_as"])) == []

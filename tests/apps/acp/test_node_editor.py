"""``forge serve acp`` with another implementation of the protocol, so that it is not one library talking to itself."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from forge_cli.testing import Project

SDK = "@agentclientprotocol/sdk@2.4.0"
SCRIPT = Path(__file__).with_name("node_editor.mjs")
WORKER = "name: helper\nmodel: script:script.yaml\ntoolsets: {filesystem: {}}\n"
TURNS = """
turns:
  - text: "I write it. "
    calls: [{tool: write_file, input: {path: a.txt, content: "one\\n"}}]
  - text: "It says: {result}"
  - calls: [{tool: write_file, input: {path: a.txt, content: "two\\n"}}]
  - text: "It says: {result}"
"""


@pytest.fixture(scope="module")
def sdk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the library, fresh from the registry of packages."""
    if not (shutil.which("node") and shutil.which("npm")):
        pytest.skip("node or npm is missing")
    folder = tmp_path_factory.mktemp("node")
    installed = subprocess.run(
        ["npm", "install", "--silent", "--no-audit", "--no-fund", SDK],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if installed.returncode:
        pytest.skip(f"{SDK} cannot be installed: {installed.stderr[-200:]}")
    shutil.copy(SCRIPT, folder)
    return folder


@pytest.mark.long
def test_editor_on_the_typescript_library_works(project: Project, sdk: Path) -> None:
    project.write("worker.yaml", WORKER)
    project.write("script.yaml", TURNS)
    forge = project.find().python  # type: ignore[attr-defined]
    done = subprocess.run(
        [
            "node",
            SCRIPT.name,
            project.folder,
            forge,
            "-m",
            "forge_cli",
            "serve",
            "acp",
            "worker.yaml",
        ],
        cwd=sdk,
        env={**os.environ, "FORGE_HOME": str(project.home)},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["version"] == 1
    assert seen["capabilities"]["loadSession"] is True
    assert seen["stops"] == ["end_turn", "end_turn", "cancelled"]
    assert (project.folder / "a.txt").read_text() == "one\n"
    assert seen["errors"] == [-32002]
    kinds = [update["sessionUpdate"] for update in seen["updates"]]
    assert kinds.index("tool_call") < kinds.index("tool_call_update")
    calls = {
        update["toolCallId"] for update in seen["updates"] if update["sessionUpdate"] == "tool_call"
    }
    assert {asked["toolCall"]["toolCallId"] for asked in seen["asked"]} <= calls
    assert seen["asked"][0]["options"][0]["kind"] == "allow_once"
    assert (
        seen["asked"][0]["toolCall"]["_meta"]["forge"]["reason"]
        == "writing in zone 'workspace' needs your OK"
    )
    assert [update["currentModeId"] for update in seen["updates"] if "currentModeId" in update] == [
        "readOnly",
        "ask",
    ]
    assert seen["exit"] == 0
    assert seen["listed"]
    assert {"user_message_chunk", "agent_message_chunk", "tool_call", "tool_call_update"} <= set(
        seen["replayed"]
    )

"""Listing tools of MCP servers starts none: the last session or test provides the known tools.

Covers forge_cli.toolsets.mcp.offer and forge_cli.inspection.left_out.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from forge_cli.testing import Project
from tests.support.interpreter import PYTHON

from .test_mcp import SERVER, definition, run, servers, worker

UNSEEN = "its tools are unknown, as it was never started; run: forge mcp test worker.yaml"
CONFIG = {"mcp": {"servers": {"own": {"command": PYTHON, "args": [SERVER, "plain"]}}}}


def listed(project: Project, *more: str) -> dict[str, Any]:
    rows = json.loads(project.forge("tools", "list", "worker.yaml", "--json", *more).stdout)
    return {row["name"]: row.get("error") for row in rows}


def approved(project: Project, tool: str) -> dict[str, Any]:
    return json.loads(project.forge("approve", "worker.yaml", tool, "text=x", "--json").stdout)


@pytest.mark.long
def test_server_that_was_never_started_is_a_row_that_says_so(project: Project) -> None:
    left = project.folder / "left"
    worker(project, "writes", "", "{default: preApproved, tools: {s__echo: ask}}", str(left))
    assert listed(project) == {"s": UNSEEN}
    judged = approved(project, "s__echo")
    assert (judged["verdict"], judged["reason"]) == ("refused", f"MCP server s: {UNSEEN}")
    shown = project.forge("tools", "show", "s__echo", "--worker", "worker.yaml")
    assert (shown.returncode, UNSEEN in shown.stderr) == (2, True)
    checked = project.forge("worker", "check", "worker.yaml")
    assert "tools: 0, and the unknown tools of s" in checked.stdout
    assert checked.stderr == f"warning: MCP server s: {UNSEEN}\n"
    assert json.loads(project.forge("worker", "check", "worker.yaml", "--json").stdout)[
        "unseen"
    ] == ["s"]
    (row,) = json.loads(project.forge("mcp", "list", "worker.yaml", "--json").stdout)
    assert (row["tools"], row["seen"]) == (None, None)
    assert not left.exists()


def test_known_tools_of_a_server_stay_known_without_its_program(project: Project) -> None:
    (project.folder / "server.py").write_text(Path(SERVER).read_text())
    entry = f"{{command: {json.dumps(PYTHON)}, args: [server.py, plain]}}"
    servers(project, {"s": entry})
    assert project.forge("mcp", "test", "worker.yaml").returncode == 0
    (project.folder / "server.py").unlink()
    assert listed(project) == {"s__echo": None}


def by_test(project: Project) -> None:
    assert project.forge("mcp", "test", "worker.yaml").returncode == 0


def by_session(project: Project) -> None:
    assert run(project, "s__echo").statuses == ["success"]


@pytest.mark.few(1)
@pytest.mark.parametrize("see", [by_test, by_session])
def test_known_tools_are_listed_and_judged(
    project: Project, see: Callable[[Project], None]
) -> None:
    worker(project, "resources")
    see(project)
    assert set(listed(project)) == {"s__echo", "list_mcp_resources", "read_mcp_resource"}
    assert approved(project, "s__echo")["verdict"] == "preApproved"
    refused = json.loads(project.forge("approve", "worker.yaml", "s__echo", "--json").stdout)
    assert (refused["verdict"], "text" in refused["reason"]) == ("refused", True)
    shown = project.forge("tools", "show", "s__echo", "--worker", "worker.yaml").stdout
    assert "text (a string, required)" in shown
    checked = project.forge("worker", "check", "worker.yaml")
    assert ("tools: 3)" in checked.stdout, checked.stderr) == (True, "")
    (row,) = json.loads(project.forge("mcp", "list", "worker.yaml", "--json").stdout)
    assert (row["tools"], row["seen"][:2]) == (1, "20")


def test_session_updates_the_known_tools(project: Project) -> None:
    described = project.write("described", "Say it back.")
    worker(project, "described", "", "{default: preApproved}", str(described))
    by_test(project)
    described.write_text("Say it twice.")
    show = ("tools", "show", "s__echo", "--worker", "worker.yaml", "--json")
    assert json.loads(project.forge(*show).stdout)["description"] == "Say it back."
    by_session(project)
    assert json.loads(project.forge(*show).stdout)["description"] == "Say it twice."


@pytest.mark.long
def test_changed_definition_is_another_server(project: Project) -> None:
    worker(project, "plain")
    by_test(project)
    assert set(listed(project)) == {"s__echo"}
    failures = []
    for mode, more in (("mixed", ""), ("plain", ", env: {A: b}")):
        worker(project, mode, more)
        if listed(project) != {"s": UNSEEN}:
            failures.append((mode, more))
    servers(project, {"other": definition("plain", more=", timeout: 5")})
    assert (set(listed(project)), failures) == ({"other__echo"}, [])


def test_definition_file_in_a_folder_binds_the_server_to_it(project: Project) -> None:
    config = {"mcp": {"servers": {"own": {"command": PYTHON, "args": ["server.py", "plain"]}}}}
    project.home.mkdir(exist_ok=True)
    (project.home / "config.yaml").write_text(json.dumps(config))
    for name in ("one", "two"):
        project.write(f"{name}/server.py", Path(SERVER).read_text())
    assert project.forge("mcp", "test", "own", "-C", "one").returncode == 0
    project.write("worker.yaml", "name: w\ntoolsets: {mcp: {servers: {own: null}}}\n")
    told = {}
    for name in ("one", "two"):
        told[name] = project.forge("worker", "check", "worker.yaml", "-C", name, "--json").stdout
    assert {name: json.loads(text).get("unseen", []) for name, text in told.items()} == {
        "one": [],
        "two": ["own"],
    }


def test_user_server_is_inspected_by_name(project: Project) -> None:
    project.write("worker.yaml", "name: w\ntoolsets: {mcp: {servers: {own: null}}}\n")
    project.home.mkdir(exist_ok=True)
    (project.home / "config.yaml").write_text(json.dumps(CONFIG))
    assert "run: forge mcp test own" in listed(project)["own"]
    assert project.forge("mcp", "test", "own").returncode == 0
    assert set(listed(project)) == {"own__echo"}


def test_project_server_is_inspected_by_name_once_trusted(
    project: Project,
) -> None:
    project.write("worker.yaml", "name: w\ntoolsets: {mcp: {servers: {own: null}}}\n")
    project.write(".mcp.json", json.dumps({"mcpServers": CONFIG["mcp"]["servers"]}))
    assert project.forge("mcp", "test", "own").returncode == 8
    assert project.forge("trust", ".mcp.json").returncode == 0
    assert project.forge("mcp", "test", "own").returncode == 0
    assert set(listed(project)) == {"own__echo"}

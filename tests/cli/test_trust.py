"""``forge trust``: nothing that a folder brings is used before, and what changes has to be trusted anew."""

import json
import sys
from pathlib import Path

from forge_cli.core.errors import ExitCode
from forge_cli.testing import Project

SERVER = str(Path(__file__).parent.parent / "toolsets" / "mcp" / "server.py")


def bring_server(project: Project, mode: str = "plain", name: str = ".mcp.json") -> None:
    server = {"type": "stdio", "command": sys.executable, "args": [SERVER, mode]}
    project.write(name, json.dumps({"mcpServers": {"s": server, "unused": {"command": "no-such-program"}}}))


def use_server(project: Project) -> tuple[int, str]:
    project.write("worker.yaml", "name: w\ntoolsets: {mcp: {servers: {s: null}}}\n")
    done = project.forge("tools", "call", "s__echo", "--worker", "worker.yaml", "-y", "text=hello")
    return done.returncode, done.stdout + done.stderr


def test_servers_of_a_folder_need_trust_and_need_it_again(project: Project) -> None:
    bring_server(project)
    code, told = use_server(project)
    assert code == ExitCode.UNTRUSTED
    assert ".mcp.json comes with this folder and is not trusted" in told
    done = project.forge("trust")
    assert done.stdout == f"trusted: {project.folder}/.mcp.json (MCP servers: s, unused)\n"
    assert use_server(project) == (0, "hello\n")
    rows = json.loads(project.forge("mcp", "list", "worker.yaml", "--json").stdout)
    assert [(row["name"], row["from"]) for row in rows] == [("s", ".mcp.json")]
    bring_server(project, "mixed")
    assert use_server(project)[0] == ExitCode.UNTRUSTED


def test_trust_is_listed_and_taken_back(project: Project) -> None:
    bring_server(project)
    file = f"{project.folder}/.mcp.json"
    assert project.forge("trust", ".mcp.json").returncode == 0
    assert project.forge("trust", "--list").stdout == f"{file}\n"
    assert json.loads(project.forge("trust", "--list", "--json").stdout) == [{"path": file}]
    assert project.forge("trust", "--json").returncode == ExitCode.USAGE
    assert project.forge("trust", "--revoke").stdout == f"no longer trusted: {file}\n"
    assert project.forge("trust", "--list").stdout == ""
    assert use_server(project)[0] == ExitCode.UNTRUSTED


def test_a_server_of_the_user_is_not_replaced(project: Project) -> None:
    bring_server(project, "fails")
    project.forge("mcp", "add", "s", "--", sys.executable, SERVER, "plain")
    assert use_server(project) == (0, "hello\n")


def test_workers_and_settings_of_a_folder(project: Project) -> None:
    project.write(".forge/config.yaml", "trace: quiet\n")
    project.write(".forge/workers/tidy.yaml", "name: tidy\n")
    project.write("script.yaml", "turns: [{text: done}]\n")
    run = ("run", "tidy", "go", "-m", "script:script.yaml")
    assert project.forge(*run).returncode == ExitCode.UNTRUSTED
    done = project.forge("trust")
    assert [line.rpartition("(")[2] for line in done.stdout.splitlines()] == ["settings)", "worker)"]
    done = project.forge(*run)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_a_folder_that_brings_nothing(project: Project) -> None:
    done = project.forge("trust")
    assert (done.returncode, "there is nothing that needs trust" in done.stderr) == (2, True)


def test_a_file_that_is_not_what_it_should_be(project: Project) -> None:
    project.write(".mcp.json", "[]")
    code, told = use_server(project)
    assert (code, "an object of servers under mcpServers" in told) == (3, True)


def test_nothing_is_trusted_where_something_is_wrong(project: Project) -> None:
    bring_server(project)
    project.write(".forge/config.yaml", "approval: {mode: approve_all}\n")
    project.write(".forge/workers/tidy.yaml", "name: tidy\n")
    done = project.forge("trust")
    assert done.returncode == ExitCode.INVALID
    assert "a project cannot approve calls" in done.stderr
    assert project.forge("trust", "--list").stdout == ""
    assert project.forge("models", "list").returncode == 0


def test_a_key_in_another_case_is_unknown_wherever_it_would_be_ignored(project: Project) -> None:
    project.write("worker.yaml", "name: w\nSandbox: {isolation: required}\ntoolsets: {filesystem: {}}\n")
    done = project.forge("worker", "check", "worker.yaml")
    assert done.returncode == ExitCode.INVALID
    assert "worker.yaml:2:1: unknown key 'Sandbox'; did you mean 'sandbox'?" in done.stderr
    project.write("worker.yaml", "name: w\ntoolsets: {shell: {Default: preApproved}}\n")
    assert "unknown key 'Default'" in project.forge("worker", "check", "worker.yaml").stderr

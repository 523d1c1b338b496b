"""``forge mcp``: servers of one's own, and whether they answer.

Covers forge_cli.cli.mcp.list, forge_cli.cli.mcp.test, forge_cli.cli.mcp.add,
forge_cli.cli.mcp.login,
forge_cli.inspection.named_servers.
"""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from forge_cli.testing import Project
from tests.support.command_line import Done
from tests.support.interpreter import PYTHON

Cli = Callable[..., Done]
SERVER = str(Path(__file__).parents[2] / "toolsets" / "mcp" / "server.py")
CONFIG = """\
# what I like
model: script:script.yaml
mcp:
  servers:
    # the first
    one: {command: program-one}   # mine
    two:
      url: https://example.org/mcp
      headers: {X: "y"}
trace: quiet
"""


def config(project: Project, text: str) -> Path:
    project.home.mkdir(exist_ok=True)
    file = project.home / "config.yaml"
    file.write_text(text)
    return file


def test_added_server_can_be_tested_and_used(project: Project) -> None:
    added = project.forge("mcp", "add", "own", "--", PYTHON, SERVER, "plain")
    assert added.returncode == 0, added.stderr
    assert "a worker uses it with toolsets: {mcp: {servers: [own]}}" in added.stdout
    tried = project.forge("mcp", "test", "own", "--json")
    (row,) = json.loads(tried.stdout)
    assert (row["name"], row["protocol"], row["confined"], row["tools"]) == (
        "own",
        "2025-11-25",
        "no",
        ["own__echo"],
    )
    project.write("worker.yaml", "name: w\ntoolsets: {mcp: {servers: [own]}}\n")
    called = project.forge(
        "tools", "call", "own__echo", "--worker", "worker.yaml", "-y", "text=hello"
    )
    assert called.stdout == "hello\n"


def test_other_text_of_the_config_is_unchanged(cli: Cli, project: Project) -> None:
    file = config(project, CONFIG)
    assert cli("mcp", "add", "three", "--url", "https://example.org/3").code == 0
    added = '    three:\n      url: "https://example.org/3"\n'
    assert file.read_text() == CONFIG.replace("trace:", f"{added}trace:")
    assert cli("mcp", "remove", "three").code == 0
    assert file.read_text() == CONFIG
    assert cli("mcp", "remove", "one").code == 0
    assert file.read_text() == CONFIG.replace("    one: {command: program-one}   # mine\n", "")
    assert cli("mcp", "remove", "two").code == 0
    assert yaml.safe_load(file.read_text()) == {"model": "script:script.yaml", "trace": "quiet"}


@pytest.mark.parametrize(
    ("servers", "name", "left"),
    [
        ("{a: {command: x}, b: {command: y}}", "a", "mcp: {servers: {b: {command: y}}}\n"),
        ("{a: {command: x}, b: {command: y}}", "b", "mcp: {servers: {a: {command: x}}}\n"),
        ("{a: {command: x}}", "a", ""),
    ],
)
def test_server_in_flow_style_is_removed(
    cli: Cli, project: Project, servers: str, name: str, left: str
) -> None:
    file = config(project, f"mcp: {{servers: {servers}}}\n")
    assert cli("mcp", "remove", name).code == 0
    assert file.read_text() == left


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["add", "x"], "give either --url URL or -- COMMAND ARGS..."),
        (["add", "x", "--url", "https://example.org", "--", "program"], "give either --url URL or"),
        (
            ["add", "x", "--url", "ftp://example.org"],
            "mcp.servers.x.url: must begin with http:// or https://",
        ),
        (["add", "x", "--url", ""], "Invalid value for '--url': it is empty"),
        (["add", "x", "--", ""], "mcp.servers.x.command: must not be empty"),
        (["add", "one", "--", "program"], "there is a server 'one' already"),
        (["remove", "on"], "did you mean 'one'?"),
    ],
)
def test_impossible_change_is_an_error_and_changes_nothing(
    cli: Cli, project: Project, argv: list[str], sentence: str
) -> None:
    file = config(project, CONFIG)
    done = cli("mcp", *argv)
    assert done.code in (2, 3)
    assert sentence in done.err
    assert file.read_text() == CONFIG


def test_list_starts_no_server(cli: Cli, project: Project) -> None:
    config(project, CONFIG)
    rows = json.loads(cli("mcp", "list", "--json").out)
    assert [(row["name"], row["confined"], row["address"]) for row in rows] == [
        ("one", "no", "program-one"),
        ("two", "", "https://example.org/mcp"),
    ]
    servers = "{one: null, own: {command: 'a b', args: [c], confined: true}, gone: null}"
    project.write("worker.yaml", f"name: w\ntoolsets: {{mcp: {{servers: {servers}}}}}\n")
    rows = json.loads(cli("mcp", "list", "worker.yaml", "--json").out)
    assert [(row["name"], row["from"], row.get("address")) for row in rows] == [
        ("one", "config.yaml", "program-one"),
        ("own", "worker", "'a b' c"),
        ("gone", "config.yaml", None),
    ]
    assert rows[2]["error"] == "not defined; run: forge mcp add gone -- COMMAND"


def test_servers_are_among_the_settings(cli: Cli, project: Project) -> None:
    file = config(project, CONFIG)
    project.write(
        ".forge/config.yaml",
        "mcp: {servers: {one: {command: another}, three: {command: x, args: [y]}}}\n",
    )
    assert cli("trust").code == 0
    rows = json.loads(cli("config", "show", "--json").out)
    found = {
        row["key"]: (row["value"], row["source"]) for row in rows if row["key"].startswith("mcp.")
    }
    assert found == {
        "mcp.servers.one": ({"command": "program-one"}, "user"),
        "mcp.servers.two": ({"url": "https://example.org/mcp"}, "user"),
        "mcp.servers.three": ({"command": "x", "args": ["y"]}, "project"),
    }
    where = next(row["where"] for row in rows if row["key"] == "mcp.servers.one")
    assert where == f"{file}:6:5"


def test_doctor_names_unconfined_servers(cli: Cli, project: Project) -> None:
    config(project, CONFIG)
    checks = json.loads(cli("doctor", "--json").out)["checks"]
    assert [each["detail"] for each in checks if each["id"] == "mcp"] == [
        "2 servers in config.yaml; not confined: one"
    ]


def test_mcp_test_with_a_failing_server_exits_1_and_shows_the_others(
    cli: Cli, project: Project
) -> None:
    python = json.dumps(PYTHON)
    servers = "".join(
        f"      {mode}: {{command: {python}, args: [{SERVER}, {mode}]}}\n"
        for mode in ("plain", "absent")
    )
    project.write("worker.yaml", f"name: w\ntoolsets:\n  mcp:\n    servers:\n{servers}")
    done = cli("mcp", "test", "worker.yaml")
    assert done.code == 1
    assert "1: plain__echo" in done.out
    assert "no such database" in done.out


def test_worker_without_servers_is_an_error(cli: Cli, project: Project) -> None:
    project.write("worker.yaml", "name: w\ntoolsets: {plan: {}}\n")
    done = cli("mcp", "test", "worker.yaml")
    assert (done.code, "the worker 'w' names no MCP servers" in done.err) == (3, True)


def test_name_that_is_neither_a_worker_nor_a_server_is_an_error(cli) -> None:
    done = cli("mcp", "test", "nope")
    assert (done.code, done.out) == (3, "")
    assert done.err.startswith("forge: there is no worker and no MCP server 'nope'\n")

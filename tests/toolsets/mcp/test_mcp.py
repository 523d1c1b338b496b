"""Tools of MCP servers: through the gate, and whatever a server does, one result a call.

Covers forge_cli.files.mcp, forge_cli.toolsets.mcp.connection, forge_cli.toolsets.mcp.offer,
forge_cli.toolsets.mcp.results, forge_cli.toolsets.mcp.stdio, forge_cli.toolsets.mcp.toolset.
"""

import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_cli.core.tool import TOOL_NAME
from forge_cli.testing import Project, Seen, call, calls, scripted_model
from forge_cli.toolsets.mcp.offer import names_for

SERVER = str(Path(__file__).with_name("server.py"))


def worker(project: Project, mode: str, more: str = "", approval: str = "{default: preApproved}") -> None:
    command = f"command: {json.dumps(sys.executable)}, args: [{json.dumps(SERVER)}, {mode}]"
    project.write(
        "worker.yaml",
        f"name: w\ntoolsets:\n  mcp:\n    servers:\n      s: {{{command}{more}}}\n    approval: {approval}\n",
    )


def run(project: Project, *names: str, args: dict | None = None) -> Seen:
    made = [call(name, **({"text": "hello"} if args is None else args)) for name in names]
    return project.run("worker.yaml", model=scripted_model(calls(*made), "done"))


def warnings(seen: Seen) -> list[str]:
    return [event.message for event in seen.events if event.type == "status" and event.level == "warning"]


def test_a_call(project: Project) -> None:
    worker(project, "plain")
    seen = run(project, "s__echo")
    assert ([outcome.value.text() for outcome in seen.outcomes], warnings(seen)) == (["hello"], [])


def test_they_ask_unless_the_worker_says_otherwise(project: Project) -> None:
    worker(project, "plain", approval="{}")
    assert run(project, "s__echo").statuses == ["denied"]
    worker(project, "plain", approval="{tools: {s__echo: preApproved}}")
    assert run(project, "s__echo").statuses == ["success"]
    worker(project, "plain", approval="{default: preApproved, tools: {s__echo: blocked}}")
    assert run(project, "s__echo").statuses == ["blocked"]


@pytest.mark.parametrize(
    ("mode", "more", "status", "sentence"),
    [
        ("dies", "", "error", "the MCP server s ended the connection"),
        ("deaf", ", timeout: 1", "error", "the MCP server s did not answer within 1 s"),
        ("long", "", "error", "the MCP server s"),
        ("fails", "", "error", "it broke"),
    ],
)
def test_calls_that_fail(project: Project, mode: str, more: str, status: str, sentence: str) -> None:
    worker(project, mode, more)
    seen = run(project, "s__echo")
    assert seen.statuses == [status]
    assert sentence in (seen.outcomes[0].error or "")


@pytest.mark.parametrize(
    ("mode", "more", "sentence"),
    [
        ("absent", "", "no such database"),
        ("mute", ", connect_timeout: 1", "it did not answer within 1 s"),
    ],
)
def test_a_server_that_is_not_there_is_a_warning(project: Project, mode: str, more: str, sentence: str) -> None:
    worker(project, mode, more)
    seen = run(project, "s__echo")
    assert seen.statuses == ["not_found"]
    assert any("the MCP server s is not there" in said and sentence in said for said in warnings(seen))


def test_what_is_not_a_message_is_told_once(project: Project) -> None:
    worker(project, "garbage")
    seen = run(project, "s__echo")
    assert seen.statuses == ["success"]
    assert [said for said in warnings(seen) if "Welcome" in said] == [
        "the MCP server s writes what is not a message: Welcome to the server!"
    ]


@pytest.mark.parametrize(("mode", "left_out"), [("invisible", "hidden"), ("unsound", "bad")])
def test_a_bad_tool_is_left_out_by_name_and_the_others_work(project: Project, mode: str, left_out: str) -> None:
    worker(project, mode)
    seen = run(project, "s__echo", f"s__{left_out}")
    assert seen.statuses == ["success", "not_found"]
    assert any(f"the tool {left_out} of the MCP server s is left out" in said for said in warnings(seen))


def test_thousands_of_tools(project: Project) -> None:
    worker(project, "many")
    assert run(project, "s__tool_0", "s__tool_1999").statuses == ["success", "success"]


def test_no_key_of_a_provider_reaches_a_server(project: Project, monkeypatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-very-secret-value")
    monkeypatch.setenv("DOCS_TOKEN", "given by name")
    worker(project, "environment", ", env: {TOKEN: 'x ${DOCS_TOKEN}'}")
    seen = run(project, "s__echo")
    environment = json.loads(seen.outcomes[0].value.text())
    assert "ANTHROPIC_API_KEY" not in environment
    assert environment["TOKEN"] == "x given by name"


def test_a_variable_that_is_not_set(project: Project) -> None:
    worker(project, "plain", ", env: {TOKEN: '${NO_SUCH}'}")
    project.write("script.yaml", "turns: [{text: done}]\n")
    done = project.forge("run", "worker.yaml", "go", "-m", "script:script.yaml")
    assert done.returncode == 3
    assert "NO_SUCH" in done.stderr


def test_a_server_that_the_user_defines(project: Project) -> None:
    project.write("worker.yaml", "name: w\ntoolsets: {mcp: {servers: {s: null}, approval: {default: preApproved}}}\n")
    (project.home).mkdir(exist_ok=True)
    config = {"mcp": {"servers": {"s": {"command": sys.executable, "args": [SERVER, "plain"]}}}}
    (project.home / "config.yaml").write_text(json.dumps(config))
    assert run(project, "s__echo").statuses == ["success"]


@given(st.lists(st.text(min_size=1, max_size=100), unique=True, max_size=20))
def test_names_are_clean_and_no_two_alike(tools: list[str]) -> None:
    names = names_for("server", tools)
    assert len(set(names.values())) == len(tools)
    assert all(TOOL_NAME.fullmatch(name) and name.startswith("server__") for name in names.values())

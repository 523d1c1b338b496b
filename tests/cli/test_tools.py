"""``forge tools list`` and ``show``: what there is, where it comes from, and what is broken.

Covers forge_cli.cli.tools.choose, forge_cli.cli.tools.list, forge_cli.cli.tools.rows, forge_cli.cli.tools.show.
"""

import json
import re

import pytest

BROKEN = "raise RuntimeError('no such library\\x1b[2J')"

GOOD = """
from forge_cli import Toolset, hookimpl, tool

class Weather(Toolset):
    name = "weather"

    @tool(read_only=True)
    def forecast(self, town: str) -> str:
        '''Say what the weather will be.

        And a second line.
        '''
        return f"sun over {town}"

@hookimpl
def forge_toolsets():
    print("loaded")
    return [Weather]
"""


def test_the_built_in_tools_without_a_worker(cli) -> None:
    done = cli("tools", "list", "--json", "--source", "builtin")
    rows = {row["name"]: row for row in json.loads(done.out)}
    assert (done.code, done.err) == (0, "")
    assert rows["read_file"] == {
        "name": "read_file",
        "toolset": "filesystem",
        "source": "builtin",
        "origin": rows["read_file"]["origin"],
        "mode": "llm",
        "approval": "by zone",
        "description": "Read a text file, or some lines of it.",
    }
    assert rows["read_file"]["origin"].startswith("forge-workers ")
    assert not any("error" in row for row in rows.values())


def test_a_table_for_people(cli, tester) -> None:
    done = cli("tools", "list", "worker.yaml")
    lines = done.out.splitlines()
    assert (done.code, done.err) == (0, "")
    assert lines[0].split() == ["name", "toolset", "source", "mode", "approval", "description"]
    rows = {line.split()[0]: re.split(" {2,}", line)[1:5] for line in lines[1:]}
    assert rows["echo"] == ["custom", "local", "llm", "ask"]
    assert rows["report"] == ["custom", "local", "llm", "preApproved"]
    assert rows["deploy"] == ["custom", "local", "manual", "ask"]
    assert rows["peek"] == ["custom", "local", "both", "preApproved"]
    assert rows["write_file"] == ["filesystem", "builtin", "llm", "by zone"]
    assert not any(line.endswith(" ") for line in lines)


def test_only_one_kind_of_source(cli, tester) -> None:
    found = json.loads(cli("tools", "list", "worker.yaml", "--source", "local", "--json").out)
    assert {row["toolset"] for row in found} == {"custom"}
    assert json.loads(cli("tools", "list", "worker.yaml", "--source", "mcp", "--json").out) == []
    done = cli("tools", "list", "--source", "nosuch")
    assert (done.code, done.out) == (2, "")
    assert "'nosuch' is not one of 'builtin', 'package', 'local'" in done.err


MENU = """
from forge_cli import tool

@tool(manual="both", label="Push", category="Git")
def push() -> str:
    '''Push a branch.'''
    return "pushed"

@tool(manual="manual")
def deploy() -> str:
    '''Only a person deploys.'''
    return "deployed"

def echo(text: str) -> str:
    '''Say it back.'''
    return text
"""


@pytest.fixture
def menu(project) -> None:
    project.write("tools.py", MENU)
    project.write("worker.yaml", "name: menu\ntoolsets: {custom: {module: ./tools.py, tools: [push, deploy, echo]}}\n")


def test_label_and_category_of_what_people_may_call(cli, menu) -> None:
    lines = cli("tools", "list", "worker.yaml", "--mode", "manual").out.splitlines()
    assert lines[0].split() == ["name", "toolset", "source", "mode", "approval", "label", "category", "description"]
    assert lines[1].split()[:7] == ["push", "custom", "local", "both", "ask", "Push", "Git"]
    assert [line.split()[0] for line in lines[1:]] == ["push", "deploy"]
    found = {row["name"]: row for row in json.loads(cli("tools", "list", "worker.yaml", "--json").out)}
    assert (found["push"]["label"], found["push"]["category"]) == ("Push", "Git")
    assert not found["deploy"].keys() & {"label", "category", "version"}
    shown = cli("tools", "show", "push", "--worker", "worker.yaml").out
    assert "\nlabel: Push\ncategory: Git\nmode: both\n" in shown
    assert "label" not in cli("tools", "show", "deploy", "--worker", "worker.yaml").out


@pytest.mark.parametrize(("mode", "names"), [("llm", ["push", "echo"]), ("both", ["push"])])
def test_only_what_the_model_may_call(cli, menu, mode: str, names: list[str]) -> None:
    rows = json.loads(cli("tools", "list", "worker.yaml", "--mode", mode, "--json").out)
    assert [row["name"] for row in rows] == names


def test_a_worker_shows_what_people_may_call(cli, menu) -> None:
    assert cli("worker", "show", "worker.yaml").out.splitlines()[-3:] == [
        "for people:",
        "  push: both, label Push, category Git",
        "  deploy: manual",
    ]
    assert json.loads(cli("worker", "show", "worker.yaml", "--json").out)["manual"] == [
        {"name": "push", "mode": "both", "label": "Push", "category": "Git"},
        {"name": "deploy", "mode": "manual", "label": None, "category": None},
    ]


def test_a_worker_that_is_wrong(cli, tester) -> None:
    tester.write("worker.yaml", "name: x\ntoolsets: {filesytem: {}}")
    done = cli("tools", "list", "worker.yaml")
    assert (done.code, done.out) == (3, "")
    assert "worker.yaml:2:12: toolsets.filesytem: no such toolset" in done.err
    assert "did you mean 'filesystem'?" in done.err


def test_a_plugin_and_a_broken_one_beside_it(tester, install) -> None:
    site = install("forge-tools-weather", "weather_tools", GOOD, "weather = weather_tools")
    install("forge-tools-broken", "broken_tools", BROKEN, "broken = broken_tools")
    env = {"PYTHONPATH": str(site)}
    done = tester.forge("tools", "list", "--json", env=env)
    rows = {row["name"]: row for row in json.loads(done.stdout)}
    assert done.returncode == 0
    assert rows["forecast"] == {
        "name": "forecast",
        "toolset": "weather",
        "source": "package",
        "origin": "forge-tools-weather 1.2",
        "mode": "llm",
        "approval": "ask",
        "description": "Say what the weather will be.",
    }
    assert rows["broken"]["source"] == "package"
    assert rows["broken"]["origin"] == "forge-tools-broken 1.2"
    assert "RuntimeError: no such library" in rows["broken"]["error"]
    assert "read_file" in rows

    table = tester.forge("tools", "list", env=env).stdout.splitlines()
    line = next(line for line in table if line.startswith("broken"))
    assert "forge-tools-broken 1.2" in line
    assert "RuntimeError: no such library\\x1b[2J" in line

    shown = tester.forge("tools", "show", "forecast", env=env)
    assert (shown.returncode, shown.stdout.splitlines()[0]) == (0, "name: forecast")


def test_show_tells_what_a_tool_takes(cli, tester) -> None:
    done = cli("tools", "show", "echo", "--worker", "worker.yaml")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "name: echo",
        "description: Say something back.",
        "toolset: custom",
        "source: local",
        "origin: ./tools.py",
        "mode: llm",
        "approval: ask",
        "effects: unknown",
        "risk: high",
        "input:",
        "  text (a string, required): What to say.",
        "  times (an integer, default 1): How often to say it.",
        "  loud (true or false or null, default null)",
    ]
    assert "input: none\n" in cli("tools", "show", "boom", "--worker", "worker.yaml").out
    assert "effects: read\nrisk: low\n" in cli("tools", "show", "read_file").out


def test_show_as_json(cli, tester) -> None:
    found = json.loads(cli("tools", "show", "report", "--worker", "worker.yaml", "--json").out)
    assert (found["name"], found["mode"], found["approval"]) == ("report", "llm", "preApproved")
    assert sorted(found["inputSchema"]["properties"]) == ["ratio", "rows"]


@pytest.mark.parametrize("command", ["show", "call"])
def test_a_tool_that_is_not_there(cli, tester, command: str, unconfined: str) -> None:
    done = cli("tools", command, "red_file")
    assert (done.code, done.out) == (2, "")
    assert done.err.removeprefix(unconfined) == "forge: there is no tool 'red_file'\n  did you mean 'read_file'?\n"
    done = cli("tools", command, "nothing_like_it")
    assert done.err.endswith("a worker's own tools need --worker WORKER\n")
    done = cli("tools", command, "nothing_like_it", "--worker", "worker.yaml")
    assert (done.code, done.err.splitlines()[1]) == (2, "  forge tools list worker.yaml shows them")


def test_show_works_where_no_default_zone_can_be(cli, tester, monkeypatch) -> None:
    monkeypatch.setenv("HOME", str(tester.folder))
    assert cli("tools", "show", "read_file").code == 0
    assert cli("tools", "list").code == 0
    done = cli("tools", "call", "read_file", "path=a")
    assert done.code == 3
    assert "is your home folder itself\n  use -C DIR, or " in done.err


def test_descriptions_cannot_repaint_the_terminal(cli, tester) -> None:
    tester.write("tools.py", "def echo(x: int) -> int:\n    '''Evil \x1b[2J \u202e text.'''\n    return x\n")
    tester.write("worker.yaml", "name: w\ntoolsets: {custom: {module: tools.py, tools: [echo]}}")
    for words in (["list", "worker.yaml"], ["show", "echo", "--worker", "worker.yaml"]):
        out = cli("tools", *words).out
        assert "Evil \\x1b[2J \\u202e text." in out
        assert "\x1b" not in out


def test_what_a_module_prints_on_import_is_no_part_of_the_list(tester) -> None:
    tester.write("tools.py", tester.read("tools.py") + "\nprint('imported')\n")
    done = tester.forge("tools", "list", "worker.yaml", "--json")
    assert isinstance(json.loads(done.stdout), list)
    assert done.stderr == "imported\n"

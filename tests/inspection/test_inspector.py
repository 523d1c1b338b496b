"""Inspection of third-party code: its results, its access, and cases without a child process.

Covers forge_cli.inspection.gate, forge_cli.inspection.inspector,
forge_cli.inspection.loading_child.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from forge_cli.inspection import child_mounts, loading_child
from forge_cli.testing import Project

TOOLS = '''
import os, sys
from forge_cli import tool

@tool(needs_approval=lambda args: args["text"] == "ask")
def echo(text: str) -> str:
    """Say something back."""
    return text

@tool(needs_approval=lambda args: os._exit(0))
def leave(text: str) -> str:
    """Leave when judged."""
    return text
'''
WORKER = (
    "name: w\ntoolsets:\n  filesystem: {}\n  custom: {module: ./tools.py, tools: [echo, leave]}\n"
)


@pytest.fixture
def worker(project: Project) -> Project:
    project.write("worker.yaml", WORKER)
    project.write("tools.py", TOOLS)
    return project


@pytest.fixture
def no_child(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading_child, "_START", "raise SystemExit('no child may be started here')")


COMMANDS = [
    ["worker", "check", "own.yaml"],
    ["worker", "show", "own.yaml", "--tree"],
    ["tools", "list", "own.yaml"],
    ["tools", "list"],
    ["tools", "show", "read_file"],
    ["tools", "test", "plan"],
    ["approve", "own.yaml", "list_files"],
    ["doctor"],
    ["models", "list"],
]


@pytest.mark.few(3)
@pytest.mark.usefixtures("no_child")
@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words[:2]))
def test_builtin_tools_need_no_child(cli, project: Project, monkeypatch, words: list[str]) -> None:
    monkeypatch.setenv("FORGE_LOAD_PLUGINS", "")
    project.write(
        "own.yaml", "name: own\ntoolsets: {filesystem: {}, shell: {}, memory: {}, plan: {}}\n"
    )
    done = cli(*words)
    assert done.code == 0, done.err
    assert "no child" not in done.err


def test_third_party_code_is_not_loaded_in_the_parent(cli, worker: Project) -> None:
    worker.write("tools.py", "import antigravity_of_strangers\n")
    worker.write("antigravity_of_strangers.py", "")
    before = set(sys.modules)
    for words in (
        ["worker", "check", "worker.yaml"],
        ["tools", "test", "tools.py"],
        ["tools", "list", "worker.yaml"],
    ):
        cli(*words)
    new = set(sys.modules) - before
    assert not [name for name in new if "antigravity" in name or name.startswith("forge_local_")]


@pytest.mark.long
def test_lines_are_judged_as_they_arrive(start, worker: Project) -> None:
    begun = start("approve", "worker.yaml", "--batch", "-", stdin=subprocess.PIPE)
    stdin, stdout = begun.process.stdin, begun.process.stdout
    for text, verdict in (("ask", "ask"), ("more", "preApproved")):
        stdin.write(json.dumps({"tool": "echo", "input": {"text": text}}) + "\n")
        stdin.flush()
        assert json.loads(stdout.readline())["verdict"] == verdict
    stdin.close()
    begun.process.stdin = None
    assert begun.end().code == 0


@pytest.mark.long
def test_judge_that_exits_is_an_error(cli, worker: Project) -> None:
    done = cli("approve", "worker.yaml", "leave", "text=x")
    assert (done.code, done.out) == (3, "")
    assert done.err.startswith("forge: ")
    assert "tools.py: the loading process ended (exit code 0)" in done.err


@pytest.fixture
def leaving(install, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plugin with a toolset and a model that exits when imported."""
    entries = ("leaving = leaving_module", "model.leaving = leaving_module")
    site = install("forge-tools-leaving", "leaving_module", "import os\nos._exit(0)\n", *entries)
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("FORGE_LOAD_PLUGINS", "forge-tools-leaving")


SENTENCE = "' of forge-tools-leaving 1.2: the loading process ended (exit code 0)"


@pytest.mark.long
@pytest.mark.usefixtures("leaving")
def test_plugin_that_exits_is_a_row(cli) -> None:
    done = cli("doctor", "--json")
    checks = {check["id"]: check for check in json.loads(done.out)["checks"]}
    assert done.code == 1
    assert checks["toolset.leaving"]["detail"] == f"the plugin 'leaving{SENTENCE}"
    assert checks["model.leaving"]["detail"] == f"the plugin 'model.leaving{SENTENCE}"
    assert all(
        not checks[name]["ok"] and checks[name]["remedy"]
        for name in ("toolset.leaving", "model.leaving")
    )
    rows = {row["provider"]: row for row in json.loads(cli("models", "list", "--json").out)}
    assert rows["leaving"]["error"] == f"the plugin 'model.leaving{SENTENCE}"
    assert "error" not in rows["script"]


@pytest.mark.long
@pytest.mark.usefixtures("leaving")
def test_plugin_that_exits_is_reported_in_one_sentence(cli, project: Project) -> None:
    project.write("worker.yaml", "name: w\ntoolsets: {leaving: {}}\n")
    for words in (
        ["worker", "check", "worker.yaml"],
        ["worker", "show", "worker.yaml"],
        ["approve", ".", "x"],
    ):
        done = cli(*words)
        assert (done.code, done.out) == (3, "")
        assert done.err == f"forge: the plugin 'leaving{SENTENCE}\n"
    done = cli("tools", "test", "leaving")
    assert (done.code, done.out) == (1, f"FAILED  leaving: loads: the plugin 'leaving{SENTENCE}\n")
    done = cli("tools", "show", "unheard_of")
    assert done.code == 2
    assert f"warning: the plugin 'leaving{SENTENCE}\n" in done.err


@pytest.mark.long
def test_missing_tool_has_the_usual_message(cli, worker: Project) -> None:
    done = cli("tools", "show", "ecko", "--worker", "worker.yaml")
    assert done.code == 2
    assert "did you mean 'echo'?" in done.err


@pytest.mark.long
def test_debug_shows_the_traceback_of_the_child(start, worker: Project) -> None:
    worker.write("tools.py", "1 / 0\n")
    done = start("worker", "check", "worker.yaml", "--debug").end()
    assert done.code == 3
    assert "ZeroDivisionError: division by zero" in done.err
    assert 'tools.py", line 1' in done.err


def test_plugin_sees_that_its_key_is_set_but_not_its_value(monkeypatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-not-for-strangers-0123456789")
    monkeypatch.setenv("SOME_URL", "https://me:not-for-strangers-0123456789@example.org")
    found = child_mounts.child_environment()
    assert found["SOME_API_KEY"] == "hidden"
    assert "not-for-strangers" not in str(found)


@pytest.mark.long
def test_child_without_confinement_warns_once(cli, worker, monkeypatch) -> None:
    monkeypatch.setattr(child_mounts, "best_mechanism", lambda: None)
    child_mounts._warn_once.cache_clear()
    done = cli("worker", "check", "worker.yaml")
    assert done.code == 0
    assert done.err.startswith("warning: third-party code is loaded in a separate process, ")
    assert cli("worker", "check", "worker.yaml").err == ""
    worker.write("tools.py", "import os\nos._exit(0)")
    assert cli("worker", "check", "worker.yaml").code == 3


def test_worker_in_the_home_sees_only_its_own_files(cli, project, monkeypatch) -> None:
    monkeypatch.setenv("HOME", str(project.folder))
    project.write(
        "worker.yaml",
        "name: w\nsandbox: {zones: []}\ntoolsets:\n  custom: {module: ./tools.py, tools: [hi]}\n",
    )
    project.write(
        "helper.py",
        "from pathlib import Path\nfor name in ('worker.yaml', 'private.txt'):\n"
        "    try:\n        print(Path(__file__).with_name(name).read_text())\n"
        "    except OSError as error:\n        print('refused', name)\n",
    )
    project.write("tools.py", "import helper\ndef hi() -> str:\n    'Hi.'\n    return ''\n")
    project.write("private.txt", "for nobody else")
    done = cli("worker", "check", "worker.yaml")
    assert done.code == 0, done.err
    assert "name: w" in done.err
    assert done.err.endswith("refused private.txt\n")


@pytest.mark.needs("bwrap")
def test_required_isolation_applies_in_the_child(cli, worker: Project) -> None:
    worker.write(
        "worker.yaml",
        WORKER.replace("  filesystem: {}", "  shell: {}") + "sandbox: {isolation: required}\n",
    )
    done = cli("worker", "check", "worker.yaml")
    assert (done.code, done.err) == (0, "")


def test_warnings_of_the_child_are_forwarded(cli, worker: Project) -> None:
    worker.write(
        "worker.yaml", WORKER.replace("{}", "{approval: {tools: {read_file: preApproved}}}")
    )
    done = cli("worker", "check", "worker.yaml")
    assert done.code == 0
    assert done.err.startswith("warning: worker.yaml:3:")
    assert done.err.count("warning:") == 1


def test_zone_whose_folder_cannot_be_made_is_an_error(cli, worker: Project, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    worker.write(
        "worker.yaml",
        WORKER + f"sandbox: {{zones: [{{name: a, path: {tmp_path}/file/a, mode: rw}}]}}\n",
    )
    done = cli("worker", "check", "worker.yaml")
    assert done.code == 3
    assert "cannot be created" in done.err

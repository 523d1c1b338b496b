"""``forge tools test``: every failure is named, and nothing is called that could do harm.

Covers forge_cli.inspection.subjects, forge_cli.cli.tools.test.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from forge_cli.testing import Project

MODULE = '''
from forge_cli import Approval, Tool, Toolset, tool


@tool(read_only=True)
def fine() -> str:
    """Say that all is well."""
    print("called fine")
    return "all is well"


@tool(read_only=True)
def fails(depth: int = 1) -> str:
    """Fail.

    Args:
        depth: How deep.
    """
    raise ValueError("it broke \\x1b[2J")


@tool(read_only=True)
def needs(text: str) -> str:
    """Need something."""
    print("called needs")
    return text


def writes() -> str:
    """Not known to be read-only, so it is not called."""
    print("called writes")
    return ""


@tool(read_only=True, needs_approval=Approval.BLOCKED)
def shut() -> str:
    """Blocked for everybody."""
    print("called shut")
    return ""


@tool(timeout=7200)
def silent(text: str) -> str:
    return text


class More(Toolset):
    name = "more"

    @tool
    def extra(self) -> str:
        """One more."""
        return ""


def _helper(x):
    return x
'''


@pytest.fixture
def write(project: Project) -> Callable[..., Path]:
    """A tool in sh, with the lines of its tool.yaml after the first ones."""

    def tool(name: str, source: str, *lines: str, root: Path | None = None) -> Path:
        folder = (root or project.home / "tools") / name
        folder.mkdir(parents=True)
        (folder / f"{name}.sh").write_text(source)
        head = [f"name: {name}", f"description: Does {name}", f"entrypoint: {name}.sh"]
        (folder / "tool.yaml").write_text("\n".join([*head, *lines]) + "\n")
        return folder

    return tool


def rows(out: str) -> dict[tuple[str, str], tuple[bool, str]]:
    found = json.loads(out)
    assert all(list(row) == ["tool", "check", "ok", "detail"] for row in found)
    return {(row["tool"], row["check"]): (row["ok"], row["detail"]) for row in found}


def test_correct_examples_pass(cli, write) -> None:
    write(
        "greet",
        'case "$*" in *--who=Ada*) echo "Hello, Ada"; echo more ;; *) echo nobody >&2; exit 3 ;; esac\n',
        "parameters: [{name: who, description: Whom to greet}]",
        "examples:",
        "  - {arguments: {who: Ada}, expect: {stdout_contains: Hello}}",
        "  - {expect: {exit: 3}}",
        "  - {arguments: {who: 7}, expect: {exit: 3}}",
    )
    done = cli("tools", "test", "greet")
    names = (
        "schema, description, parameters, timeout, input, build, example 1, example 2, example 3"
    )
    assert (done.code, done.out, done.err) == (0, f"ok      greet: {names}\n", "")


def test_incorrect_examples_fail_with_their_output(cli, write) -> None:
    write(
        "greet",
        'echo "some words"; echo "a problem" >&2; case "$*" in *slow*) sleep 60 ;; esac; exit 3\n',
        "parameters: [{name: who, description: Whom to greet}]",
        "timeout: 0.5",
        "examples:",
        "  - {arguments: {who: Ada}, expect: {stdout_contains: Hello}}",
        "  - {arguments: {who: slow}}",
        "  - {expect: {exit: 3, stdout_contains: some words}}",
    )
    done = cli("tools", "test", "greet")
    assert done.code == 1
    assert done.err == "forge: 2 of 9 checks failed\n"
    assert (
        'FAILED  greet: example 1: with {"who": "Ada"}: exit code 3 instead of 0, '
        "and stdout does not contain 'Hello'\n"
        "          stdout: some words\n          stderr: a problem\n"
    ) in done.out
    assert 'FAILED  greet: example 2: with {"who": "slow"}: stopped after 0.' in done.out
    assert "build, example 3\n" in done.out


def test_self_described_result_is_also_output(cli, write) -> None:
    result = '{"summary": "Said hello", "kind": "greeting.said", "data": {"words":2}}'
    write(
        "greet",
        f"echo before; echo '{result}'\n",
        f"examples: [{{expect: {{stdout_contains: {json.dumps(result)}}}}}]",
    )
    assert cli("tools", "test", "greet").code == 0


def test_every_problem_of_a_program_is_reported(cli, write) -> None:
    write("broken", "echo", "timeout: 0")
    write(
        "mute",
        "echo",
        "parameters: [{name: a}, {name: b, description: Known}, {name: c, type: integer}]",
    )
    write("unsound", "if true")
    done = cli("tools", "test", "--json")
    found = rows(done.out)
    assert done.code == 1
    assert done.err == "forge: 3 of 13 checks failed\n"
    assert {name: detail for name, (ok, detail) in found.items() if not ok}.keys() == {
        ("broken", "tool.yaml"),
        ("mute", "parameters"),
        ("unsound", "build"),
    }
    assert "broken/tool.yaml:4:10: timeout: " in found["broken", "tool.yaml"][1]
    assert found["mute", "parameters"] == (False, "a, c: no description")
    assert "unsound.sh:2: syntax error" in found["unsound", "build"][1]


def test_test_without_tools(cli, project: Project) -> None:
    done = cli("tools", "test")
    assert (done.code, done.out) == (0, "")
    assert (
        done.err
        == f"there are no tools in {project.home / 'tools'}; make one: forge tools new NAME\n"
    )
    assert json.loads(cli("tools", "test", "--json").out) == []


def test_examples_pass_the_gate(cli, write, project: Project) -> None:
    """A path that no zone has is refused by the gate, and the program never starts."""
    write(
        "reader",
        'cat "${1#*=}"\n',
        "parameters: [{name: file, type: path, required: true, description: What to read}]",
        "examples:",
        "  - {arguments: {file: words.txt}, expect: {stdout_contains: in the workspace}}",
        "  - {arguments: {file: /etc/passwd}}",
    )
    project.write("words.txt", "words in the workspace\n")
    done = cli("tools", "test", "reader")
    assert done.code == 1
    assert "build, example 1\n" in done.out
    assert 'FAILED  reader: example 2: with {"file": "/etc/passwd"}: ' in done.out
    assert "is in no zone" in done.out


def test_folder_outside_the_home_can_be_tested(cli, write, project: Project) -> None:
    folder = write(
        "greet",
        'cat "$FORGE_TOOL_DIR/words"\n',
        "examples: [{expect: {stdout_contains: hello}}]",
        root=project.folder,
    )
    (folder / "words").write_text("hello\n")
    for target in ("greet", "./greet", "greet/tool.yaml", str(folder)):
        assert cli("tools", "test", target).code == 0, target
    assert sorted(path.name for path in folder.iterdir()) == ["greet.sh", "tool.yaml", "words"]
    assert not (project.home / "tools").exists()
    (folder / "tool.yaml").write_text("name: greet\n")
    done = cli("tools", "test", "./greet")
    assert done.code == 1
    assert f"FAILED  greet: tool.yaml: {folder}/tool.yaml:1:1: " in done.out


def test_tool_takes_precedence_over_a_folder_of_its_name(cli, write, project: Project) -> None:
    write("greet", "echo home\n", "examples: [{expect: {stdout_contains: home}}]")
    write(
        "greet",
        "echo here\n",
        "examples: [{expect: {stdout_contains: nothing}}]",
        root=project.folder,
    )
    assert cli("tools", "test", "greet").code == 0
    assert cli("tools", "test", "./greet").code == 1


@pytest.mark.long
def test_module_can_be_tested(cli, project: Project) -> None:
    project.write("tools.py", MODULE)
    done = cli("tools", "test", "tools.py", "--json")
    found = rows(done.out)
    assert done.code == 1
    assert {name for name, _ in found} == {
        "fine",
        "fails",
        "needs",
        "writes",
        "shut",
        "silent",
        "extra",
    }
    assert {name for name, (ok, _) in found.items() if not ok} == {
        ("fails", "result"),
        ("needs", "parameters"),
        ("silent", "description"),
        ("silent", "parameters"),
        ("silent", "timeout"),
    }
    assert found["fails", "result"][1].startswith(
        "a call without input failed: ValueError: it broke"
    )
    assert found["shut", "result"][1].startswith("not called: shut is blocked")
    assert {name for name, check in found if check == "result"} == {"fine", "fails", "shut"}
    assert done.err.startswith("called fine\n")
    assert done.err.count("called") == 1
    assert "\x1b" not in cli("tools", "test", "tools.py").out


def test_invalid_function_does_not_hide_the_others(cli, project: Project) -> None:
    project.write(
        "tools.py",
        "def bad(x):\n    '''No hints.'''\n\n\ndef good() -> str:\n    '''Good.'''\n    return ''\n\n\n"
        "def hook() -> list:\n    '''A hook.'''\n    return []\n\n\nhook.forge_impl = {}\n\n\n"
        "class Own: ...\n\n\ndef unsound(x: Own): ...\n",
    )
    found = rows(cli("tools", "test", "./tools.py", "--json").out)
    assert {name for name, _ in found} == {"bad", "good", "unsound"}
    assert [each for each, (ok, _) in found.items() if not ok] == [
        ("bad", "loads"),
        ("unsound", "loads"),
    ]
    assert "'bad' cannot be a tool: " in found["bad", "loads"][1]
    assert found["unsound", "loads"][1].startswith(
        "toolsets.custom: the tool 'unsound' is unsound: "
    )


POINTS = """
from typing import Annotated, NamedTuple
from pydantic import Field
class Point(NamedTuple):
    x: int
def plot(at: Annotated[Point, Field(description="Where")]) -> int:
    "Plot."
    return at.x
"""


def test_named_tuple_may_refuse_a_value(cli, project: Project) -> None:
    project.write("tools.py", POINTS)
    done = cli("tools", "test", "./tools.py")
    assert (done.code, done.out) == (
        0,
        "ok      plot: schema, description, parameters, timeout, input\n",
    )


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import nothing_like_it\n", "tools.py:1:1: cannot be imported: ModuleNotFoundError"),
        ("def f(:\n", "tools.py:1:7: cannot be imported: SyntaxError"),
        ("x = 1\n", "no tools"),
    ],
)
def test_module_that_does_not_load_is_reported(cli, project: Project, text: str, said: str) -> None:
    project.write("tools.py", text)
    done = cli("tools", "test", "tools.py")
    assert done.code == 1
    assert done.out.startswith("FAILED  tools.py: loads: ")
    assert said in done.out


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ["filesystem", "shell", "plan", "memory", "executables"])
def test_builtin_tools_pass_all_checks(cli, name: str) -> None:
    done = cli("tools", "test", name)
    assert (done.code, done.err) == (0, ""), done.out


def test_broken_plugin_does_not_hide_another(project: Project, install) -> None:
    good = (
        "from forge_cli import Toolset, hookimpl, tool\n\n\nclass Weather(Toolset):\n    name = 'weather'\n\n"
        "    @tool\n    def forecast(self, place: str) -> str:\n        '''Say how it will be.'''\n"
        "        return place\n\n\n@hookimpl\ndef forge_toolsets():\n    return [Weather]\n"
    )
    site = install("forge-tools-weather", "weather_tools", good, "weather = weather_tools")
    install(
        "forge-tools-broken",
        "broken_tools",
        "raise RuntimeError('no library')",
        "broken = broken_tools",
    )
    env = {"PYTHONPATH": str(site)}
    done = project.forge("tools", "test", "weather", env=env)
    assert done.returncode == 1
    assert "FAILED  forecast: parameters: place: no description" in done.stdout
    done = project.forge("tools", "test", "broken", env=env)
    assert done.returncode == 1
    assert done.stdout.startswith(
        "FAILED  broken: loads: the plugin 'broken' of forge-tools-broken 1.2 cannot be loaded"
    )


@pytest.mark.parametrize(
    ("target", "hint"),
    [
        ("filesytem", "did you mean 'filesystem'?"),
        ("great", "did you mean 'greet'?"),
        ("./tool.py", "did you mean 'tools.py'?"),
        ("nothing/like/it", "there are: greet, "),
    ],
)
def test_missing_target_is_an_error(cli, project: Project, write, target: str, hint: str) -> None:
    write("greet", "echo\n")
    project.write("tools.py", "")
    done = cli("tools", "test", target)
    assert (done.code, done.out) == (2, "")
    first, second = done.err.splitlines()
    assert first == f"forge: there is no tool, toolset, worker or file '{target}'"
    assert second.startswith(f"  {hint}")


def test_invalid_targets_are_errors(cli, project: Project) -> None:
    done = cli("tools", "test", "custom")
    assert (done.code, done.out) == (2, "")
    assert "'custom' has no tools without settings" in done.err
    assert "give the path of its tools.py" in done.err
    done = cli("tools", "test", ".")
    problem = f"forge: {project.folder} has neither tool.yaml nor worker.yaml"
    assert (done.code, done.err.splitlines()[0]) == (2, problem)


def test_tools_test_works_without_a_default_zone(cli, project: Project, write, monkeypatch) -> None:
    write("greet", "echo hello\n", "examples: [{expect: {stdout_contains: hello}}]")
    monkeypatch.setenv("HOME", str(project.folder))
    assert cli("tools", "test", "greet").code == 0


def test_tools_test_excludes_what_tools_print(project: Project) -> None:
    text = "from forge_cli import tool\n\nprint('imported')\n\n\n@tool(read_only=True)\ndef say() -> str:\n"
    project.write("tools.py", f"{text}    '''Say it.'''\n    print('called')\n    return ''\n")
    done = project.forge("tools", "test", "tools.py", "--json")
    assert done.returncode == 0
    assert len(json.loads(done.stdout)) == 6
    assert set(done.stderr.split()) == {"imported", "called"}


WORKER = """
name: w
toolsets:
  filesystem: {tools: [list_files]}
  custom: {module: ./tools.py, tools: [look, odd, endless, twice], approval: {tools: {look: blocked}}}
"""
ODD = """
from forge_cli import ToolError, tool


@tool(read_only=True)
def look() -> str:
    '''Look, and be blocked.'''
    return ""


@tool(read_only=True)
def odd() -> dict:
    '''Give what cannot be written down.'''
    return {"all": [1, {"deep": object()}]}


@tool(read_only=True)
def endless() -> float:
    '''Give what is not a number.'''
    return float("nan")


@tool(read_only=True)
def twice() -> str:
    '''Say why it does not work here.'''
    raise ToolError("there is nothing to see")
"""


@pytest.mark.few(1)
@pytest.mark.parametrize("argv", [["."], ["worker.yaml"], ["--worker", "."]], ids=" ".join)
def test_worker_can_be_tested(cli, project: Project, argv: list[str]) -> None:
    project.write("worker.yaml", WORKER)
    project.write("tools.py", ODD)
    done = cli("tools", "test", *argv, "--json")
    found = rows(done.out)
    assert done.code == 1, done.err
    assert {tool for tool, _ in found} == {"list_files", "look", "odd", "endless", "twice"}
    assert found["list_files", "result"] == (True, "")
    assert found["look", "result"][0]
    assert found["look", "result"][1].startswith("not called: ")
    problem = "its result has a value of the type object in it, which JSON cannot represent"
    assert found["odd", "result"] == (False, problem)
    assert found["endless", "result"] == (
        False,
        "its result has nan in it, which JSON cannot represent",
    )
    assert found["twice", "result"] == (True, "it says: there is nothing to see")


def test_tools_test_checks_one_toolset_of_a_worker(cli, project: Project) -> None:
    project.write("worker.yaml", "name: w\ntoolsets: {filesystem: {tools: [list_files]}}\n")
    done = cli("tools", "test", "filesystem", "--worker", "worker.yaml")
    assert (done.code, done.out) == (
        0,
        "ok      list_files: schema, description, parameters, timeout, input, result\n",
    )
    done = cli("tools", "test", "filesytem", "--worker", "worker.yaml")
    assert (done.code, done.err) == (
        2,
        "forge: w has no toolset 'filesytem'\n  did you mean 'filesystem'?\n",
    )


def test_worker_can_be_tested_by_name(cli, project: Project) -> None:
    done = cli("tools", "test", "writer")
    assert done.code == 0, done.out
    assert "ok      read_file: " in done.out


def test_unreadable_worker_is_an_error(cli, project: Project) -> None:
    project.write("worker.yaml", "name: w\ntoolsets: {shel: {}}\n")
    done = cli("tools", "test", "worker.yaml")
    assert done.code == 1
    assert "FAILED  worker.yaml: loads: " in done.out


@pytest.mark.long
@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["git", "web"])
def test_plugins_of_this_repository_pass_in_any_folder(project: Project, name: str) -> None:
    """Without a repository, git or a zone, tools report that, which is correct."""
    programs = project.folder / "bin"
    programs.mkdir()
    for program in ("bash", "bwrap"):
        if found := shutil.which(program):
            (programs / program).symlink_to(found)
    env = {"PATH": str(programs), "FORGE_HOME": str(project.home), "HOME": str(project.home)}
    argv = [sys.executable, "-m", "forge_cli", "tools", "test", name]
    done = subprocess.run(
        argv, cwd="/", env=env, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr

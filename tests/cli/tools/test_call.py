"""``forge tools call``: reserved words are forge's, all others are the tool's.

Covers forge_cli.cli.tools.call, forge_cli.engine.runtime.without_model.
"""

import json

import pytest

from forge_cli.testing import Project

W = ("--worker", "worker.yaml")


@pytest.mark.parametrize(
    "words",
    [
        ["text=hi", "times=2", "loud=true"],
        ["--text", "hi", "--times", "2", "--loud", "true"],
        ["--text=hi", "--times=2", "--loud"],
        ["--loud", "--text", "hi", "times=2"],
        ["--loud", "text=hi", "times=2"],
        ["--json-input", '{"text": "hi", "times": 2, "loud": true}'],
        ['--json-input={"text": "no", "loud": true}', "text=hi", "--times=2"],
        ["--", "text=hi", "--times", "2", "--loud"],
    ],
    ids=" ".join,
)
def test_args_can_be_given_in_several_forms(cli, tester, words: list[str]) -> None:
    done = cli("tools", "call", "echo", *W, "-y", *words)
    assert (done.code, done.out, done.err) == (0, "HIHI\n", "")


@pytest.mark.parametrize(
    ("words", "rows", "ratio"),
    [
        (["rows=[1, -2]", "ratio=-0.5"], [1, -2], -0.5),
        (["rows=1", "rows=-2", "--ratio", "-0.5"], [1, -2], -0.5),
        (["--rows", "-1", "--ratio=1e3"], [-1], 1000.0),
    ],
    ids=lambda value: (
        " ".join(value) if isinstance(value, list) and isinstance(value[0], str) else None
    ),
)
def test_lists_and_negative_numbers_are_parsed(
    cli, tester, words: list[str], rows: list[int], ratio: float
) -> None:
    done = cli("tools", "call", "report", *W, "--json", *words)
    assert done.code == 0
    assert json.loads(done.out)["data"] == [{"row": row, "ratio": ratio} for row in rows]


@pytest.mark.parametrize(
    "words",
    [
        ["worker=me", "json=true", "timeout=3", "y=no", "--read-only", "true"],
        ["worker=me", "--timeout", "3", "--read-only", "--", "--json", "--y", "no"],
        ["--", "--worker", "me", "--json", "--timeout=3", "--y=no", "--read_only"],
        [
            "--json-input",
            '{"worker": "me", "json": true, "timeout": 3, "y": "no", "read_only": true}',
        ],
    ],
    ids=" ".join,
)
def test_args_may_be_named_like_options_of_forge(cli, tester, words: list[str]) -> None:
    done = cli("tools", "call", "reserved", *W, "--json", *words)
    assert done.code == 0
    assert json.loads(done.out) == {
        "kind": "json",
        "data": {"worker": "me", "json": True, "timeout": 3.0, "y": "no", "read_only": True},
    }


def test_tool_name_may_be_anywhere_before_its_arguments(cli, tester) -> None:
    assert cli("tools", "call", *W, "-y", "echo", "text=a").out == "a\n"
    assert cli("tools", "call", *W, "-y", "--", "echo", "text=a").out == "a\n"


@pytest.mark.few(8)
@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        ([], 2, "name the tool first\n  forge tools call NAME KEY=VALUE"),
        (["--text", "x"], 2, "name the tool first"),
        (
            ["echo", "-w", "worker.yaml"],
            2,
            "there is no option -w\n  --worker WORKER names the worker",
        ),
        (["echo", *W, "--approval-mode"], 2, "--approval-mode needs a value"),
        (["echo", "--worker"], 2, "--worker needs a value"),
        (["echo", *W, "--approval-mode", "yolo"], 2, "use interactive, approve_all or auto_deny"),
        (["echo", *W, "-y", "--approval-mode", "auto_deny", "text=a"], 2, "contradict each other"),
        (["echo", *W, "word"], 2, "nor --KEY VALUE\n  forge tools show echo names its parameters"),
        (
            ["echo", *W, "text=a", "times=x"],
            2,
            "invalid input for echo: times: must be an integer, got 'x'",
        ),
        (["echo", *W, "text=a", "nosuch=1"], 2, "nosuch"),
        (["echo", *W], 2, "text"),
        (["echo", *W, "--json-input", "{"], 2, "--json-input is not JSON"),
        (["echo", *W, "--json-input", "[1]"], 2, "--json-input must be a JSON object"),
        (["echo", *W, "text=a", "-C", "nowhere"], 2, "-C nowhere: there is no such folder"),
        (["echo", *W, "-i"], 2, "-i asks questions, which needs a terminal"),
        (["echo", "--worker", "nosuch.yaml"], 3, "nosuch.yaml: no such file"),
        (["echo", *W, "text=a"], 4, "the worker says ask (worker.yaml:18:21)\n  -y approves it\n"),
        (["echo", *W, "text=a", "--approval-mode", "auto_deny"], 4, "approval mode auto_deny"),
        (
            ["delete_file", *W, "-y", "path=/notes/x"],
            4,
            "delete_file is blocked: zone 'notes' blocks delete",
        ),
        (["write_file", *W, "-y", "path=/src/x", "content=y"], 1, "zone 'src' is read-only"),
        (["boom", *W], 1, "ValueError: it broke\\x1b[2J (tools.py:43)\n"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_invalid_call_is_reported(cli, tester, words: list[str], code: int, sentence: str) -> None:
    done = cli("tools", "call", *words)
    assert (done.code, done.out) == (code, "")
    assert sentence in done.err
    assert done.err.startswith("forge: ")
    assert "\x1b" not in done.err


def test_operator_may_call_manual_tools_and_is_asked(cli, tester) -> None:
    assert cli("tools", "call", "deploy", *W).code == 4
    assert cli("tools", "call", "deploy", *W, "-y").out == "deployed\n"


def test_child_worker_cannot_be_called_as_a_tool(cli, project) -> None:
    project.write("boss.yaml", "name: boss\ntoolsets: {workers: {allowed: [./kid.yaml]}}\n")
    kid = project.write("kid.yaml", "name: kid\n")
    done = cli("tools", "call", "kid", "--worker", "boss.yaml", "input=hi", "-y")
    assert done.code == 1
    assert done.err.endswith(f"so it cannot delegate; to do the task, run: forge run {kid}\n")
    assert "allowed (a list of at least 1 item, required)" in cli("tools", "show", "workers").out


def test_json_prints_the_value_of_a_failure_too(cli, tester) -> None:
    done = cli("tools", "call", "boom", *W, "--json")
    assert done.code == 1
    assert json.loads(done.out) == {
        "kind": "text",
        "content": "ValueError: it broke\x1b[2J (tools.py:43)",
    }


def test_file_content_is_printed_unchanged(cli, tester) -> None:
    tester.write("src/odd", "tab\tform\ffeed \x1b[31m\n")
    assert (
        cli("tools", "call", "read_file", *W, "path=/src/odd").out == "tab\tform\ffeed \x1b[31m\n"
    )
    assert cli("tools", "call", "read_file", *W, "path=/src/a.txt").out == "one\ntwo\n"


def test_table_and_diff_are_drawn_for_people(cli, tester) -> None:
    done = cli("tools", "call", "report", *W, "rows=7")
    assert [line.split() for line in done.out.splitlines()] == [
        ["a", "report"],
        ["row", "ratio"],
        ["7", "0.5"],
    ]
    done = cli("tools", "call", "write_file", *W, "path=/notes/new", "content=hello")
    assert "+hello" in done.out
    assert "\x1b" not in done.out


def test_directory_flag_applies(cli, tester) -> None:
    tester.write("sub/src/inner", "in there")
    assert cli("tools", "call", "read_file", *W, "-C", "sub", "path=/src/inner").out == "in there\n"
    assert cli("tools", "call", "read_file", "--cd=sub", "path=src/inner").out == "in there\n"


def test_approval_mode_of_the_user_config_applies(cli, tester) -> None:
    tester.home.mkdir()
    (tester.home / "config.yaml").write_text("approval: {mode: approve_all}")
    assert cli("tools", "call", "echo", *W, "text=a").out == "a\n"
    tester.write("worker.yaml", tester.read("worker.yaml") + "approval: {mode: auto_deny}\n")
    assert cli("tools", "call", "echo", *W, "text=a").code == 4


def test_printed_text_of_a_tool_is_not_its_result(tester) -> None:
    done = tester.forge("tools", "call", "chatty", *W, "--json")
    assert json.loads(done.stdout) == {"kind": "text", "content": "quiet words"}
    assert sorted(done.stderr.splitlines()) == ["from a child", "printed", "written"]


def test_broken_tools_are_reported_only_where_relevant(cli, tester) -> None:
    for name in ("bad", "worse"):
        (tester.home / "tools" / name).mkdir(parents=True)
        (tester.home / "tools" / name / "tool.yaml").write_text(f"name: {name}\n")
    tester.write(
        "all.yaml",
        "name: all\nmodel: script:script.yaml\ntoolsets: {filesystem: {}, executables: {}}\n",
    )
    assert "left out" not in cli("tools", "call", "list_files").err
    for words in ((), ("--worker", "all.yaml")):
        done = cli("tools", "call", "bad", *words)
        assert (done.code, "description: this key is required" in done.err) == (2, True)
        assert "worse" not in done.err
    said = f"2 invalid tools in {tester.home}/tools; to see why, run: forge tools list\n"
    assert cli("worker", "check", "all.yaml").err.endswith(f"warning: {said}")
    assert cli("run", "all.yaml", "go").err.count("2 invalid tools") == 1


def test_help_after_two_dashes_belongs_to_the_tool(cli, tester) -> None:
    assert cli("tools", "call", "--help").out.startswith("Usage: forge tools call [OPTIONS] NAME")
    done = cli("tools", "call", "echo", *W, "--", "--help")
    assert (done.code, done.out) == (2, "")
    assert "help" in done.err


@pytest.mark.parametrize("name", ["ReadFile", "read-file", "READ_FILE"])
def test_tool_name_matches_without_case_and_separators(cli, project: Project, name: str) -> None:
    project.write("notes.txt", "hello\n")
    done = cli("tools", "call", name, "path=notes.txt", "-y")
    assert (done.code, done.out) == (0, "hello\n"), done.err
    assert cli("tools", "show", name).out.startswith("name: read_file\n")

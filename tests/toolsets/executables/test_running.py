"""Programs as tools: their calls and results.

Covers forge_cli.toolsets.executables.registry, forge_cli.toolsets.executables.run.
"""

import json
import os
import shutil
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from forge_cli import InterruptSignal
from forge_cli.core.events import StatusEvent
from forge_cli.core.media import DisplayHints
from forge_cli.core.results import Custom, Diff, FileContent, FileList, Json, ResultValue, Text
from forge_cli.record.line import Line
from forge_cli.testing import Project, Seen, call, calls
from forge_cli.toolsets.executables.manifest import ITEM_LIMIT
from forge_cli.toolsets.executables.run import own_result
from tests.support.rows import each_row

WriteTool = Callable[..., Path]
SHOW = 'for word in "$@"; do printf "[%s]\\n" "$word"; done\n'


def value(seen: Seen, index: int = -1) -> Custom:
    found = seen.outcomes[index].value
    assert isinstance(found, Custom), found
    return found


def warnings(seen: Seen) -> list[str]:
    return [event.message for event in seen.of(StatusEvent) if event.level == "warning"]


def test_arguments_are_never_parsed_by_a_shell(worker: Project, write_tool: WriteTool) -> None:
    write_tool(
        "show",
        SHOW,
        "parameters:",
        "  - {name: text, required: true}",
        "  - {name: count, type: integer, default: 3}",
        "  - {name: loud, type: boolean}",
        "  - {name: unsaid}",
    )
    seen = worker.run(calls(call("show", text="a b; $(touch x) 'q'\n\"", loud=True)), "done")
    data = value(seen).data
    assert data["stdout"] == "[--text=a b; $(touch x) 'q'\n\"]\n[--count=3]\n[--loud=true]\n"
    assert (data["exitCode"], data["signal"], data["timedOut"], data["stderr"]) == (
        0,
        None,
        False,
        "",
    )
    assert value(seen).kind == "executable.run"
    assert not (worker.folder / "x").exists()


def test_interrupted_program_keeps_its_output(worker: Project, write_tool: WriteTool) -> None:
    write_tool("slow", "echo one; echo up > gate; sleep 60; echo never\n")
    os.mkfifo(worker.folder / "gate")
    signal = InterruptSignal()

    def wait_and_interrupt() -> None:
        (worker.folder / "gate").read_text()
        signal.interrupt()

    threading.Thread(target=wait_and_interrupt, daemon=True).start()
    seen = worker.run(calls(call("slow")), "never", interrupt_signal=signal)
    assert (seen.statuses, value(seen).data["stdout"]) == (["interrupted"], "one\n")
    assert value(seen).text() == '{"type": "interrupted"}\none\n'


def test_direct_and_proxy_calls_are_equivalent(worker: Project, write_tool: WriteTool) -> None:
    write_tool("show", SHOW, "parameters: [{name: text}, {name: n, type: integer}]")
    run = call("run_custom_tool", tool_name="show", arguments={"text": 7, "n": "10"})
    seen = worker.run(calls(call("show", text=7, n="10"), run), "done")
    assert seen.statuses == ["success", "success"]
    assert [value(seen, index).data["stdout"] for index in (0, 1)] == ["[--text=7]\n[--n=10]\n"] * 2


def test_invalid_input_is_refused_without_a_question(
    project: Project, write_tool: WriteTool
) -> None:
    project.write("worker.yaml", "name: w\ninstructions: Work.\ntoolsets: {executables: {}}\n")
    write_tool(
        "show", "touch called", "parameters: [{name: n, type: integer, required: true}, {name: s}]"
    )
    wrong = [{"n": "x"}, {}, {"n": 1, "m": 2}, {"n": 1, "s": "a\0b"}, {"n": 1, "s": "x" * 131_072}]
    made = [call("show", **args) for args in wrong]
    made += [call("run_custom_tool", tool_name="show", arguments=args) for args in wrong]
    seen = project.run(calls(*made), "done", answers=[])
    assert seen.statuses == ["invalid"] * 10
    assert not (project.folder / "called").exists()


def test_longest_argument_is_passed_and_a_longer_one_refused(
    worker: Project, write_tool: WriteTool
) -> None:
    write_tool("count", 'printf %s "$1" | wc -c', "parameters: [{name: s}]")
    room = ITEM_LIMIT - len("--s=")
    made = [
        call("count", s="x" * room),
        call("count", s="x" * (room + 1)),
        call("count", s="é" * (room // 2 + 1)),
    ]
    seen = worker.run(calls(*made), "done")
    assert seen.statuses == ["success", "invalid", "invalid"]
    assert value(seen, 0).data["stdout"].strip() == str(ITEM_LIMIT)
    assert "an argument has at most 131071; write it to a file and pass the path" in (
        seen.outcomes[1].error or ""
    )


def test_overlong_command_line_is_an_error_of_the_call(
    worker: Project, write_tool: WriteTool
) -> None:
    names = [f"p{index}" for index in range(40)]
    write_tool("many", SHOW, f"parameters: [{', '.join(f'{{name: {name}}}' for name in names)}]")
    seen = worker.run(calls(call("many", **dict.fromkeys(names, "x" * 130000))), "done")
    assert seen.statuses == ["error"]
    assert "too long" in (seen.outcomes[0].error or "")


def test_failed_program_returns_its_output(worker: Project, write_tool: WriteTool) -> None:
    write_tool("fail", "echo out; echo err >&2; exit 3")
    seen = worker.run(calls(call("fail")), "done")
    data = value(seen).data
    assert seen.statuses == ["error"]
    assert (data["exitCode"], data["stdout"], data["stderr"]) == (3, "out\n", "err\n")


def test_timeout_stops_a_program_and_keeps_its_output(
    worker: Project, write_tool: WriteTool
) -> None:
    write_tool("slow", "echo begun; sleep 60", "timeout: 0.5")
    write_tool("slower", "echo begun; sleep 60")
    again = call("run_custom_tool", tool_name="slower", timeout=0.5)
    seen = worker.run(calls(call("slow"), again), "done")
    assert seen.statuses == ["timeout", "timeout"]
    assert [value(seen, index).data["timedOut"] for index in (0, 1)] == [True, True]
    assert value(seen).data["stdout"] == "begun\n"
    assert value(seen).summary == "stopped after 0.5 seconds"


def test_program_has_its_documented_environment(
    worker: Project, write_tool: WriteTool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "secret")
    monkeypatch.setenv("WANTED", "yes")
    options = "{env: [WANTED], approval: {default: preApproved}}"
    worker.write("worker.yaml", f"name: w\ninstructions: x\ntoolsets:\n  executables: {options}\n")
    source = "import json, os, sys\nprint(json.dumps([dict(os.environ), os.getcwd(), sys.stdin.read()]))\n"
    folder = write_tool("look", source, suffix=".py")
    env, cwd, stdin = json.loads(value(worker.run(calls(call("look")), "done")).data["stdout"])
    assert (env["FORGE_WORKSPACE"], env["FORGE_TOOL_DIR"], env["WANTED"]) == (
        str(worker.folder),
        str(folder),
        "yes",
    )
    assert "SOME_API_KEY" not in env
    assert (cwd, stdin) == (str(worker.folder), "")


def test_program_can_read_but_not_change_its_own_folder(
    worker: Project, write_tool: WriteTool
) -> None:
    folder = write_tool(
        "self",
        'cat "$FORGE_TOOL_DIR/data.txt"; echo x 2>/dev/null > "$FORGE_TOOL_DIR/self.sh" || true',
    )
    (folder / "data.txt").write_text("mine")
    before = (folder / "self.sh").read_text()
    seen = worker.run(calls(call("self")), "done")
    assert value(seen).data["stdout"] == "mine"
    if not warnings(seen):
        assert (folder / "self.sh").read_text() == before


def test_program_may_describe_its_own_result(worker: Project, write_tool: WriteTool) -> None:
    write_tool(
        "rich",
        """echo thinking; echo '{"kind": "weather.now", "data": {"c": 21}, "summary": "Warm"}'""",
    )
    write_tool("wrong", """echo '{"kind": "weather.now", "data": 1}'; exit 1""")
    write_tool("unfit", """echo '{"kind": "text", "contents": "hi"}'""")
    seen = worker.run(calls(call("rich"), call("wrong"), call("unfit")), "done")
    assert (value(seen, 0).kind, value(seen, 0).data, value(seen, 0).summary) == (
        "weather.now",
        {"c": 21},
        "Warm",
    )
    assert value(seen, 0).text() == 'thinking\nWarm\n{"c": 21}'
    assert value(seen, 1).kind == "executable.run"
    assert seen.outcomes[2].value == Json({"kind": "text", "contents": "hi"})
    assert "unfit: its result" in [said.partition(" names")[0] for said in warnings(seen)]


@pytest.mark.parametrize(
    ("said", "result"),
    [
        ('{"kind": "text", "content": "hi"}', Text("hi")),
        ('first\n{"kind": "text", "content": "hi"}\n', Text("first\nhi")),
        (
            '{"kind": "text", "content": "# hi", "display": {"preferredView": "markdown"}}',
            Text("# hi", DisplayHints("markdown")),
        ),
        ('noise\n{"kind": "json", "data": {"n": [1, null]}}', Json({"n": [1, None]})),
        (
            '{"kind": "diff", "path": "/a", "original": "x", "modified": "y"}',
            Diff.of("/a", "x", "y"),
        ),
        (
            '{"kind": "diff", "path": "/a", "original": null, "modified": "y"}',
            Diff.of("/a", None, "y"),
        ),
        (
            '{"kind": "file_content", "path": "/a", "content": "é", "size": 99}',
            FileContent("/a", "é", 2),
        ),
        (
            '{"kind": "file_list", "path": "/a", "files": ["b", "c/"]}',
            FileList.of("/a", ("b", "c/")),
        ),
        ('{"kind": "weather.now", "data": "\\ud800"}', Custom("weather.now", "\\ud800")),
    ],
)
def test_program_may_use_the_documented_result_kinds(said: str, result: ResultValue) -> None:
    assert own_result(said) == result


@each_row(
    "said",
    [
        "",
        "hi",
        "{",
        "[1]",
        '{"data": 1}',
        '{"kind": 1, "data": 1}',
        '{"kind": "Bad Kind", "data": 1}',
        '{"kind": "weather.now"}',
        '{"kind": "executable.run", "data": {"exitCode": 0}}',
        '{"kind": "weather.now", "data": 1}\nmore',
        '{"a":' * 5000,
    ],
)
def test_output_that_describes_no_result_is_text(said: str) -> None:
    assert own_result(said) is None


def test_path_is_virtual_in_the_call_and_real_for_the_program(
    worker: Project, write_tool: WriteTool, tmp_path: Path
) -> None:
    write_tool(
        "count", 'cat "${1#--file=}"', "parameters: [{name: file, type: path, required: true}]"
    )
    write_tool("list", 'ls "${1#--at=}"', "parameters: [{name: at, type: path, required: true}]")
    worker.write("data/a.txt", "content")
    (tmp_path / "secret").write_text("secret")
    (worker.folder / "link").symlink_to(tmp_path / "secret")
    made = [
        call("count", file=path)
        for path in ("/workspace/data/a.txt", "data/a.txt", "/workspace/link")
    ]
    seen = worker.run(
        calls(*made, call("list", at="/workspace/data"), call("count", file="/etc/passwd")), "done"
    )
    assert seen.statuses == ["success", "success", "error", "success", "error"]
    assert [value(seen, index).data["stdout"] for index in (0, 1, 3)] == [
        "content",
        "content",
        "a.txt\n",
    ]


def test_programs_of_other_languages_are_started_directly(
    worker: Project, write_tool: WriteTool
) -> None:
    write_tool("own", f"#!{sys.executable}\nprint('by itself')\n", suffix="", mode=0o755)
    seen = worker.run(calls(call("own")), "done")
    assert value(seen).data["stdout"] == "by itself\n"


def test_python_ignores_unapproved_bytecode(worker: Project, write_tool: WriteTool) -> None:
    folder = write_tool("main", "import helper\nprint(helper.WORD)\n", suffix=".py")
    helper = folder / "helper.py"
    helper.write_text("WORD = 'bad!'\n")
    os.utime(helper, (1e9, 1e9))
    os.system(f"cd {folder} && {sys.executable} -c 'import helper'")
    helper.write_text("WORD = 'good'\n")
    os.utime(helper, (1e9, 1e9))
    seen = worker.run(calls(call("main")), "done")
    assert value(seen).data["stdout"] == "good\n"


def test_invalid_tool_is_missing_and_reported_once(worker: Project, write_tool: WriteTool) -> None:
    folder = write_tool("bad", "echo 1", "timeout: soon")
    write_tool("good", "echo 1")
    seen = worker.run(calls(call("bad")), calls(call("good")), "done")
    assert seen.statuses == ["not_found", "success"]
    told = [warning for warning in warnings(seen) if "bad" in warning]
    assert len(told) == 1
    assert told[0].startswith(f"{folder}/tool.yaml:4:10: timeout: must be a number")


def test_invalid_tool_that_the_worker_does_not_list_is_not_reported(
    project: Project, write_tool: WriteTool
) -> None:
    project.write(
        "worker.yaml", "name: w\ninstructions: x\ntoolsets:\n  executables: {tools: [good]}\n"
    )
    write_tool("bad", "echo 1", "timeout: soon")
    write_tool("good", "echo 1")
    assert [warning for warning in warnings(project.run("done")) if "bad" in warning] == []


def test_tool_changed_during_a_turn_is_not_called_before_the_next(
    worker: Project, write_tool: WriteTool
) -> None:
    """The files at the start of a turn are the judged ones."""
    edited, gone = write_tool("edited", "echo old"), write_tool("gone", "echo old")
    write_tool("other", "echo other")

    def meddle(line: Line) -> None:
        if line.type == "toolStarted":
            (edited / "edited.sh").write_text("echo new")
            (gone / "tool.yaml").unlink(missing_ok=True)
            write_tool("late", "echo late")

    made = [call("edited"), call("gone"), call("other"), call("late")]
    seen = worker.run(calls(*made), calls(*made), "done", sinks=(meddle,))
    first, second = seen.statuses[:4], seen.statuses[4:]
    assert first == ["error", "error", "success", "not_found"]
    assert second == ["success", "not_found", "success", "success"]
    assert "changed during this turn" in (seen.outcomes[0].error or "")
    assert "no tool.yaml;" in (seen.outcomes[1].error or "")
    assert value(seen, 4).data["stdout"] == "new\n"


def test_tool_deleted_while_running_ends_normally(worker: Project, write_tool: WriteTool) -> None:
    folder = write_tool("slow", "echo > begun; cat go; echo ended")
    for name in ("begun", "go"):
        os.mkfifo(worker.folder / name)

    def delete() -> None:
        (worker.folder / "begun").read_text()
        shutil.rmtree(folder)
        (worker.folder / "go").write_text("went on\n")

    thread = threading.Thread(target=delete, daemon=True)
    thread.start()
    again = [call("slow"), call("run_custom_tool", tool_name="slow")]
    seen = worker.run(calls(call("slow"), call("slow")), calls(*again), "done")
    thread.join(timeout=60)
    assert seen.statuses == ["success", "error", "not_found", "error"]
    assert value(seen, 0).data["stdout"] == "went on\nended\n"
    assert "was deleted" in (seen.outcomes[1].error or "")
    assert "there is no tool 'slow'" in (seen.outcomes[2].error or "")
    assert "there is no tool 'slow'" in (seen.outcomes[3].error or "")

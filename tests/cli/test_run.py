"""``forge run``: standard output, standard error and exit codes.

Covers forge_cli.cli.output.
"""

import json
import os
import subprocess
import sys

import pytest

from forge_cli.testing import Project
from tests.models.openai.server import ChatServer, Reply

KEYS = [
    "status",
    "exitCode",
    "response",
    "output",
    "sessionId",
    "worker",
    "model",
    "turns",
    "toolCalls",
    "denials",
    "usage",
    "cost",
    "durationMs",
    "draft",
]

HEADLESS = "echo was not called; denied: forge could not ask (not interactive)"


def script(project: Project, *turns: str) -> None:
    project.write("script.yaml", "turns:\n" + "".join(f"  - {turn}\n" for turn in turns))


def test_piped_output_has_the_last_answer_once(cli, tester) -> None:
    done = cli("run", "worker.yaml", "hello")
    assert (done.code, done.out) == (0, "Last words: hello\n")
    assert done.err.splitlines() == [
        "the model is scripted: its words come from script.yaml, and nothing leaves this machine",
        done.err.splitlines()[-1],
    ]
    assert done.err.splitlines()[-1].startswith("completed · 2 turns · 1 call · ")


@pytest.mark.parametrize("flag", ["-p", "--print"])
def test_print_writes_only_the_answer(cli, tester, flag: str) -> None:
    assert cli("run", "worker.yaml", "hello", flag) == (
        done := cli("run", ".", "hello", "--trace", "quiet")
    )
    assert (done.code, done.out, done.err) == (0, "Last words: hello\n", "")


def test_answer_that_ends_its_line_gets_no_second_newline(cli, tester) -> None:
    script(tester, '{text: "a line\\n"}')
    assert cli("run", "worker.yaml", "go", "-p").out == "a line\n"


def test_empty_answer_prints_nothing(cli, tester) -> None:
    script(tester, '{text: ""}')
    done = cli("run", "worker.yaml", "go", "-p")
    assert (done.code, done.out, done.err) == (0, "", "")


def test_json_is_one_object(cli, tester) -> None:
    done = cli("run", "worker.yaml", "hello", "--output-format", "json")
    found = json.loads(done.out)
    assert list(found) == KEYS
    assert done.out.count("\n") == 1
    assert found == {
        "status": "completed",
        "exitCode": 0,
        "response": "Last words: hello",
        "output": None,
        "sessionId": found["sessionId"],
        "worker": "tester",
        "model": "script:script.yaml",
        "turns": 2,
        "toolCalls": 1,
        "denials": [],
        "usage": found["usage"],
        "cost": None,
        "durationMs": found["durationMs"],
        "draft": None,
    }
    assert isinstance(found["durationMs"], int)
    assert all(isinstance(tokens, int) for tokens in found["usage"].values())


@pytest.mark.parametrize("seconds", ["0.000001", "1"])
def test_empty_model_turn_has_no_answer_and_no_cost(
    cli, tester, server: ChatServer, seconds: str
) -> None:
    server.will(*[Reply(end="silence")] * 2)
    words = (
        "run",
        "worker.yaml",
        "hello",
        "-m",
        "openai:tiny",
        "--max-time",
        seconds,
        "-o",
        "answer",
    )
    found = json.loads(cli(*words, "--output-format", "json").out)
    assert (found["status"], found["response"], found["cost"]) == ("limit", "", None)
    done = cli(*words)
    assert (done.code, done.out, "$" in done.err) == (5, "", False)
    assert not (tester.folder / "answer").exists()


def test_answer_to_an_earlier_task_is_not_repeated(cli, tester) -> None:
    tester.write("mute.yaml", "turns: []")
    assert cli("run", "worker.yaml", "hello", "-p").out == "Last words: hello\n"
    done = cli("run", "worker.yaml", "more", "-p", "-c", "-m", "script:mute.yaml")
    assert (done.code, done.out) == (1, "")


def test_result_is_the_same_object_in_both_formats_also_with_a_secret(
    cli, tester, monkeypatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "very-much-a-secret")
    script(
        tester,
        "{calls: [{tool: echo, input: {text: very-much-a-secret}}]}",
        "{text: '{task} {result}'}",
    )
    told = json.loads(
        cli("run", "worker.yaml", "very-much-a-secret", "--output-format", "json").out
    )
    last = json.loads(
        cli("run", "worker.yaml", "very-much-a-secret", "--json").out.splitlines()[-1]
    )["result"]
    for result in (told, last):
        del result["sessionId"], result["durationMs"]
    assert told == last
    assert told["denials"][0]["input"] == {"text": "[redacted:SOME_API_KEY]"}


def test_denials_are_counted_and_reported(cli, tester) -> None:
    script(
        tester,
        "{calls: [{tool: echo, input: {text: hi}}, {tool: delete_file, input: {path: /notes/x}}, {tool: nosuch}]}",
        "{text: done}",
    )
    done = cli("run", "worker.yaml", "go", "--output-format", "json")
    found = json.loads(done.out)
    assert (done.code, found["status"], found["exitCode"], found["toolCalls"]) == (
        0,
        "completed",
        0,
        3,
    )
    assert found["denials"] == [
        {
            "tool": "echo",
            "input": {"text": "hi"},
            "reason": f"{HEADLESS}; why it asked: the worker says ask (worker.yaml:18:21)",
            "by": "headless",
        },
        {
            "tool": "delete_file",
            "input": {"path": "/notes/x"},
            "reason": "delete_file is blocked: zone 'notes' blocks delete (worker.yaml:8:70)",
            "by": "rule",
        },
    ]
    assert "3 calls (2 refused)" in done.err


@pytest.mark.parametrize("flags", [["--json"], ["--output-format", "stream-json"]], ids=" ".join)
def test_stream_json_is_the_record_and_ends_with_the_result(cli, tester, flags: list[str]) -> None:
    done = cli("run", "worker.yaml", "hello", *flags)
    lines = [json.loads(line) for line in done.out.splitlines()]
    recorded = [line for line in lines if line["type"] != "streaming"]
    assert [line["seq"] for line in recorded] == list(range(1, len(recorded) + 1))
    assert [line["type"] for line in recorded] == [
        "sessionStart",
        "status",
        "manualToolsAvailable",
        "message",
        "turnStart",
        "message",
        "turnEnd",
        "toolStarted",
        "approvalDecided",
        "toolResult",
        "turnStart",
        "message",
        "turnEnd",
        "sessionEnd",
    ]
    assert lines[-1]["type"] == "sessionEnd"
    assert list(lines[-1]["result"]) == KEYS
    assert lines[-1]["result"]["response"] == "Last words: hello"
    assert {line["session"] for line in lines} == {lines[-1]["result"]["sessionId"]}
    assert all(
        "seq" not in line and "hash" not in line for line in lines if line["type"] == "streaming"
    )


@pytest.mark.parametrize("flag", ["--json", "-p"])
def test_text_printed_by_a_tool_never_reaches_standard_output(tester, flag: str) -> None:
    script(tester, "{calls: [{tool: chatty}]}", '{text: "{result}"}')
    tester.write("tools.py", tester.read("tools.py") + "\nprint('imported')\n")
    done = tester.forge("run", "worker.yaml", "go", flag)
    assert done.returncode == 0
    if flag == "-p":
        assert done.stdout == "quiet words\n"
    else:
        assert json.loads(done.stdout.splitlines()[-1])["result"]["response"] == "quiet words"
        assert all(isinstance(json.loads(line), dict) for line in done.stdout.splitlines())
    for printed in ("imported", "printed", "from a child", "written"):
        assert printed in done.stderr.splitlines()


def test_warnings_stay_out_of_stream_json(cli, tester) -> None:
    loose = "filesystem: {approval: {tools: {read_file: preApproved}}}"
    tester.write("worker.yaml", tester.read("worker.yaml").replace("filesystem: {}", loose))
    done = cli("run", "worker.yaml", "hello", "--json")
    assert done.code == 0
    assert all(isinstance(json.loads(line), dict) for line in done.out.splitlines())
    assert "warning: worker.yaml:" in done.err
    assert "decides by its arguments" in done.err


LOUD = """
import logging
import warnings

warnings.warn("old settings")

def look() -> str:
    warnings.warn("the index is stale", RuntimeWarning)
    logging.getLogger("weather.client").warning("the server is slow")
    logging.getLogger("weather.client").info("connected")
    return "sunny"
"""


@pytest.mark.parametrize("form", ["text", "json", "stream-json"])
def test_warnings_of_python_code_reach_a_headless_person(project: Project, form: str) -> None:
    project.write("loud.py", LOUD)
    project.write("script.yaml", "turns: [{calls: [{tool: look}]}, {text: done}]\n")
    custom = "custom: {module: ./loud.py, tools: [look], approval: {default: preApproved}}"
    project.write("worker.yaml", f"name: w\nmodel: script:script.yaml\ntoolsets: {{{custom}}}\n")
    done = project.forge("run", "worker.yaml", "go", "-p", "--output-format", form)
    assert done.returncode == 0
    for warning in (
        "UserWarning: old settings",
        "RuntimeWarning: the index is stale",
        "the server is slow",
    ):
        assert done.stderr.count(warning) == 1
        assert warning not in done.stdout
    assert "connected" not in done.stderr


@pytest.mark.long
def test_odd_characters_survive_every_format(tester) -> None:
    script(tester, r'{text: "caf\u00e9 \u2713 \U0001F600"}')
    latin = {"PYTHONIOENCODING": "latin-1", "LC_ALL": "C", "PYTHONUTF8": "0"}
    for words in (["-p"], ["--json"]):
        done = subprocess.run(
            [sys.executable, "-m", "forge_cli", "run", "worker.yaml", b"\xff task", *words],
            cwd=tester.folder,
            env={**os.environ, **latin},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "café ✓ 😀" in done.stdout.decode("utf-8")
        if "-p" not in words:
            assert all(isinstance(json.loads(line), dict) for line in done.stdout.splitlines())


def test_answer_is_also_written_to_a_file(cli, tester) -> None:
    done = cli("run", "worker.yaml", "hello", "-p", "-o", "answer.txt")
    assert (done.code, done.out) == (0, "Last words: hello\n")
    assert tester.read("answer.txt") == "Last words: hello\n"


def test_output_file_belongs_to_the_caller(cli, tester) -> None:
    tester.write("elsewhere/src/x", "")
    assert (
        cli("run", "worker.yaml", "hello", "-p", "-C", "elsewhere", "--output", "answer.txt").code
        == 0
    )
    assert tester.read("answer.txt") == "Last words: hello\n"


def test_output_file_needs_an_existing_folder(cli, tester) -> None:
    done = cli("run", "worker.yaml", "hello", "-o", "nowhere/answer.txt")
    assert (done.code, done.out) == (2, "")
    folder = tester.folder / "nowhere"
    assert (
        done.err
        == f"forge: -o nowhere/answer.txt: there is no folder {folder}\n  make it first: mkdir -p {folder}\n"
    )
    os.mkfifo(tester.folder / "pipe")
    not_regular = "that is not a regular file\n  name a file, or a new one"
    for file, told in {"src": "that is a folder; name a file in it", "pipe": not_regular}.items():
        done = cli("run", "worker.yaml", "hello", "-o", file)
        assert (done.code, done.out, done.err) == (2, "", f"forge: -o {file}: {told}\n")
    done = cli("run", "worker.yaml", "hello", "-o", "same.txt", "--record", "./same.txt")
    assert (done.code, done.out) == (2, "")
    assert done.err == "forge: -o and --record name the same file; name two different files\n"


@pytest.mark.parametrize("option", ["-o", "--record"])
def test_output_file_cannot_be_a_standard_stream(tester, option: str) -> None:
    logs = [tester.folder / "out.log", tester.folder / "err.log"]
    for file in ("/dev/stdout", "/dev/fd/2", "out.log"):
        logs[0].write_text("")
        logs[1].write_text("old line\n")
        with logs[0].open("a") as out, logs[1].open("a") as err:
            argv = [
                sys.executable,
                "-m",
                "forge_cli",
                "run",
                "worker.yaml",
                "hello",
                "-p",
                option,
                file,
            ]
            done = subprocess.run(
                argv, stdout=out, stderr=err, cwd=tester.folder, timeout=60, check=False
            )
        assert (done.returncode, logs[0].read_text()) == (2, "")
        assert (
            logs[1]
            .read_text()
            .startswith(f"old line\nforge: {option} {file}: standard output or error goes there\n")
        )


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize(
    ("turn", "code"), [("{text: words}", 1), ("{text: words, calls: [{tool: boom}]}", 5)]
)
def test_answer_that_cannot_be_stored_is_printed(cli, tester, turn: str, code: int) -> None:
    script(tester, turn)
    done = cli("run", "worker.yaml", "hello", "-o", "/dev/full", "--max-turns", "1", "-p")
    assert (done.code, done.out) == (code, "words\n")
    assert (
        "forge: -o /dev/full: the answer could not be written: No space left on device\n"
        in done.err
    )


def test_worker_path_is_relative_to_the_caller_and_zones_to_the_directory(cli, tester) -> None:
    script(
        tester,
        "{calls: [{tool: write_file, input: {path: /notes/a, content: x}}, {tool: peek}]}",
        '{text: "{result}"}',
    )
    tester.write("else/where/src/x", "")
    done = cli("run", "worker.yaml", "go", "-p", "-C", "else/where")
    assert (done.code, done.out) == (0, f"{tester.folder}/else/where\n")
    assert tester.read("else/where/notes/a") == "x"
    assert not (tester.folder / "notes").exists()


def test_model_comes_from_flag_worker_environment_or_user_config(cli, tester, monkeypatch) -> None:
    for name in ("flag", "worker", "environment", "user"):
        tester.write(f"by_{name}.yaml", f"turns: [{{text: from the {name}}}]")
    tester.home.mkdir()
    (tester.home / "config.yaml").write_text("model: script:by_user.yaml")
    bare = tester.read("worker.yaml").replace("model: script:script.yaml\n", "")
    tester.write("worker.yaml", bare)
    assert cli("run", "worker.yaml", "go", "-p").out == "from the user\n"
    monkeypatch.setenv("FORGE_MODEL", "script:by_environment.yaml")
    assert cli("run", "worker.yaml", "go", "-p").out == "from the environment\n"
    tester.write("worker.yaml", bare + "model: script:by_worker.yaml\n")
    assert cli("run", "worker.yaml", "go", "-p").out == "from the worker\n"
    assert (
        cli("run", "worker.yaml", "go", "-p", "-m", "script:by_flag.yaml").out == "from the flag\n"
    )


TRACES = {
    "quiet": [],
    "summary": ["the model is scripted", "completed ·"],
    "normal": ["the model is scripted", "✓ report rows=[1, 2]", "    a report", "completed ·"],
    "debug": [
        "model script:script.yaml, workspace ",
        "the model is scripted",
        "tools for people: deploy, peek",
        "turn 1: request ",
        "turn 1 ended (tool_use)",
        "> report rows=[1, 2]",
        "  preApproved -> yes by rule: the worker says preApproved (worker.yaml:",
        "✓ report · ",
        "    a report",
        "turn 2: request ",
        "turn 2 ended (end)",
        "completed ·",
    ],
}


@pytest.mark.few(2)
@pytest.mark.parametrize("level", TRACES)
def test_each_trace_level_shows_more_on_standard_error(cli, tester, level: str) -> None:
    done = cli("run", "worker.yaml", "hello", "--trace", level)
    assert (done.code, done.out) == (0, "Last words: hello\n")
    rest = iter(done.err.splitlines())
    for expected in TRACES[level]:
        assert any(line.startswith(expected) for line in rest), expected
    if level == "quiet":
        assert done.err == ""
    if level == "summary":
        assert len(done.err.splitlines()) == 2


def test_user_trace_setting_applies_without_a_flag(cli, tester) -> None:
    tester.home.mkdir()
    (tester.home / "config.yaml").write_text("trace: normal")
    assert "✓ report" in cli("run", "worker.yaml", "hello").err
    assert "✓ report" not in cli("run", "worker.yaml", "hello", "--trace", "summary").err
    assert cli("run", "worker.yaml", "hello", "-p").err == ""


def test_quiet_trace_still_shows_errors(cli, tester) -> None:
    done = cli("run", "worker.yaml", "go", "-p", "--max-turns", "1")
    assert (done.code, done.out) == (5, "First words. \n")
    assert done.err == "forge: the limit of 1 turn was reached\n"


@pytest.mark.parametrize("of_worker", [True, False])
def test_smaller_limit_applies(cli, tester, of_worker: bool) -> None:
    tester.home.mkdir()
    file = tester.folder / "worker.yaml" if of_worker else tester.home / "config.yaml"
    with file.open("a") as stream:
        stream.write("limits: {max_turns: 1}\n")
    done = cli("run", "worker.yaml", "go", "--max-turns", "2", "--output-format", "json")
    found = json.loads(done.out)
    assert (done.code, found["status"], found["exitCode"], found["turns"]) == (5, "limit", 5, 1)
    assert found["error"] == "the limit of 1 turn was reached"


def test_approve_all_does_not_approve_blocked_calls(cli, tester) -> None:
    script(
        tester,
        "{calls: [{tool: echo, input: {text: hi}}, {tool: delete_file, input: {path: /notes/x}}]}",
        "{text: ok}",
    )
    found = json.loads(cli("run", "worker.yaml", "go", "-y", "--output-format", "json").out)
    assert [denial["tool"] for denial in found["denials"]] == ["delete_file"]
    for mode in ("auto_deny", "interactive"):
        words = ("run", "worker.yaml", "go", "--approval-mode", mode, "--output-format", "json")
        found = json.loads(cli(*words).out)
        assert [denial["tool"] for denial in found["denials"]] == ["echo", "delete_file"]
    done = cli("run", "worker.yaml", "go", "-y", "--approval-mode", "auto_deny")
    assert (done.code, done.err) == (
        2,
        "forge: -y and --approval-mode auto_deny contradict each other; keep one\n",
    )


def test_hostile_model_text_is_unchanged_in_a_pipe(cli, tester) -> None:
    script(tester, r'{text: "a\e[2Jb"}')
    assert cli("run", "worker.yaml", "go", "-p").out == "a\x1b[2Jb\n"


def test_errors_of_the_model_are_shown_escaped(cli, tester) -> None:
    script(tester, r"{calls: [{tool: boom}]}", r'{expect: {result: "no\e[2J"}, text: x}')
    done = cli("run", "worker.yaml", "go", "-p")
    assert done.code == 1
    assert "\x1b" not in done.err
    assert "expected a result with 'no\\x1b[2J'" in done.err


CODES = {
    0: ["run", "worker.yaml", "go"],
    1: ["run", "worker.yaml", "go", "-m", "script:short.yaml"],
    2: ["run", "worker.yaml", ""],
    3: ["run", "nosuch.yaml", "go"],
    4: ["run", "worker.yaml", "go", "-m", "script:asks.yaml", "--on-ask", "fail"],
    5: ["run", "worker.yaml", "go", "--max-turns", "1"],
}


@pytest.mark.parametrize("code", CODES)
def test_each_ending_has_its_exit_code(cli, tester, code: int) -> None:
    tester.write("short.yaml", "turns: [{calls: [{tool: peek}]}]")
    tester.write(
        "asks.yaml",
        "turns: [{calls: [{tool: echo, input: {text: hi}}, {tool: peek}]}, {text: never}]",
    )
    done = cli(*CODES[code])
    assert done.code == code
    assert "Traceback" not in done.err
    if code == 4:
        assert done.err.endswith(
            f"forge: {HEADLESS}; why it asked: the worker says ask (worker.yaml:18:21)\n"
        )
        found = json.loads(cli(*CODES[code], "--output-format", "json").out)
        assert (found["status"], found["exitCode"], found["toolCalls"]) == ("denied", 4, 2)


def test_blocked_call_stops_the_work_with_on_ask_fail(cli, tester) -> None:
    script(tester, "{calls: [{tool: delete_file, input: {path: /notes/x}}]}", "{text: never}")
    done = cli("run", "worker.yaml", "go", "-p", "--on-ask", "fail")
    assert (done.code, done.out) == (4, "")


@pytest.mark.few(10)
@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["nosuch.yaml", "x"], 3, "forge: nosuch.yaml: no such file; check the path\n"),
        (
            ["src", "x"],
            3,
            "forge: src: this folder has no worker.yaml and no main.worker\n  name a worker file instead\n",
        ),
        (
            ["tools.py", "x"],
            3,
            "forge: tools.py:1:1: a worker file ends in .yaml, .yml, .md or .worker\n",
        ),
        (
            ["worker.yaml", "x", "-m", ""],
            2,
            "forge: Invalid value for '-m' / '--model': it is empty\n",
        ),
        (
            ["worker.yaml", "x", "-m", "nosuch:y"],
            3,
            "forge: there is no model provider 'nosuch'\n  providers are: ",
        ),
        (["worker.yaml", "x", "-m", "scrip:y"], 3, "did you mean 'script'?\n"),
        (
            ["worker.yaml", "x", "-m", "nosuch"],
            3,
            "forge: 'nosuch' is not a model\n  write PROVIDER:MODEL",
        ),
        *[
            (
                ["worker.yaml", "x", flag, limit],
                2,
                f"forge: Invalid value for '{flag}': must be a whole number of at least 1, not '{limit}'\n",
            )
            for flag in ("--max-turns", "--max-tokens")
            for limit in ("0", "-1", "1.5", "many")
        ],
        *[
            (
                ["worker.yaml", "x", flag, limit],
                2,
                f"forge: Invalid value for '{flag}': must be a number greater than 0, not '{limit}'\n",
            )
            for flag in ("--max-time", "--max-cost")
            for limit in ("0", "-1", "inf", "nan", "much")
        ],
        (
            ["worker.yaml", "x", "--trace", "loud"],
            2,
            "'loud' is not one of 'quiet', 'summary', 'normal', 'debug'.",
        ),
        (
            ["worker.yaml", "x", "--modle", "y"],
            2,
            "forge: No such option: --modle (Possible options: --model",
        ),
        (
            ["worker.yaml", "x", "-C", "none"],
            2,
            "-C none: there is no such folder\n  check the path; it is looked for in /",
        ),
        (
            ["worker.yaml", "x", "-C", "worker.yaml"],
            2,
            "-C worker.yaml: that is not a folder\n  name a folder\n",
        ),
        (
            ["worker.yaml", "x", "--add-dir", "none:ro"],
            2,
            "--add-dir none: there is no such folder\n  check the path",
        ),
        (
            ["worker.yaml", "x", "--json", "--output-format", "json"],
            2,
            "forge: --json and --output-format json contradict",
        ),
        (
            ["worker.yaml", "x", "--json", "--output-format", "text"],
            2,
            "forge: --json and --output-format text contradict",
        ),
        (["", "x"], 2, "forge: Invalid value for 'WORKER': it is empty\n"),
        (["worker.yaml", ""], 2, "forge: the task is empty\n"),
        (["worker.yaml", "x", "-o", "-"], 2, "forge: -o -: standard output or error goes there\n"),
        ([], 2, "forge: Missing argument 'WORKER'.\n"),
        (["worker.yaml", "x", "y"], 2, "unexpected extra argument"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_usage_errors_take_at_most_three_lines(
    cli, tester, words: list[str], code: int, sentence: str
) -> None:
    done = cli("run", *words)
    assert (done.code, done.out if "--json" not in words else "") == (code, "")
    assert sentence in done.err
    assert "Traceback" not in done.err
    assert len(done.err.splitlines()) <= 3


def test_invalid_user_config_is_named(cli, tester) -> None:
    tester.home.mkdir()
    (tester.home / "config.yaml").write_text("modle: script:x")
    done = cli("run", "worker.yaml", "go")
    assert (done.code, done.out) == (3, "")
    assert f"forge: {tester.home}/config.yaml:1:1: " in done.err
    assert "model" in done.err

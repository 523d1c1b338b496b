"""``forge chat`` without a terminal: line by line, as a program or a pipe talks to it.

Also the story of forge_cli.apps.chat.command, forge_cli.engine.runtime.options and forge_cli.apps.chat.talk.
"""

import json
import subprocess

import pytest

from forge_cli.core.errors import ExitCode
from tests.support.deadline import deadline

SAY = 'turns: [{text: "Hello {task}."}, {text: "Again {task}."}, {text: "And {task}."}]\n'


@pytest.fixture
def talker(tester):
    tester.write("script.yaml", SAY)
    return tester


def test_each_answer_goes_to_standard_output(talker) -> None:
    done = talker.forge("chat", "worker.yaml", stdin="you\n\n  \nme")
    assert (done.returncode, done.stdout) == (0, "Hello you.\nAgain me.\n")
    assert "\x1b" not in done.stdout + done.stderr
    [session] = (talker.home / "sessions").glob("*.jsonl")
    lines = [json.loads(line) for line in session.read_text().splitlines()]
    assert [line["content"] for line in lines if line["type"] == "userInput"] == ["you", "me"]
    assert lines[-1]["type"] == "sessionEnd"


def test_commands_and_tools_work_and_errors_do_not_end_the_chat(talker) -> None:
    stdin = "/status\n/peek\n/nothing\n!ls\n/deploy\n/chatty\nyou\n/exit\nnot this\n"
    done = talker.forge("chat", "worker.yaml", stdin=stdin)
    assert done.returncode == 0
    assert done.stdout == f"{talker.folder}\nHello you.\n"
    assert "script:script.yaml" in done.stderr
    assert "unknown command '/nothing'" in done.stderr
    assert "this worker has no shell tool for people" in done.stderr
    assert "deploy" in done.stderr
    assert "Traceback" not in done.stderr


def test_session_of_manual_calls_only_ends_normally(talker, cli) -> None:
    done = talker.forge("chat", "worker.yaml", stdin="/peek\n")
    assert (done.returncode, done.stdout) == (0, f"{talker.folder}\n")
    [listed] = json.loads(cli("sessions", "list", "--json").out)
    assert (listed["status"], listed["turns"], listed["toolCalls"]) == ("completed", 0, 1)
    assert talker.forge("chat", "worker.yaml", "-c", stdin="you\n").stdout == "Hello you.\n"


def test_status_of_a_resumed_session_counts_all_of_it(talker) -> None:
    assert talker.forge("chat", "worker.yaml", stdin="you\nme\n/name Two\n").returncode == 0
    done = talker.forge("chat", "worker.yaml", "-c", stdin="/status\n")
    rows = [line.strip().split(maxsplit=1) for line in done.stderr.splitlines()]
    assert ["turns", "2"] in rows
    assert any(row[0] == "session" and row[1].endswith("(Two)") for row in rows if len(row) == 2)


def test_result_of_a_call_precedes_the_next_line(talker, start) -> None:
    chat = start("chat", "worker.yaml", stdin=subprocess.PIPE)
    assert chat.process.stdin
    assert chat.process.stdout
    chat.process.stdin.write("/peek\n")
    chat.process.stdin.flush()
    with deadline():
        assert chat.process.stdout.readline() == f"{talker.folder}\n"
    assert chat.end().code == 0


def test_failed_turn_is_reported_and_the_next_one_runs(talker) -> None:
    talker.write(
        "script.yaml", "turns: [{expect: {result: x}, text: no}, {text: 'Fine, {task}.'}]\n"
    )
    done = talker.forge("chat", "worker.yaml", stdin="a\nb\n")
    assert (done.returncode, done.stdout) == (0, "Fine, b.\n")
    assert "turn 1 of script:script.yaml expected a result" in done.stderr


def test_turns_and_calls_have_the_same_count_in_every_view(talker, cli) -> None:
    talker.write("script.yaml", "turns: [{text: Hello}, {calls: [{tool: report}]}]\n")
    assert "turn 3" in talker.forge("chat", "worker.yaml", stdin="you\n/peek\nme\n").stderr
    assert "\n-- failed: 3 turns, 2 calls; " in cli("sessions", "show").out
    talker.write("script.yaml", "turns: []\n")
    told = json.loads(cli("run", "worker.yaml", "go", "--output-format", "json").out)
    rows = json.loads(cli("sessions", "list", "--json").out)
    assert [(row["turns"], row["toolCalls"]) for row in rows] == [
        (told["turns"], told["toolCalls"]),
        (3, 2),
    ]
    assert told["turns"] == 1


def test_limits_count_per_message(talker) -> None:
    talker.write(
        "script.yaml",
        "turns: [{calls: [{tool: report}]}, {text: one}, {calls: [{tool: report}]}, {calls: [{tool: report}]}]\n",
    )
    done = talker.forge("chat", "worker.yaml", "--max-turns", "2", stdin="a\nb\n")
    assert (done.returncode, done.stdout) == (0, "one\n")
    assert "error: the limit of 2 turns was reached" in done.stderr


def test_session_is_resumed(talker) -> None:
    assert talker.forge("chat", "worker.yaml", stdin="you\n").returncode == 0
    done = talker.forge("chat", "worker.yaml", "-c", stdin="me\n")
    assert (done.returncode, done.stdout) == (0, "Again me.\n")
    assert "resuming session" in done.stderr
    assert len(list((talker.home / "sessions").glob("*.jsonl"))) == 1


def test_ephemeral_chat_keeps_no_session(talker) -> None:
    assert (
        talker.forge("chat", "worker.yaml", "--ephemeral", stdin="you\n").stdout == "Hello you.\n"
    )
    assert not list(talker.home.glob("sessions/*.jsonl"))


def test_run_with_i_starts_with_its_task(talker) -> None:
    done = talker.forge("run", "worker.yaml", "-i", "you", stdin="me\n")
    assert (done.returncode, done.stdout) == (0, "Hello you.\nAgain me.\n")


@pytest.mark.parametrize(
    "other", [["-p"], ["--json"], ["--output-format", "json"], ["-o", "x"], ["--replay", "x"]]
)
def test_option_that_contradicts_a_conversation_is_refused(talker, cli, other) -> None:
    done = cli("run", "worker.yaml", "you", "-i", *other)
    assert done.code == 2
    assert "-i and " in done.err


def test_question_without_a_terminal_is_denied(talker) -> None:
    talker.write(
        "script.yaml", 'turns: [{calls: [{tool: echo, input: {text: x}}]}, {text: "{result}"}]\n'
    )
    done = talker.forge("chat", "worker.yaml", stdin="go\n")
    assert done.returncode == 0
    assert "forge could not ask" in done.stdout


@pytest.mark.parametrize("own", [True, False])
def test_default_worker_is_that_of_the_folder_or_coder(project, own: bool) -> None:
    project.write("script.yaml", 'turns: [{text: "Hello, {task}!"}]')
    if own:
        project.write("worker.yaml", "name: mine\n")
    done = project.forge("chat", stdin="you\n", env={"FORGE_MODEL": "script:script.yaml"})
    assert (done.returncode, done.stdout) == (0, "Hello, you!\n"), done.stderr
    (log,) = (project.home / "sessions").glob("*.jsonl")
    assert json.loads(log.read_text().splitlines()[0])["worker"] == ("mine" if own else "coder")


def test_worker_of_the_folder_runs_no_code_before_it_is_named_or_trusted(project) -> None:
    project.write("script.yaml", 'turns: [{text: "Hello, {task}!"}]')
    project.write(
        "tools.py", 'open("ran", "w")\n\ndef add(a: int) -> int:\n    """Add."""\n    return a\n'
    )
    project.write(
        "worker.yaml",
        "name: mine\nmodel: script:script.yaml\ntoolsets: {custom: {module: ./tools.py, tools: [add]}}\n",
    )
    done = project.forge("chat", stdin="you\n")
    assert (done.returncode, done.stdout) == (ExitCode.UNTRUSTED, ""), done
    assert done.stderr.startswith("forge: worker.yaml comes with this folder and is not trusted\n")
    assert not (project.folder / "ran").exists()
    assert project.forge("chat", "worker.yaml", stdin="you\n").stdout == "Hello, you!\n"
    assert (project.folder / "ran").exists()

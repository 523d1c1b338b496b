"""``forge approvals suggest``: rules that would have answered past questions.

Covers forge_cli.cli.approvals.suggest, forge_cli.inspection.past, forge_cli.inspection.past_rules and
forge_cli.record.calls.
"""

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from forge_cli.events import ToolCall
from forge_cli.inspection.past import PastGate
from forge_cli.record.calls import PastCall
from forge_cli.testing import Project, call, calls
from tests.support.logs import script

Cli = Callable[..., Any]
Ask = Callable[..., str]

WORKER = """
name: clerk
model: script:script.yaml
toolsets:
  filesystem: {}
  shell: {try: off, rules: [{pattern: pwd, approval: preApproved}]}
"""
COMMIT = 'policy.shell.rules: [{pattern: "git commit", approval: preApproved}]'
TOUCH = "policy.shell.rules: [{pattern: touch, approval: preApproved}]"


@pytest.fixture(autouse=True)
def clerk(project: Project) -> Project:
    project.write("worker.yaml", WORKER)
    return project


@pytest.fixture
def ask(clerk: Project, cli: Cli) -> Ask:
    """Run command lines, each with its answer; None leaves the question unanswered."""

    def work(*lines: tuple[str, str | None], worker: str = "worker.yaml") -> str:
        script(clerk, calls(*(call("shell", command=line) for line, _ in lines)), "Done.")
        before = set(clerk.home.glob("sessions/*.jsonl"))
        answers = {line: answer for line, answer in lines if answer}
        cli("run", worker, "go", "-p", "--on-ask", "park" if answers else "deny")
        (log,) = set(clerk.home.glob("sessions/*.jsonl")) - before
        for row in json.loads(cli("approvals", "list", "--json").out):
            if row["session"] == log.stem:
                assert (
                    cli(
                        "approvals",
                        "answer",
                        log.stem,
                        row["request"],
                        answers[row["args"]["command"]],
                    ).code
                    == 0
                )
        if answers:
            cli("run", worker, "-r", log.stem, "-p", "--on-ask", "deny")
        return log.stem

    return work


def suggested(cli: Cli, *words: str) -> dict[str, Any]:
    done = cli("approvals", "suggest", "--json", *words)
    assert (done.code, done.err) == (0, "")
    found: dict[str, Any] = json.loads(done.out)
    return found


def rules(found: list[dict[str, Any]]) -> list[list[str]]:
    return [each["rules"] for each in found]


def test_suggest_without_past_questions_suggests_nothing(cli: Cli) -> None:
    done = cli("approvals", "suggest", "--write")
    assert (done.code, done.out) == (
        0,
        "nothing to suggest: no call that you approved would ask again\n",
    )
    assert suggested(cli) == {"questions": 0, "suggestions": [], "leftOut": [], "written": None}


def test_rule_that_saves_most_questions_comes_first_with_its_reach(
    cli: Cli, ask: Ask, clerk: Project
) -> None:
    ask(("touch a", "yes"), ("git commit -m x", "yes"), ("git commit -m y", "yes"), ("pwd", None))
    ask(("git commit -m z", None), ("git push", None))
    done = cli("approvals", "suggest")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        COMMIT,
        "  saves 2 of 3 questions",
        '  would also have allowed: shell {"command": "git commit -m z"}',
        TOUCH,
        "  saves 1 of 3 questions",
        "2 rules would have answered 3 of 3 questions that you approved",
    ]
    assert not (clerk.home / "config.yaml").exists()


def test_suggestions_never_allow_a_denied_call(cli: Cli, ask: Ask) -> None:
    ask(("touch a", "yes"), ("touch b", "yes"), ("git commit -m x", "yes"))
    ask(("touch secret", "no"))
    found = suggested(cli)
    assert [(each["rules"], each["saves"], each["also"]) for each in found["suggestions"]] == [
        ([COMMIT], 1, [])
    ]
    denied = {"tool": "shell", "input": {"command": "touch secret"}}
    assert found["leftOut"] == [{"rules": [TOUCH], "denied": denied}]
    assert "you denied: shell" in cli("approvals", "suggest").out


@pytest.mark.long
def test_rules_that_only_together_allow_a_denied_line_are_not_both_suggested(
    cli: Cli, ask: Ask
) -> None:
    ask(("touch a", "yes"), ("touch b", "yes"), ("git commit -m x", "yes"))
    ask(("touch c && git commit -m c", "no"))
    found = suggested(cli)
    assert (rules(found["suggestions"]), rules(found["leftOut"])) == ([[TOUCH]], [[COMMIT]])


@pytest.mark.long
def test_line_of_several_commands_is_suggested_with_all_its_rules(cli: Cli, ask: Ask) -> None:
    ask(("touch a && git commit -m a", "yes"), ("touch b && git commit -m b", "yes"))
    (found,) = suggested(cli)["suggestions"]
    assert (sorted(found["rules"]), found["saves"]) == ([COMMIT, TOUCH], 2)


def test_written_rules_answer_the_questions_and_are_not_suggested_again(
    cli: Cli, ask: Ask, clerk: Project
) -> None:
    config = clerk.home / "config.yaml"
    config.parent.mkdir()
    config.write_text(
        "# mine\npolicy:\n  shell:\n    rules:\n      - {pattern: rm, approval: blocked}  # never\n"
    )
    ask(("touch a", "yes"), ("git commit -m x", "yes"))
    done = cli("approvals", "suggest", "--write")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[-1] == f"written to {config}"
    assert "+      - {pattern: touch, approval: preApproved}" in done.out
    text = config.read_text()
    assert text.startswith("# mine\n")
    assert "# never" in text
    assert [rule["pattern"] for rule in yaml.safe_load(text)["policy"]["shell"]["rules"]] == [
        "rm",
        "touch",
        "git commit",
    ]
    for line in ("touch a", "git commit -m x"):
        assert cli("approve", "worker.yaml", "shell", f"command={line}").out.startswith(
            "preApproved"
        )
    assert cli("approvals", "suggest").out.startswith("nothing to suggest")


def test_suggestions_are_written_and_printed_as_json(cli: Cli, ask: Ask, clerk: Project) -> None:
    ask(("touch a", "yes"))
    found = suggested(cli, "--write")
    assert found["written"] == str(clerk.home / "config.yaml")
    assert found["suggestions"][0]["yaml"] == (clerk.home / "config.yaml").read_text().rstrip("\n")


def test_file_that_cannot_be_edited_is_reported_with_the_lines_to_add(
    cli: Cli, ask: Ask, clerk: Project
) -> None:
    ask(("touch a", "yes"))
    (clerk.home / "config.yaml").write_text("model: script:a\r\ntitles: false\n")
    done = cli("approvals", "suggest")
    assert (done.code, done.out) == (1, "")
    assert "- {pattern: touch, approval: preApproved}" in done.err


def test_edits_are_suggested_by_their_folder(cli: Cli, clerk: Project) -> None:
    script(clerk, calls(call("write_file", path="a.txt", content="a")), "Done.")
    cli("run", "worker.yaml", "go", "-p", "--on-ask", "park")
    assert cli("approvals", "answer", "last", "yes").code == 0
    cli("run", "worker.yaml", "-r", "last", "-p")
    (found,) = suggested(cli, "--write")["suggestions"]
    assert found["rules"] == [f"policy.filesystem.edits: [{clerk.folder}]"]
    assert yaml.safe_load(found["yaml"]) == {
        "policy": {"filesystem": {"edits": [str(clerk.folder)]}}
    }
    assert found["yaml"] == (clerk.home / "config.yaml").read_text().rstrip("\n")


@pytest.mark.long
def test_since_leaves_older_questions_out(cli: Cli, ask: Ask) -> None:
    ask(("touch a", "yes"))
    assert suggested(cli, "--since", "1h")["questions"] == 1
    assert suggested(cli, "--since", "0h")["questions"] == 0


def test_no_counts_at_any_age(clerk: Project) -> None:
    gate = PastGate("clerk", None, clerk.folder)
    for answer in (True, False, None):
        gate.add(
            PastCall(ToolCall("c", "shell", {"command": "ls"}), by_model=True, answer=answer),
            yes_counts=False,
        )
    assert [(made.yes, made.no) for made in gate.calls.values()] == [(0, 1)]


def test_suggest_explains_an_invalid_period(cli: Cli) -> None:
    done = cli("approvals", "suggest", "--since", "soon")
    assert done.code == 2
    assert "as in --since 30d" in done.err


def test_rule_that_a_prompt_would_not_offer_is_not_suggested(cli: Cli, ask: Ask) -> None:
    ask(("python3", "yes"), ("bash a.sh", "yes"), ("touch .env", "yes"), ("env touch a", "yes"))
    found = suggested(cli)
    assert (found["questions"], found["suggestions"]) == (4, [])
    assert (
        "nothing to suggest: no rule in your config.yaml could answer any of the 4 questions"
        in cli("approvals", "suggest").out
    )


def test_denial_counts_although_its_worker_is_deleted(cli: Cli, ask: Ask, clerk: Project) -> None:
    clerk.write("other.yaml", WORKER.replace("clerk", "other"))
    ask(("touch b", "no"), worker="other.yaml")
    ask(("touch a", "yes"))
    (clerk.folder / "other.yaml").unlink()
    done = cli("approvals", "suggest", "--json")
    found = json.loads(done.out)
    assert (found["suggestions"], rules(found["leftOut"])) == ([], [[TOUCH]])
    assert (
        done.err == "forge: not judged: 1 call: the worker 'other' was deleted, or cannot be read\n"
    )


@pytest.mark.long
def test_denial_of_a_child_counts(cli: Cli, ask: Ask, clerk: Project) -> None:
    clerk.write(
        "boss.yaml",
        "name: boss\nmodel: script:boss.script.yaml\n"
        "toolsets: {workers: {allowed: [worker.yaml], approval: {default: preApproved}}}\n",
    )
    script(clerk, calls(call("clerk", input="go")), "Done.", name="boss.script.yaml")
    ask(("touch a", "yes"))
    ask(("touch b", "no"), worker="boss.yaml")
    found = suggested(cli)
    assert (found["suggestions"], rules(found["leftOut"])) == ([], [[TOUCH]])


@pytest.mark.long
def test_worker_with_custom_tools_is_judged_in_a_child_process(
    cli: Cli, ask: Ask, clerk: Project
) -> None:
    clerk.write("tools.py", 'def look() -> str:\n    """Look."""\n    return ""\n')
    clerk.write("worker.yaml", WORKER + "  custom: {module: ./tools.py, tools: [look]}\n")
    ask(("touch a", "yes"))
    assert rules(suggested(cli)["suggestions"]) == [[TOUCH]]


def test_changed_log_does_not_count(cli: Cli, ask: Ask, clerk: Project) -> None:
    log = clerk.home / "sessions" / f"{ask(('touch a', 'yes'))}.jsonl"
    log.write_text(log.read_text().replace("touch a", "touch b"))
    done = cli("approvals", "suggest")
    assert (done.code, done.out.startswith("nothing to suggest")) == (0, True)
    assert "was tampered with" in done.err


@pytest.mark.long
def test_denied_call_with_a_secret_counts(cli: Cli, ask: Ask, clerk: Project) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"
    ask(("touch a", "yes"))
    log = clerk.home / "sessions" / f"{ask((f'touch {secret}', None))}.jsonl"
    assert secret not in log.read_text()
    script(clerk, calls(call("shell", command=f"touch {secret}")), "Done.")
    cli("run", "worker.yaml", "go", "-p", "--on-ask", "park")
    (row,) = json.loads(cli("approvals", "list", "--json").out)
    assert cli("approvals", "answer", row["session"], row["request"], "no").code == 0
    found = suggested(cli)
    assert (found["suggestions"], rules(found["leftOut"])) == ([], [[TOUCH]])


@pytest.mark.long
def test_rules_for_a_single_question_are_left_out_once_most_are_answered(
    cli: Cli, ask: Ask
) -> None:
    ask(*((f"touch a{number}", "yes") for number in range(12)), ("git commit -m x", "yes"))
    assert [(each["rules"], each["saves"]) for each in suggested(cli)["suggestions"]] == [
        ([TOUCH], 12)
    ]

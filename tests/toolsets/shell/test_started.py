"""Programs started by a trial: a blocked one blocks the line.

Covers forge_cli.sandbox.trial.started, forge_cli.bashrules.judge, forge_cli.engine.gate.consent.
"""

import json
import os
from pathlib import Path

import pytest

from forge_cli.core.events import ApprovalDecided, ApprovalRequired, ToolResult
from forge_cli.core.trial import CommandTried
from forge_cli.testing import Project, Seen, call, calls

pytestmark = pytest.mark.needs("overlay")

RULES = """name: w
toolsets:
  shell:
    rules:
      - {pattern: git push, approval: blocked, reason: pushing is for people}
      - {pattern: wc, approval: blocked}
      - {pattern: twine upload, approval: blocked}
"""


@pytest.fixture
def shell(project: Project) -> Project:
    project.write("worker.yaml", RULES)
    project.write("notes.txt", "hello\nworld\n")
    return project


def run(project: Project, line: str, **options: object) -> Seen:
    return project.run(calls(call("shell", command=line)), "done", timeout=60, **options)


def outcome(seen: Seen) -> str:
    (found,) = seen.of(CommandTried)
    return found.outcome


HIDDEN = [
    "$(printf 'w\\143') notes.txt",
    'f() { "$1" notes.txt; }; f $(echo c | sed s/^/w/) 2>/dev/null | tee out',
    "python3 -c 'import subprocess; subprocess.run([chr(119) + chr(99), \"notes.txt\"])'",
    "echo 'wc notes.txt' > s.sh; sh s.sh 2>/dev/null; rm s.sh",
    'ln -s "$(command -v $(echo cw | rev))" count; ./count notes.txt; rm count',
    "(exec -a count $(echo cw | rev) notes.txt)",
    "printf '#!%s notes.txt\\n' $(command -v $(echo cw | rev)) > s; chmod +x s; ./s; rm s",
    "env -i /usr/bin/$(echo cw | rev) notes.txt || true",
    "(setsid $(echo cw | rev) notes.txt &) 2>/dev/null; sleep 0.2",
    "cd / && ../usr/bin/./$(echo cw | rev) /dev/null",
    'python3 -c \'import os; os.execv("/usr/bin/" + "cw"[::-1], ["x"])\'',
    'python3 -c \'import os; os.execve(os.open("/usr/bin/" + "cw"[::-1], 0), ["x", "notes.txt"], {})\'',
]


@pytest.mark.few(6)
@pytest.mark.parametrize("line", HIDDEN)
def test_blocked_program_is_found_when_started(shell: Project, line: str) -> None:
    seen = run(shell, line)
    assert outcome(seen) == "blocked"
    (result,) = seen.of(ToolResult)
    assert result.status == "blocked"
    assert "on a copy it started a blocked command: " in str(result.error)
    assert str(result.error).endswith("matches the blocked rule 'wc'")
    assert "hello" not in json.dumps(result.value.wire())
    assert seen.of(ApprovalRequired) == []
    (decided,) = seen.of(ApprovalDecided)
    assert (decided.verdict, decided.approved, decided.rule) == (
        "blocked",
        False,
        "toolsets.shell.rules[1]",
    )
    assert sorted(os.listdir(shell.folder)) == ["notes.txt", "worker.yaml"]


@pytest.mark.needs("git")
@pytest.mark.parametrize(
    "line",
    [
        'x=push; git "$(printf %s $x)"',
        "git -c alias.p=pu''sh $(echo p)",
        "git -C . --no-pager $(printf pus)$(printf h) --dry-run origin 2>/dev/null; true",
        'for word in pu; do git "${word}sh"; done >/dev/null 2>&1',
    ],
)
def test_blocked_subcommand_is_found_when_started(shell: Project, line: str) -> None:
    (result,) = run(shell, line).of(ToolResult)
    assert result.status == "blocked", result
    assert "pushing is for people" in str(result.error)


def test_python_module_is_found_when_started(shell: Project) -> None:
    shell.write("twine.py", "print('sent')\n")
    (result,) = run(shell, "python3 -m $(echo twin)e $(echo upload) dist").of(ToolResult)
    assert (result.status, "twine upload" in str(result.error)) == ("blocked", True)


ALLOWED = [
    'for each in notes.txt; do cat "$each"; done',
    "PYTHONPATH=src python3 -c 'print(1)'",
    'NAME=x; echo "$NAME" ${HOME} $((1 + 2)) | sed s/x/y/',
    "git $(echo --version)",
    "ls *.txt $(echo notes.txt)",
    "echo 'git push; wc' | cat; /bin/echo git push; printf '%s\\n' wc",
    "awk '{print}' \"$(echo notes.txt)\"; echo ${PIPESTATUS[0]}",
    "diff <(cat notes.txt) <(cat notes.txt)",
]


@pytest.mark.parametrize("line", ALLOWED)
def test_line_that_cannot_be_parsed_completely_is_tried(shell: Project, line: str) -> None:
    seen = run(shell, line)
    assert (outcome(seen), seen.of(ApprovalRequired)) == ("noEffect", [])
    assert seen.of(ToolResult)[0].status == "success"


def test_started_programs_are_logged(shell: Project) -> None:
    (found,) = run(shell, "x=notes.txt; sort $x | head -n 1").of(CommandTried)
    first, *others = [Path(path).name for path in found.programs]
    assert (first, set(others)) == ("bash", {"sort", "head"})


@pytest.mark.parametrize("pattern", ["eval", "source", "kill", "./deploy.sh", "deploy.sh"])
def test_blocked_shell_builtin_prevents_a_trial(shell: Project, pattern: str) -> None:
    shell.write(
        "worker.yaml",
        f"name: w\ntoolsets: {{shell: {{rules: [{{pattern: {pattern}, approval: blocked}}]}}}}\n",
    )
    seen = run(shell, "X=cat; $X notes.txt", answers=[False])
    assert (seen.of(CommandTried), len(seen.of(ApprovalRequired))) == ([], 1)


def test_line_asks_if_started_programs_cannot_be_observed(
    shell: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forge_cli.sandbox.trial.copies.watch_filter", lambda **_: None)
    seen = run(shell, "X=cat; $X notes.txt", answers=[False])
    (found,) = seen.of(CommandTried)
    assert (found.outcome, found.unsure) == (
        "incomplete",
        "it may have started a blocked command, which cannot be detected here",
    )


def test_line_with_too_many_programs_asks(shell: Project) -> None:
    line = "for i in {1..1100}; do /bin/true git $i; done; X=cat; $X notes.txt"
    (found,) = run(shell, line, answers=[False]).of(CommandTried)
    assert (found.outcome, "may have started a blocked command" in str(found.unsure)) == (
        "incomplete",
        True,
    )

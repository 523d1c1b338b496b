"""Verdicts: several lists, reasons with the deciding rule, and a pattern that would cover a line.

Covers forge_cli.bashrules.allow.hazards, forge_cli.bashrules.judge, forge_cli.toolsets.shell.policy and
forge_cli.bashrules.programs.git.
"""

import pytest

from forge_cli.bashrules.decision import Decision
from forge_cli.bashrules.judge import LineJudge
from forge_cli.bashrules.rules import Rule, RuleList
from tests.support.rows import each_row

from .conftest import Judge

PRE, ASK, BLOCKED = Decision.PRE_APPROVED, Decision.ASK, Decision.BLOCKED


def rule(pattern: str, decision: Decision, reason: str | None = None) -> Rule:
    return Rule(pattern=pattern, decision=decision, reason=reason)


def lists(*many: list[Rule]) -> list[RuleList]:
    return [
        RuleList(name, rules)
        for name, rules in zip(("worker", "project", "user"), many, strict=False)
    ]


@each_row(
    ("worker", "user", "expected", "origin"),
    [
        ([rule("git", PRE)], [], PRE, "worker"),
        ([], [rule("git", PRE)], PRE, "user"),
        ([rule("git", PRE)], [rule("git push", ASK)], ASK, "user"),
        ([rule("git push", ASK)], [rule("git", PRE)], ASK, "worker"),
        ([rule("git", PRE)], [rule("git push", BLOCKED)], BLOCKED, "user"),
        ([rule("git push", BLOCKED)], [rule("git push", PRE)], BLOCKED, "worker"),
        ([rule("ls", PRE)], [rule("cat", PRE)], ASK, None),
        ([rule("git", ASK)], [rule("git", ASK)], ASK, "worker"),
    ],
)
def test_strictest_match_of_several_lists_counts(
    worker: list[Rule], user: list[Rule], expected: Decision, origin: str | None
) -> None:
    verdict = LineJudge([RuleList("worker", worker), RuleList("user", user)], ASK).judge("git push")
    assert (verdict.decision, verdict.match and verdict.match.origin) == (expected, origin)


@each_row(
    "line",
    [
        "git --no-pager push",
        "git -P push",
        "git -C . push",
        "/usr/bin/git push",
        "GIT push",
        "git push",
    ],
)
def test_rule_that_asks_covers_other_spellings_of_its_command(line: str) -> None:
    asks = rule("git push", ASK)
    for rules, default, expected in (
        ([asks, rule("git", PRE), rule("/usr/bin/git", PRE)], ASK, ASK),
        ([asks], PRE, ASK),
        ([asks, rule("git push", BLOCKED)], PRE, BLOCKED),
    ):
        assert LineJudge(lists(rules), default).judge(line).decision is expected
    first = [rule("git", PRE), rule("/usr/bin/git", PRE), rule("GIT", PRE), asks]
    assert LineJudge(lists(first), ASK).judge(line).decision is PRE
    assert LineJudge(lists([asks]), BLOCKED).judge(f"{line} && git log").decision is BLOCKED


def test_rule_that_asks_leaves_other_commands_alone() -> None:
    judge = LineJudge(
        lists([rule("git push", ASK), rule("rm", ASK), rule("git", PRE), rule("ls", PRE)]), ASK
    )
    for line in (
        "git --no-pager log",
        "git stash push",
        "git commit -m 'git push'",
        "git rm x",
        "ls rm",
    ):
        assert judge.judge(line).decision is PRE, line


def test_each_part_may_be_covered_by_another_list() -> None:
    verdict = LineJudge(lists([rule("git", PRE)], [], [rule("head", PRE)]), BLOCKED).judge(
        "git log | head"
    )
    assert [part.match and part.match.name for part in verdict.parts] == [
        "worker.rules[0]",
        "user.rules[0]",
    ]
    assert {part.decision for part in verdict.parts} == {PRE}
    assert verdict.decision is PRE


@each_row(
    ("line", "reason"),
    [
        ("git log", "'git log' matches the pre-approved rule 'git'"),
        ("git log; git status", "each of its 2 commands is pre-approved"),
        ("git log; id -u", "no rule allows 'id -u', so you are asked"),
        ("git push", "'git push' matches the asking rule 'git push': people push"),
        ("sudo git -C x reset", "'git -C x reset' matches the blocked rule 'git reset'"),
        ("git -c a=b log", "'git -c a=b log': -c changes what git does or starts"),
        ("git log $x", "'git log $x': a variable is replaced by its value"),
        ("git log > o", "'git log > o': > o writes a file"),
        ("git log \u202ex", "'git log \\u202ex': the character U+202E cannot be seen"),
        ("git log; FOO=1 git log", "'FOO=1 git log': an assignment changes what the command does"),
        ("", "it contains no command"),
        ("git\0", "a command cannot contain a NUL character"),
    ],
)
def test_every_verdict_has_a_reason(line: str, reason: str) -> None:
    rules = [rule("git push", ASK, "people push"), rule("git", PRE), rule("git reset", BLOCKED)]
    assert LineJudge(lists(rules), ASK).judge(line).reason == reason


def test_parts_of_a_line_that_is_not_plain_are_shown(judge: Judge) -> None:
    verdict = judge("git log && echo $(id -u) | wc", allow=["git"])
    assert [
        (part.text, part.decision, part.nested, part.why is not None) for part in verdict.parts
    ] == [
        ("git log", PRE, False, False),
        ("id -u", ASK, True, False),
        ("echo $(id -u)", ASK, False, True),
        ("wc", ASK, False, False),
    ]


def test_padding_and_escapes_do_not_reach_the_prompt(judge: Judge) -> None:
    verdict = judge("ls" + " " * 5000 + "'\x1b[2J'" + " " * 5000 + "; id $x")
    assert [part.text for part in verdict.parts] == ["ls '\\x1b[2J'", "id $x"]


@pytest.mark.parametrize(
    ("line", "pattern"),
    [
        ("git log -3", "git log"),
        ("git", "git"),
        ("ls -la src", "ls"),
        ("npm run build", "npm run build"),
        ("python x.py -v", "python x.py"),
        ("python -m pytest -q", "python -m pytest"),
        ("bash x.sh a", "bash x.sh"),
        ("timeout 30 git status", "timeout 30 git status"),
        ("sudo ls /root", "sudo ls"),
        ("ls; id -u", "id"),
        ("uv run pytest -q", "uv run pytest"),
        ("git -c a=b log", None),
        ("python -c 1", None),
        ("ls > o", None),
        ("ls $x", None),
        ("export A=1", None),
        ("'a b' c", None),
        ("xargs git", None),
    ],
)
def test_pattern_is_suggested_if_it_would_help(
    line: str, pattern: str | None, judge: Judge
) -> None:
    already = ["ls"] if ";" in line else []
    verdict = judge(line, allow=already)
    assert verdict.suggestion == pattern
    if pattern:
        assert judge(line, allow=[*already, pattern]).decision is PRE


def test_pattern_is_not_suggested_against_a_rule(judge: Judge) -> None:
    assert judge("git push", ask=["git push"]).suggestion is None
    assert judge("git push", block=["git push"]).suggestion is None


@each_row(
    ("line", "expected"),
    [
        ("X=1 ls -l", PRE),
        ("X=1 ls; git log", PRE),
        ("ls", ASK),
        ("X=2 ls", ASK),
        ("Y=1 X=1 ls", ASK),
        ("X=1 Y=1 ls", ASK),
        ("X=1; ls", ASK),
        ("X=1", ASK),
        ("env X=1 ls", ASK),
        ("X=1 git log", ASK),
        ("X=1 git push", BLOCKED),
        ("X=1 git fetch", ASK),
        ("X=1 ls > out", ASK),
        ("PATH=. git log", ASK),
    ],
)
def test_rule_with_assignments_covers_exactly_these(line: str, expected: Decision) -> None:
    rules = [
        rule("git fetch", ASK),
        rule("git push", BLOCKED),
        rule("X=1 ls", PRE),
        rule("git", PRE),
    ]
    assert LineJudge(lists(rules), ASK).judge(line).decision is expected


def test_command_that_asks_also_asks_with_assignments() -> None:
    rules = [rule("git fetch", ASK), rule("X=1 git fetch", PRE)]
    assert LineJudge(lists(rules), PRE).judge("X=1 git fetch").decision is ASK

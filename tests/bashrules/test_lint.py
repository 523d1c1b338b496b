"""Mistakes in rules: failing examples, rules that never apply, patterns without the intended effect."""

from forge_cli.bashrules.decision import Decision
from forge_cli.bashrules.lint import WrongExample, check_examples, granting_rules, lint_rules
from forge_cli.bashrules.rules import Rule
from tests.support.rows import each_row

PRE, ASK, BLOCKED = Decision.PRE_APPROVED, Decision.ASK, Decision.BLOCKED


def rule(
    pattern: str, decision: Decision, match: tuple[str, ...] = (), not_match: tuple[str, ...] = ()
) -> Rule:
    return Rule(pattern=pattern, decision=decision, match=list(match), not_match=list(not_match))


def test_valid_examples_are_no_problem() -> None:
    rules = [
        rule(
            "git push",
            BLOCKED,
            match=("git push", "sudo git -C x PUSH"),
            not_match=("git pull", "echo git push"),
        ),
        rule(
            "git log",
            PRE,
            match=("git log -3", "git log | git log"),
            not_match=("git log --output=x", "git log $x"),
        ),
        rule("sudo", ASK, match=("sudo ls",), not_match=("ls",)),
    ]
    assert check_examples(rules) == []


def test_invalid_examples_are_named() -> None:
    rules = [
        rule("git", PRE, match=("git log", "git -c a=b log"), not_match=("gitk", "git log")),
        rule("rm", BLOCKED, match=("ls",), not_match=("$(rm x)",)),
        rule("git push", ASK, match=("git push",)),
    ]
    assert check_examples(rules) == [
        WrongExample(
            0,
            "match",
            1,
            "'git -c a=b log' is not matched by 'git': 'git -c a=b log': -c changes what git does or starts",
        ),
        WrongExample(0, "not_match", 1, "'git log' is matched by 'git'"),
        WrongExample(
            1, "match", 0, "'ls' is not matched by 'rm': no rule allows 'ls', so you are asked"
        ),
        WrongExample(1, "not_match", 0, "'$(rm x)' is matched by 'rm'"),
        WrongExample(
            2, "match", 0, "'git push' is matched by 'git' first; put the narrower rule before it"
        ),
    ]


@each_row(
    ("rules", "warning"),
    [
        ([rule(" ", ASK)], "rules[0] '': an empty pattern matches nothing"),
        (
            [rule("git", PRE), rule("git push", ASK)],
            "rules[1] 'git push': it has no effect: rules[0] 'git' comes first and matches the same",
        ),
        (
            [rule("git push -n", PRE), rule("Git Push", BLOCKED)],
            "rules[0] 'git push -n': it has no effect: rules[1] 'Git Push' blocks all that it matches",
        ),
        (
            [rule("A=1 PATH=x ls", PRE)],
            "rules[0] 'A=1 PATH=x ls': it can never pre-approve: PATH may change what runs",
        ),
        (
            [rule("A=1", PRE)],
            "rules[0] 'A=1': it can never pre-approve: no command comes after the assignment",
        ),
        (
            [rule("ls *", PRE)],
            "rules[0] 'ls *': a pattern is words without quotes or wildcards; '*' only matches itself",
        ),
        (
            [rule("python -c", PRE)],
            "rules[0] 'python -c': it can never pre-approve: code in its arguments is not analysed",
        ),
        (
            [rule("sudo", PRE)],
            "rules[0] 'sudo': it can never pre-approve: "
            "sudo starts another command, and no rule names that command with it",
        ),
    ],
)
def test_odd_rules_are_named(rules: list[Rule], warning: str) -> None:
    assert [odd.message for odd in lint_rules(rules)] == [warning]


@each_row(
    "pattern",
    [
        "env",
        "bash",
        "xargs",
        "timeout 30",
        "bash -c ls",
        "git -c",
        "sed -i",
        "export",
        "uv run",
        "find . -delete",
        "docker run",
        "git *",
    ],
)
def test_patterns_that_never_preapprove_are_named(pattern: str) -> None:
    assert "can never pre-approve" in lint_rules([rule(pattern, PRE)])[-1].message
    assert granting_rules([rule(pattern, PRE)]) == []
    assert "*" in pattern or lint_rules([rule(pattern, ASK)]) == []


@each_row(
    "pattern",
    [
        "git",
        "git log",
        "find",
        "python",
        "sed",
        "awk",
        "cd",
        "make",
        "bash x.sh",
        "timeout 30 git",
        "xargs cat",
        "tar",
        "node",
        "docker run alpine ls",
    ],
)
def test_useful_patterns_are_no_problem(pattern: str) -> None:
    assert lint_rules([rule(pattern, PRE)]) == []


def test_narrower_rule_first_is_no_problem() -> None:
    assert (
        lint_rules(
            [
                rule("git push", ASK),
                rule("git", PRE),
                rule("git reset", BLOCKED),
                rule("git log", PRE),
            ]
        )
        == []
    )


def test_ineffective_rules_grant_nothing() -> None:
    rules = [
        rule("git *", PRE),
        rule("ls", PRE),
        rule("make", ASK),
        rule("make x", PRE),
        rule("", PRE),
    ]
    rules += [rule("A=1", PRE), rule("PATH=1 ls", PRE), rule("rm", BLOCKED), rule("rm x", PRE)]
    assert granting_rules(rules) == [rule("ls", PRE)]

"""The patterns that a person may be offered for a command line: meaningful ones only, each a rule that would help.

Covers forge_cli.toolsets.shell.allow.suggest.
"""

import itertools
import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from forge_cli.core.approval import Approval
from forge_cli.toolsets.shell.rules import LineVerdict, RuleList, ShellRule, judge_line, judge_lists

CASES: list[dict[str, Any]] = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "cases" / "shell_rules.jsonl").read_text("utf-8").splitlines()
]
WORDS = st.sampled_from(
    ["git", "commit", "push", "pytest", "ls", "-l", "rm", "-rf", "npm", "test", "env", "bash", "x", "a b", "*", "cd"]
)
COMMANDS = st.lists(WORDS, min_size=1, max_size=4).map(
    lambda words: " ".join(f"'{w}'" if " " in w else w for w in words)
)
JOINS = st.sampled_from([" && ", " | ", "; ", " || ", "\n"])
PIECES = st.one_of(COMMANDS, st.sampled_from(["$(x)", "`x`", "> out", "2>&1", "<<E\nE\n", "FOO=1 ", "&", "{", "}"]))
LINES = st.lists(st.tuples(PIECES, JOINS), min_size=1, max_size=3).map(
    lambda parts: "".join(piece + join for piece, join in parts)
)
PATTERNS = st.sampled_from(["git", "git push", "git commit", "ls", "rm", "npm", "pytest", "bash x", "env"])
RULES = st.lists(st.builds(ShellRule, pattern=PATTERNS, approval=st.sampled_from(Approval)), max_size=3)
DEFAULTS = st.sampled_from(Approval)


def grantable(line: str, *rules: str) -> tuple[tuple[str, ...], ...]:
    asking = [ShellRule(pattern=pattern, approval=Approval.ASK) for pattern in rules]
    return judge_line(line, asking, Approval.ASK, writable=["scratch"]).grantable


OFFERED = {
    "pytest -x tests": (("pytest",),),
    "git commit -m 'a b'": (("git commit", "git"),),
    "npm test": (("npm test",),),
    "docker ps": (("docker ps",),),
    "pytest -x 2>&1 | tail -5": (
        ("pytest",),
        ("tail",),
    ),
    "pytest a; pytest b": (("pytest",),),
    "git add . && git commit -m x": (
        ("git add", "git"),
        ("git commit", "git"),
    ),
    "ls > scratch/out": (("ls",),),
}
NEVER_OFFERED = [
    *("python x.py", "python3.11 -m pytest", "node x.js", "java -jar x", "awk 1 x"),
    *("bash x.sh", "sh -c ls", "env pytest", "sudo ls", "xargs rm", "timeout 5 pytest", "nohup ls", "strace ls"),
    *("uv run pytest", "npx tsc", "docker run x", "kubectl exec pod ls", "eval ls", "export A=1", "vim x"),
    *("./run.sh", "/bin/ls", "git -C elsewhere status", "git", "git -c a=b status"),
    *("ls $(x)", "ls `x`", "ls $X", "FOO=1 ls", "ls > out", "ls &> out", "find . -delete", "sed -i s/a/b/ x"),
    *("case a in a) ls;; esac", "ls; $X", "cd .. && ls", "cd src && pytest", "", "# only a comment", "'unclosed"),
    *("pytest && python x.py", "ls | sh", "l*", "'a b' c"),
]


def test_what_a_command_is_called_for_is_offered() -> None:
    assert {line: grantable(line) for line in OFFERED} == OFFERED


def test_never_for_what_cannot_be_judged_and_for_what_runs_other_things() -> None:
    assert {line: offered for line in NEVER_OFFERED if (offered := grantable(line))} == {}


def test_what_a_rule_says_explicitly_stays() -> None:
    assert grantable("git push", "git push") == ()
    assert grantable("ls && git push", "git push") == ()
    assert grantable("git pull", "git push") == (("git pull", "git"),)


def picks(found: LineVerdict) -> list[list[ShellRule]]:
    """Every choice of one pattern for each part."""
    return [
        [ShellRule(pattern=pattern, approval=Approval.PRE_APPROVED) for pattern in chosen]
        for chosen in itertools.product(*found.grantable)
        if chosen
    ]


@given(LINES, RULES, DEFAULTS)
def test_what_is_offered_is_a_rule_that_pre_approves_the_line(
    line: str, rules: list[ShellRule], default: Approval
) -> None:
    found = judge_line(line, rules, default)
    if not found.grantable:
        return
    assert found.approval is Approval.ASK
    assert all(part.rule is None for part in found.parts if part.approval is Approval.ASK)
    for chosen in picks(found):
        assert judge_lists(line, [RuleList("", rules), RuleList("more", chosen)], default).approval is (
            Approval.PRE_APPROVED
        )
        assert judge_line(line, [*rules, *chosen], default).approval is Approval.PRE_APPROVED


@given(LINES, LINES, RULES, DEFAULTS)
def test_what_is_given_for_one_line_allows_another_only_as_a_rule_would(
    first: str, second: str, rules: list[ShellRule], default: Approval
) -> None:
    given_patterns = {each for patterns in judge_line(first, rules, default).grantable for each in patterns}
    found = judge_line(second, rules, default)
    met = [[each for each in patterns if each in given_patterns] for patterns in found.grantable]
    if met and all(met):
        chosen = [ShellRule(pattern=each[0], approval=Approval.PRE_APPROVED) for each in met]
        assert judge_line(second, [*rules, *chosen], default).approval is Approval.PRE_APPROVED


def test_offers_are_sound_for_every_case() -> None:
    wrong = []
    for case in CASES:
        rules, default = [ShellRule.model_validate(rule) for rule in case["rules"]], Approval(case["default"])
        writable = case.get("writable", ())
        found = judge_line(case["command"], rules, default, writable=writable)
        chosen = [judge_line(case["command"], [*rules, *pick], default, writable=writable) for pick in picks(found)]
        sound = all(verdict.approval is Approval.PRE_APPROVED for verdict in chosen)
        wrong += [] if sound and (not found.grantable or case["expect"] == "ask") else [case["id"]]
    assert wrong == []

"""What holds for any line: no crash, no loosening by a blocked rule, no escape by quotes and blanks, linear cost."""

import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_cli.bashrules.allow.parser import read_line
from forge_cli.bashrules.judge import judge_line
from forge_cli.bashrules.rules import ShellRule
from forge_cli.core.approval import Approval

PIECES = st.sampled_from(
    (
        *(
            "git ",
            "ls ",
            "rm ",
            "x ",
            "'",
            '"',
            "\\",
            "$",
            "(",
            ")",
            "{",
            "}",
            "`",
            ";",
            "&",
            "|",
            "<",
            ">",
            "\n",
            "#",
            " ",
        ),
        *(
            "<<E\n",
            "E\n",
            "$(",
            "${",
            "$'",
            "((",
            "[[ ",
            "case x in ",
            "a) ",
            "esac ",
            "sudo ",
            "bash -c ",
            "eval ",
            "*",
        ),
    )
)
LINES = st.one_of(st.text(), st.lists(PIECES, max_size=24).map("".join))
APPROVALS = st.sampled_from(list(Approval))
WORDS = st.sampled_from(["git", "ls", "rm", "push", "-f", "x"])
PATTERNS = st.lists(WORDS, min_size=1, max_size=2).map(" ".join)
RULES = st.lists(st.builds(ShellRule, pattern=PATTERNS, approval=APPROVALS), max_size=4)
BLANKS = st.text(" \t", min_size=1, max_size=3)


@given(LINES, RULES, APPROVALS)
def test_every_line_gets_a_verdict_with_a_reason(line: str, rules: list[ShellRule], default: Approval) -> None:
    verdict = judge_line(line, rules, default, writable=["scratch"])
    assert verdict.reason
    if verdict.approval is Approval.PRE_APPROVED:
        assert verdict.parts
        assert all(part.approval is Approval.PRE_APPROVED and part.why is None for part in verdict.parts)


@given(LINES, RULES, APPROVALS, PATTERNS, st.integers(0, 4))
def test_a_blocked_rule_never_loosens(
    line: str, rules: list[ShellRule], default: Approval, pattern: str, place: int
) -> None:
    before = judge_line(line, rules, default).approval
    blocked = [*rules[:place], ShellRule(pattern=pattern, approval=Approval.BLOCKED), *rules[place:]]
    after = judge_line(line, blocked, default).approval
    assert not before.stricter_than(after)


@given(LINES, RULES)
def test_a_stricter_default_never_loosens(line: str, rules: list[ShellRule]) -> None:
    verdicts = [judge_line(line, rules, default).approval.strictness for default in Approval]
    assert verdicts == sorted(verdicts)


@given(st.lists(WORDS, min_size=1, max_size=4), st.data())
def test_quotes_and_blanks_do_not_hide_a_blocked_command(words: list[str], data: st.DataObject) -> None:
    rules = [ShellRule(pattern=" ".join(words[: data.draw(st.integers(1, len(words)))]), approval=Approval.BLOCKED)]
    line = data.draw(BLANKS).join(data.draw(spelled(word)) for word in words)
    before, after = data.draw(st.tuples(*[st.sampled_from(["", " ", "\n", "ls; ", "ls | ", "(", "{ ", "! "])] * 2))
    assert judge_line(f"{before}{line}{data.draw(BLANKS)}{after}", rules, Approval.ASK).approval is Approval.BLOCKED


@st.composite
def spelled(draw: st.DrawFn, word: str) -> str:
    """A word in one of the many ways to write it."""
    quotes = st.sampled_from(["{}", "'{}'", '"{}"', "\\{}", "$'{}'", "''{}", '{}""', "\\\n{}"])
    return "".join(draw(quotes).format(char) for char in word)


@given(st.lists(WORDS, min_size=1, max_size=4), st.data())
def test_quotes_and_blanks_do_not_change_what_is_preapproved(words: list[str], data: st.DataObject) -> None:
    rules = [ShellRule(pattern=words[0], approval=Approval.PRE_APPROVED)]
    plain = judge_line(" ".join(words), rules, Approval.ASK)
    line = data.draw(BLANKS).join(data.draw(st.sampled_from([word, f"'{word}'", f'"{word}"'])) for word in words)
    verdict = judge_line(line, rules, Approval.ASK)
    assert (verdict.approval, [part.words for part in verdict.parts]) == (plain.approval, [tuple(words)])


# fmt: off
LONG = [
    "a;", "a ", "a", "$(", "${", "(", "((", "`", "'", '"', '"$(', "{a,", "<<", "$x", '"a"', "#\n", "<(a ",
    "cat <<A\n", "\\", "$'", "case ", "$x;A=1 ", "$(a)", "(a)|", "eval '", "sudo ", "sudo -u ", "git -C ",
    "find -exec ", "sh -o ", "bash -c '", "env -S ", "`a` ", "a=1 ", "{a,b} ", ">x ", "~", "a~", "*", "a*", "a{b}",
    "git status && ", "docker run ", "flock ", "git rebase -x ", "printf '$(' ", "trap 'a' ", ">&'$(' ", "x[ ", "r?;",
    "git-x ", "a\\\n", "cat <<E\n$(a)\nE\n", "cat <<'E'\nrm\nE\n", "eval 'eval '", "xargs ", "ssh ", "watch ' ",
    "1p;", "- ", "time ", "a='", "tar -I", "a;b\n", "git;", "?a;", "{a,b}{a,b} ", "\\;", "[ a ];", "2>&1 ", "é ",
    "$1 ", "git {a} ", "@(", "A=$(a) ", "<<E ", "a[$(", "{,} ", "\t\n",
    "a=b;git $a;", "a+=b;", "a=a$a$a;", "${x:-a} ", "git ${x:-", "git p*;", "git ~;", "echo a|xargs git;", "cd a;",
    "t=(a b) ",
    "make -f-;", "git $1;", "git {p,q}ush;", "&\\\n>a ", "$\\\na ", "${x#a} ", "x --y=z ",
    "docker -x run -x ", "a=/sudo ", "a=/timeout ", "npm -x e ", "python -m ", "( a|", "( a;", "uv run docker run -it ",
]
NESTED = [("{ a && ", " & }"), ("( a && ", " & )"), ("( a | ", " )"), ("( a; ", " )")]
ANYWHERE = [
    "make -x ", "git -C ", "git push -x ", "tar ", "alias ", "python ", "python -m ", "git-a ", "npm ",
    "docker run ", "make ", "env ",
]
# fmt: on


def seconds_of(line: str) -> float:
    rules = [ShellRule(pattern="git", approval=Approval.PRE_APPROVED)]
    rules += [ShellRule(pattern=pattern, approval=Approval.BLOCKED) for pattern in ("rm", "git push")]
    read_line.cache_clear()
    start = time.process_time()
    judge_line(line, rules, Approval.ASK)
    return time.process_time() - start


def a_moment() -> float:
    """What this machine needs for half a million additions, right now."""
    start = time.process_time()
    sum(number + 1 for number in range(500_000))
    return time.process_time() - start


def takes_too_long(longer: str, shorter: str) -> bool:
    """Whether a line that is four times as long as another takes rather sixteen times as long."""
    taken = seconds_of(longer)
    return (
        taken > a_moment() and taken > 9 * min(seconds_of(shorter) for _ in range(3)) and seconds_of(longer) > taken / 2
    )


@pytest.mark.long
@pytest.mark.parametrize("part", range(5))
def test_long_lines_take_linear_time(part: int) -> None:
    lines = {piece: [piece * (length // len(piece)) for length in (8_000, 2_000)] for piece in LONG}
    lines |= {open_: [open_ * n + "a" + close * n for n in (2_000, 500)] for open_, close in NESTED}
    lines |= {f"strace {p}": [f"strace {p * (n // len(p))} *" for n in (32_000, 8_000)] for p in ANYWHERE}
    assert [piece for piece in list(lines)[part::5] if takes_too_long(*lines[piece])] == []


@pytest.mark.long
def test_very_long_lines_are_judged_at_once() -> None:
    """Within a second, where a moment takes an eightieth of one."""
    taken = {piece: min(seconds_of(piece * (128_000 // len(piece))) for _ in range(3)) for piece in LONG}
    assert [piece for piece, seconds in taken.items() if seconds > 80 * a_moment()] == []


def test_the_judge_is_light_to_import() -> None:
    code = (
        "import sys, forge_cli.core.approval, forge_cli.schema.config, forge_cli.core.text; before = set(sys.modules)\n"
        "import forge_cli.bashrules.rules, forge_cli.bashrules.lint\n"
        "own = ('forge_cli.bashrules', 'forge_cli.sandbox', 'forge_cli.files', 'yaml', 'cython', '_cython')\n"
        "print([name for name in set(sys.modules) - before if not name.startswith(own)])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

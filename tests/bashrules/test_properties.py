"""Properties of every line: no crash, no loosening by a blocked rule, no escape by quotes, linear cost."""

import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_cli.bashrules.allow.parser import read_line
from forge_cli.bashrules.decision import Decision
from forge_cli.bashrules.judge import judge_line
from forge_cli.bashrules.rules import Rule

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
STRICTNESS = list(Decision)
DECISIONS = st.sampled_from(STRICTNESS)
WORDS = st.sampled_from(["git", "ls", "rm", "push", "-f", "x"])
PATTERNS = st.lists(WORDS, min_size=1, max_size=2).map(" ".join)
RULES = st.lists(st.builds(Rule, pattern=PATTERNS, decision=DECISIONS), max_size=4)
BLANKS = st.text(" \t", min_size=1, max_size=3)


@given(LINES, RULES, DECISIONS)
def test_every_line_gets_a_verdict_with_a_reason(
    line: str, rules: list[Rule], default: Decision
) -> None:
    verdict = judge_line(line, rules, default, writable=["scratch"])
    assert verdict.reason
    if verdict.decision is Decision.PRE_APPROVED:
        assert verdict.parts
        assert all(
            part.decision is Decision.PRE_APPROVED and part.why is None for part in verdict.parts
        )


@given(LINES, RULES, DECISIONS, PATTERNS, st.integers(0, 4))
def test_blocked_rule_never_loosens(
    line: str, rules: list[Rule], default: Decision, pattern: str, place: int
) -> None:
    before = judge_line(line, rules, default).decision
    blocked = [*rules[:place], Rule(pattern=pattern, decision=Decision.BLOCKED), *rules[place:]]
    after = judge_line(line, blocked, default).decision
    assert STRICTNESS.index(before) <= STRICTNESS.index(after)


@given(LINES, RULES)
def test_stricter_default_never_loosens(line: str, rules: list[Rule]) -> None:
    verdicts = [STRICTNESS.index(judge_line(line, rules, default).decision) for default in Decision]
    assert verdicts == sorted(verdicts)


@given(st.lists(WORDS, min_size=1, max_size=4), st.data())
def test_quotes_and_blanks_do_not_hide_a_blocked_command(
    words: list[str], data: st.DataObject
) -> None:
    rules = [
        Rule(
            pattern=" ".join(words[: data.draw(st.integers(1, len(words)))]),
            decision=Decision.BLOCKED,
        )
    ]
    line = data.draw(BLANKS).join(data.draw(spelled(word)) for word in words)
    before, after = data.draw(
        st.tuples(*[st.sampled_from(["", " ", "\n", "ls; ", "ls | ", "(", "{ ", "! "])] * 2)
    )
    assert (
        judge_line(f"{before}{line}{data.draw(BLANKS)}{after}", rules, Decision.ASK).decision
        is Decision.BLOCKED
    )


@st.composite
def spelled(draw: st.DrawFn, word: str) -> str:
    """A word in one of the many ways to write it."""
    quotes = st.sampled_from(["{}", "'{}'", '"{}"', "\\{}", "$'{}'", "''{}", '{}""', "\\\n{}"])
    return "".join(draw(quotes).format(char) for char in word)


@given(st.lists(WORDS, min_size=1, max_size=4), st.data())
def test_quotes_and_blanks_do_not_change_what_is_preapproved(
    words: list[str], data: st.DataObject
) -> None:
    rules = [Rule(pattern=words[0], decision=Decision.PRE_APPROVED)]
    plain = judge_line(" ".join(words), rules, Decision.ASK)
    line = data.draw(BLANKS).join(
        data.draw(st.sampled_from([word, f"'{word}'", f'"{word}"'])) for word in words
    )
    verdict = judge_line(line, rules, Decision.ASK)
    assert (verdict.decision, [part.words for part in verdict.parts]) == (
        plain.decision,
        [tuple(words)],
    )


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
    rules = [Rule(pattern="git", decision=Decision.PRE_APPROVED)]
    rules += [Rule(pattern=pattern, decision=Decision.BLOCKED) for pattern in ("rm", "git push")]
    read_line.cache_clear()
    start = time.process_time()
    judge_line(line, rules, Decision.ASK)
    return time.process_time() - start


def a_moment() -> float:
    """The current time of this machine for half a million additions."""
    start = time.process_time()
    sum(number + 1 for number in range(500_000))
    return time.process_time() - start


def takes_too_long(longer: str, shorter: str) -> bool:
    """Whether a line that is four times as long as another takes rather sixteen times as long."""
    taken = seconds_of(longer)
    return (
        taken > a_moment()
        and taken > 9 * min(seconds_of(shorter) for _ in range(3))
        and seconds_of(longer) > taken / 2
    )


@pytest.mark.long
@pytest.mark.parametrize("part", range(5))
def test_long_lines_take_linear_time(part: int) -> None:
    lines = {piece: [piece * (length // len(piece)) for length in (8_000, 2_000)] for piece in LONG}
    lines |= {open_: [open_ * n + "a" + close * n for n in (2_000, 500)] for open_, close in NESTED}
    lines |= {
        f"strace {p}": [f"strace {p * (n // len(p))} *" for n in (32_000, 8_000)] for p in ANYWHERE
    }
    assert [piece for piece in list(lines)[part::5] if takes_too_long(*lines[piece])] == []


@pytest.mark.long
def test_very_long_lines_are_judged_at_once() -> None:
    """Within a second on a machine whose moment is an eightieth of a second."""
    taken = {
        piece: min(seconds_of(piece * (128_000 // len(piece))) for _ in range(3)) for piece in LONG
    }
    assert [piece for piece, seconds in taken.items() if seconds > 80 * a_moment()] == []


def test_library_loads_only_its_own_modules() -> None:
    code = (
        "import sys, msgspec, yaml, forge_cli; before = set(sys.modules)\n"
        "import forge_cli.bashrules.lint\n"
        "own = ('forge_cli.bashrules', 'yaml', 'cython', '_cython')\n"
        "others = [name for name in set(sys.modules) - before if not name.startswith(own)]\n"
        "print([name for name in others if name.partition('.')[0] not in sys.stdlib_module_names])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

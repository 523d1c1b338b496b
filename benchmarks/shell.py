"""The time of a verdict on a shell line, for everyday lines and for very long ones."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from table import Row, main

from forge_cli.bashrules.decision import Decision
from forge_cli.bashrules.judge import LineJudge
from forge_cli.bashrules.rules import Rule, RuleList

CASES = Path(__file__).resolve().parent.parent / "tests" / "cases" / "shell_rules.jsonl"
ALLOWED = ("git status", "ls", "echo", "cat", "a", "timeout 5 git", "sed", "tar", "xargs cat")
BLOCKED = ("git push", "git reset", "rm", "dd", "curl", "docker run")
RULES = [
    *(Rule(pattern=pattern, decision=Decision.PRE_APPROVED) for pattern in ALLOWED),
    *(Rule(pattern=pattern, decision=Decision.BLOCKED) for pattern in BLOCKED),
]
JUDGE = LineJudge([RuleList("", RULES)], Decision.ASK)
LONG = 128 * 1024
MEASURABLE = 0.05
"""Seconds below which the ratio of two times is noise."""

# fmt: off
PIECES = (
    "a;", "a\n", "a|", "a&&", "git status; ", "git;", "ls -a;", "é;", "?;", "(a);", "{ a; };", "[[ a ]];", "[ a ];",
    "((1));", "{a,b};", "A=1;", "bash -c 'a';", "echo a|sh;", "git bisect run a;", "case a in a) b;; esac;",
    "if a; then b; fi;", "for i in a; do b; done;", "f() { a; };", 'ls a;\'b\' "c" $d `e` $(f) >g;', "a ", "é ",
    "\\a ", "'a' ", '"a" ', "$x ", '"$x" ', "${x} ", "$(a) ", "`a` ", "<(a) ", "$'a' ", "{a,b} ", "{1..9} ", "a* ",
    "A=1 ", "A=(a) ", "a[1]=1 ", "a[$(", ">a ", ">a", "2>&1 ", "<<<a ", "{f}>a ", ">&'$(a)' ", "! ", "time ", "sudo ",
    "env ", "env -S 'a b' ", "nice -n 1 ", "xargs 'a;b' ", "strace 'a;' ", "ssh a 'b;c' ", "eval 'a' ",
    "find -exec a ';' ", "git -C . ", "git -c a=b ", "docker run ", "tar --to-command=a ", "tar -I", "uv run ",
    "bash -o ", "trap 'a' ", "alias a=b ", "printf 'a[$b]' ", "a", "é", "\\a", "\\\\", "\\\n", "''", '""', '\'a\'"b"',
    "$x", "${", "$(", "$((", "$[", "(", "{ ", "`", "'", '"', "$'", "*", "#", "#\n", ";", "\n", " ", "\t\n", "<", "-",
    "~ ", "@(", "[[ ", "if ", "coproc ", "case a in a) ", "cat<<E\nE\n", "cat<<E\n", "cat <<E\n$a\nE\n", "<<E ",
    "a=b; git $a;", "a+=b;", "a=a$a$a;", "${x:-a} ", "git ${x:-", "git p*;", "git ~;", "echo a|xargs git;", "cd a;",
    "t=(a b) ",
    "make -f-;", "for a in b;do $a;done;", "git $1;", "git {p,q}ush;", "&\\\n>a ", "$\\\na ", "${x#a} ", "x --y=z ",
    "docker -x run -x ", "npm -x e ", "npm x ", "ip netns exec a ", "uv run docker run -it ",
    "docker run --entrypoint a ", "kubectl exec a -- ", "a=/timeout ", "python -m ", "( a|", "git log --oneline ",
    "git '*';", "timeout 5 ", "npx ",
)
# fmt: on
WHOLE: dict[str, Callable[[int], str]] = {
    "one quoted text": lambda size: "echo '" + "a b " * (size // 4) + "'",
    "a here-document": lambda size: "cat <<'END'\n" + "some text\n" * (size // 10) + "END",
    "a here-document that expands": lambda size: "cat <<END\n" + "$(a)\n" * (size // 5) + "END",
    "many here-documents at once": lambda size: (
        "cat " + "<<E " * (size // 8) + "\n" + "E\n" * (size // 8)
    ),
    "nested substitutions": lambda size: "$(" * (size // 3) + "a" + ")" * (size // 3),
    "nested subshells": lambda size: "( " * (size // 4) + "a" + " )" * (size // 4),
    "nested braces": lambda size: "{a," * (size // 4) + "}" * (size // 4),
    "wide braces": lambda size: "ls {" + "a," * (size // 2) + "}",
    "words of braces": lambda size: ("{a,b}" * 40 + " ") * (size // 201),
    "different commands": lambda size: ";".join(f"c{number}" for number in range(size // 6)),
    "different globs": lambda size: ";".join(f"?{number}" for number in range(size // 6)),
    "different scripts": lambda size: ";".join(
        f"bash -c 'a{number}'" for number in range(size // 16)
    ),
    "a printed script": lambda size: (
        "echo " + " ".join(f"'{number}'" for number in range(size // 8)) + "| sh"
    ),
    "variables behind commands": lambda size: "a;" * (size // 4) + "$x " * (size // 6),
    "commands with a variable": lambda size: (
        "a=x;" + ";".join(f"git c{number} $a" for number in range(size // 14))
    ),
    "values of one variable": lambda size: (
        ";".join(f"a={number}" for number in range(size // 8)) + ";git $a"
    ),
    "different folders": lambda size: ";".join(f"cd d{number}" for number in range(size // 9)),
    "globs behind a program": lambda size: ";".join(
        f"git c{number}*" for number in range(size // 10)
    ),
    "groups in the background": lambda size: "{ a && " * (size // 40) + "a" + " & }" * (size // 40),
    "programs behind strace": lambda size: "strace " + "tar alias python " * (size // 17),
    "runners behind strace": lambda size: (
        "strace " + "npm docker run uv git-a " * (size // 24) + "*"
    ),
    "different runners": lambda size: ";".join(f"uv run c{number}" for number in range(size // 14)),
    "different feeders": lambda size: "|".join(f"xargs c{number}" for number in range(size // 13)),
    "defaults in defaults": lambda size: "${x:-" * (size // 6) + "}" * (size // 6),
    "variables in one word": lambda size: "a=x;git " + "$a" * (size // 2),
    "a cluster of options": lambda size: "tar -" + "I" * size,
    "a script of sed": lambda size: "sed '" + "s/a/" * (size // 4) + "' f",
}


def taken(line: str, rounds: int) -> float:
    """Return the CPU seconds of one verdict: the minimum of a few rounds."""
    found = []
    for _ in range(rounds):
        begin = time.process_time()
        JUDGE.judge(line)
        found.append(time.process_time() - begin)
    return min(found)


def everyday(rounds: int) -> float:
    """Return milliseconds for the median line of the test cases."""
    lines = [json.loads(line)["command"] for line in CASES.read_text().splitlines()]
    short = [line for line in lines if len(line) < 200 and "\0" not in line]
    return 1000 * statistics.median(taken(line, rounds) for line in short)


def shapes() -> Iterator[tuple[str, Callable[[int], str]]]:
    yield from WHOLE.items()
    for piece in PIECES:
        yield repr(piece), lambda size, piece=piece: piece * (size // len(piece))


def measure(rounds: int) -> list[Row]:
    rows = [Row("median line, ms", everyday(rounds), 0.2)]
    for name, shape in shapes():
        seconds = taken(shape(LONG), rounds)
        rows.append(Row(f"128 kB, {name}, s", seconds, 0.5))
        if seconds > MEASURABLE:
            half, double = (taken(shape(size), rounds) for size in (LONG // 2, LONG * 2))
            rows.append(Row(f"256 kB / 64 kB, {name}", double / half, 8.0))
    return rows


if __name__ == "__main__":
    main(measure, rounds=2)

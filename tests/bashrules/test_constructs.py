"""Loops, conditions, variables, substitutions and xargs in real bash: started programs are allowed word for word.

Covers forge_cli.bashrules.allow.values, forge_cli.bashrules.sets.listings.
"""

import os
import random
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from forge_cli.bashrules.decision import Decision
from forge_cli.bashrules.judge import LineJudge
from forge_cli.bashrules.line import read
from forge_cli.bashrules.rules import RuleList
from forge_cli.core.approval import Approval
from forge_cli.core.zones import Zone
from forge_cli.sandbox.files.sandbox import Sandbox
from forge_cli.toolsets.shell.config import ShellConfig, UserRules
from forge_cli.toolsets.shell.judged import JudgedLine
from forge_cli.toolsets.shell.policy import ShellPolicy

from .test_differential import BASH, HARMLESS, RECORDER, mutate, read_record

pytestmark = pytest.mark.needs("bash")

FEW, MANY, PART = 400, 4_000, 2_000
FILES = (
    "a.txt",
    "b.txt",
    "src/c.py",
    "src/d.py",
    "names.txt",
    ".env",
    "src/.env.local",
    "-x",
    "a b.txt",
    "x$(evil)y",
)
# What is no builtin is recorded, and the programs that print names print some that are there.
PROGRAMS = r"""
find() { _rec find "$@"; builtin printf '%s\n' src/c.py src/d.py; }
git() { _rec git "$@"; builtin printf '%s\n' a.txt src/c.py; }
rg() { _rec rg "$@"; builtin printf '%s\n' a.txt b.txt; }
cat() { _rec cat "$@"; builtin printf '%s\n' .env /nonexistent/x '$(evil)' -o 'a;rm b'; }
head() { _rec head "$@"; while builtin read -r _l; do builtin printf '%s\n' "$_l"; done; }
sort() { head "$@"; }
timeout() {
  _rec timeout "$@"
  while [[ $1 == -* ]]; do [[ $1 == -[sk] ]] && builtin shift; builtin shift; done
  builtin shift
  "$@"
}
xargs() {
  _rec xargs "$@"
  _words=() _into=
  while [[ $1 == -* || $1 =~ ^[0-9]+$ || $1 == '{}' ]]; do [[ $1 == -I* ]] && _into=1; builtin shift; done
  while builtin read -r _l; do _words+=($_l); done
  if [[ $_into ]]; then
    for _l in "${_words[@]}"; do "${@//'{}'/$_l}"; done
  else
    "$@" "${_words[@]}"
  fi
}
"""
LOOP = r"""
while IFS= builtin read -r -d '' LINE && IFS= builtin read -r -d '' _text; do
  ( builtin ulimit -t 1 -f 400000; _left=40; builtin cd "0" && builtin eval "$_text"
    builtin wait ) < /dev/null > /dev/null 2>&1
done
"""

# fmt: off
READERS = (
    "cat", "head -3", "wc -l", "ls", "grep -n x", "sed -n 1p", "sort", "stat", "file", "git log --", "git diff",
    "du -sh", "awk '{print}'", "tail -n 1", "nl",
)
PRINTERS = ("echo", "printf '%s\n'", "basename", "dirname", "echo ==", "true", "echo -n", "seq")
OTHERS = (
    "rm", "evil", "sh", "sort -o", "uniq", "find", "xxd", "tee", "sed -n", "awk", "printf", "read", "export", "eval",
    "cd", "printf -v x", "find . -delete", "test -v", "[ -v", "grep", "git", "xargs", "unset", "declare", "mapfile",
    "source", "./run.sh", "env", "command", "exec", "let", "time", "timeout 5", "time cat", "timeout 5 cat",
)
WORDS = (
    "a.txt", "src/c.py", "'a b.txt'", '"b.txt"', "src/*.py", "*.txt", "*", "?.txt", "[ab].txt", "src/*", "a*",
    "names.txt",
)
ODD_WORDS = (
    ".env", ".e*", "-x", "-*", "--", "/nonexistent/x", "../x", "~/x", "''", "rm", "{a,b}", "$((1))", "`evil`", "$'a'",
    "$1", "$@", "$IFS", "$HOME", '"$HOME/.env"', "${x:-rm}", "${x}.txt", "src/$x", "$x$y", "'$x'", "\\$x", "$?",
    "<(evil)", "'*'", "'.env b.txt'", "-o", "'rm a'", "$$", "a.txt;", "x=1", "'x$(evil)y'", ">", "]", "!",
)
LISTS = (
    "find src -name '*.py'", "git ls-files '*.py'", "rg --files -g '*.py'", "rg -l x", "ls *.txt",
    "find . -name '*.txt'", "git ls-files", "find . -type f", "grep -rl x src --include='*.py'",
    "find src -name '*.py' | head -3", "find src -name '*.py' -o -name '*.md' | sort", "ls", "find . -printf x",
    "echo .env", "cat names.txt", "find src -exec x", "git diff --name-only", "git rev-parse HEAD", "date", "pwd",
    "printf x", "find . ! -name x", "find src -name 'c*' | sed s/c/d/",
)
VARIABLES = ("x", "y", "f", "file", "PATH", "IFS", "X", "http_proxy")
TESTS = (
    "[ -f {w} ]", "test -d {w}", "[ {w} = {w} ]", "[ -n {w} ]", "[ {w} ]", "[ {w} {w} ]", "true", "false",
    "grep -q x {w}", "{r} {w}", "! {r} {w}", "[ -f {w} ] && {r} {w}", "[ {w} -eq 1 ]", "[ -v {w} ]", "rm {w}",
    "[ ! -f {w} ]",
)
# fmt: on


class Grammar:
    """Lines of one construct, which people write, with words in them that people do not write."""

    def __init__(self, rng: random.Random, construct: str) -> None:
        self.rng, self.construct = rng, construct

    def pick(self, usual: tuple[str, ...], odd: tuple[str, ...], chance: float = 0.12) -> str:
        return self.rng.choice(odd if self.rng.random() < chance else usual)

    def word(self, depth: int = 0) -> str:
        roll = self.rng.random()
        if self.construct != "globs" and roll < 0.45:
            name = self.rng.choice(VARIABLES[:4])
            return self.rng.choice(("${}", '"${}"', "${{{}}}", '"${{{}}}"', '"${}"')).format(name)
        if self.construct in ("substitution", "assignment", "for") and roll < 0.65 and depth < 2:
            return self.rng.choice(("$({})", '"$({})"')).format(self.listing(depth + 1))
        return self.pick(WORDS, ODD_WORDS)

    def listing(self, depth: int) -> str:
        return self.rng.choice(LISTS) if self.rng.random() < 0.8 else self.command(depth)

    def command(self, depth: int = 0) -> str:
        first = self.pick(READERS + PRINTERS, OTHERS)
        words = [first, *(self.word(depth) for _ in range(self.rng.randint(0, 2)))]
        if self.rng.random() < 0.1:
            words.append(
                self.rng.choice(
                    ("2>/dev/null", "> /dev/null", "2>&1", "> o", "< a.txt", "> $x", "| head -3")
                )
            )
        return " ".join(words)

    def test(self) -> str:
        text = self.rng.choice(TESTS)
        while "{w}" in text or "{r}" in text:
            text = text.replace("{w}", self.word(), 1).replace("{r}", self.rng.choice(READERS), 1)
        return text

    def block(self) -> str:
        inner = [
            self.statement() if self.rng.random() < 0.12 else self.command()
            for _ in range(self.rng.randint(1, 2))
        ]
        return self.rng.choice(("; ", "; ", " && ", " | ", "\n")).join(inner)

    def statement(self) -> str:
        name = self.rng.choice(VARIABLES if self.rng.random() < 0.1 else VARIABLES[:4])
        match self.construct:
            case "for":
                words = " ".join(self.word() for _ in range(self.rng.randint(1, 3)))
                return f"for {name} in {words}; do {self.block()}; done"
            case "if":
                other = self.rng.choice(
                    ("", "", f"; else {self.block()}", f"; elif {self.test()}; then {self.block()}")
                )
                return f"if {self.test()}; then {self.block()}{other}; fi"
            case "while":
                return (
                    f"{self.rng.choice(('while', 'until'))} {self.test()}; do {self.block()}; done"
                )
            case "xargs":
                options = self.rng.choice(
                    ("", "", "-0 ", "-n 1 ", "-I{} ", "-r ", "-d x ", "-a names.txt ", "-I {} ")
                )
                started = f"xargs {options}{self.command()}{self.rng.choice(('', ' {}'))}"
                again = self.rng.choice(
                    ("", "", f" | {started}", f" | sort | {started}", f"; {started} < names.txt")
                )
                return f"{self.rng.choice(LISTS)} | {started}{again}"
            case "assignment":
                return f"{name}={self.word()}{self.rng.choice(('; ', '; ', ' && ', ' ', ' | ', ' & '))}{self.block()}"
            case "pipes":
                ends = (
                    "2>/dev/null",
                    "> /dev/null",
                    "2>&1",
                    "&> /dev/null",
                    ">/dev/null 2>&1",
                    "< a.txt",
                    "> o",
                    "2> $x",
                )
                link = self.rng.choice((" | ", " | ", " |& ", " && ", " || ", "; ", " & "))
                return link.join(
                    f"{self.command()} {self.pick(('',), ends, 0.4)}"
                    for _ in range(self.rng.randint(2, 4))
                )
            case "timeout":
                limit = self.pick(
                    ("5", "1m", "0.5", "-s KILL 5", "-k 1 5", "--preserve-status 5"),
                    ("$x", "-x 5", "", "rm"),
                )
                return f"{self.rng.choice((f'timeout {limit}', f'timeout {limit}', 'time', 'time -p'))} {self.command()}"
            case "cd":
                folder = self.rng.choice(
                    ("src", "..", "../src", ".", "nosuch", "src/..", "-", "$x", "../..")
                )
                return f"cd {folder}{self.rng.choice(('; ', ' && ', ' | ', ' & ', ' || '))}{self.block()}"
        return self.command()

    def line(self) -> str:
        line = self.rng.choice(("; ", " && ", " | ", "\n", " || ")).join(
            self.statement() for _ in range(self.rng.choice((1, 1, 2, 3)))
        )
        return mutate(line, self.rng) if self.rng.random() < 0.3 else line


CONSTRUCTS = (
    "for",
    "if",
    "while",
    "substitution",
    "assignment",
    "xargs",
    "cd",
    "globs",
    "pipes",
    "timeout",
)


def draw(construct: str, seed: int, count: int) -> list[str]:
    grammar, drawn = Grammar(random.Random(f"{construct} {seed}"), construct), {}
    while len(drawn) < count:
        line = grammar.line().replace("\0", "")
        if "/" not in re.sub(
            r"/dev/null(?=[\s;|&<>()]|$)|src/|/nonexistent/x|[.]{2}/|~/x|[.]/run[.]sh|/[.]env",
            "",
            line,
        ):
            drawn[line] = None
    return list(drawn)


def make_place(place: Path) -> Path:
    for name in FILES:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text("x\n")
    return place


def start(lines: list[str], place: Path) -> list[list[tuple[str, ...]]]:
    """Run lines in one bash, in one folder, each in a subshell; the argv of everything that each starts."""
    assert BASH
    folder = make_place(place / "0")
    before = sorted(str(path) for path in place.rglob("*"))
    fed = "".join(f"{number}\0{line}\0" for number, line in enumerate(lines))
    recorder = RECORDER.replace("CARRIED_OUT", HARMLESS).replace(
        "_rec() {", "_rec() {\n  ((--_left)) || builtin exit"
    )
    script = recorder + PROGRAMS + LOOP
    (place.parent / f"{place.name}.lines").write_bytes(fed.encode("utf-8", "surrogatepass"))
    record = place.parent / f"{place.name}.record"
    subprocess.run(
        [
            BASH,
            "--noprofile",
            "--norc",
            "-c",
            f"exec < ../{place.name}.lines\n{script}",
            "recorder",
            str(record),
        ],
        cwd=place,
        env={"PATH": "/nonexistent", "HOME": str(folder), "LC_ALL": "C.UTF-8"},
        timeout=500,
        capture_output=True,
        check=False,
    )
    assert sorted(str(path) for path in place.rglob("*")) == before, "a line wrote a file"
    seen = read_record(record.read_bytes() if record.exists() else b"")
    return [[argv for _, argv in seen.get(str(number), [])] for number in range(len(lines))]


def check(construct: str, seed: int, count: int, tmp_path: Path) -> int:
    """Judge some lines and run the pre-approved ones: the same rules must allow each argv by itself."""
    template = make_place(tmp_path / "template")
    config = ShellConfig.model_validate({"rules": [{"use": "reading"}]})
    policy = ShellPolicy(
        config, UserRules(), Sandbox([Zone("w", template)], workspace=template), template
    )
    lines = draw(construct, seed, count)
    judge = LineJudge([RuleList("", [rule.as_rule() for rule in config.rules])], Decision.ASK)
    readable = [
        line
        for line in lines
        if " .." in line or judge.judge(line).decision is Decision.PRE_APPROVED
    ]
    approved = [
        line
        for line in readable
        if JudgedLine(policy, read(line)).verdict.approval is Approval.PRE_APPROVED
    ]
    assert len(approved) > count // 50, (
        f"only {len(approved)} of {count} lines of {construct} were pre-approved"
    )
    (tmp_path / "run").mkdir()
    done = start([*approved, "cat a.txt"], tmp_path / "run")
    assert done.pop() == [("cat", "a.txt")]
    known: dict[tuple[str, ...], bool] = {}
    surprises = []
    for line, argvs in zip(approved, done, strict=True):
        piped = "|" in line.replace("||", "")  # a cd in a pipe moves nobody else
        elsewhere = any(argv[0] == "cd" and os.path.normpath(argv[-1]) != "." for argv in argvs)
        moved = "cd src" if elsewhere and not piped else ""
        for argv in argvs:
            if (*argv, moved) not in known:
                known[*argv, moved] = is_allowed(argv, policy, moved)
            if not known[*argv, moved]:
                surprises.append((line, argv))
    assert surprises == [], surprises[:10]
    return len(approved)


def is_allowed(argv: tuple[str, ...], policy: ShellPolicy, moved: str) -> bool:
    if argv[0] in ("xargs", "timeout") or (
        argv[0] == "cd" and (moved or os.path.normpath(argv[-1]) == ".")
    ):
        return True  # what it starts is recorded as well
    if argv[0] == "cd":  # in a pipe, behind another one
        return (
            JudgedLine(policy, read(f"cd src; {shlex.join(argv)}")).verdict.approval
            is Approval.PRE_APPROVED
        )
    if argv[0] in ("echo", "basename", "dirname", "seq", "true", "false", "pwd"):
        return True  # whatever their words are
    words = argv[:2] if argv[0] == "printf" else argv  # those behind the format are printed
    verdict = JudgedLine(policy, read(shlex.join(words)), read(moved) if moved else None).verdict
    return verdict.approval is Approval.PRE_APPROVED


@pytest.mark.few(3)
@pytest.mark.parametrize("construct", CONSTRUCTS)
def test_started_programs_are_allowed_word_for_word(construct: str, tmp_path: Path) -> None:
    check(construct, 0, FEW, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("part", range(MANY // PART))
@pytest.mark.parametrize("construct", CONSTRUCTS)
def test_many_random_lines_start_only_allowed_programs(
    construct: str, part: int, tmp_path: Path
) -> None:
    check(construct, 1 + part, PART, tmp_path)


def test_oracle_sees_started_programs(tmp_path: Path) -> None:
    lines = [
        "for f in a b; do rm $f; done",
        "find src | xargs -n 1 cat",
        "x=.env; cat $x",
        "cat $(cat b)",
        "while true; do ls; done",
    ]
    done = start(lines, tmp_path / "run")
    assert done[0] == [("rm", "a"), ("rm", "b")]
    assert done[1][-1] == ("cat", "src/c.py", "src/d.py")
    assert done[2] == [("cat", ".env")]
    assert done[3][-1] == ("cat", ".env", "/nonexistent/x", "$(evil)", "-o", "a;rm", "b")
    assert 20 < len(done[4]) < 100

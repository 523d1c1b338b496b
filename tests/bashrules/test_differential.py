"""Real bash as the oracle: pre-approved lines start nothing else, unblocked lines start nothing blocked."""

import json
import os
import random
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from forge_cli.bashrules.decision import Decision
from forge_cli.bashrules.judge import LineJudge, Verdict, judge_line
from forge_cli.bashrules.rules import Rule, RuleList

BASH, DASH = shutil.which("bash"), shutil.which("dash")
pytestmark = pytest.mark.needs("bash")

CASES = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "cases" / "shell_rules.jsonl")
    .read_text("utf-8")
    .splitlines()
]

INPUTS, PARTS = 20_000, 10
FEW = 800

# fmt: off
ALLOWED = (
    "timeout 5 git", "time git", "eval git", "builtin cd", "builtin printf", "command printf",
    "git", "ls", "cat", "echo", "grep", "wc", "head", "printf", "cd", "true", "test", "[", ":", "timeout", "time",
    "make", "./run.sh", "read", "mapfile", "wait", "getopts", "let", "export", "pwd", "type",
)
# fmt: on
ALLOW_RULES = [Rule(pattern=pattern, decision=Decision.PRE_APPROVED) for pattern in ALLOWED]
BLOCKED = (("rm",), ("git", "tag"), ("make", "deploy"))
BLOCK_RULES = [Rule(pattern=" ".join(tokens), decision=Decision.BLOCKED) for tokens in BLOCKED]
WRITABLE = ("scratch",)
READS_ONLY = frozenset(
    {"ls", "cat", "echo", "grep", "wc", "head", "printf", "true", "test", "[", ":", "pwd", "type"}
)
GIT_READS_ONLY = frozenset({"status", "log", "grep"})

# Every builtin is recorded; few of them are also carried out, and none that would end or change the recorder.
RECORDER = r"""
readonly REC=$1 TOP=$PWD
x= fd= STATE="$HOME|$PATH|$x|$fd|$OPTIND|$REPLY"
readonly STATE
builtin export TOP
builtin set -f
_rec() {
  builtin local state=
  [[ $PWD == "$TOP/$LINE" ]] || state=moved
  [[ "$HOME|$PATH|$x|$fd|$OPTIND|$REPLY${MAPFILE+|}" == "$STATE" ]] || state+=set
  # without line breaks, at which bash would write: what runs side by side would write in between
  builtin printf '%s\0' $'\x1e'"$LINE" "$state" "$#" "${@//$'\n'/$'\x1f'}" >> "$REC"
}
command_not_found_handle() { _rec "$@"; }
for _name in $(compgen -b); do
  case $_name in
    builtin|break|continue|wait|exit|return) ;;
    CARRIED_OUT) builtin eval "function $_name { _rec $_name \"\$@\"; builtin $_name \"\$@\"; }" ;;
    *) builtin eval "function $_name { _rec $_name \"\$@\"; }" ;;
  esac
done
builtin set +f
builtin export LINE
"""
# Programs that are there: what ``exec`` and the like start is not reported as missing.
PROGRAM = r"""#!BASH
[[ $PWD == "$TOP/$LINE" ]] || state=moved
builtin printf '%s\0' $'\x1e'"$LINE" "${state-}" "$(($# + 1))" "${0##*/}" "$@" >> RECORD
"""
LOOP = r"""
while IFS= builtin read -r -d '' LINE && IFS= builtin read -r -d '' _text; do
  ( builtin ulimit -t 1 -f 4096; builtin cd "$LINE" && builtin eval "$_text"
    builtin wait ) < /dev/null > /dev/null 2>&1
done
"""
HARMLESS = "echo|printf|cd|true|false|:|test|[|pwd|eval|read|mapfile|getopts|let|export"
ALSO_COMMANDS = (
    f"{HARMLESS}|command|exec|trap|source|.|set|shopt|alias|unset|declare|readonly|typeset"
)
REAL = ("git", "ls", "cat", "grep", "wc", "head", "timeout")
LAST = "echo 'this was the last line'"


@dataclass(frozen=True)
class Started:
    """What one line did: the argv of every program and builtin, and the files that were not there before.

    Those in ``moved`` were started in another folder, those in ``changed`` with variables that the line had set.
    """

    argvs: list[tuple[str, ...]]
    files: list[str]
    moved: list[tuple[str, ...]] = field(default_factory=list)
    changed: list[tuple[str, ...]] = field(default_factory=list)


def make_place(place: Path) -> None:
    """A working directory with names that a glob could pick up."""
    for folder in ("src", "scratch"):
        (place / folder).mkdir(parents=True)
    for name in ("a.txt", "src/b.c", "-x", "--upload-pack=evil", "rm", "deploy", "tag", "a%ln"):
        (place / name).touch()


def files_in(place: Path) -> set[str]:
    return {
        os.path.relpath(os.path.join(folder, name), place)
        for folder, _, names in os.walk(place)
        for name in names
    }


def start(
    lines: list[str],
    place: Path,
    carried_out: str = HARMLESS,
    *,
    programs: tuple[str, ...] = ("rm", "evil"),
) -> list[Started]:
    """Run lines in one bash, each in a directory and subshell of its own, with no program in reach but recorders."""
    assert BASH
    lines = [*lines, LAST]
    record, path = place / "record", place / "programs"
    path.mkdir(parents=True)
    for name in (*programs, "run.sh"):
        (path / name).write_text(PROGRAM.replace("BASH", BASH).replace("RECORD", str(record)))
        (path / name).chmod(0o755)
    for number in range(len(lines)):
        make_place(place / str(number))
        for folder in (".", "src", "scratch"):
            (place / str(number) / folder / "run.sh").symlink_to(path / "run.sh")
    before = files_in(place / "0")
    fed = "".join(f"{number}\0{line}\0" for number, line in enumerate(lines))
    script = RECORDER.replace("CARRIED_OUT", carried_out) + LOOP
    # The recorder reads its lines from a file, so that no line can read those after it.
    (place / "lines").write_bytes(fed.encode("utf-8", "surrogatepass"))
    subprocess.run(
        [BASH, "--noprofile", "--norc", "-c", f"exec < lines\n{script}", "recorder", str(record)],
        cwd=place,
        env={"PATH": str(path), "HOME": str(place / "0"), "LC_ALL": "C.UTF-8"},
        timeout=240,
        capture_output=True,
        check=False,
    )
    seen = read_record(record.read_bytes() if record.exists() else b"")
    assert {path.name for path in place.iterdir()} <= {str(n) for n in range(len(lines))} | {
        "record",
        "lines",
        "programs",
    }
    done = [
        started(seen.get(str(number), []), sorted(files_in(place / str(number)) - before))
        for number in range(len(lines))
    ]
    assert done.pop() == Started([("echo", "this was the last line")], [])
    return done


def started(entries: list[tuple[str, tuple[str, ...]]], files: list[str]) -> Started:
    moved = [argv for state, argv in entries if "moved" in state]
    changed = [argv for state, argv in entries if "set" in state]
    return Started([argv for _, argv in entries], files, moved, changed)


def read_record(data: bytes) -> dict[str, list[tuple[str, tuple[str, ...]]]]:
    """Return the started programs of each line with their state; omit entries cut off by a limit."""
    argvs: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
    for entry in data.decode("utf-8", "surrogateescape").split("\x1e")[1:]:
        line, state, count, *argv = [*entry.split("\0"), "", ""]
        if count.isdecimal() and len(argv) > int(count) + 2:
            words = tuple(word.replace("\x1f", "\n") for word in argv[: int(count)])
            argvs.setdefault(line, []).append((state, words))
    return argvs


# fmt: off
COMMANDS = (
    "git", "git status", "git log", "git commit -m", "ls", "cat", "echo", "grep x", "wc", "head", "printf %s",
    "true", "cd src", "timeout 5 git status", "time git status", "eval git", "[ -f a ]", "test -n x", ":", "'git'",
    '"git"', "g\\it", "cd .", "git -C src status", "make test", "./run.sh", "printf '%%ln %s' x", "pwd", "type git",
    "wait", "echo {x}", "true {HOME}",
)
SETTERS = (
    "cd scratch", "builtin cd src", "git -C scratch log", "git -C src commit", "printf %ln x",
    "builtin printf %jn HOME",
    "read x", "printf -vx y", "printf a* x", "mapfile x", "getopts a x", "let x=1", "export x=tag", "wait -fpx",
)
PLAIN = (
    *COMMANDS, "'a b'", '"a b"', "a\\ b", "''", '""', "'rm'", '"r"m', "src/*.c", "a*", "a~", "HEAD~1", "x@{u}",
    "{}", "a{b}c", "a$", '"a$"', "'$(rm x)'", "'`evil`'", "\\$x", "'$(evil)'", "{x}", "2", "-n", "-", "--", "x=1",
)
WORDS = (
    "timeout 5", "time", "evil", "rm", "rm -rf x", "./evil", "sudo rm", "command rm", "exec rm x", "builtin eval rm",
    "eval rm", "eval 'rm x'", "r\\m", "$'rm'", "$'\\x72m'", '$"rm"', "*", "?", "[a]", "-*", "~", "~/x", "{a,b}",
    "{a..b}", "{b}c,d}", "$x", "${x}", '"$x"', "$(evil)", '"$(evil)"', "`evil`", "$((1+1))", "$[1]", "$@", "$",
    "${x:-rm}", "$IFS", "<(evil)", ">(evil)", "$(rm x)", "`rm x`", '"`rm x`"', "${x:-$(rm x)}", "$((1<<2))",
    "a[1<<E]=1", "x=1", "x=(rm y)", "\\`rm\\`", "'a[$(rm x)]'", "'a[$(evil)]'", "printf -v 'a[$(rm x)]' x", "a[",
    "a[1", "]=x", "${", "}", "${x-", "${x/a/", "$(", "`", '"', "'", "\\", "$'", '$"', "${#x}", "${x@P}", "${!x}",
    "r$@m", "{rm,x}", "r{m,} x", "{r..r}m x", "unset 'x[$(rm)]'", "trap 'rm x' EXIT", "alias a=rm",
    "shopt -s extglob", "@(a|b)", "make deplo?", "make d*", "make *", "make [d]eploy", "git ta[g]", "git t*", "deplo?",
    "t=rm", "a=tag; git $a", "g=git; $g tag", "c='git tag'; $c", "a=ta; git ${a}g", "${x:-rm} y", "git ${x:-tag}",
    "timeout 5 ${x:-rm}", "nice $t x", "make ${x:=deploy}", "read t <<< rm; $t", "for t in rm; do $t; done", "$t", "$a",
    "f() { git $1; }; f tag", "set -- tag; git $1", "a=(tag); git ${a[0]}", "a=xtag; git ${a#x}", "d=deploy make",
)
OPERATORS = (
    " ; ", " && ", " || ", " | ", " & ", "\n", ";", "|", "&", "\n\n", " |& ", ";;", "&&", "|| ", " ! ", "! ", "\\\n",
    " \\\n ", "( ", " )", "{ ", "; }", "((", "))", "[[ ", " ]]", " # ", "#", " #x\n", "# it's\n", "if ", "then ",
    "; fi", "do ", "; done", "while true", "for i in a; do ", "for i do ", "case a in a) ", ";; esac", "f() { ",
    "function f { ", "coproc ", "coproc X { ", "time ", "!", "\ncase a in\n(a) ", "; esac)", "elif ", "else ",
    "until false; do ",
    "select x in a; do ", "for ((;;)) do ", "if [[ a ]] then ",
)
REDIRECTS = (
    " > scratch/o", " >> scratch/o", " > o", " 2>&1", " >&2", " > /dev/null", " 2>/dev/null", " < a.txt",
    " <> scratch/q", " &> scratch/o", " >| scratch/o", " >&scratch/o", " {fd}>scratch/o", " > scratch/o/..", " <<< x",
    " <<<'rm x'", " 2>", ">", " <<E\nbody\nE\n", " <<'E'\nrm $x\nE\n", " <<E\n$(rm x)\nE\n", " <<-E\n\tx\n\tE\n",
    " <<E\nit's\nE\n", "<<E", "\nE\n", " <<\\E\nrm\nE\n", ' <<"E"\n`rm`\nE\n', " <<E <<F\na\nE\nb\nF\n", " <&-",
    " 3<a.txt", " >&-", "\nE", " <<E\na\\\nE\nE\n", " >&'scratch/$(evil)'", " >&'a$(rm x)'", " > 'scratch/$(evil)'",
    " <&'$(evil)'", " <<E\n\\$(evil)\n\\\\\nE\n", " {x}>/dev/null", " {HOME}</dev/null", " {x}<<<y", " &>/dev/null",
    "&>>/dev/null", ">&2", "2>&1",
)
# fmt: on
SEPARATORS = (" ; ", " && ", " || ", " | ", " & ", "\n", ";", "|", "&", " # x\n", " \\\n", "")
CHARACTERS = " \t\n;&|()<>{}[]$`'\"\\#~*?!=,.-:@+%^0129abEgilrmstux\r\u00a0\u2003é\u200b"
SEEDS = [
    case["command"] for case in CASES if len(case["command"]) < 400 and "\0" not in case["command"]
]


def compose(rng: random.Random) -> str:
    """Commands as people write them, with things in and between them that people seldom write."""
    pieces = []
    words, operators = ((*PLAIN, *WORDS), OPERATORS) if rng.random() < 0.5 else (PLAIN, SEPARATORS)
    for _ in range(rng.randint(1, 4)):
        first = rng.choice(rng.choices((COMMANDS, SETTERS, words), (90, 5, 5))[0])
        pieces.append(" ".join([first, *(rng.choice(words) for _ in range(rng.randint(0, 3)))]))
        if rng.random() < 0.3:
            pieces.append(rng.choice(REDIRECTS))
        pieces.append(rng.choice(operators))
    return "".join(pieces)


def mutate(line: str, rng: random.Random) -> str:
    """The same line with a few characters or pieces put in, taken out or doubled."""
    for _ in range(rng.randint(0, 3)):
        at, other = sorted(rng.randint(0, len(line)) for _ in range(2))
        match rng.randint(0, 4):
            case 0 | 1:
                line = line[:at] + rng.choice(CHARACTERS) + line[at:]
            case 2:
                line = line[:at] + rng.choice((*PLAIN, *WORDS, *OPERATORS, *REDIRECTS)) + line[at:]
            case 3:
                line = line[:at] + line[min(other, at + 6) :]
            case _:
                line = line[:at] + line[at:other] + line[at:]
    return line


def broken(line: str, rng: random.Random) -> str:
    """The same line with backslash-newlines between any two of its characters."""
    for _ in range(rng.choice((0, 0, 1, 2, 4))):
        at = rng.randint(0, len(line))
        line = line[:at] + "\\\n" * rng.choice((1, 1, 1, 2)) + line[at:]
    return line


# fmt: off
SET = (
    "{n}={v}; ", "{n}='{v}'; ", '{n}="{v}" && ', "export {n}={v}\n", "declare {n}={v}; ", "read {n} <<< {v}; ",
    "{n}+={v}; ",
    "printf -v {n} %s {v}; ", ": ${{{n}:={v}}}; ", "{n}=$'{v}'; ", "{n}=({v}); ", "mapfile {n} <<< {v}; ",
    "readonly {n}={v}; ",
    "read -r {n} <<E\n{v}\nE\n", "o={v}; {n}=$o; ", "{n}=x{v}; {n}=${{{n}#x}}; ", "eval {n}={v}; ",
    "set -- {v}; {n}=$1; ",
    "IFS=, read {n} _ <<< {v},; ",
)
USE = ("${n}", "${{{n}}}", '"${n}"', '"${{{n}}}"', "${{{n}:-x}}", "${{{n}[0]}}", '""${n}', "${{{n}#}}", "$\\\n{n}",
'${{{n}:-"x"}}')
DEFAULT = (
    "${{{n}:-{v}}}", '"${{{n}:-{v}}}"', "${{{n}-{v}}}", "${{{n}:={v}}}", "${{{n}:-'{v}'}}", "${{{n}:-${{{n}-{v}}}}}",
    "${{PATH:+{v}}}",
)
AROUND = (
    "{}", "{}", "({})", "{{ {}; }}", "if {}; then :; fi", "while {}; do break; done", "for i in 1; do {}; done",
    "f() {{ {}; }}; f",
    "! {}", "{} | cat", "echo $({})", "true && {}", "case a in a) {};; esac", "eval {}", "command {}", "time {}",
    "cat <({})",
    "exec {}", "{} &\nwait", "{} &\\\n>/dev/null", "[[ a ]] && {}",
)
# fmt: on


def disguised(rng: random.Random) -> str:
    """A blocked command with one or two of its words spelled by something that the shell replaces."""
    before, words = "", []
    for token in (*rng.choice(BLOCKED), "y"):
        name = rng.choice("abc") + str(len(words))
        match rng.choice(("plain", "plain", "set", "default", "glob", "parts")):
            case "set":
                before += rng.choice(SET).format(n=name, v=token)
                words.append(rng.choice(USE).format(n=name))
            case "default":
                words.append(rng.choice(DEFAULT).format(n=name, v=token))
            case "glob" if words and token != "y":
                at = rng.randrange(len(token))
                words.append(
                    token[:at] + rng.choice(("?", "*", f"[{token[at]}]", "[!-]")) + token[at + 1 :]
                )
            case "parts":
                at = rng.randint(1, len(token))
                before += rng.choice(SET[:6]).format(n=name, v=token[:at])
                words.append(f"${{{name}}}{token[at:]}")
            case _:
                words.append(token)
    return before + rng.choice(AROUND).format(" ".join(words))


def lines(seed: int) -> Iterator[str]:
    """Lines without end, none of which can name a file outside the directory that it is started in."""
    rng = random.Random(seed)
    while True:
        line = compose(rng) if rng.random() < 0.8 else rng.choice(SEEDS)
        line = broken(mutate(line, rng) if rng.random() < 0.6 else line, rng).replace("\0", "")
        if "/" not in re.sub(
            r"/dev/null(?=[\s;|&<>()]|$)|scratch/|src/|[.]/evil|[.]/run[.]sh|~/x", "", line
        ):
            yield line


def covered(argv: tuple[str, ...], verdict: Verdict) -> bool:
    """Return True if a rule covers a started program, and the judge has seen exactly these words."""
    argv = ("./run.sh", *argv[1:]) if argv[0] == "run.sh" else argv
    if argv == ("git", "stash"):
        argv = (*argv, "push")  # the judge names what it does
    if not any(rule.tokens == argv[: len(rule.tokens)] for rule in ALLOW_RULES):
        return False
    commands = [part.words for part in verdict.parts]
    commands += [
        words[1:] for words in commands if words[0] in ("time", "eval", "builtin", "command")
    ]
    return any(seen_as(argv, words) for words in commands)


def seen_as(argv: tuple[str, ...], words: tuple[str, ...]) -> bool:
    """The same words, as far as they are not names of files."""
    globs = [place for place, word in enumerate(words) if word != "[" and set(word) & set("*?[")]
    return argv[: globs[0]] == words[: globs[0]] if globs else argv == words


ASSIGNED = re.compile(r"(?:^|[\s;&|({])(?:x|fd)=")
"""A variable that the judge sees, of those that the recorder looks at."""


def unexpected(line: str, verdict: Verdict, started: Started) -> str | None:
    if surplus := [argv for argv in started.argvs if not covered(argv, verdict)]:
        return f"{line!r} was pre-approved and started {surplus}"
    if (state := started.changed) and not ASSIGNED.search(line):
        return f"{line!r} was pre-approved, and variables had changed for {state}"
    if elsewhere := [argv for argv in started.moved if not reads_only(argv)]:
        return f"{line!r} was pre-approved and started {elsewhere} in another folder"
    if written := [name for name in started.files if not name.startswith("scratch/")]:
        return f"{line!r} was pre-approved and wrote {written}"
    return None


def reads_only(argv: tuple[str, ...]) -> bool:
    skipped = {"builtin": 1, "command": 1, "time": 1, "eval": 1, "timeout": 2}.get(argv[0], 0)
    name = argv[skipped] if skipped < len(argv) else ""
    return (
        name in READS_ONLY
        or name == "cd"
        or argv[skipped:] == ("git",)
        or (name == "git" and not GIT_READS_ONLY.isdisjoint(argv))
    )


def draw(seed: int, count: int) -> list[str]:
    """So many different lines, always the same ones for a seed."""
    drawn: dict[str, None] = {}
    for line in lines(seed):
        drawn[line] = None
        if len(drawn) == count:
            break
    return list(drawn)


def preapproved(inputs: list[str]) -> list[tuple[str, Verdict]]:
    """The lines that would run without a question."""
    judged = [
        (line, judge_line(line, ALLOW_RULES, Decision.ASK, writable=WRITABLE)) for line in inputs
    ]
    return [
        (line, verdict) for line, verdict in judged if verdict.decision is Decision.PRE_APPROVED
    ]


def not_blocked(inputs: list[str]) -> list[str]:
    """The lines that could start something blocked, and are not blocked."""
    named = [line for line in inputs if re.search(r"r.*m|git|make|[$?*]", line, re.DOTALL)]
    return [
        line
        for line in named
        if judge_line(line, BLOCK_RULES, Decision.ASK).decision is not Decision.BLOCKED
    ]


def is_blocked(argv: tuple[str, ...]) -> bool:
    return any(argv[: len(tokens)] == tokens for tokens in BLOCKED)


def check_preapproved(seed: int, inputs: int, place: Path) -> None:
    """Judge some lines and run the pre-approved ones: they start and write nothing beyond the rules."""
    drawn = draw(seed, inputs)
    assert len(set(drawn)) == inputs
    approved = preapproved(drawn)
    done = start([line for line, _ in approved], place)
    surprises = [
        unexpected(line, verdict, did) for (line, verdict), did in zip(approved, done, strict=True)
    ]
    assert [surprise for surprise in surprises if surprise] == []
    ran = sum(1 for did in done if did.argvs)
    assert ran > inputs // 20, (
        f"only {ran} of {inputs} lines were pre-approved and started anything"
    )
    assert ran > 0.9 * len(approved), (
        f"only {ran} of {len(approved)} pre-approved lines started anything"
    )


def check_not_blocked(seed: int, inputs: int, place: Path) -> None:
    """Judge some lines and run those that pass: the blocked program must not start."""
    free = not_blocked(draw(seed, inputs))
    assert len(free) > inputs // 40
    done = start(free, place, ALSO_COMMANDS)
    ran = [line for line, did in zip(free, done, strict=True) if any(map(is_blocked, did.argvs))]
    assert ran == []


DASH_LOOP = r"""
while read -r LINE; do
  export LINE
  ( ulimit -t 1; cd "$LINE" && exec "$0" "../scripts/$LINE" ) < /dev/null > /dev/null 2>&1
done < numbers
"""


def start_in_dash(lines: list[str], place: Path) -> list[list[tuple[str, ...]]]:
    """Run lines as scripts of dash, each in its own directory; return started blocked argvs."""
    assert BASH
    assert DASH
    record, path = place / "record", place / "programs"
    path.mkdir(parents=True)
    (place / "scripts").mkdir()
    for name in {tokens[0] for tokens in BLOCKED}:
        (path / name).write_text(PROGRAM.replace("BASH", BASH).replace("RECORD", str(record)))
        (path / name).chmod(0o755)
    for number, line in enumerate(lines):
        make_place(place / str(number))
        (place / "scripts" / str(number)).write_text(line, "utf-8", "surrogatepass")
    (place / "numbers").write_text("".join(f"{number}\n" for number in range(len(lines))))
    subprocess.run(
        [DASH, "-c", DASH_LOOP, DASH],
        cwd=place,
        env={"PATH": str(path), "HOME": str(place / "0"), "TOP": str(place), "LC_ALL": "C.UTF-8"},
        timeout=240,
        capture_output=True,
        check=False,
    )
    seen = read_record(record.read_bytes() if record.exists() else b"")
    return [[argv for _, argv in seen.get(str(number), [])] for number in range(len(lines))]


def check_other_shell(seed: int, inputs: int, place: Path) -> None:
    """Judge lines for another shell and run the accepted ones: dash must start nothing blocked."""
    judge = LineJudge([RuleList("", BLOCK_RULES)], Decision.ASK)
    drawn = [
        line for line in draw(seed, inputs) if re.search(r"r.*m|git|make|[$?*&]", line, re.DOTALL)
    ]
    free = [
        line
        for line in drawn
        if judge.judge(line, any_grammar=True).decision is not Decision.BLOCKED
    ]
    assert len(free) > inputs // 40
    done = start_in_dash(free, place)
    assert [
        line for line, argvs in zip(free, done, strict=True) if any(map(is_blocked, argvs))
    ] == []


@pytest.mark.needs("dash")
def test_oracle_sees_programs_started_by_dash(tmp_path: Path) -> None:
    done = start_in_dash(["echo a &>/dev/null rm x", "git tag y", "echo rm"], tmp_path)
    assert done == [[("rm", "x")], [("git", "tag", "y")], []]


@pytest.mark.needs("dash")
def test_accepted_line_starts_nothing_blocked_in_another_shell(tmp_path: Path) -> None:
    check_other_shell(2, FEW, tmp_path)


def test_oracle_sees_programs_and_written_files(tmp_path: Path) -> None:
    lines = [
        "git 'a b' | (evil; exec rm x)",
        "echo hi > o; cd src && : > p",
        "eval rm",
        "cd src && ./run.sh",
    ]
    lines += [
        f"{setter}; git"
        for setter in ("printf %ln x", "echo {HOME}>/dev/null", "read x <<< y", "let x=1")
    ]
    lines += [f"{setter}; git" for setter in ("mapfile <<< y", "export PATH=x")]
    done = start(lines, tmp_path)
    assert sorted(done[0].argvs) == [("evil",), ("exec", "rm", "x"), ("git", "a b")]
    assert done[1] == Started(
        [("echo", "hi"), ("cd", "src"), (":",)], ["o", "src/p"], moved=[(":",)]
    )
    assert done[2] == Started([("eval", "rm"), ("rm",)], [])
    assert done[3] == Started([("cd", "src"), ("run.sh",)], [], moved=[("run.sh",)])
    assert [did.changed[-1:] for did in done[4:]] == [[("git",)]] * 6


def test_existing_program_starts_like_a_missing_one(tmp_path: Path) -> None:
    """Functions and the handler for missing programs record the same as programs would."""
    lines = [line for line, _ in preapproved(draw(1, 600))]
    (tmp_path / "missing").mkdir()
    missing = start(lines, tmp_path / "missing")
    (tmp_path / "real").mkdir()
    real = start(lines, tmp_path / "real", programs=REAL)
    assert sum(len(did.argvs) for did in missing) > 50
    assert [sorted(did.argvs) for did in missing] == [sorted(did.argvs) for did in real]
    assert [did.files for did in missing] == [did.files for did in real]


# fmt: off
LISTED = (
    "{a,b}", "x{a,{b,c}}y", "{src,a}*", "{-n,x}", "{a,b}{c,d}", "{rm,x}", "{a,b", "a,b}", "{a}", "{a,$(rm x)}", "{,a}",
    "{'a',b}", "{a,b}c{", "{a..c}", "{a,b..c}", "}{a,b}", "{a,}{b,}", "{x=1,y}", "{src/,}b.c",
    '"^$\\|a$,"', "a$/b", "a$,b", '"$"', '"a$)"', '"$\\x"', '"$<x"', '"$~"', '"$[1]"', '"$%s"',
    "${PIPESTATUS[0]}", '"${PIPESTATUS[@]}"', "${PIPESTATUS[x]}", "<(rm x)", "<(echo a)", "a<(rm x)", "<(echo a)b",
)
# fmt: on


def test_brace_lists_and_plain_dollars_start_nothing_else(tmp_path: Path) -> None:
    rng = random.Random(7)
    drawn = set[str]()
    while len(drawn) < FEW:
        words = rng.choices(
            (*LISTED, *PLAIN), (3,) * len(LISTED) + (1,) * len(PLAIN), k=rng.randint(1, 4)
        )
        drawn.add(" ".join([rng.choice(COMMANDS), *words]))
    approved = preapproved(sorted(drawn))
    assert len(approved) > FEW // 20
    done = start([line for line, _ in approved], tmp_path)
    surprises = [
        unexpected(line, verdict, did) for (line, verdict), did in zip(approved, done, strict=True)
    ]
    assert [surprise for surprise in surprises if surprise] == []


def test_preapproved_line_starts_and_writes_nothing_else(tmp_path: Path) -> None:
    check_preapproved(0, INPUTS // PARTS, tmp_path)


def test_disguise_that_the_line_explains_is_blocked(tmp_path: Path) -> None:
    rng = random.Random(0)
    drawn = list(dict.fromkeys(broken(disguised(rng), rng) for _ in range(FEW)))
    free = not_blocked(drawn)
    assert len(free) < len(drawn) // 2
    done = start(free, tmp_path, ALSO_COMMANDS)
    assert [
        line for line, did in zip(free, done, strict=True) if any(map(is_blocked, did.argvs))
    ] == []


def test_line_that_is_not_blocked_starts_nothing_blocked(tmp_path: Path) -> None:
    check_not_blocked(1, FEW, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(101, 104))
def test_many_more_lines_start_nothing_else(seed: int, tmp_path: Path) -> None:
    check_preapproved(seed, INPUTS // 2, tmp_path / "approved")
    check_not_blocked(seed, INPUTS // PARTS, tmp_path / "free")
    if DASH:
        check_other_shell(seed, INPUTS // PARTS, tmp_path / "dash")

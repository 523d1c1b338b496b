"""The tables of programs: the examples of every row hold, in every spelling of its names.

Covers forge_cli.bashrules.allow.programs, forge_cli.bashrules.programs.git,
forge_cli.bashrules.programs.discarding,
forge_cli.bashrules.programs.subcommands, forge_cli.bashrules.programs.table,
forge_cli.bashrules.programs.options, forge_cli.bashrules.programs.readers,
forge_cli.bashrules.block.patterns.
"""

import re
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import jsonschema
import msgspec
import pytest
import yaml
from msgspec.structs import fields

from forge_cli.bashrules.allow.programs import CHECKS
from forge_cli.bashrules.decision import Decision
from forge_cli.bashrules.programs.subcommands import starts_commands, wrapper_named
from forge_cli.bashrules.programs.table import (
    DATA,
    ProgramRow,
    program_named,
    read_rows,
    table_index,
)
from forge_cli.bashrules.sets.rows import DATA as SETS
from forge_cli.bashrules.sets.rows import SetRow

from .conftest import Judge, judge_by, others_than

PRE, ASK, BLOCKED = Decision.PRE_APPROVED, Decision.ASK, Decision.BLOCKED

FILES = sorted(DATA.glob("*.yaml"))
ROWS = [(path, row) for path in FILES for row in read_rows(path)]
README = (DATA / "README.md").read_text("utf-8")
SAID = [
    *(
        "below",
        "kind",
        "check",
        "starts",
        "writes",
        "sends",
        "starts_like",
        "sends_like",
        "flags",
        "values",
        "takes",
    ),
    *("known", "never", "spelled", "tools", "no_input", "abbreviates", "aliases"),
    *("discards", "discards_like", "discarding", "ungranted", "forms"),
]
OPTION = re.compile(r"--?[^\s*=]+(?:=\S+)?|\S+\*")


def examples(text: str) -> Iterator[tuple[str, str]]:
    """The lines of an example, each with its rule: the name of the program, or the ``[rule]`` before it."""
    for line in text.splitlines():
        rule = re.fullmatch(r"\[(\S[^]]*)\] (.*)", line)
        yield (rule[1], rule[2]) if rule else (line.split()[0], line)


def described(head: str) -> set[str]:
    """The first cells of the tables in the README whose first column has this head."""
    tables = re.findall(rf"^\| {head} \|.*\n\|-.*\n((?:\|.*\n)+)", README, re.MULTILINE)
    return set(re.findall(r"^\| `(\w+)` \|", "".join(tables), re.MULTILINE))


def test_every_row_is_well_formed() -> None:
    """Kinds and checks of a row exist and are documented."""
    kinds = described("kind")
    wrong: list[str] = []
    for path, row in ROWS:
        at = f"{path.name}: {sorted(row.programs)}"
        wrong += [f"{at}: {kind} is no kind" for kind in row.kind if kind not in kinds]
        wrong += [f"{at}: {row.check} is no check"] if row.check not in ("", *CHECKS) else []
        wrong += (
            [f"{at}: it says nothing"]
            if row.runs is None and not any(getattr(row, key) for key in SAID)
            else []
        )
        options = chain(
            row.starts, row.writes, row.sends, row.flags, row.values, row.takes, row.no_input
        )
        wrong += [
            f"{at}: {option} is no option" for option in options if not OPTION.fullmatch(option)
        ]
    assert wrong == []


@pytest.mark.parametrize("path", [*FILES, *sorted(SETS.glob("*.yaml"))], ids=lambda path: path.name)
def test_table_matches_its_schema(path: Path) -> None:
    """Each key with its type, as the loader takes it; of the words in a list none is written twice, or with a blank."""
    row = SetRow if path.parent == SETS else ProgramRow
    schema = jsonschema.Draft202012Validator(msgspec.json.schema(tuple[row, ...]))  # type: ignore[valid-type]
    rows = yaml.safe_load(path.read_text("utf-8"))
    assert [error.message for error in schema.iter_errors(rows)] == []
    odd: list[str] = []
    for each in rows:
        for key, value in each.items():
            if not isinstance(value, list):
                continue
            if len(set(value)) < len(value):
                odd.append(f"{key}: {value}")
            odd += [
                f"{key}: {word!r}" for word in value if " ".join(word.split()) != word or not word
            ]
            odd += [f"{key}: {word!r}" for word in value if " " in word and key != "patterns"]
    assert odd == []


@pytest.mark.parametrize(
    "row", [{"programs": "git"}, {"programs": ["git"], "flag": ["-x"]}, {"kind": ["reader"]}]
)
def test_invalid_row_is_refused(row: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert([row], tuple[ProgramRow, ...])


def test_row_has_no_duplicate_keys() -> None:
    twice: list[str] = []
    for path in FILES:
        for row in re.split(r"^- ", path.read_text("utf-8"), flags=re.MULTILINE)[1:]:
            keys = Counter(re.findall(r"^(?:  )?(\w+):", row, re.MULTILINE))
            twice += [
                f"{path.name}: {row.splitlines()[0]}: {key}"
                for key, count in keys.items()
                if count > 1
            ]
    assert twice == []


def test_every_key_is_documented() -> None:
    assert described("key") == {each.name for each in fields(ProgramRow)}


def test_program_is_in_one_file() -> None:
    found = Counter(
        name for path in FILES for name in {n for row in read_rows(path) for n in row.programs}
    )
    assert [name for name, count in found.items() if count > 1] == []
    assert set(found) == set(table_index())


def test_examples_of_every_row_hold() -> None:
    wrong: list[str] = []
    for path, row in ROWS:
        for rule, line in examples(row.match):
            verdict = judge_by(line, allow=[rule])
            whys = [part.why for part in verdict.parts]
            wrong += (
                []
                if (verdict.decision, whys) == (PRE, [None])
                else [f"{path.name} match [{rule}] {line}: {whys}"]
            )
        for rule, line in examples(row.not_match):
            verdicts = [
                judge_by(line, allow=[rule], default=default).decision for default in (ASK, BLOCKED)
            ]
            wrong += (
                []
                if verdicts == [ASK, BLOCKED]
                else [f"{path.name} not_match [{rule}] {line}: {verdicts}"]
            )
        for key, expected in (("blocked", True), ("not_blocked", False)):
            for rule, line in blocked_examples(getattr(row, key)):
                found = judge_by(line, default=PRE, block=[rule]).decision is BLOCKED
                wrong += [] if found is expected else [f"{path.name} {key} [{rule}] {line}"]
    assert wrong == []


def blocked_examples(text: str) -> Iterator[tuple[str, str]]:
    """The same for blocked lines: the rule is ``rm``, or the ``[rule]`` before the line."""
    return ((rule if f"[{rule}] {line}" in text else "rm", line) for rule, line in examples(text))


@pytest.mark.long
def test_every_option_asks_in_each_of_its_spellings() -> None:
    wrong: list[str] = []
    for name in sorted(table_index()):
        found = program_named(name)
        exact, whole = found.says("exact"), found.says("whole")
        options = [*found.words("starts"), *found.words("writes"), *found.words("sends")]
        spelled = [
            f"{name} {words}"
            for option in options
            for words in spellings(option, exact=exact, whole=whole)
        ]
        wrong += others_than(ASK, spelled, allow=[name])
    assert wrong == []


def spellings(option: str, *, exact: bool, whole: bool) -> list[str]:
    if option.endswith("*"):
        return [f"{option[:-1]}v", f"a {option[:-1]}v"]
    if len(option) == 2 and not exact:
        return [f"{option} v", f"{option}v", f"-q{option[1]} v", f"a -q{option[1]}v", f"a {option}"]
    abbreviated = (
        [f"a {option[:-1]}=v"] if option.startswith("--") and len(option) > 5 and not whole else []
    )
    return [f"{option}=v", f"{option} v", f"a {option} v", *abbreviated]


def test_command_started_by_a_wrapper_is_judged_itself() -> None:
    wrong: list[str] = []
    for name in sorted(
        {name for name in table_index() if starts_commands(program_named(name))} - {"eval"}
    ):
        wrapper = wrapper_named(name)
        line = " ".join([name, *["x"] * (wrapper.operands if wrapper else 0), "rm", "y"])
        wrong += others_than(BLOCKED, [line], block=["rm"])
        wrong += others_than(ASK, [line], allow=[name]) + others_than(ASK, [line], default=PRE)
    assert wrong == []


def test_every_builtin_of_bash_has_a_decision() -> None:
    listed = subprocess.run(
        ["bash", "-c", "compgen -b"], capture_output=True, text=True, check=True
    ).stdout
    assert set(listed.split()) <= set(table_index())


UNKNOWN_COVERED = [
    *("./x.sh a", "mytool --verbose --level=3 src/a.txt", "mytool -la --format=json -j4 x"),
    *("mytool --url=https://x.invalid/y", "mytool --message='a b'", "mytool -- --plugin=./x"),
]
UNKNOWN = [
    *(
        "./x --out=/tmp/y",
        "mytool run --plugin=/tmp/x.so",
        "mytool --x=./y",
        "mytool --x=y/z",
        "mytool --x=~/y",
    ),
    *(
        "mytool --x=y.so",
        "mytool --pager=x",
        "mytool --x=sh",
        "mytool --x='id;id'",
        "mytool -B./x",
        "mytool a -I/x",
    ),
    *("mytool -fx.mk", "mytool -x=./y", "mytool --config=f", "mytool --exec=id"),
]


def test_unknown_program_options_that_may_name_files_ask_unless_named() -> None:
    allow = ["mytool", "./x.sh", "./x"]
    assert others_than(PRE, UNKNOWN_COVERED, allow=allow) == []
    assert others_than(ASK, UNKNOWN, allow=allow) == []
    assert others_than(PRE, ["mytool --config=./x a"], allow=["mytool --config=./x"]) == []
    assert (
        others_than(ASK, ["mytool --config=./x --plugin=./y"], allow=["mytool --config=./x"]) == []
    )


def test_rule_may_name_a_subcommand_that_otherwise_asks() -> None:
    patterns = ["npm create", "npm pkg set", "yarn workspace", "gh auth token", "aws configure"]
    assert [why for each in patterns for why in others_than(PRE, [f"{each} x"], allow=[each])] == []


def test_module_is_blocked_like_its_program() -> None:
    lines = ["python -m pip install x", "python3 -I -m pip install x", "py -3 -mpip install x"]
    assert others_than(BLOCKED, lines, block=["pip install"]) == []


SUGGESTED = {
    "docker exec c ls -l": "docker exec c ls",
    "kubectl -n x exec p -- ls": "kubectl -n x exec p -- ls",
    "cargo nextest run": "cargo nextest",
    "docker exec c sh -c id": None,
    "docker compose -f x.yml up -d": "docker compose -f x.yml up",
    "kubectl -n x apply -f y": "kubectl -n x apply",
    "docker build -o x .": None,
}


def test_suggested_rule_reaches_the_inner_command(judge: Judge) -> None:
    assert {line: judge(line).suggestion for line in SUGGESTED} == SUGGESTED


@pytest.mark.long
@pytest.mark.few(2)
@pytest.mark.parametrize(
    "words", ["-a compose", "--context run", "-x", "exec", "run --entrypoint x"]
)
def test_many_options_before_a_subcommand_ask_at_once(words: str, judge: Judge) -> None:
    line = f"docker {f'{words} ' * 3000}"
    began = time.process_time()
    assert judge(f"{line} exec c id", allow=["docker"], block=["git push"]).decision is ASK
    assert judge(f"python {'-m coverage run ' * 3000}", allow=["python"]).decision is ASK
    assert time.process_time() - began < 5

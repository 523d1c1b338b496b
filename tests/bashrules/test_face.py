"""The public face: a line is read, judged by rules and by the files around it, and every answer has its reason.

Covers forge_cli.bashrules.face, forge_cli.bashrules.line, forge_cli.bashrules.looks, forge_cli.bashrules.place,
forge_cli.bashrules.reads.
"""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_cli.bashrules.face import Decision, FileNames, Place, Rule, RuleList, Rules, judge, read

PRE, ASK, BLOCKED = Decision.PRE_APPROVED, Decision.ASK, Decision.BLOCKED
RULES = Rules(
    [Rule(use="reading"), Rule(pattern="git push", decision=BLOCKED), Rule(pattern="make test")]
)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "notes.txt").write_text("hello\n")
    return Place(folder)


def test_line_is_parsed_into_its_commands() -> None:
    line = read("cat 'a b' | head -3 > out")
    assert [command.texts for command in line.commands] == [["cat", "a b"], ["head", "-3"]]
    assert (line.unreadable, line.text) == (None, "cat 'a b' | head -3 > out")


@pytest.mark.parametrize(
    "text", ["f() { rm x; }", "echo 'open", "ls \0", "case $x in a) b;; esac", "ls\u200b x"]
)
def test_line_that_is_not_plain_has_a_reason_and_asks(text: str) -> None:
    line = read(text)
    assert line.commands == ()
    assert line.unreadable
    assert judge(line, RULES).decision is not PRE


def test_verdict_has_parts_rows_and_reasons(place: Place) -> None:
    found = judge("cat notes.txt && make test && make all", RULES, place)
    assert found.decision is ASK
    assert found.reason == "no rule allows 'make all', so you are asked"
    assert [(part.text, part.decision, part.row is not None) for part in found.parts] == [
        ("cat notes.txt", PRE, True),
        ("make test", PRE, False),
        ("make all", ASK, False),
    ]
    assert [part.reason for part in found.parts] == [
        "'cat' in the rule set reading",
        "rule 'make test'",
        "no rule",
    ]
    assert found.suggestion == "make all"


def test_blocked_takes_precedence_in_every_list() -> None:
    lists = [
        RuleList("mine", [Rule(pattern="git")]),
        RuleList("ours", [Rule(pattern="git push", decision=BLOCKED)]),
    ]
    found = judge("sh -c 'git push'", Rules(lists))
    assert (found.decision, found.match and found.match.name) == (BLOCKED, "ours.rules[0]")


def test_files_that_lead_elsewhere_are_doubts(place: Place, tmp_path: Path) -> None:
    assert place.folder is not None
    assert judge("cat notes.txt", RULES, place).decision is PRE
    (tmp_path / "outside.txt").write_text("x")
    os.symlink(tmp_path / "outside.txt", place.folder / "link.txt")
    found = judge("cat link.txt", RULES, place)
    assert (found.decision, found.by_rules, found.doubt) == (
        ASK,
        PRE,
        "link.txt leads out of the zones",
    )
    assert judge("cat link.txt", RULES, Place(place.folder, readable=[tmp_path])).decision is PRE
    assert judge("cat link.txt", RULES).decision is PRE  # without a folder, no file is looked at


def test_names_of_secrets_ask(place: Place) -> None:
    assert judge("cat .env", RULES, place).decision is ASK
    names = FileNames(secrets="key", is_secret=lambda name: name.startswith("key"))
    assert judge("cat key.pem", RULES, Place(place.folder, names=names)).decision is ASK
    assert judge("cat key.pem", RULES, place).decision is PRE


def test_redirection_may_write_to_writable_places(place: Place) -> None:
    assert place.folder is not None
    (place.folder / "out").mkdir()
    writes = Place(place.folder, written=[place.folder / "out"])
    assert judge("cat notes.txt > out/x", RULES, place).decision is ASK
    found = judge("cat notes.txt > out/x", RULES, writes)
    assert (found.decision, [(file.path, file.writes) for file in found.files]) == (
        PRE,
        [("out/x", True)],
    )
    assert judge("cat notes.txt > out/.bashrc", RULES, writes).decision is ASK


def test_earlier_lines_of_a_shell_change_the_folder(place: Place) -> None:
    rules = Rules([Rule(pattern="make test")])
    assert judge("make test", rules, place).decision is PRE
    assert judge("make test", rules, place, before=read("cd ..")).decision is ASK


def test_default_applies_to_commands_without_a_rule() -> None:
    assert judge("make all", Rules([], BLOCKED)).decision is BLOCKED
    assert judge("make all", Rules([], PRE)).decision is PRE


def test_unknown_rule_set_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(
        ValueError, match="no rule set 'readings'; available: building, containers, linting"
    ):
        Rules([Rule(use="readings")])  # type: ignore[arg-type]


@given(st.text(max_size=40))
def test_text_and_parsed_line_are_judged_alike(text: str) -> None:
    assert judge(text, RULES) == judge(read(text), RULES)

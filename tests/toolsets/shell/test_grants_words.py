"""A grant covers only lines that match its words.

Covers forge_cli.toolsets.shell.judged, forge_cli.toolsets.shell.policy, forge_cli.bashrules.judge.
"""

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from forge_cli.bashrules.line import read
from forge_cli.core.approval import Approval, ApprovalRequest, GrantRule, Verdict
from forge_cli.core.zones import Zone
from forge_cli.engine.gate.grants import SessionGrants
from forge_cli.engine.gate.steps import AskedCall
from forge_cli.sandbox.files.sandbox import Sandbox
from forge_cli.toolsets.shell.config import ShellConfig, UserRules
from forge_cli.toolsets.shell.judged import JudgedLine
from forge_cli.toolsets.shell.policy import ShellPolicy

PROGRAMS = """
curl; rm; mv; kill; chmod; /bin/rm; pytest; some-program; git; git add; git commit; git push; git checkout; git stash
git branch; git tag; git -C sub commit; docker compose; docker compose down; docker compose up; docker compose -f x
docker rm; npm test; npm run; npm run build; npm run deploy; npm; python -m; python -m unittest; python3 -m pytest
python -m pip; python x.py; make; go build; cargo run; kubectl; systemctl; break; exit; while; env; sudo; xargs; wait
"""
TAILS = """
-v -f --force --amend --volumes -D -rf -X DELETE --rmi all -c -C .. --prefix build deploy unittest discover main web .
a b src/a.py /etc/passwd ~/x ../x http://127.0.0.1:8000/ http://example.org/ +main :main push pop stop x;y * --
"""
ASSIGNED = st.sampled_from(["", "", "", "PYTHONPATH=src", "CI=1", "DEBUG=1", "PATH=x"])
PROGRAM = st.sampled_from(
    [each.strip() for line in PROGRAMS.strip().splitlines() for each in line.split(";")]
)
OPERANDS = st.lists(st.sampled_from([*TAILS.split(), "a b"]), max_size=3)
JOINS = st.sampled_from([" && ", "; ", " | "])
BEGINS = re.compile(
    r"commands that begin with (?P<words>.*?)(?P<but>, but for forms that discard or rewrite)?"
)
BEGIN = "commands that begin with "
STASH = "git stash push, or with git stash and no subcommand"
DISCARDING: dict[tuple[str, ...], set[str]] = {
    ("git", "push"): {"-f", "--force", "+main", ":main", "-D"},
    ("git", "checkout"): {"-f", "--force", ".", "*"},
    ("git", "commit"): {"--amend"},
    ("git", "branch"): {"-D", "-f", "--force"},
    ("git", "tag"): {"-f", "--force"},
    ("docker", "compose"): {"-v", "--volumes", "--rmi"},
}
KEYWORDS = {
    "break",
    "exit",
    "while",
    "if",
    "for",
    "then",
    "do",
    "return",
    "continue",
    "wait",
    "fg",
    "bg",
    "jobs",
}


@st.composite
def simple_commands(draw: st.DrawFn) -> tuple[str, ...]:
    """The words of one command, as bash gets them."""
    assigned = draw(ASSIGNED)
    return (*([assigned] if assigned else []), *draw(PROGRAM).split(), *draw(OPERANDS))


COMMANDS = st.lists(simple_commands(), min_size=1, max_size=2)


@st.composite
def near(draw: st.DrawFn, commands: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Commands that are like these, with other words at the end, before it or at the beginning."""
    found = []
    for words in commands:
        kept = words[: draw(st.integers(1, len(words)))]
        begin = draw(ASSIGNED)
        found.append((*([begin] if begin else []), *kept, *draw(OPERANDS)))
    return found


PAIRS = COMMANDS.flatmap(lambda first: st.tuples(st.just(first), st.one_of(near(first), COMMANDS)))


def written(commands: Sequence[tuple[str, ...]], join: str) -> str:
    return join.join(
        " ".join(word if word == "*" else shlex.quote(word) for word in words) for words in commands
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("w")


def policy(place: Path, *rules: GrantRule) -> ShellPolicy:
    config = ShellConfig.model_validate(
        {"rules": [{"use": "reading"}, *(rule.says for rule in rules)]}
    )
    return ShellPolicy(config, UserRules(), Sandbox([Zone("w", place)], workspace=place), place)


def asked(verdict: Verdict, line: str) -> AskedCall:
    """The call that asks, as the gate knows it."""
    needs = [[with_key(rule) for rule in need] for need in verdict.grants]
    return AskedCall(line, needs)


def with_key(rule: GrantRule) -> GrantRule:
    return replace(rule, key=f"{rule.at} {rule.says}")


def says(title: str, words: tuple[str, ...]) -> bool:
    """Whether the words of a grant speak of a command."""
    if title.endswith(STASH):
        assigned = tuple(title.removesuffix(STASH).removeprefix(BEGIN).split())
        behind = words[len(assigned) :]
        stashes = len(behind) <= 2 or behind[2] == "push" or behind[2].startswith("-")
        return words[: len(assigned)] == assigned and behind[:2] == ("git", "stash") and stashes
    found = BEGINS.fullmatch(title)
    assert found, title
    begin = tuple(found["words"].split())
    if words[: len(begin)] != begin:
        return False
    plain = tuple(word for word in words if "=" not in word)
    bad = DISCARDING.get(plain[:2], set()) - set(begin)
    return not (found["but"] and bad & set(words))


@given(PAIRS, JOINS)
def test_line_is_covered_only_if_the_words_of_a_grant_match(
    place: Path, pair: tuple[list[tuple[str, ...]], list[tuple[str, ...]]], join: str
) -> None:
    first, second = pair
    one, other = written(first, join), written(second, join)
    before, target = (
        JudgedLine(policy(place), read(one)).verdict,
        JudgedLine(policy(place), read(other)).verdict,
    )
    if not (before.grants and target.approval is Approval.ASK):
        return
    rules = [
        rule
        for need in before.grants
        for rule in need
        if "pattern" in rule.says and not rule.implied
    ]
    titles = [rule.title for rule in rules]
    assert not any(set(title.split()[4:5]) & KEYWORDS for title in titles)
    told = all(
        any(says(title, words) for title in titles) for words in second if asks(place, words, join)
    )
    written_down = (
        JudgedLine(policy(place, *rules), read(other)).verdict.approval is Approval.PRE_APPROVED
    )
    session = granted(before, one, target, other)
    assert told or not (written_down or session), (one, titles, other)
    assert written_down or not session, "a session would allow more than the same rules"


def asks(place: Path, words: tuple[str, ...], join: str) -> bool:
    return (
        JudgedLine(policy(place), read(written([words], join))).verdict.approval
        is not Approval.PRE_APPROVED
    )


def granted(before: Verdict, one: str, target: Verdict, other: str) -> bool:
    """Whether all that was offered for one line, once it is granted for the session, covers another line."""
    call = asked(before, one)
    grants = SessionGrants()
    request = ApprovalRequest(
        "r", "c", "shell", {"command": one}, "", "", "high", None, None, offers=grants.offers(call)
    )
    for offer in request.offers or ():
        if offer.rules and all("pattern" in rule.says for rule in offer.rules):
            grants.give(offer, call, request)
    return grants.covering(asked(target, other)) is not None


@given(
    st.lists(simple_commands(), min_size=1, max_size=1),
    st.lists(st.sampled_from(["a", "b", "src/a.py", "main"]), max_size=2),
)
def test_line_with_the_granted_first_words_is_covered(
    place: Path, first: list[tuple[str, ...]], more: list[str]
) -> None:
    one = written(first, "; ")
    before = JudgedLine(policy(place), read(one)).verdict
    if not before.grants:
        return
    (need,) = before.grants
    title = next(
        (rule.title for rule in need if "pattern" in rule.says and not rule.implied), STASH
    )
    found = None if title.endswith(STASH) else BEGINS.fullmatch(title)
    if found is None or found["but"]:
        return
    other = shlex.join([*found["words"].split(), *more])
    target = JudgedLine(policy(place), read(other)).verdict
    if target.approval is Approval.ASK:
        assert granted(before, one, target, other), (one, other, target.grants, target.reason)

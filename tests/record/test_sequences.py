"""Which commands count as the same, and which sequences of them are worth a tool."""

import time

import pytest

from forge_cli.record.sequences import (
    COMMAND_LIMIT,
    RepeatedSequence,
    find_repeated,
    normalise_command,
)


@pytest.mark.parametrize(
    ("command", "normal"),
    [
        ("git status", "git status"),
        ("git log -n 5 --since=2024-01-01", "git log -n <number> --since=<number>"),
        ("git log -n5 HEAD~3", "git log -n<number> HEAD~<number>"),
        ("git show 3f2a91c0", "git show <number>"),
        ("cat src/main.py | head -20", "cat <path> | head -<number>"),
        ("cat main.py ./x ~ ..", "cat <path> <path> <path> <path>"),
        ("cd /tmp/x && ./gradlew test", "cd <path> && ./gradlew test"),
        ("cd a/b; python3 manage.py test", "cd <path>; python3 <path> test"),
        ("curl -s https://example.org/x?y=1 -o out.json", "curl -s <path> -o <path>"),
        ("git commit -m 'fix: it' ", "git commit -m <text>"),
        ('grep "a \\" b" --include=*.py  src/', "grep <text> --include=*.py <path>"),
        ('cp "$HOME"/a.txt b.txt', "cp <path> <path>"),
        ("timeout 30s make\n  all", "timeout <number> make all"),
        ("curl -H [redacted:TOKEN] x", "curl -H [redacted:TOKEN] x"),
        ("", ""),
    ],
)
def test_what_differs_from_call_to_call_is_a_placeholder(command: str, normal: str) -> None:
    assert normalise_command(command) == normal


@pytest.mark.parametrize("piece", ["a", "/", "a-", "'", '"', "1", " ", "a/", ".a", "~ ", "\\"])
def test_no_command_takes_long(piece: str) -> None:
    started = time.process_time()
    normalise_command((piece * COMMAND_LIMIT)[:COMMAND_LIMIT])
    assert time.process_time() - started < 2


def found(*runs: tuple[str, str]) -> list[tuple[str, int, int]]:
    """Sequences as strings of letters, each a command, from runs of a session written alike."""
    repeated = find_repeated((session, list(run)) for session, run in runs)
    assert all(isinstance(each, RepeatedSequence) for each in repeated)
    return [("".join(each.commands), each.count, each.sessions) for each in repeated]


def test_the_longest_first_and_parts_only_where_they_are_more_frequent() -> None:
    runs = [("s1", "abc"), ("s2", "abc"), ("s3", "abc"), ("s3", "b"), ("s4", "xc")]
    assert found(*runs) == [("abc", 3, 3), ("b", 4, 3), ("c", 4, 4)]


def test_five_at_most() -> None:
    assert [each[0] for each in found(*((f"s{n}", "abcdef") for n in range(3)))] == [
        "abcde",
        "bcdef",
    ]


def test_one_call_counts_once() -> None:
    assert found(("s1", "aaaa"), ("s2", "aa")) == [("aa", 3, 2), ("a", 6, 2)]

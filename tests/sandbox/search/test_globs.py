"""Globs: what they match, and that no glob and no path make it take long.

Covers forge_cli.sandbox.search.glob, forge_cli.sandbox.search.ignore, forge_cli.sandbox.search.tokens.
"""

import pytest

from forge_cli.sandbox.search.glob import WAYS_MAX, Glob
from forge_cli.sandbox.search.tokens import BadGlob

MATCHING = [
    ("a", "a"),
    ("**/a", "a"),
    ("**/a", "x/y/a"),
    ("**/*.py", "x/.py"),
    ("a/**", "a/b/c"),
    ("a/**/b", "a/b"),
    ("a/**/b", "a/x/y/b"),
    ("a/**/b/**/c", "a/b/b/x/c"),
    ("**/a/**/a/*", "a/x/a/y"),
    ("a*b*c", "abbcbc"),
    ("*a*b", "xaab"),
    ("a**b", "axxb"),
    ("[!a]b", "xb"),
    ("a[!b]c", "a/c"),
    ("[a-c]?", "bé"[:1] + "x"),
    ("[]a]", "]"),
    ("[a-]", "-"),
    ("{a,b*}/c", "bx/c"),
    ("x{**/a,b}", "xa"),
    ("x{**/a,b}", "xy/z/a"),
    ("{a/**,b}c", "a/x/yc"),
    ("{a,{b,c}d}", "cd"),
    (r"\*", "*"),
    ("**", "a/b"),
]
DIFFERENT = [
    ("a", "b/a"),
    ("*", "a/b"),
    ("?", "/"),
    ("a/**", "a"),
    ("a/**/b", "ab"),
    ("a/**/b", "a/xb"),
    ("**/ab", "xab"),
    ("a*b", "a/b"),
    ("a*ab", "ab"),
    ("[a-c]", "d"),
    ("x{**/a,b}", "xya"),
    (r"\*", "a"),
]


@pytest.mark.parametrize(("glob", "path"), MATCHING)
def test_what_a_glob_matches(glob: str, path: str) -> None:
    assert Glob(glob).matches(path.encode())


@pytest.mark.parametrize(("glob", "path"), DIFFERENT)
def test_what_it_does_not_match(glob: str, path: str) -> None:
    assert not Glob(glob).matches(path.encode())


@pytest.mark.parametrize(
    "glob", ["[a", "{a", "a}", "a\\", "[b-a]", "[", "{a,b}" * 7, "[!a]" * 7, "{" * 5000 + "a" + "}" * 5000]
)
def test_what_means_nothing(glob: str) -> None:
    with pytest.raises(BadGlob):
        Glob(glob)


@pytest.mark.parametrize(
    ("glob", "path"),
    [
        ("*a" * 100 + "*b", "a" * 255),
        ("*[ab]" * 100 + "*c", "a" * 255),
        ("**/" + "a/**/" * 100 + "b", "a/" * 2000 + "x"),
        ("**/" + "a*[b]/**/" * 100 + "c", "ab/" * 1300 + "b"),
        ("{*a*,*b*,*c*,*d*,*e*}" * 2 + "*f", "abcde" * 50),
    ],
    ids=["stars", "sets", "folders", "both", "braces"],
)
def test_a_glob_that_nearly_matches_in_many_ways(glob: str, path: str) -> None:
    assert not Glob(glob).matches(path.encode())


def test_the_most_alternatives() -> None:
    several = Glob("{a,b}" * 6)
    assert 2**6 <= WAYS_MAX < 2**7
    assert several.matches(b"abbaba")

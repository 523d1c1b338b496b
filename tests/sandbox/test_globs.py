"""Globs and ignore rules of git: they match as in git, in bounded time.

Covers forge_cli.sandbox.git.ignore_rules and forge_cli.sandbox.search.files.
"""

import os
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from forge_cli.core.errors import ToolError
from forge_cli.sandbox.git.ignore_rules import IgnoreLevel
from forge_cli.sandbox.globs import BRACES_MAX
from forge_cli.sandbox.search.files import Include

MATCHING = [
    ("a", "a x/y/a"),
    ("*.py", "x/.py a.py"),
    ("/a", "a"),
    ("./a/", "a/b a/b/c"),
    ("a/**", "a/b/c"),
    ("a/**/b", "a/b a/x/y/b"),
    ("a/**/b/**/c", "a/b/b/x/c"),
    ("**/a/**/a/*", "a/x/a/y"),
    ("a*b*c", "abbcbc"),
    ("*a*b", "xaab"),
    ("a**b", "axxb"),
    ("[!a]b", "xb éb"),
    ("[a-c]?", "bx bé"),
    ("[]a]", "]"),
    ("[a-]", "-"),
    ("[[:digit:]_]", "7 _"),
    ("{a,b*}/c", "bx/c"),
    ("x{a,b/**}", "xa xb/y/z"),
    ("{a,{b,c}d}", "cd a"),
    ("*.{ts,tsx}", "x/a.ts b.tsx"),
    (r"\*", "*"),
    (r"\{a,b\}", "{a,b}"),
    ("**", "a/b"),
]
DIFFERENT = [
    ("/a", "b/a"),
    ("b/*", "b/a/b"),
    ("a?b", "a/b"),
    ("a[!b]c", "a/c"),
    ("a/**", "a"),
    ("a/**/b", "ab a/xb"),
    ("**/ab", "xab"),
    ("a*b", "a/b"),
    ("a*ab", "ab"),
    ("[a-c]", "d"),
    (r"\*", "a"),
]
MEANINGLESS = [
    "[a",
    "{a",
    "a}",
    "a\\",
    "[",
    "[[:no:]]",
    "!a",
    "{a,b}" * 7,
    "{" * 100 + "a" + "}" * 99,
]


def test_glob_matches_the_expected_paths() -> None:
    rows = [(glob, path, True) for glob, paths in MATCHING for path in paths.split(" ")]
    rows += [(glob, path, False) for glob, paths in DIFFERENT for path in paths.split(" ")]
    failures = [row for row in rows if Include.parse(row[0]).takes(row[1].encode()) is not row[2]]
    assert failures == []


def test_meaningless_globs_are_refused() -> None:
    failures = []
    for glob in MEANINGLESS:
        with suppress(ToolError):
            Include.parse(glob)
            failures.append(glob)
    assert failures == []


@pytest.mark.timeout(30)
def test_globs_that_nearly_match_in_many_ways() -> None:
    for glob, path in [
        ("*a" * 80 + "*b", "a" * 255),
        ("*[ab]" * 50 + "*c", "a" * 255),
        ("**/" + "a/**/" * 50 + "b", "a/" * 2000 + "x"),
        ("**/" + "a*[b]/**/" * 25 + "c", "ab/" * 1300 + "b"),
        ("{*a*,*b*,*c*,*d*,*e*}" * 2 + "*f", "abcde" * 50),
    ]:
        assert not Include.parse(glob).takes(path.encode())


def test_alternatives_up_to_the_limit_match() -> None:
    assert 2**6 <= BRACES_MAX < 2**7
    assert Include.parse("{a,b}" * 6).takes(b"abbaba")


def words(text: str) -> list[str]:
    return text.split(" ")


name = st.sampled_from([*words("a b ab a.py build .hid é [a] {a,b} a* #a !a a\\b 1-"), "x y", "b "])
glob_part = st.sampled_from(
    [
        *words(
            r"a b a.py *.py * ** *** ? ?? [ab] [!a] [^a]* build .hid é [é] {a,b} \* \[a] []a] [a-b] [b-a] [a a\ "
        ),
        *words(r"**b *a*b* [[:alpha:]] [[:alpha:] [a-]* [!a-]* 1[--1] [\a-c] [a/b] #a"),
        r"x\ y",
        r"b\ ",
    ]
)
rule = st.builds(
    lambda negation, slash, parts, end: negation + slash + "/".join(parts) + end,
    st.sampled_from(["", "", "", "!", "\\!", "\\", "#"]),
    st.sampled_from(["", "", "/"]),
    st.lists(glob_part, min_size=1, max_size=3),
    st.sampled_from(["", "", "", "/", " ", "  ", "\\ ", "\t", "\r", "/**", "\\/", "/ "]),
)
place = st.lists(name, min_size=1, max_size=4).map("/".join)
rules = st.lists(rule, min_size=1, max_size=5).map("\n".join)


@pytest.mark.needs("git")
@settings(max_examples=settings().max_examples // 3)
@given(
    st.lists(place, min_size=1, max_size=20),
    st.dictionaries(st.sampled_from(["", "a/", "a/b/", "build/"]), rules, min_size=1),
)
@example(["a/b/c", "b", "x/b"], {"": "[b-a]"})
@example(["a/b", "c"], {"": "\\/**"})
@example(["a/b/a.py", "a/b/b"], {"": "/a/b/*\n!/a/b/a.py\n", "a/": "/b/b"})
def test_rules_leave_out_what_they_leave_out_for_git(
    paths: list[str], files: dict[str, str]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for path, text in [
            *((path, "") for path in paths),
            *((f"{below}.gitignore", files[below]) for below in files),
        ]:
            with suppress(OSError):
                (Path(folder) / path).parent.mkdir(parents=True, exist_ok=True)
                (Path(folder) / path).write_bytes(text.encode())
        subprocess.run(["git", "init", "-q", folder], check=True)
        argv = [
            "git",
            "-C",
            folder,
            "ls-files",
            "-z",
            "--others",
            "--exclude-per-directory=.gitignore",
        ]
        listed = subprocess.run(argv, check=True, capture_output=True).stdout
        assert sorted(kept(folder.encode())) == sorted(path for path in listed.split(b"\0") if path)


def kept(root: bytes, folder: bytes = b"", level: IgnoreLevel | None = None) -> list[bytes]:
    """The files that no rule leaves out."""
    level = (level or IgnoreLevel()).enter(root, folder)
    found = []
    for entry in os.scandir(os.path.join(root, folder)):
        path = folder + b"/" + entry.name if folder else entry.name
        if entry.name != b".git" and not level.ignores(path, is_folder=entry.is_dir()):
            found += kept(root, path, level) if entry.is_dir() else [path]
    return found

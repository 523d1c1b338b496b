"""Both grammars of patches: their meaning, and the line of an error.

Covers forge_cli.sandbox.patches.parse, forge_cli.sandbox.patches.unified and forge_cli.sandbox.patches.model.
"""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_cli.core.errors import ToolError
from forge_cli.core.zones import Access, Zone
from forge_cli.sandbox.patches.model import (
    Add,
    Delete,
    Hunk,
    HunkLine,
    Patch,
    Update,
    patch_accesses,
)
from forge_cli.sandbox.patches.parse import parse_patch

EVERYTHING = """\
*** Begin Patch
*** Add File: /scratch/new.txt
+one
+
+*** End Patch
*** Delete File: /scratch/old.txt
*** Update File: /scratch/a.py
*** Move to: /scratch/b.py
@@ class A:
@@     def f(self):
 one

-two
+2
@@
+last
*** End of File
*** End Patch
"""


def test_envelope_has_every_operation() -> None:
    first = (HunkLine(" ", "one"), HunkLine(" ", ""), HunkLine("-", "two"), HunkLine("+", "2"))
    hunks = (
        Hunk(9, first, anchors=("class A:", "def f(self):")),
        Hunk(15, (HunkLine("+", "last"),), at_end=True),
    )
    assert parse_patch(EVERYTHING) == Patch(
        (
            Add("/scratch/new.txt", "one\n\n*** End Patch\n"),
            Delete("/scratch/old.txt"),
            Update("/scratch/a.py", hunks, move_to="/scratch/b.py"),
        )
    )


def test_accesses_of_a_patch_are_listed_by_path() -> None:
    assert patch_accesses(parse_patch(EVERYTHING)) == [
        ("/scratch/new.txt", Access.WRITE),
        ("/scratch/old.txt", Access.DELETE),
        ("/scratch/a.py", Access.DELETE),
        ("/scratch/b.py", Access.WRITE),
    ]


def test_first_hunk_needs_no_marker_and_empty_lines_may_separate() -> None:
    patch = "*** Begin Patch\n*** Update File: a\n-1\n+2\n\n@@ x\n-3\n\n*** End Patch\n"
    assert parse_patch(patch).operations == (
        Update(
            "a",
            (
                Hunk(3, (HunkLine("-", "1"), HunkLine("+", "2"))),
                Hunk(6, (HunkLine("-", "3"),), anchors=("x",)),
            ),
        ),
    )


def test_blank_line_of_context_at_the_start_is_kept() -> None:
    patch = "*** Begin Patch\n*** Update File: a\n \n-1\n*** End Patch"
    assert parse_patch(patch).operations == (
        Update("a", (Hunk(3, (HunkLine(" ", ""), HunkLine("-", "1"))),)),
    )


@pytest.mark.parametrize("wrap", ["{}", "\n\n{}\n\n", "```\n{}\n```", "```diff\n{}```\n"])
def test_wrapping_around_a_patch_is_no_part_of_it(wrap: str) -> None:
    assert (
        parse_patch(wrap.format(EVERYTHING)).operations[0] == parse_patch(EVERYTHING).operations[0]
    )


@pytest.mark.parametrize(
    ("patch", "problem"),
    [
        ("", "the patch is empty"),
        ("hello", "line 1 does not begin a patch"),
        ("*** Begin Patch\n*** Add File: a\n+\ud800\n*** End Patch", "half of a surrogate pair"),
        ("\n\n*** Add File: x", "line 3 does not begin a patch"),
        ("*** Begin Patch\n*** End Patch", "names no file"),
        (
            "*** Begin Patch\n*** Delete File: a",
            "line 3 of the patch: '*** End Patch' is missing",
        ),
        (
            "*** Begin Patch\n*** Add File:\n+a\n*** End Patch",
            "line 2 of the patch: '*** Add File:' needs a path",
        ),
        (
            "*** Begin Patch\n*** Add File: a\nb\n*** End Patch",
            "line 3 of the patch: every line of a new file",
        ),
        (
            "*** Begin Patch\n*** Update File: a\n*** End Patch",
            "line 2 of the patch: the update has no hunk",
        ),
        (
            "*** Begin Patch\n*** Update File: a\n@@\n b\n*** End Patch",
            "line 3 of the patch: the hunk changes nothing",
        ),
        (
            "*** Begin Patch\n*** Update File: a\n@@\n*** End Patch",
            "line 3 of the patch: the hunk changes nothing",
        ),
        (
            "*** Begin Patch\n*** Update File: a\n@@\n-b\nc\n*** End Patch",
            "line 5 of the patch: every line of a hunk",
        ),
        ("*** Begin Patch\n*** Rename File: a\n*** End Patch", "line 2 of the patch: expected"),
        (
            "*** Begin Patch\n*** Delete File: a\n*** End Patch\nmore",
            "line 4 of the patch: text after",
        ),
        (
            "*** Begin Patch\n*** Update File: a\n-b\r\n+c\n*** End Patch",
            "line 3 of the patch: the hunk mixes",
        ),
        (
            "*** Begin Patch\n*** Update File: a\n-b\n*** End of File\n+c\n*** End Patch",
            "line 5 of the patch: expected '@@'",
        ),
        ("--- a\n", "line 2 of the patch: expected '+++ PATH'"),
        ("--- a\n+++ b\n@@ -1 +1 @@\n-a\n+b", "line 1 of the patch: 'a' and 'b' are two files"),
        ("--- /dev/null\n+++ /dev/null\n", "line 1 of the patch: the header has no file"),
        ("--- a\n+++ a\n", "line 1 of the patch: 'a' has no hunk"),
        (
            "--- a\n+++ a\n@@ -1,2 +1 @@\n-a\n+b\n",
            "line 3 of the patch: the hunk states 2 old and 1 new lines",
        ),
        (
            "--- a\n+++ a\n@@ -1 +1 @@\n-a\n+b\n+c\n",
            "but has 1 and 2; correct it, or write '@@' alone",
        ),
        ("--- a\n+++ a\n@@ -1 +1 @@\n-a\n+b\n\n c\n", "line 7 of the patch: expected '--- PATH'"),
        ("--- a\n+++ a\n@@ x @@\n-a\n+b\n", "line 3 of the patch: expected '@@ -LINE,COUNT"),
        (
            "--- a\n+++ a\n@@ -1 +1 @@\n\\ No newline\n-a\n+b\n",
            "line 4 of the patch: no line above",
        ),
        (
            "--- /dev/null\n+++ a\n@@ -1 +1 @@\n-a\n+b\n",
            "line 3 of the patch: a new file has one hunk",
        ),
        (
            "diff --git a/x b/x\nold mode 100644\nnew mode 100755\n",
            "line 2 of the patch: expected '--- PATH'",
        ),
        ("diff --git a/x b/x\nnew file mode 100755\n", "line 2 of the patch: expected '--- PATH'"),
        (
            "diff --git a/x b/x\nBinary files a/x and b/x differ\n",
            "files without changed lines",
        ),
        (
            "diff --git a/x b/y\ncopy from x\ncopy to y\n",
            "line 2 of the patch: expected '--- PATH'",
        ),
        (
            "diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n",
            "use '*** Begin Patch'",
        ),
        ("diff --git a/x b/x\nhello\n", "line 2 of the patch: expected '--- PATH', not 'hello'"),
        ("Index: x\n", "line 1 of the patch: the header has no file"),
    ],
)
def test_patch_errors_name_their_line(patch: str, problem: str) -> None:
    with pytest.raises(ToolError) as refused:
        parse_patch(patch)
    assert problem in str(refused.value)


def names(old: str, new: str, zones: tuple[Zone, ...] = ()) -> tuple[str | None, str | None]:
    """The paths that two header lines mean, before and after."""
    body = {"/dev/null": "@@ -0,0 +1 @@\n+x\n"}.get(old, "@@ -1 +1 @@\n-x\n+y\n")
    match parse_patch(f"--- {old}\n+++ {new}\n{body}", zones).operations:
        case (Add(path=path),):
            return None, path
        case (Delete(path=path),):
            return path, None
        case (Update(path=path, move_to=target),):
            return path, target or path
    raise AssertionError


DECLARED = (Zone("scratch", Path("/x/scratch")), Zone("output", Path("/x/output")))
DEFAULT = (Zone("workspace", Path("/x"), default=True),)


@pytest.mark.parametrize(
    ("old", "new", "zones", "meant"),
    [
        ("/scratch/x", "/scratch/x", DECLARED, ("/scratch/x", "/scratch/x")),
        ("a/scratch/x", "b/scratch/x", DECLARED, ("/scratch/x", "/scratch/x")),
        ("a//scratch/x", "b//scratch/x", DECLARED, ("/scratch/x", "/scratch/x")),
        ("a/elsewhere/x", "b/elsewhere/x", DECLARED, ("elsewhere/x", "elsewhere/x")),
        ("a/src/x", "b/src/x", DEFAULT, ("src/x", "src/x")),
        ("a/workspace/x", "b/workspace/x", DEFAULT, ("workspace/x", "workspace/x")),
        ("a/x", "a/x", DEFAULT, ("a/x", "a/x")),
        ("b/x", "b/x", DEFAULT, ("b/x", "b/x")),
        ("src/x\t2026-11-14 10:00:00", "src/x\t2026-11-15 10:00:00", DEFAULT, ("src/x", "src/x")),
        ("a/with space", "b/with space", DEFAULT, ("with space", "with space")),
        ('"a/\\303\\251\\t\\""', '"b/\\303\\251\\t\\""', DEFAULT, ('é\t"', 'é\t"')),
        ("a/old", "b/new", DEFAULT, ("old", "new")),
        ("/dev/null", "b/scratch/new", DECLARED, (None, "/scratch/new")),
        ("/dev/null", "/scratch/new", DECLARED, (None, "/scratch/new")),
        ("a/scratch/old", "/dev/null", DECLARED, ("/scratch/old", None)),
        ("scratch/old", "/dev/null", DECLARED, ("scratch/old", None)),
    ],
)
def test_names_in_the_headers_of_diffs(
    old: str, new: str, zones: tuple[Zone, ...], meant: tuple[str | None, str | None]
) -> None:
    assert names(old, new, zones) == meant


def test_diff_without_numbers_and_one_by_mail() -> None:
    patch = "--- x\n+++ x\n@@\n-a\n+b\n\n@@ @@\n-c\n--- y\n+++ y\n@@ -2,0 +3 @@ def f():\n+d\n-- \n2.39\n"
    assert parse_patch(patch).operations == (
        Update(
            "x", (Hunk(3, (HunkLine("-", "a"), HunkLine("+", "b"))), Hunk(7, (HunkLine("-", "c"),)))
        ),
        Update("y", (Hunk(11, (HunkLine("+", "d"),), start=2),)),
    )


PIECES = """\
*** Begin Patch|*** End Patch|*** Update File: a|*** Add File: b|*** Delete File: c|*** Move to: d|*** End of File
@@|@@ x|@@ -1 +1 @@|@@ -1,2 +0,0 @@|--- a|+++ a|--- a/x|+++ b/x|+++ /dev/null|--- "a\\377"|-- |\\ No newline
diff --git a/x b/x|rename from x|rename to y|new file mode 100644| c|-o|+n|| |x|-o\r|```"""
piece = st.sampled_from([piece for line in PIECES.split("\n") for piece in line.split("|")])


@given(st.lists(piece, max_size=12), st.sampled_from(["", "*** Begin Patch\n", "--- a\n+++ a\n"]))
def test_arbitrary_text_is_a_patch_or_refused(lines: list[str], start: str) -> None:
    try:
        patch = parse_patch(start + "\n".join(lines))
    except ToolError as refused:
        assert str(refused)
    else:
        assert patch.operations
        assert patch_accesses(patch)

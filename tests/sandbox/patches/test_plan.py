"""Applying a patch to files: the right place or a refusal, never a guess.

Covers forge_cli.sandbox.patches.match, forge_cli.sandbox.patches.plan, forge_cli.sandbox.patches.model.
"""

import pytest

from forge_cli.core.errors import ToolError
from forge_cli.sandbox.patches.model import Change
from forge_cli.sandbox.patches.parse import parse_patch
from forge_cli.sandbox.patches.plan import plan_patch

Files = dict[str, str | None]

PROGRAM = """\
class A:
    def f(self):
        x = 1
        return x

    def g(self):
        x = 1
        return x


class B:
    def f(self):
        x = 2
        return x
"""


def outcome(patch: str, **files: str) -> Files:
    """The content of every changed file afterwards."""
    contents = {name.replace("__", "/"): text.encode() for name, text in files.items()}
    changes = plan_patch(parse_patch(patch), contents.get)
    assert all(change.before == contents.get(change.path) for change in changes)
    return {
        change.path: None if change.after is None else change.after.decode() for change in changes
    }


def update(body: str, path: str = "x") -> str:
    return f"*** Begin Patch\n*** Update File: {path}\n{body}\n*** End Patch"


def refusal(patch: str, **files: str) -> str:
    with pytest.raises(ToolError) as refused:
        outcome(patch, **files)
    return str(refused.value)


def test_move_alone_keeps_every_byte() -> None:
    patch = parse_patch("*** Begin Patch\n*** Update File: a\n*** Move to: b\n*** End Patch")
    data = b"\xff\x00\r\n"
    assert plan_patch(patch, {"a": data}.get) == (
        Change("a", "a", data, None),
        Change("b", "b", None, data, origin="a"),
    )


@pytest.mark.parametrize(
    ("patch", "problem"),
    [
        ("*** Begin Patch\n*** Add File: x\n+a\n*** End Patch", "'x' already exists"),
        ("*** Begin Patch\n*** Delete File: y\n*** End Patch", "'y' does not exist"),
        ("*** Begin Patch\n*** Update File: y\n-a\n*** End Patch", "'y' does not exist"),
        (
            "*** Begin Patch\n*** Update File: x\n*** Move to: z\n*** End Patch",
            "'z' already exists",
        ),
        (
            "*** Begin Patch\n*** Update File: x\n*** Move to: x\n*** End Patch",
            "'x' cannot be moved to itself",
        ),
        (update("-a\n+a"), "the patch does not change 'x'"),
        ("--- x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", "shows only some of its lines"),
        ("diff --git a/x b/x\n--- a/x\n+++ /dev/null\n", "shows only some of its lines"),
    ],
)
def test_impossible_patches_are_refused(patch: str, problem: str) -> None:
    assert problem in refusal(patch, x="a\nb\n", z="")


def test_relative_path_that_was_meant_from_the_root_is_recognised() -> None:
    patch = parse_patch(update("-a", "scratch/x"))
    with pytest.raises(ToolError, match="'scratch/x' does not exist; '/scratch/x' does"):
        plan_patch(patch, {"/scratch/x": b"a"}.get)


@pytest.mark.parametrize("data", [b"caf\xe9\n", b"a\0b\n"])
def test_patch_changes_text_and_deletes_anything(data: bytes) -> None:
    with pytest.raises(ToolError, match="cannot be patched"):
        plan_patch(parse_patch(update("-a")), {"x": data}.get)
    deletion = parse_patch("*** Begin Patch\n*** Delete File: x\n*** End Patch")
    assert plan_patch(deletion, {"x": data}.get) == (Change("x", "x", data, None),)


class TestSameFileTwice:
    def test_added_file_can_be_updated_and_a_deleted_one_added(self) -> None:
        patch = (
            "*** Begin Patch\n*** Add File: y\n+a\n*** Update File: y\n-a\n+b\n"
            "*** Delete File: x\n*** Add File: x\n+new\n*** End Patch"
        )
        assert outcome(patch, x="a\n") == {"y": "b\n", "x": "new\n"}

    def test_patch_without_effect_is_reported(self) -> None:
        patch = (
            "*** Begin Patch\n*** Update File: x\n-a\n+b\n*** Update File: x\n-b\n+a\n*** End Patch"
        )
        assert "changes nothing" in refusal(patch, x="a\n")


class TestPlace:
    def test_place_that_is_not_the_only_one_is_refused_with_all_of_them(self) -> None:
        answer = refusal(update("@@\n-        return x\n+        return 0"), x=PROGRAM)
        assert (
            "hunk 1 of 'x' (line 3 of the patch) fits in several places (lines 4, 8, 14)" in answer
        )

    @pytest.mark.parametrize("anchors", ["@@ class A:\n@@ def g(self):", "@@     def g(self):"])
    def test_anchors_find_it(self, anchors: str) -> None:
        patch = update(f"{anchors}\n-        x = 1\n+        x = 9")
        assert outcome(patch, x=PROGRAM) == {
            "x": PROGRAM.replace("g(self):\n        x = 1", "g(self):\n        x = 9")
        }

    def test_anchor_that_is_there_twice_is_not_enough(self) -> None:
        answer = refusal(update("@@ def f(self):\n-        return x"), x=PROGRAM)
        assert "fits in several places (lines 4, 14)" in answer

    def test_lines_elsewhere_than_below_the_anchor_are_not_meant(self) -> None:
        answer = refusal(update("@@ class A:\n-        x = 2"), x=PROGRAM)
        assert "its lines are at line 13, not below 'class A:', as it states" in answer

    def test_block_goes_on_behind_the_bracket_of_its_head(self) -> None:
        before = "def f(\n    a,\n):\n    return 1\n\n\ndef g(\n    a,\n):\n    return 1\n"
        patch = update("@@ def f(\n-    return 1\n+    return 2")
        assert outcome(patch, x=before) == {"x": before.replace("return 1", "return 2", 1)}

    def test_hunk_may_begin_with_the_line_behind_the_block(self) -> None:
        patch = update("@@ def g(self):\n \n \n+# B\n class B:")
        assert outcome(patch, x=PROGRAM) == {"x": PROGRAM.replace("class B", "# B\nclass B")}

    def test_line_that_begins_no_block_is_an_anchor_for_all_below(self) -> None:
        assert outcome(update("@@ b\n-a\n+c"), x="a\nb\n\na\n") == {"x": "a\nb\n\nc\n"}

    def test_hunks_come_in_the_order_of_the_file(self) -> None:
        answer = refusal(update("@@\n-c\n+C\n@@\n-a\n+A"), x="a\nb\nc\n")
        assert (
            "hunk 2 of 'x' (line 6 of the patch) does not fit: its lines are at line 1, above the previous hunk"
            in answer
        )

    def test_hunks_do_not_overlap(self) -> None:
        assert "hunk 2" in refusal(update("@@\n a\n-b\n+B\n@@\n b\n-c\n+C"), x="a\nb\nc\n")

    def test_hunk_before_makes_the_next_place_the_only_one(self) -> None:
        assert outcome(update("@@\n a\n-x\n+1\n@@\n-x\n+2"), x="a\nx\nx\n") == {"x": "a\n1\n2\n"}

    def test_end_of_the_file(self) -> None:
        assert outcome(update("@@\n-x\n+y\n*** End of File"), x="x\nx\n") == {"x": "x\ny\n"}
        assert outcome(update("@@\n+y\n*** End of File"), x="x\n") == {"x": "x\ny\n"}
        answer = refusal(update("@@\n-x\n*** End of File"), x="x\nz\n")
        assert "its lines are at line 1, not at the end of the file, as it states" in answer

    @pytest.mark.parametrize("body", ["+y", "@@ x\n+y"])
    def test_added_lines_need_a_place(self, body: str) -> None:
        assert "only adds lines without context" in refusal(update(body), x="x\n")
        assert outcome(update("+y"), x="") == {"x": "y\n"}

    def test_failed_hunk_names_the_nearest_lines(self) -> None:
        answer = refusal(
            update("@@\n     def g(self):\n         x = 1\n-        return y"), x=PROGRAM
        )
        assert "does not fit: its lines are not in the file" in answer
        assert "6:     def g(self):\n7:         x = 1\n8:         return x\n" in answer
        assert answer.endswith("Line 8 differs; the patch has:         return y")

    def test_line_that_is_nearly_there_is_found(self) -> None:
        assert "1: the quick fox" in refusal(update("-the quick fax"), x="the quick fox\nz\n")
        assert "Nearest" not in refusal(update("-something else"), x="1\n2\n")

    @pytest.mark.parametrize("path", [".env", "/scratch/.env.local"])
    def test_secrets_are_not_repeated(self, path: str) -> None:
        with pytest.raises(ToolError) as refused:
            plan_patch(parse_patch(update(" KEY=1\n-B", path)), {path: b"KEY=1\nTOKEN=abc\n"}.get)
        assert "TOKEN" not in str(refused.value)
        with pytest.raises(ToolError) as refused:
            plan_patch(
                parse_patch(update(" KEY=1\n-B")),
                {"x": b"KEY=1\nTOKEN=abc\n"}.get,
                lambda _: "/scratch/.env",
            )
        assert "TOKEN" not in str(refused.value)


class TestLineNumbers:
    BEFORE = "a\nx\nb\na\nx\nb\na\nx\nb\n"

    def diff(self, line: int) -> str:
        return f"--- x\n+++ x\n@@ -{line},3 +{line},3 @@\n a\n-x\n+X\n b\n"

    @pytest.mark.parametrize("line", [2, 3, 5, 100])
    def test_stated_line_numbers_must_match_exactly(self, line: int) -> None:
        assert "fits in several places (lines 1, 4, 7)" in refusal(self.diff(line), x=self.BEFORE)

    def test_stated_line_numbers_do_not_matter_for_one_place(self) -> None:
        assert outcome(self.diff(77), x="1\n2\na\nx\nb\n") == {"x": "1\n2\na\nX\nb\n"}

    def test_shift_goes_on_to_the_next_hunk(self) -> None:
        patch = "--- x\n+++ x\n@@ -1 +1 @@\n-q\n+Q\n@@ -5,3 +5,3 @@\n a\n-x\n+X\n b\n"
        assert outcome(patch, x=f"#\n#\nq\n{self.BEFORE}") == {
            "x": "#\n#\nQ\na\nx\nb\na\nX\nb\na\nx\nb\n"
        }

    def test_line_numbers_work_in_an_envelope(self) -> None:
        patch = update("@@ -4,3 +4,3 @@\n a\n-x\n+X\n b")
        assert outcome(patch, x=self.BEFORE) == {"x": "a\nx\nb\na\nX\nb\na\nx\nb\n"}


class TestSpaces:
    def test_spaces_at_the_end_do_not_matter_and_stay_where_the_file_has_them(self) -> None:
        assert outcome(update(" a\n-b  \n+c"), x="a \nb\n") == {"x": "a \nc\n"}

    def test_exact_place_wins_over_one_with_other_spaces(self) -> None:
        assert outcome(update("-a\n+b"), x="  a\na \na\n") == {"x": "  a\na \nb\n"}

    def test_added_lines_get_the_indentation_that_the_hunk_lacks(self) -> None:
        patch = update(" def f():\n-    return 1\n+    if x:\n+        return 2\n+\n+    return 1")
        before = "class A:\n    def f():\n        return 1\n"
        after = "class A:\n    def f():\n        if x:\n            return 2\n\n        return 1\n"
        assert outcome(patch, x=before) == {"x": after}

    def test_added_lines_lose_the_indentation_that_the_hunk_has_too_much(self) -> None:
        assert outcome(update("     a\n-    b\n+      c"), x="a\nb\n") == {"x": "a\n  c\n"}

    def test_tabs_for_spaces(self) -> None:
        patch = update(" if x {\n-    a()\n+    for {\n+        b()\n+    }")
        assert outcome(patch, x="if x {\n\ta()\n}\n") == {"x": "if x {\n\tfor {\n\t\tb()\n\t}\n}\n"}

    def test_spaces_for_tabs(self) -> None:
        assert outcome(update(" x:\n-\ta\n+\t\tb"), x="x:\n  a\n") == {"x": "x:\n    b\n"}

    def test_line_in_place_of_one_that_only_lacks_its_indentation(self) -> None:
        before = "def f():\n    a()\n    return 1\n"
        assert outcome(update(" def f():\n-a()\n+b()\n+\n+c()"), x=before) == {
            "x": "def f():\n    b()\n\n    c()\n    return 1\n"
        }
        assert "other indentation" in refusal(update(" def f():\n-a()\n+  b()"), x=before)
        assert "other indentation" in refusal(update(" def f():\n a()\n+b()"), x=before)

    def test_indentation_that_fits_no_rule_is_refused(self) -> None:
        assert "only matches with other indentation; indent it like lines 1 to 2" in refusal(
            update("  a\n-  b\n+c"), x="a\n     b\n"
        )
        assert "other indentation" in refusal(update("     a\n+b"), x="a\n")
        assert outcome(update("  a\n-  b"), x="a\n     b\n") == {"x": "a\n"}


class TestEndings:
    def test_file_with_carriage_returns_keeps_them(self) -> None:
        patch = update(" a\n-b\n+B\n+C\n*** End of File")
        assert outcome(patch, x="a\r\nb\r\n") == {"x": "a\r\nB\r\nC\r\n"}
        assert outcome(patch.replace("\n", "\r\n"), x="a\nb\n") == {"x": "a\nB\nC\n"}

    def test_hunks_with_the_carriage_returns_of_the_file(self) -> None:
        patch = "--- x\n+++ x\n@@ -1,2 +1,2 @@\n a\r\n-b\r\n+B\r\n"
        assert outcome(patch, x="a\r\nb\r\n") == {"x": "a\r\nB\r\n"}
        assert outcome(patch, x="a\nb\n") == {"x": "a\nB\n"}

    def test_new_file_has_the_carriage_returns_that_its_lines_have(self) -> None:
        assert outcome("--- /dev/null\n+++ y\n@@ -0,0 +1,2 @@\n+a\r\n+b\r\n") == {"y": "a\r\nb\r\n"}

    def test_new_lines_in_a_mixed_file_end_like_their_neighbours(self) -> None:
        assert outcome(update("@@\n a\n+1\n@@\n b\n+2"), x="a\r\nb\nc\r\n") == {
            "x": "a\r\n1\r\nb\n2\nc\r\n"
        }

    def test_newlines_alone_end_a_line(self) -> None:
        assert outcome(update("-a\x0cb\u2028c\rd\n+e"), x="a\x0cb\u2028c\rd\n") == {"x": "e\n"}

    def test_lines_behind_a_line_without_newline(self) -> None:
        assert outcome(update(" a\n+b"), x="a") == {"x": "a\nb"}

    def test_line_said_to_be_the_last_is_the_last(self) -> None:
        patch = "--- x\n+++ x\n@@ -1 +1 @@\n-a\n+b\n\\ No newline at end of file\n"
        assert outcome(patch, x="a\na\n") == {"x": "a\nb"}
        assert "not at the end of the file" in refusal(patch, x="a\nz\n")

    def test_byte_order_mark_stays(self) -> None:
        assert outcome(update("-a\n+b"), x="\ufeffa\n") == {"x": "\ufeffb\n"}

    def test_diff_can_remove_everything(self) -> None:
        assert outcome("--- x\n+++ x\n@@ -1,2 +0,0 @@\n-a\n-b\n", x="a\nb\n") == {"x": ""}
        assert outcome("--- x\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n", x="a\nb\n") == {"x": None}

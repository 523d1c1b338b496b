"""Diffs on a terminal: numbered, coloured, and complete for every patch."""

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from forge_cli.core.results import Diff
from forge_cli.files.difference import unified_diff
from forge_cli.ui.terminal.render import DrawnDiff, Indented, render

BEFORE = "".join(f"line {number}\n" for number in range(1, 13))
AFTER = BEFORE.replace("line 2\n", "").replace("line 11\n", "eleven\nand more\n")


def drawn(
    patch: str, *, width: int = 60, lines: int | None = None, colours: bool = False
) -> list[str]:
    file = io.StringIO()
    system = "standard" if colours else None
    console = Console(
        file=file, width=width, force_terminal=True, soft_wrap=True, color_system=system
    )
    console.print(Indented(DrawnDiff(patch, lines), 2, bar=True), end="")
    return [line.rstrip() for line in file.getvalue().splitlines()]


def test_each_line_has_its_old_and_new_number() -> None:
    assert drawn("\n".join(unified_diff(BEFORE, AFTER, "a.py", "a.py"))) == [
        "│ a.py",
        "│  1  1   line 1",
        "│  2    - line 2",
        "│  3  2   line 3",
        "│  4  3   line 4",
        "│  5  4   line 5",
        "│ ⋮",
        "│  8  7   line 8",
        "│  9  8   line 9",
        "│ 10  9   line 10",
        "│ 11    - line 11",
        "│    10 + eleven",
        "│    11 + and more",
        "│ 12 12   line 12",
    ]


def test_added_lines_are_green_and_removed_ones_red() -> None:
    shown = drawn("\n".join(unified_diff("old\n", "new\n", "a", "a")), colours=True)
    assert "\x1b[31m- old\x1b[0m" in shown[1]
    assert "\x1b[32m+ new\x1b[0m" in shown[2]


def test_new_file_has_no_old_numbers_and_deleted_file_no_new_ones() -> None:
    assert drawn("--- /dev/null\n+++ b/a\n@@ -0,0 +1 @@\n+x") == ["│ b/a (new)", "│ 1 + x"]
    assert drawn("--- a/a\n+++ /dev/null\n@@ -1 +0,0 @@\n-x") == ["│ a/a (deleted)", "│ 1 - x"]
    assert drawn("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-x\n+y")[0] == "│ b/x"
    assert drawn("--- x\n+++ y\n@@ -1 +1 @@\n-x\n+y")[0] == "│ x -> y"


def test_patch_of_several_files_keeps_its_headers() -> None:
    git = "diff --git a/x b/x\nindex 1..2\n--- a/x\n+++ b/x\n@@ -7 +7 @@ def f():\n--- gone\n+++ come\n"
    assert drawn(f"{git}\\ No newline at end of file") == [
        "│ diff --git a/x b/x",
        "│ index 1..2",
        "│ b/x",
        "│ ⋮ def f():",
        "│ 7   - -- gone",
        "│   7 + ++ come",
        "│ \\ No newline at end of file",
    ]


@pytest.mark.parametrize("width", [40, 80])
def test_long_line_continues_beside_its_numbers(width: int) -> None:
    shown = drawn("\n".join(unified_diff("", "word 日本 " * 20 + "TAIL\n", "a", "a")), width=width)
    assert shown[1].startswith("│ 1 + word 日本")
    assert all(line.startswith("│     ") for line in shown[2:])
    assert shown[-1].endswith("TAIL")
    assert max(map(cell_len, shown)) <= width


def test_long_diff_states_how_much_is_omitted() -> None:
    assert (
        drawn("\n".join(unified_diff("", BEFORE, "a", "a")), lines=3)[-1] == "│ ... 10 more lines"
    )


def test_diff_without_a_terminal_is_a_patch() -> None:
    file = io.StringIO()
    Console(file=file, width=60).print(render(Diff.of("a", "old\n", "new\n")), end="")
    assert file.getvalue().splitlines() == ["--- a", "+++ a", "@@ -1 +1 @@", "-old", "+new"]


HUNKS = st.sampled_from(
    ["--- a", "+++ b", "@@ -1,2 +3,4 @@ x", "@@ -1 +1 @@", "-one", "+two", " same", "\\ none", ""]
)


@given(st.lists(HUNKS | st.text(max_size=12).map(lambda text: text.replace("\n", "")), max_size=12))
def test_invalid_patch_loses_no_line(lines: list[str]) -> None:
    shown = drawn("\n".join(lines), width=200)
    texts = [line for line in lines if re.fullmatch(r"[-+ ](one|two|same)", line)]
    assert [line for line in shown if re.search("one$|two$|same$", line)] or not texts
    assert sum(bool(re.search("(one|two|same)$", line)) for line in shown) >= len(texts)
    assert all(line.startswith("│") for line in shown)

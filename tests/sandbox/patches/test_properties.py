"""Random edits of random texts: a patch made of them leads to exactly the intended text, a spoilt one to nothing."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from hypothesis import assume, given
from hypothesis import strategies as st

from forge_cli.core.errors import ToolError
from forge_cli.sandbox.patches.parse import parse_patch
from forge_cli.sandbox.patches.plan import plan_patch

NEVER_THERE = "nowhere to be found"
NO_NEWLINE = "\\ No newline at end of file"

text_line = st.one_of(
    st.sampled_from(
        [
            "",
            " ",
            "a",
            "b",
            "  a",
            "\tb",
            "}",
            "-a",
            "+b",
            "@@",
            "*** End Patch",
            "--- a",
            "\\ x",
            "a\rb",
        ]
    ),
    st.text(st.characters(codec="utf-8", exclude_characters="\0\n\r\ufeff"), max_size=6),
)
repetitive = st.lists(text_line, max_size=14)
distinct = st.lists(text_line, max_size=14, unique_by=str.strip)


@dataclass(frozen=True)
class Text:
    """Lines, and whether the last of them ends as the others do."""

    lines: list[str]
    ending: str = "\n"
    closed: bool = True

    def encoded(self) -> bytes:
        text = "".join(line + self.ending for line in self.lines)
        return (text if self.closed else text.removesuffix(self.ending)).encode()

    def tokens(self) -> list[tuple[str, bool]]:
        last = len(self.lines) - 1
        return [(line, self.closed or number < last) for number, line in enumerate(self.lines)]


@dataclass(frozen=True)
class Edit:
    """A text and its intended result."""

    before: Text
    after: Text


@st.composite
def edits(draw: st.DrawFn, lines: st.SearchStrategy[list[str]], *, same_end: bool = False) -> Edit:
    before = draw(lines)
    after = list(before)
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(after)))
        end = draw(st.integers(start, min(len(after), start + 3)))
        after[start:end] = draw(st.lists(text_line, max_size=3))
    ending = draw(st.sampled_from(["\n", "\r\n"]))
    may_stay_open = [bool(lines and lines[-1]) for lines in (before, after)]
    closed = [
        not may or draw(st.booleans())
        for may in ([all(may_stay_open)] if same_end else may_stay_open)
    ]
    edit = Edit(Text(before, ending, closed[0]), Text(after, ending, closed[-1]))
    assume(edit.before.encoded() != edit.after.encoded())
    assume(ending == "\n" or b"\r\n" in edit.before.encoded())
    return edit


def unified(edit: Edit, context: int = 3) -> list[list[str]]:
    """The hunks of a diff."""
    before, after = edit.before.tokens(), edit.after.tokens()
    hunks = []
    for group in SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes(context):
        (_, i1, _, j1, _), (_, _, i2, _, j2) = group[0], group[-1]
        hunks.append(
            [
                f"@@ -{i1 + (i1 < i2)},{i2 - i1} +{j1 + (j1 < j2)},{j2 - j1} @@",
                *body(before, after, group),
            ]
        )
    return hunks


def envelope(edit: Edit, context: int = 3) -> list[list[str]]:
    before, after = ([(line, True) for line in text.lines] for text in (edit.before, edit.after))
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    return [["@@", *body(before, after, group)] for group in matcher.get_grouped_opcodes(context)]


Tokens = list[tuple[str, bool]]


def body(
    before: Tokens, after: Tokens, group: Sequence[tuple[str, int, int, int, int]]
) -> list[str]:
    found = []
    for tag, i1, i2, j1, j2 in group:
        old = [(" " if tag == "equal" else "-", *token) for token in before[i1:i2]]
        new = [("+", *token) for token in after[j1:j2]] if tag != "equal" else []
        for sign, line, closed in old + new:
            found += [sign + line] if closed else [sign + line, NO_NEWLINE]
    return found


def as_diff(hunks: list[list[str]]) -> str:
    return "\n".join(["--- x", "+++ x", *(line for hunk in hunks for line in hunk), ""])


def as_envelope(hunks: list[list[str]]) -> str:
    lines = (line for hunk in hunks for line in hunk)
    return "\n".join(["*** Begin Patch", "*** Update File: x", *lines, "*** End Patch"])


def result(patch: str, before: Text) -> bytes | None:
    (change,) = plan_patch(parse_patch(patch), {"x": before.encoded()}.get)
    return change.after


def refused_or_right(patch: str, edit: Edit) -> None:
    try:
        found = result(patch, edit.before)
    except ToolError as refused:
        assert "several places" in str(refused) or "only adds lines without context" in str(refused)
    else:
        assert found == edit.after.encoded()


@given(edits(repetitive))
def test_diff_leads_to_the_intended_text(edit: Edit) -> None:
    assert result(as_diff(unified(edit)), edit.before) == edit.after.encoded()


@given(edits(distinct, same_end=True))
def test_envelope_leads_to_the_intended_text(edit: Edit) -> None:
    assert result(as_envelope(envelope(edit)), edit.before) == edit.after.encoded()


@given(edits(repetitive, same_end=True), st.integers(0, 3))
def test_envelope_with_little_context_is_refused_or_right(edit: Edit, context: int) -> None:
    refused_or_right(as_envelope(envelope(edit, context)), edit)


@given(edits(repetitive), st.data())
def test_diff_without_line_numbers_is_refused_or_right(edit: Edit, data: st.DataObject) -> None:
    hunks = [["@@", *hunk[1:]] if data.draw(st.booleans()) else hunk for hunk in unified(edit)]
    refused_or_right(as_diff(hunks), edit)


@given(edits(repetitive, same_end=True), st.booleans(), st.data())
def test_spoilt_line_is_never_success_in_the_wrong_place(
    edit: Edit, as_a_diff: bool, data: st.DataObject
) -> None:
    hunks = unified(edit) if as_a_diff else envelope(edit)
    places = [(hunk, n) for hunk in hunks for n, line in enumerate(hunk) if n and line[0] in " -"]
    assume(places)
    hunk, number = data.draw(st.sampled_from(places))
    spaces = data.draw(st.sampled_from([None, " ", "\t "]))
    hunk[number] = hunk[number][0] + NEVER_THERE if spaces is None else hunk[number] + spaces
    try:
        found = result((as_diff if as_a_diff else as_envelope)(hunks), edit.before)
    except ToolError:
        return
    assert spaces is not None
    assert found == edit.after.encoded()


@given(edits(distinct), st.lists(text_line, max_size=3), st.integers(0, 14))
def test_lines_that_came_in_between_are_not_lost(edit: Edit, added: list[str], where: int) -> None:
    """The file got more lines since the patch was made: the patch fits around them, or not at all."""
    lines = edit.before.lines
    moved = Text(lines[:where] + added + lines[where:], edit.before.ending)
    for patch in (as_diff(unified(edit)), as_envelope(envelope(edit))):
        try:
            found = result(patch, moved)
        except ToolError:
            continue
        assert found is not None
        kept = found.decode().removesuffix(moved.ending).split(moved.ending) if found else []
        assert stripped(kept) == stripped(edit.after.lines) + stripped(added)


def stripped(lines: list[str]) -> Counter[str]:
    return Counter(map(str.strip, lines))

"""Every kind of result on a terminal: complete if required, bounded otherwise, and always escaped.

Covers forge_cli.ui.views.
"""

import io
import re
import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.console import Console, Group
from rich.text import Text as Styled

from forge_cli import Custom, Diff, Json, Text
from forge_cli.core.results import ResultValue
from forge_cli.results import DisplayHints, FileContent, FileList, Table
from forge_cli.ui.terminal.render import Indented, render
from forge_cli.ui.views import view_of
from tests.support.deadline import deadline
from tests.support.kinds import results_of

HOSTILE = "a\x1b[2Jb\rc\x07\x9b\u202ed\u200b[red]e[/red]\N{OBJECT REPLACEMENT CHARACTER}"
SHOWN = "a\\x1b[2Jb\\rc\\x07\\x9b\\u202ed\\u200b[red]e[/red]\N{OBJECT REPLACEMENT CHARACTER}"
OBEYED = {"Cc", "Cf", "Cs", "Zl", "Zp"}
TAIL = "word " * 40 + "TAIL"


def shown(value: ResultValue, width: int = 60, indent: int = 0, **options: object) -> str:
    """The output for a terminal of that width, without trailing blanks."""
    file = io.StringIO()
    console = Console(file=file, width=width, highlight=False, soft_wrap=True, color_system=None)
    console.print(Indented(render(value, **options), indent), end="")  # type: ignore[arg-type]
    return "".join(f"{line.rstrip()}\n" for line in file.getvalue().splitlines())


def test_text_and_files_are_rendered() -> None:
    assert shown(Text("one\ntwo")) == "one\ntwo\n"
    assert shown(Text("ends\n")) == "ends\n"
    assert shown(FileContent("/a", "x\ty\n", 4)) == "x       y\n"
    assert shown(Text("")) == "\n"


@given(st.text(st.sampled_from("ab 漢\n"), max_size=60), st.booleans())
def test_plain_text_equals_the_output_of_rich(text: str, styled: bool) -> None:
    # rich 14 leaves out blanks at the end of a long line, rich 15 draws them; nobody sees a difference
    lines = "\n".join(line.rstrip(" ") for line in text.split("\n"))
    words = Styled(lines, "bold" if styled else "")
    for indented in (Indented(words, 2, hang=3), Indented(words, 4, bar=True)):
        drawn = [new_screen(12), new_screen(12)]
        drawn[0].print(indented, end="")
        drawn[1].print(replace(indented, inside=Group(words)), end="")
        assert drawn[0].file.getvalue() == drawn[1].file.getvalue()


def new_screen(width: int) -> Console:
    return Console(
        file=io.StringIO(), width=width, force_terminal=True, highlight=False, soft_wrap=True
    )


@pytest.mark.long
def test_million_lines_are_rendered_in_time() -> None:
    with deadline():
        new_screen(80).print(Indented(render(Text("y\n" * 1_000_000), lines=None), 2), end="")


def test_file_lists_are_rendered() -> None:
    assert shown(FileList.of("/", ("a", "b/"))) == "a\nb/\n"
    assert shown(FileList("/", ("a",), 3)) == "a\n... 2 more\n"
    assert shown(FileList.of("/", ())) == "(empty)\n"


def test_json_is_rendered() -> None:
    assert shown(Json({"a": [1, "é"]})) == '{\n  "a": [\n    1,\n    "é"\n  ]\n}\n'
    assert shown(Json("text")) == "text\n"
    assert shown(Json(object())).startswith("<object")


def test_long_text_is_cut_after_some_lines_with_a_notice() -> None:
    text = "\n".join(map(str, range(30)))
    assert shown(Text(text)).splitlines()[-2:] == ["19", "... 10 more lines"]
    assert shown(Text(text), lines=2) == "0\n1\n... 28 more lines\n"
    assert shown(Text(text), lines=None) == text + "\n"


@pytest.mark.parametrize(
    "value",
    [
        Text(TAIL),
        Text("x" * 300 + "TAIL"),
        FileContent("/a", TAIL, 1),
        FileList.of("/", (TAIL,)),
        Json({"a": TAIL}),
        Diff.of("/a", None, TAIL),
        Diff.of("/a", "old", TAIL),
        Diff("/a", None, TAIL, is_new=False, bytes_written=1),
        Custom("a.b", TAIL),
        Custom("a.b", {}, summary=TAIL),
        Custom("a.b", [{"x": TAIL}], display=DisplayHints("table")),
        Custom("a.b", [{"x": "1", "y": "2" * 200 + "TAIL"}], display=DisplayHints("table")),
        Custom("a.b", {"x": {"y": TAIL}}, display=DisplayHints("tree")),
        Custom("a.b", {"x": "1" * 200 + "TAIL"}, display=DisplayHints("tree")),
        Text(TAIL, DisplayHints("markdown")),
        Text(f"- {TAIL}", DisplayHints("markdown")),
        Text(f"x = '{TAIL}'", DisplayHints("code", language="python")),
        Text("x" * 300 + "TAIL", DisplayHints("code")),
    ],
)
@pytest.mark.parametrize("indent", [0, 4])
def test_narrow_terminal_hides_no_end_of_a_line(value: ResultValue, indent: int) -> None:
    """At the approval prompt, hidden text could be anything."""
    text = shown(value, width=40, indent=indent, lines=None)
    assert re.search(r"T\s*A\s*I\s*L", text)
    assert all(line.startswith(" " * indent) for line in text.splitlines() if line)


def test_diff_is_rendered() -> None:
    assert shown(Diff.of("/a", "one\ntwo\nthree\n", "one\n2\nthree\n")).splitlines() == [
        "--- /a",
        "+++ /a",
        "@@ -1,3 +1,3 @@",
        " one",
        "-two",
        "+2",
        " three",
    ]
    assert shown(Diff.of("/a", None, "new\n")).splitlines() == [
        "--- /dev/null",
        "+++ /a",
        "@@ -0,0 +1 @@",
        "+new",
    ]


def test_diffs_without_a_comparison_are_rendered() -> None:
    assert shown(Diff.of("/a", "same", "same")) == "/a: no change\n"
    assert shown(Diff.of("/a", None, "")) == "/a: an empty file\n"
    assert shown(Diff.of("/a", "", "")) == "/a: no change\n"
    replaced = shown(Diff.of("/a", "x" * 200_000, "new"))
    assert replaced == "replaces /a; the old content is too long to compare, or not text:\nnew\n"


@pytest.mark.long
def test_expensive_diff_is_shown_at_once() -> None:
    before = "".join(f"{n * n % 97 + 1}\n" for n in range(20_000))
    after = "".join(f"{n * n * n % 101 + 2}\n" for n in range(30_000))
    started = time.monotonic()
    lines = shown(Diff.of("/a", f"same\n{before}", f"same\n{after}same\n"), lines=None).splitlines()
    assert time.monotonic() - started < 20
    assert lines[2] == "@@ -2,20000 +2,30001 @@"
    assert sum(line.startswith("-") for line in lines) == 20_001
    assert sum(line.startswith("+") for line in lines) == 30_002


@given(st.text(max_size=40), st.text(max_size=40))
def test_diff_says_no_change_only_if_there_is_none(before: str, after: str) -> None:
    text = shown(Diff.of("/a", before, after), lines=None)
    assert ("no change" in text.splitlines()[0]) == (before == after)
    assert not OBEYED & set(map(unicodedata.category, text.replace("\n", "")))


@pytest.mark.parametrize("view", [None, "text", "markdown", "code", "table", "tree", "hidden"])
@pytest.mark.parametrize(
    "make", [Text, Json, lambda data, hints: Custom("a.b", data, summary=data, display=hints)]
)
def test_hostile_text_is_escaped_in_every_view(view: str | None, make) -> None:
    text = shown(make(HOSTILE, DisplayHints(view)), width=200)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u202e]", text)
    assert (SHOWN in text) is (view != "hidden")


@pytest.mark.parametrize("view", ["table", "tree"])
def test_hostile_names_are_escaped(view: str) -> None:
    text = shown(Json([{HOSTILE: {HOSTILE: [HOSTILE]}}], DisplayHints(view)), width=400)
    assert "\x1b" not in text
    assert SHOWN in text


def test_hostile_paths_are_escaped() -> None:
    text = shown(Diff.of("/a\n+++ fake\x1b[2J", "x\n", "y\n"))
    assert text.splitlines()[:3] == [
        "--- /a\\n+++ fake\\x1b[2J",
        "+++ /a\\n+++ fake\\x1b[2J",
        "@@ -1 +1 @@",
    ]


def test_tree_is_rendered() -> None:
    value = Custom(
        "git.status",
        {"branch": "main", "staged": ["a", {}]},
        "1 staged",
        display=DisplayHints("tree"),
    )
    assert shown(value).splitlines() == [
        "1 staged",
        "git.status",
        "├── branch: main",
        "└── staged",
        "    ├── a",
        "    └── {}",
    ]


def test_table_is_rendered() -> None:
    rows = [{"id": 1, "name": "Ann"}, {"id": 2, "tags": ["x"]}]
    lines = shown(Json(rows, DisplayHints("table"))).splitlines()
    assert [line.split() for line in lines] == [
        ["id", "name", "tags"],
        ["1", "Ann"],
        ["2", '["x"]'],
    ]


@pytest.mark.parametrize("data", [[], [1, 2], {"a": 1}, "text", [{"a": 1}, 2]])
def test_data_that_is_no_table_is_rendered_unchanged(data: object) -> None:
    assert shown(Json(data, DisplayHints("table"))) == shown(Json(data))


def test_markdown_and_code_are_rendered() -> None:
    assert "• one" in shown(Text("# Title\n\n- one", DisplayHints("markdown")))
    assert "https://evil.example" in shown(
        Text("[good](https://evil.example)", DisplayHints("markdown"))
    )
    assert (
        shown(Text("def f():\n    pass\n", DisplayHints("code", language="python")))
        == "def f():\n    pass\n"
    )
    assert shown(Text("x", DisplayHints("code", language="no such language"))) == "x\n"


HIDDEN = DisplayHints("hidden")


@pytest.mark.parametrize("value", results_of("secret", HIDDEN))
def test_hidden_hint_hides_results_but_not_in_a_request(value: ResultValue) -> None:
    assert shown(value) == ""
    assert "secret" in shown(value, exact=True, lines=None)


CHANGED = Diff("/a.md", "# Old\n", "# New\n- one\n", is_new=False, bytes_written=13)


@pytest.mark.parametrize(
    ("hints", "expected"),
    [
        (DisplayHints("text"), "--- /a.md"),
        (DisplayHints("code", "markdown"), "# New"),
        (DisplayHints("markdown"), "• one"),
        (DisplayHints("table"), "--- /a.md"),
        (DisplayHints(language="markdown"), "--- /a.md"),
    ],
)
def test_diff_hints_apply_but_not_in_a_request(hints: DisplayHints, expected: str) -> None:
    value = replace(CHANGED, display=hints)
    assert expected in shown(value)
    assert (shown(value) == shown(CHANGED)) is (expected == "--- /a.md")
    assert shown(value, exact=True, lines=None) == shown(CHANGED)


def test_file_list_is_rendered_as_tree_and_table() -> None:
    files = ("a/", "a/b.py", "c/d/e", "f")
    tree = shown(FileList("/code", files, 5, DisplayHints("tree"))).splitlines()
    assert tree == [
        "/code",
        "├── a/",
        "│   └── b.py",
        "├── c/",
        "│   └── d/",
        "│       └── e",
        "├── f",
        "└── ... 1 more",
    ]
    assert shown(FileList("/code", ("a", "b"), 2, DisplayHints("table"))) == "name\na\nb\n"


def test_text_that_contains_data_has_its_views() -> None:
    rows = '[{"id": 1, "name": "Ann"}]'
    assert shown(Text(rows, DisplayHints("table"))) == shown(
        Json([{"id": 1, "name": "Ann"}], DisplayHints("table"))
    )
    assert shown(FileContent("/a", rows, 1, DisplayHints("tree"))).splitlines() == [
        "[0]",
        "├── id: 1",
        "└── name: Ann",
    ]
    assert shown(Text("id,name\n1,Ann\n", DisplayHints(language="csv"))).split() == [
        "id",
        "name",
        "1",
        "Ann",
    ]
    assert shown(Text("no data", DisplayHints("tree"))) == "no data\n"


@pytest.mark.parametrize(
    ("mime", "data", "expected"),
    [
        ("text/markdown; charset=utf-8", "# Title\n\n- one", "• one"),
        ("application/json", '{"a":1}', '{\n  "a": 1\n}'),
        ("application/ld+json", '{"a":1}', '{\n  "a": 1\n}'),
        ("application/json", "not JSON", "not JSON"),
        ("text/csv", "id,id,name\n1,2\n", "id  id  name\n1   2"),
        ("TEXT/CSV", "", "\n"),
        ("text/tab-separated-values", "id\tname\n1\tAnn\n", "id  name\n1   Ann"),
        ("image/png", "iVBORw0KGgo=", "image.png, 8 bytes"),
        ("image/\x1b[2J", {"url": "x"}, "image.\\x1b[2j"),
        ("text/plain", "words", "words"),
    ],
)
def test_content_type_of_a_custom_result_selects_the_view(
    mime: str, data: object, expected: str
) -> None:
    assert expected in shown(Custom("a.b", data, mime_type=mime))


def test_patch_is_coloured_by_content_type_unless_hints_differ() -> None:
    patch = "@@ -1 +1 @@\n-a\n+b\n"
    assert view_of(Custom("a.b", patch, mime_type="text/x-diff")).form == "diff"
    assert shown(Custom("a.b", patch, mime_type="text/x-diff")) == patch
    csv = Custom("a.b", "a,b\n1,2\n", mime_type="text/csv", display=DisplayHints("text"))
    assert shown(csv) == "a,b\n1,2\n"
    picture = Custom("a.b", "iVBORw0KGgo=", mime_type="image/png")
    assert shown(picture, exact=True) == "iVBORw0KGgo=\n", "whoever decides sees what there is"


def test_markdown_omits_nothing_in_a_request() -> None:
    value = Text("words <!-- more -->", DisplayHints("markdown"))
    assert "more" in shown(value)
    assert shown(value, exact=True) == "words <!-- more -->\n"


LONG = [
    Text("1\n2\n3"),
    Diff.of("/a", None, "1\n2\n3\n"),
    FileContent("/a", "1\n2\n3", 5),
    FileList.of("/", ("1", "2", "3")),
    Json([1, 2, 3]),
    Table.of(["a"], [[1], [2], [3]]),
    Custom("a.b", "1\n2\n3"),
    Custom("a.b", "a,b\n1,2\n3,4\n", mime_type="text/csv"),
]


def test_long_result_of_every_kind_is_rendered() -> None:
    assert {type(value) for value in LONG} == set(map(type, results_of("x")))


@pytest.mark.parametrize("value", LONG)
@pytest.mark.parametrize("hints", [DisplayHints(collapsed=True), DisplayHints(max_height=1)])
def test_every_kind_can_be_bounded(value: ResultValue, hints: DisplayHints) -> None:
    bounded = shown(replace(value, display=hints)).splitlines()
    assert len(bounded) == 2
    assert bounded[-1].startswith("...")


@pytest.mark.parametrize("view", ["table", "tree", "code", "markdown"])
def test_every_view_is_bounded(view: str) -> None:
    rows = [{"n": n} for n in range(5000)]
    text = shown(Json(rows if view in ("table", "tree") else "x\n\n" * 5000, DisplayHints(view)))
    assert len(text.splitlines()) <= 25
    assert "..." in text.splitlines()[-1]


def test_renderer_converts_a_custom_kind_to_a_known_one() -> None:
    value = Custom("git.status", {"branch": "main"}, summary="clean")
    renderers = {"git.status": lambda value: Text(f"on {value.data['branch']}")}

    def find(value: Custom, distribution: str | None):
        return renderers.get(value.kind)

    assert shown(value, find=find) == "on main\n"
    assert shown(Custom("git.log", "x"), find=find) == "x\n"


@pytest.mark.parametrize(
    "renderer", [lambda value: 1 / 0, lambda value: "no result", lambda value: None]
)
def test_failing_renderer_loses_only_its_formatting(renderer) -> None:
    text = shown(Custom("a.b", "data", "summary"), find=lambda value, distribution: renderer)
    assert text.startswith("(the renderer of a.b failed: ")
    assert text.endswith("summary\ndata\n")


def coloured(value: ResultValue, **options: object) -> str:
    file = io.StringIO()
    console = Console(
        file=file, width=60, soft_wrap=True, force_terminal=True, color_system="standard"
    )
    console.print(render(value, **options), end="")  # type: ignore[arg-type]
    return file.getvalue()


@pytest.mark.parametrize(
    ("name", "hints", "has_colours"),
    [
        ("a.py", None, True),
        ("a.yml", None, True),
        ("a.txt", None, False),
        ("a.nosuch", None, False),
        ("", None, False),
        ("a.txt", DisplayHints(language="python"), True),
        ("a.py", DisplayHints("text"), False),
    ],
)
def test_file_is_coloured_by_its_hint_then_by_its_name(
    name: str, hints: DisplayHints, has_colours: bool
) -> None:
    text = coloured(FileContent(name, "if: 'x' # 1\n", 12, hints))
    assert bool(re.search(r"\x1b\[(?!49m|0m)", text)) is has_colours
    assert re.sub(r"\x1b\[[\d;]*m", "", text).rstrip() == "if: 'x' # 1"
    assert (
        "\x1b[" not in coloured(FileContent(name, "if: 'x' # 1\n", 12, hints), exact=True)
        or hints is not None
    )


def test_unknown_kind_is_a_tree_below_its_summary() -> None:
    assert shown(Custom("a.b", {"x": [1]}, "one x")).splitlines() == [
        "one x",
        "a.b",
        "└── x",
        "    └── 1",
    ]
    assert shown(Custom("a.b", {}, "nothing")).splitlines() == ["nothing", "{}"]


def test_collapsed_result_shows_only_its_summary() -> None:
    value = Custom("a.b", {"x": [1]}, "one x", display=DisplayHints("tree", collapsed=True))
    assert shown(value) == "one x ...\n"
    assert len(shown(value, lines=None).splitlines()) == 4


def test_checklist_marks_done_and_current_items() -> None:
    steps = Text("why\n[x] one\n[>] two\n[ ] three", DisplayHints(language="checklist"))
    assert shown(steps) == "why\n[x] one\n[>] two\n[ ] three\n"
    assert coloured(steps).splitlines() == [
        "why",
        "\x1b[2m✓ one\x1b[0m",
        "\x1b[1m▸ two\x1b[0m",
        "☐ three",
    ]


def test_headings_are_left_aligned_and_code_has_no_box() -> None:
    text = "# Title\n\n```python\nx = 1\n```\n"
    assert shown(Text(text, DisplayHints("markdown"))) == text


def test_command_output_is_shown_as_a_terminal_would() -> None:
    said = "\x1b[1;31mred\x1b[0m\n10%\r50%\x1b[K\r100%\r\nwindows\r\n\x1b]0;title\x07 \x1b[2J"
    value = Custom("x.result", {"exitCode": 0, "stdout": said})

    def shown(exact: bool) -> str:
        return view_of(
            value, lambda value, distribution: lambda value: Text(value.data["stdout"]), exact=exact
        ).text

    assert (
        shown(exact=False) == "red\n100%\nwindows\n\x1b]0;title\x07 \x1b[2J"
    )  # all else is shown escaped
    assert shown(exact=True) == said  # somebody decides upon it

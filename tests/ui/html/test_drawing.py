"""Results as HTML: text of others stays text, without tags or attributes.

Covers forge_cli.ui.html.markdown, forge_cli.ui.html.results, forge_cli.ui.html.entries and
forge_cli.ui.html.requests.
"""

import base64
import re
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from forge_cli import ApprovalRequest, Custom, Diff, Image, Json, Text
from forge_cli.core.approval import CommandRun, FoldedLine, GrantOffer, GrantRule, JudgedPart
from forge_cli.core.errors import Mark
from forge_cli.core.results import ResultValue
from forge_cli.files.lookup import SHIPPED
from forge_cli.results import DisplayHints, FileContent, FileList
from forge_cli.ui.html.entries import draw_entry
from forge_cli.ui.html.markdown import (
    MAX_HIGHLIGHTED,
    MAX_MARKDOWN,
    GrowingMarkdown,
    draw_code,
    draw_markdown,
)
from forge_cli.ui.html.requests import draw_request, list_choices
from forge_cli.ui.html.results import draw_result, draw_view
from forge_cli.ui.transcript.entries import Called, Noted, Said
from forge_cli.ui.views import view_of
from tests.support.kinds import results_of

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20

TAGS = frozenset(
    [
        "a",
        "b",
        "blockquote",
        "br",
        "code",
        "dd",
        "del",
        "details",
        "div",
        "dl",
        "dt",
        "em",
        "figcaption",
        "figure",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "hr",
        "img",
        "li",
        "ol",
        "p",
        "pre",
        "span",
    ]
) | frozenset(["strong", "summary", "table", "tbody", "td", "th", "thead", "tr", "ul"])
CLASSES = frozenset(
    [
        "about",
        "args",
        "ask",
        "asks",
        "blocked",
        "call",
        "center",
        "checklist",
        "code",
        "diff",
        "done",
        "ending",
        "error",
        "failure",
        "file",
        "fold",
        "gutter",
        "head",
    ]
) | frozenset(
    [
        "interrupted",
        "label",
        "left",
        "mark",
        "minus",
        "more",
        "note",
        "now",
        "open",
        "parts",
        "picture",
        "place",
        "plain",
        "plus",
        "preApproved",
    ]
)
WORDS = frozenset(
    [
        "next",
        "preview",
        "quiet",
        "recap",
        "right",
        "running",
        "same",
        "short",
        "state",
        "success",
        "table",
        "text",
        "tool",
        "tree",
        "unfinished",
        "verdict",
        "warning",
    ]
) | frozenset(["who", "why", "words", "denied", "label"])
SAFE_LINKS = ("http://", "https://", "mailto:", "data:text/csv;charset=utf-8;base64,")
ATTRIBUTES = {
    "class": lambda value: set(value.split()) <= CLASSES | WORDS or is_token(value),
    "scope": lambda value: value == "col",
    "href": lambda value: value.lower().startswith(SAFE_LINKS),
    "download": lambda value: value == "table.csv",
    "rel": lambda value: value == "noopener noreferrer",
    "target": lambda value: value == "_blank",
    "src": lambda value: value.startswith("data:image/png;base64,"),
    "alt": lambda value: True,
    "aria-hidden": lambda value: value == "true",
    "start": lambda value: value.isdecimal(),
}
VOID = frozenset({"br", "hr", "img"})
NASTY = st.text(
    st.one_of(st.sampled_from("`~<>&\"'*_#|\\\n\t-+[]()!:/=;"), st.characters()), max_size=60
) | st.sampled_from(
    [
        "<script>alert(1)</script>",
        '"><img src=x onerror=alert(1)>',
        "[x](javascript:alert(1))",
        "[x](JaVaScRiPt&colon;alert(1))",
        "[x](data:text/html,<script>)",
        "![x](http://evil.example/a.png)",
        "<javascript:alert(1)>",
        "[x]: javascript:alert(1)\n\n[x]",
        '[x](http://a.example "onclick=alert(1)")',
        '```html" onload=x\n<b>\n```',
        "|a|\n|:-:|\n|<b>|",
        "<!-- x -->",
        "</pre></code></details><h1>",
        "\x1b[2J\u202e\ud800",
        '<https://a.example/?q="onmouseover=alert(1)>',
    ]
)


def is_token(value: str) -> bool:
    """The short class of a token of pygments."""
    return len(value) <= 4 and value.isalnum()


class Checked(HTMLParser):
    """Reads HTML, and refuses tags and attributes that forge does not write."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""
        self.links: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS
        for name, value in attrs:
            assert name in ATTRIBUTES, (tag, name, value)
            assert ATTRIBUTES[name](value or ""), (tag, name, value)
            if name == "href":
                self.links.append(value or "")
        assert (tag == "a") == (dict(attrs).get("rel") == "noopener noreferrer")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        raise AssertionError("a comment")

    def handle_decl(self, decl: str) -> None:
        raise AssertionError("a declaration")

    def handle_pi(self, data: str) -> None:
        raise AssertionError("an instruction")


def results(text: str) -> list[ResultValue]:
    hints = [
        None,
        *(DisplayHints(view, text) for view in ("text", "markdown", "code", "table", "tree")),
    ]
    return [
        *(value for each in hints for value in results_of(text, each)),
        Text(text, DisplayHints(language="checklist")),
        Diff(text, f"{text}\nold\n", f"new\n{text}", is_new=False, bytes_written=1),
        FileContent(f"{text}.py", text, 1),
        FileList.of(text, (text, f"a/{text}")),
        replace(FileList.of(text, (text, f"a/{text}")), display=DisplayHints("tree")),
        Json([{text: text}], DisplayHints("table")),
        Custom("a.b", {text: [text]}, text),
        Custom("a.b", text, text, "image/png"),
        Custom("a.b", text, text, text),
        Custom("a.b", text, text, "text/x-diff"),
        Custom("a.b", text, text, "text/csv"),
    ]


def request(text: str, **more: Any) -> ApprovalRequest:
    found = ApprovalRequest(
        "approval_1", "c", text, {text: text, "command": text}, text, text, "high", text, Mark(text)
    )
    return replace(found, **more)


@given(NASTY)
def test_markup_in_results_is_escaped(text: str) -> None:
    for value in results(text):
        Checked(draw_result(value))
        Checked(draw_view(view_of(value, exact=True), fold=False))


@given(NASTY)
def test_markup_in_entries_is_escaped(text: str) -> None:
    for live in (False, True):
        Checked(draw_entry(Said(text, text, (text,)), live=live))
        Checked(draw_entry(Said("user", text, (text,)), live=live))
        Checked(draw_entry(Noted(text), live=live))
        Checked(draw_entry(Called(text, {text: text, "command": text}, verdict=text), live=live))
        Checked(
            draw_entry(
                Called(text, {"a": f"{text}\n{text}"}, 0, text, "error", text, Text(text)),
                live=live,
            )
        )


@pytest.mark.long
@given(NASTY)
def test_markup_in_requests_is_escaped(text: str) -> None:
    parts = (JudgedPart(text, "ask", text, text, Mark(text)), JudgedPart(text, "preApproved", text))
    runs = CommandRun(text, confined=False, argument="command")
    for value in (None, *results(text)):
        drawn = request(
            text,
            preview=value,
            parts=parts,
            runs=runs,
            details=(text,),
            defaults=(text,),
            recap=text,
        )
        Checked(draw_request(replace(drawn, folded=(FoldedLine(text, text),))))


@given(NASTY)
def test_markdown_links_only_to_web_addresses(text: str) -> None:
    Checked(draw_markdown(text))
    growing = GrowingMarkdown()
    for char in text:
        growing.add(char)
        Checked("".join(growing.draw()))


@pytest.mark.parametrize(
    ("text", "links"),
    [
        ("[a](https://a.example/b?c=d&e)", ["https://a.example/b?c=d&e"]),
        ("<mailto:me@a.example>", ["mailto:me@a.example"]),
        ("[a](HTTP://a.example)", ["HTTP://a.example"]),
        ("[a](javascript:alert(1))", []),
        ("[a](/api/state)", []),
        ("[a](//evil.example)", []),
        ("[a](file:///etc/passwd)", []),
        ("![a](https://a.example/x.png)", ["https://a.example/x.png"]),
        (
            "See https://a.example/b_c?d=1&e#f, and (HTTP://x.example/).",
            ["https://a.example/b_c?d=1&e#f", "HTTP://x.example/"],
        ),
        (
            "**https://a.example/b** [https://b.example](https://c.example)",
            ["https://a.example/b", "https://c.example"],
        ),
        ("`https://a.example` ftp://a.example https:// javascript://a", []),
        ("見る https://a.example/b。次", ["https://a.example/b"]),
    ],
)
def test_links_of_markdown_are_found(text: str, links: list[str]) -> None:
    assert Checked(draw_markdown(text)).links == links


def test_markdown_is_converted_to_html() -> None:
    drawn = draw_markdown(
        "# T\n\n*a* **b** ~~c~~ `d`\n\n- e\n\n|x|y|\n|-|-:|\n|1|2|\n\n```python\nx = 1\n```\n\n<b>raw</b>"
    )
    assert "<h3>T</h3>" in drawn
    assert "<em>a</em> <strong>b</strong>" in drawn
    assert '<div class="table"><table>' in drawn
    assert '<td class="right">2</td>' in drawn
    assert '<pre class="code"><code><span class="n">x</span>' in drawn
    assert "&lt;b&gt;raw&lt;/b&gt;" in drawn
    assert "style=" not in drawn


def test_heading_levels_have_no_gap() -> None:
    cases = {
        "## a\n### b\n## c": "343",
        "# a\n### b\n## c\n#### d": "3445",
        "###### a\n# b": "33",
        "# a\n## b\n": "34",
    }
    drawn = {text: "".join(re.findall(r"<h(\d)>", draw_markdown(text))) for text in cases}
    assert drawn == cases


ANSWER = """Here is **what I found**, see [the page](https://a.example/b) or https://a.example:

| file | lines |
|:---|---:|
| `a.py` | 9 |
| **b**.py | 読み込み |

## Next

1. Fix `total`
2. Test
   - one
   - two

Text
---

```python
x = ["|", "**"]  # ](
```

> quoted *words*

***

Done.
"""


def test_growing_answer_is_drawn_like_the_final_one() -> None:
    failures = []
    for size in (1, 2, 5, 17, 400):
        growing, done = GrowingMarkdown(), ""
        for at in range(0, len(ANSWER), size):
            growing.add(ANSWER[at : at + size])
            certain, rest = growing.draw()
            done += certain
            shown = re.sub(r"<pre.*?</pre>|<[^>]*>", "", done + rest, flags=re.DOTALL)
            failures += [
                (size, at, raw, shown[-40:])
                for raw in ("**", "`", "|", "](", "[", "---", "#")
                if raw in shown
            ]
        failures += [] if done == growing.done else [(size, done)]
        if "".join(draw_markdown(ANSWER).split()) != "".join(
            f'<div class="words">{done}{rest}</div>'.split()
        ):
            failures.append((size, done + rest))
    assert failures == []


def test_text_above_the_limit_is_shown_unformatted() -> None:
    assert "**" in draw_markdown("**a** " * (MAX_MARKDOWN // 6 + 1))
    assert "<span" not in draw_code("x = 1\n" * (MAX_HIGHLIGHTED // 6 + 1), "python")
    assert "<span" in draw_code("x = 1\n", "python")
    assert "<span" in draw_code("x = 1\n", name="src/a.py")
    assert "<span" not in draw_code("x = 1\n", "no-such-language")


def test_diff_has_line_numbers() -> None:
    drawn = draw_result(Diff.of("a.py", "one\ntwo\n", "one\n2\n"))
    assert '<span class="file">a.py</span>' in drawn
    for look, old, new, text in (("minus", "2 ", "  ", "-two"), ("plus", "  ", "2 ", "+2")):
        gutter = f'<span class="gutter"><span class="old">{old}</span><span class="new">{new}</span></span>'
        assert f'<span class="{look}">{gutter}<span>{text}</span></span>' in drawn


def test_tables_trees_and_plans_are_drawn() -> None:
    table = draw_result(Json([{"a": 1, "b": "<x>"}], DisplayHints("table")))
    assert '<th scope="col">a</th>' in table
    assert "<td>&lt;x&gt;</td>" in table
    tree = draw_result(
        replace(FileList.of("src", ("a/b.py", "c.py")), display=DisplayHints("tree"))
    )
    assert "<li>a/<ul><li>b.py</li></ul></li>" in tree
    plan = draw_result(Text("[x] one\n[>] two\n[ ] three", DisplayHints(language="checklist")))
    assert (
        '<li class="done">✓ one</li><li class="now">▸ two</li><li class="open">☐ three</li>' in plan
    )


def test_image_is_drawn_if_its_bytes_match_its_type() -> None:
    drawn = draw_result(Image(PNG, "image/png", 'a "cat"'))
    assert f'src="data:image/png;base64,{base64.b64encode(PNG).decode()}"' in drawn
    assert 'alt="a &quot;cat&quot;, image/png' in drawn
    both = draw_result(
        Text("Before and after", files=(Image(PNG, "image/png"), Image(PNG, "image/png")))
    )
    assert "Before and after" in both
    assert both.count("<img") == 2
    for lie in (
        Image(b"<script>alert(1)</script>", "image/png", ""),
        Image(b"<svg onload=x()>", "image/svg+xml", ""),
    ):
        assert "<img" not in draw_result(lie)
        assert "<script" not in draw_result(lie)


def test_picture_is_drawn_only_if_it_is_valid() -> None:
    data = base64.b64encode(PNG).decode()
    assert f'<img src="data:image/png;base64,{data}"' in draw_result(
        Custom("a.b", data, mime_type="image/png")
    )
    named = draw_result(Custom("a.b", {"name": '"><b>.png', "data": data}, mime_type="image/png"))
    assert 'alt="&quot;&gt;&lt;b&gt;.png' in named
    svg = base64.b64encode(b"<svg onload=alert(1)>").decode()
    for value in (
        Custom("a.b", svg, mime_type="image/svg+xml"),
        Custom("a.b", svg, mime_type="image/png"),
        Custom("a.b", data, mime_type="image/gif"),
        Custom("a.b", "%%%", mime_type="image/png"),
        Custom("a.b", data, mime_type="image/png", display=DisplayHints("hidden")),
    ):
        assert "<img" not in draw_result(value)


def test_custom_kind_is_drawn_by_its_renderer() -> None:
    drawn = draw_result(
        Custom("a.b", 5), lambda value, distribution: lambda value: Text(f"<{value.data}>")
    )
    assert drawn == '<pre class="text">&lt;5&gt;</pre>'


def test_request_has_the_same_parts_as_on_a_terminal() -> None:
    parts = (
        JudgedPart("ls", "preApproved", "a rule", "ls", Mark("w.yaml", 3)),
        JudgedPart("rm x", "ask", "no rule"),
    )
    runs = CommandRun("/work", confined=True, argument="command")
    asked = request(
        "it asks", args={"command": "ls && rm x\x1b[2J", "timeout": 5}, parts=parts, runs=runs
    )
    drawn = Checked(draw_request(asked)).text
    for words in (
        "ls && rm x\\x1b[2J",
        "in /work, confined",
        "timeout",
        "w.yaml:3:1",
        "no rule",
        "high (it can start",
    ):
        assert words in drawn
    assert "shown as escapes" in drawn
    shipped = Mark(str(SHIPPED / "coder.yaml"), 34, 14)
    assert "(coder.yaml:34:14)" in Checked(draw_request(request("it asks", where=shipped))).text
    diff = request("x", args={"path": "a"}, preview=Diff.of("a", "1\n", "2\n"))
    assert "1 file, +1 -1" in draw_request(diff)


def test_folded_lines_of_a_request_open_individually() -> None:
    folded = (
        FoldedLine("made a/<b> (12 files)", "made a/x\n+<script>"),
        FoldedLine("made c/", "made c/d"),
    )
    drawn = Checked(
        draw_request(request("x", preview=Text("made a/<b> (12 files)"), folded=folded))
    ).text
    page = draw_request(request("x", preview=Text("made a/<b> (12 files)"), folded=folded))
    assert page.count('<details class="fold"><summary>made ') == 2
    assert "<summary>made a/&lt;b&gt; (12 files)</summary>" in page
    assert "<script>" in drawn


def test_choices_depend_on_the_request() -> None:
    rule = GrantRule(("toolsets", "shell", "-"), "ls", "commands that begin with ls")
    offers = (GrantOffer("this exact call"), GrantOffer.of([rule]))
    choices = list_choices(request("x", offers=offers))
    assert [choice["value"] for choice in choices] == ["once", "session", "session2", "no"]
    assert (choices[1]["key"], choices[1]["about"], "rule" in choices[1]) == (
        "s",
        "this exact call",
        False,
    )
    assert (choices[2]["key"], choices[2]["behind"], choices[2]["rule"]) == (
        "2",
        "s",
        "toolsets.shell: [ls]",
    )
    assert [each["value"] for each in list_choices(request("x", once=True))] == ["once", "no"]
    assert [each["value"] for each in list_choices(request("x", offers=offers), parked=True)] == [
        "once",
        "no",
    ]


def test_task_lists_have_boxes() -> None:
    drawn = draw_markdown("- [x] done\n- [ ] <open>\n- no [x]\n")
    assert '<li class="task">☑ done</li>' in drawn
    assert '<li class="task">☐ &lt;open&gt;</li>' in drawn
    assert "<li>no [x]</li>" in drawn

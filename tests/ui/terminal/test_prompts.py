"""The approval prompt on a real terminal: its content, and answers that count as yes.

Covers forge_cli.ui.terminal.console, forge_cli.ui.terminal.prompts and forge_cli.ui.terminal.keys.
"""

import io
import os
import signal
import sys
import termios

import anyio
import pexpect
import pytest
from rich.console import Console

from forge_cli import Worker, WorkerRuntime, tool
from forge_cli.core.approval import ApprovalDecision, ApprovalRequest, FoldedLine
from forge_cli.core.phrases import COULD_NOT_ASK
from forge_cli.core.results import Text
from forge_cli.testing import scripted_model
from forge_cli.ui.terminal import prompts
from forge_cli.ui.terminal.console import new_console
from forge_cli.ui.terminal.prompts import Answer, cli_approval_callback, parse_answer
from tests.support.approval import new_request

CHOICES = "[y]es once, [s]ession, [n]o, [t]ell why not, [?] why > "
CHOICES_ONCE = "[y]es once, [n]o, [t]ell why not, [?] why > "
RUN = ("run", "worker.yaml", "go")
WRITE = '{calls: [{tool: write_file, input: {path: /output/a.md, content: "one\\ntwo\\n"}}]}'
TOLD = '{text: "Told: {result}"}'
CHOICES_ALWAYS = "[y]es once, [e]dits, [s]ession, [a]lways, [n]o, [t]ell why not, [?] why > "
"""Where a rule could be written."""
NOT_ASKED = ApprovalDecision(False, note=COULD_NOT_ASK, by="headless")


@pytest.fixture
def asked(terminal, script):
    """A terminal at the prompt of a write that creates /output/a.md."""
    script(WRITE, TOLD)
    keyboard = terminal(*RUN)
    keyboard.asked()
    return keyboard


def test_answers_are_parsed() -> None:
    notes = {
        "n use scratch\n": "use scratch",
        "no, use scratch\n": "use scratch",
        "N: use scratch \n": "use scratch",
        "no thanks\n": "thanks",
        "n use scratch\n  and  this\ny\n": "use scratch and  this y",
    }
    meant: dict[str, Answer | None] = {
        **dict.fromkeys(("y\n", "Y\n", "yes\n", " y \n"), Answer("yes")),
        **dict.fromkeys(("s\n", "SESSION\n"), Answer("session")),
        **dict.fromkeys(("s2\n", "s 2\n", "Session 2"), Answer("session", number="2")),
        **dict.fromkeys(("t\n", "text\n"), Answer("text")),
        **dict.fromkeys(("?\n", "why\n", " Why \n"), Answer("why")),
        **dict.fromkeys(("n\n", "no\n", "\n", "  \n"), Answer("no")),
        **{line: Answer("no", note) for line, note in notes.items()},
        **dict.fromkeys(
            ("nothing", "now", "y please", "yes please", "yy", "sure", "1", "\x1b[A", "ｙ", "??")
        ),
        **dict.fromkeys(("s all", "s0", "s22", "2s")),
    }
    failures = [
        (line, found) for line, answer in meant.items() if (found := parse_answer(line)) != answer
    ]
    assert failures == []
    assert parse_answer("s\n", ["yes", "no", "why"]) is None


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("typed", "decision"),
    [
        ("", NOT_ASKED),
        ("y", NOT_ASKED),
        ("y\n", ApprovalDecision(True)),
        ("n\n", ApprovalDecision(False)),
    ],
)
async def test_file_instead_of_a_terminal_is_read_to_its_end(
    tmp_path, monkeypatch, typed, decision
) -> None:
    (tmp_path / "typed").write_text(typed)
    request = new_request()
    with (tmp_path / "typed").open() as file:
        monkeypatch.setattr("sys.stdin", file)
        with anyio.fail_after(10):
            assert await cli_approval_callback()(request) == decision


def no_front_end() -> str:
    raise RuntimeError("raw_input was called, but this frontend does not support input requests.")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("answers", "decision"), [(lambda: "y", ApprovalDecision(True)), (no_front_end, NOT_ASKED)]
)
async def test_notebook_is_asked_through_its_kernel(monkeypatch, answers, decision) -> None:
    monkeypatch.setattr("builtins.input", answers)
    with anyio.fail_after(10):
        assert await cli_approval_callback()(new_request()) == decision


@pytest.mark.anyio
async def test_program_without_a_person_does_not_report_a_refusal_by_a_person(
    monkeypatch, tmp_path
) -> None:
    def keep(text: str) -> str:
        """Keep a text."""
        return text

    asks = tool(needs_approval=True)(keep)
    script = [{"calls": [{"tool": "keep", "input": {"text": "a"}}]}, {"text": "Told: {result}"}]
    (tmp_path / "nothing").write_text("")
    with (tmp_path / "nothing").open() as file, anyio.fail_after(10):
        monkeypatch.setattr("sys.stdin", file)
        worker = Worker.of(name="writer", tools=[asks])
        model = scripted_model(*script)
        async with WorkerRuntime(
            worker=worker, model=model, approval_callback=cli_approval_callback()
        ) as runtime:
            result = await runtime.run("Keep it.")
    assert COULD_NOT_ASK in result.response
    assert "user" not in result.response


@pytest.mark.anyio
async def test_folder_unfolds_before_the_answer(tmp_path, monkeypatch) -> None:
    (tmp_path / "typed").write_text("u\ny\n")
    folded = FoldedLine(
        "made     a/ (12 files, 3 bytes)",
        "made     a/\x1b[2J (3 bytes)\n\n+++ a/x\n@@ -0,0 +1 @@\n+inside",
    )
    request = new_request(preview=Text("made     a/ (12 files, 3 bytes)"), folded=(folded,))
    page = io.StringIO()
    with (tmp_path / "typed").open() as file:
        monkeypatch.setattr("sys.stdin", file)
        with anyio.fail_after(10):
            assert await cli_approval_callback(Console(file=page, width=100))(
                request
            ) == ApprovalDecision(True)
    before, unfolded = page.getvalue().split("[u]nfold, [?] why > ")[:2]
    assert "inside" not in before
    assert unfolded.split("\n")[:2] == [
        "  made     a/ (12 files, 3 bytes)",
        "    made     a/\\x1b[2J (3 bytes)",
    ]
    assert "+inside" in unfolded


def test_unfold_is_offered_only_for_folded_lines() -> None:
    assert "unfold" not in prompts.offered_answers(new_request())
    assert parse_answer("u\n", prompts.offered_answers(new_request())) is None
    folded = (FoldedLine("made a/", "x"),)
    assert parse_answer("unfold\n", prompts.offered_answers(new_request(folded=folded))) == Answer(
        "unfold"
    )


def test_request_shows_the_action_and_the_reason(asked, writer) -> None:
    start = asked.lines.index("writer wants to call write_file (risk: medium)")
    assert asked.lines[start:] == [
        "writer wants to call write_file (risk: medium)",
        '  path: "/output/a.md"',
        "  │ output/a.md (new)",
        "  │ 1 + one",
        "  │ 2 + two",
        "  1 file, +2 -0",
        "why: writing in zone 'output' needs your OK (worker.yaml:6:7)",
        "  e  for this session: edits in zone output",
        "  s  for this session: this exact call",
        CHOICES_ALWAYS,
    ]
    asked.type("y\n")
    assert asked.end() == 0
    assert writer.read("output/a.md") == "one\ntwo\n"
    assert "Told: Created output/a.md (8 bytes)." in asked.lines
    assert asked.seen.count("+ two") == 1, "what was just shown is not shown again as the result"


@pytest.mark.few(1)
@pytest.mark.parametrize("term", ["xterm", "dumb"])
def test_answers_are_wrapped_between_words(terminal, script, term: str) -> None:
    script(WRITE, TOLD)
    keyboard = terminal(*RUN, columns=40, TERM=term)
    keyboard.asked()
    keyboard.press("y" if term == "xterm" else "y\n", "Told")
    assert keyboard.end() == 0
    lines = [line.rstrip() for line in keyboard.screen(40)]
    at = lines.index("[y]es once, [e]dits, [s]ession,")
    assert lines[at + 1 : at + 3] == ["[a]lways, [n]o, [t]ell why not, [?] why", "> y"]


def test_enter_and_end_of_input_are_no(terminal, script) -> None:
    answers = ["\n", "n\n", "\x04", "y\x04\x04", "n write it in French\n"]
    calls = ", ".join(f"{{tool: echo, input: {{text: {number}}}}}" for number in "abcde")
    script(f"{{calls: [{calls}]}}", '{text: "Told: {results[2]}; {result}"}')
    keyboard = terminal(*RUN)
    for keys in answers:
        keyboard.asked()
        keyboard.type(keys)
    assert keyboard.end() == 0
    no = "echo was not called; the user said no"
    assert f"Told: {no}; {no}: write it in French" in keyboard.text
    assert "5 calls (5 refused)" in keyboard.seen


def test_invalid_answer_is_asked_again_and_the_third_is_a_no(terminal, script) -> None:
    script(
        "{calls: [{tool: echo, input: {text: a}}, {tool: echo, input: {text: b}}]}", "{text: done}"
    )
    keyboard = terminal(*RUN)
    for keys in (
        "yes please\n",
        "clear\n",
        "?\n",
        "yy\n",
        "sure\n",
        "y\n",
        "one\n",
        "two\n",
        "three\n",
    ):
        keyboard.asked()
        keyboard.type(keys)
    assert keyboard.end() == 0
    misread = [line for line in keyboard.lines if line.startswith("invalid answer")]
    assert misread == ["invalid answer; type y, s, a, n, t or ?"] * 6 + [
        "invalid answer; type y, s, a, n, t or ? (invalid 3 times: taken as no)"
    ]
    assert "2 calls (1 refused)" in keyboard.seen


def test_question_mark_explains_and_asks_again(asked, writer) -> None:
    asked.type("?\n")
    explanation = asked.asked()
    for line in (
        "reason: writing in zone 'output' needs your OK",
        "rule:   ",
        "where:  worker.yaml:6:7",
        "risk:   medium (",
    ):
        assert line in explanation
    assert not (writer.folder / "output" / "a.md").exists()
    asked.type("?\n")
    asked.asked()
    asked.type("y\n")
    assert asked.end() == 0
    assert (writer.folder / "output" / "a.md").exists()


def test_session_grant_covers_only_what_was_shown(terminal, script) -> None:
    other = WRITE.replace("one", "other")
    script(WRITE, WRITE, other, "{text: done}")
    keyboard = terminal(*RUN)
    assert "s  for this session: this exact call" in keyboard.asked()
    keyboard.type("s\n")
    keyboard.expect("granted for this session: this exact call")
    assert "+ other" in keyboard.asked()
    keyboard.type("n\n")
    assert keyboard.end() == 0
    assert "3 calls (1 refused)" in keyboard.seen


def test_edits_of_a_zone_are_accepted_by_one_letter(terminal, script) -> None:
    script(
        WRITE,
        WRITE.replace("a.md", "b.md"),
        "{calls: [{tool: echo, input: {text: a}}]}",
        "{text: done}",
    )
    keyboard = terminal(*RUN)
    keyboard.asked()
    keyboard.type("e\n")
    keyboard.expect("granted for this session: edits in zone output")
    assert "wants to call echo" in keyboard.asked()
    keyboard.type("n\n")
    assert keyboard.end() == 0
    assert "3 calls (1 refused)" in keyboard.seen


@pytest.mark.parametrize("keys", ["y\n", "y"], ids=repr)
def test_input_before_the_prompt_does_not_answer_it(terminal, script, writer, keys: str) -> None:
    os.mkfifo(writer.folder / "gate")
    script("{calls: [{tool: hold}]}", WRITE, TOLD)
    keyboard = terminal(*RUN)
    keyboard.expect("holding")
    keyboard.type(keys)
    keyboard.expect("y")
    (writer.folder / "gate").write_text("go on")
    keyboard.asked()
    keyboard.type("\n")
    assert keyboard.end() == 0
    assert "the user said no" in keyboard.seen
    assert not (writer.folder / "output" / "a.md").exists()


def test_yes_counts_once_and_pasted_lines_answer_one_prompt(terminal, script) -> None:
    script(
        "{calls: [{tool: echo, input: {text: a}}, {tool: echo, input: {text: a}}]}", "{text: done}"
    )
    keyboard = terminal(*RUN)
    keyboard.asked()
    keyboard.type("y\ny\ny\n")
    keyboard.asked()
    keyboard.type("n\n")
    assert keyboard.end() == 0
    assert "2 calls (1 refused)" in keyboard.seen


HOSTILE = r'"\e[2J\e[1;1Hsafe\r\nfake \u202egnp.exe\u200b\a\x9b31m\e]0;title\a"'


def test_multiline_text_is_shown_as_written(terminal, script) -> None:
    script(r'{calls: [{tool: echo, input: {text: "one \"two\"\n\n  three\n"}}]}', "{text: done}")
    keyboard = terminal(*RUN)
    assert '\r\n  text:\r\n    | one "two"\r\n    | \r\n    |   three\r\n' in keyboard.asked()
    keyboard.type("n\n")
    assert keyboard.end() == 0


def test_arguments_cannot_control_the_terminal(terminal, script) -> None:
    script(f"{{calls: [{{tool: echo, input: {{text: {HOSTILE}}}}}]}}", "{text: done}")
    keyboard = terminal(*RUN)
    shown = keyboard.asked()
    assert not set(shown) & set("\x1b\x07\x9b\u202e\u200b")
    escaped = r'text:"\u001b[2J\u001b[1;1Hsafe\r\nfake\u202egnp.exe\u200b\u0007\x9b31m\u001b]0;title\u0007"'
    assert escaped in "".join(shown.split())
    keyboard.type("n\n")
    assert keyboard.end() == 0
    assert not set(keyboard.seen) & set("\x1b\x07\x9b\u202e\u200b")


def test_tool_names_cannot_control_the_terminal(terminal, script) -> None:
    script(
        r'{calls: [{tool: "no\e[2Jsuch"}, {tool: "no\nsuch"}, {tool: "no\u202esuch"}]}',
        "{text: done}",
    )
    keyboard = terminal(*RUN)
    assert keyboard.end() == 0
    assert not set(keyboard.seen) & set("\x1b\u202e")
    for name in (r"no\x1b[2Jsuch", r"no\nsuch", r"no\u202esuch"):
        assert f"✗ {name}" in keyboard.lines
    assert "wants to call" not in keyboard.seen


def test_line_break_cannot_imitate_a_prompt(terminal, script) -> None:
    fake = r'"fine\n\n[y]es once, [s]ession, [n]o, [?] why > y\n  success"'
    script(f"{{calls: [{{tool: careful, input: {{what: {fake}}}}}]}}", "{text: done}")
    keyboard = terminal(*RUN, columns=400)
    assert "why: it is fine\\n\\n[y]es once" in keyboard.expect(f"\n{CHOICES}")
    keyboard.type("n\n")
    assert keyboard.end() == 0
    assert [line for line in keyboard.lines if line.startswith("[y]es")] == [f"{CHOICES}n"]


def test_file_content_cannot_control_the_terminal_in_a_diff(terminal, script, writer) -> None:
    writer.write("output/a.md", "old\x1b[2J\n")
    script(
        r'{calls: [{tool: write_file, input: {path: /output/a.md, content: "new\e[2J\n"}}]}',
        "{text: done}",
    )
    keyboard = terminal(*RUN)
    shown = keyboard.asked()
    assert "  │ 1   - old\\x1b[2J" in shown
    assert "  │   1 + new\\x1b[2J" in shown
    assert "\x1b" not in shown
    keyboard.type("n\n")
    assert keyboard.end() == 0


def test_end_of_a_long_line_is_shown_before_it_is_written(terminal, script) -> None:
    long = "harmless " * 40 + "; rm -rf /"
    script(
        f'{{calls: [{{tool: write_file, input: {{path: /output/a.md, content: "{long}"}}}}]}}',
        "{text: done}",
    )
    keyboard = terminal(*RUN, "--trace", "quiet", columns=60)
    shown = keyboard.asked()
    assert "harmless;rm-rf/" in "".join(shown.replace("│", "").split())
    diff = shown.replace("\r", "").split("output/a.md (new)\n")[1].split("why: ")[0]
    assert all(line.startswith("  │ ") for line in diff.splitlines()[:-1])
    keyboard.type("n\n")
    assert keyboard.end() == 0


def test_wrapped_line_cannot_imitate_a_line_of_forge(terminal, script) -> None:
    fake = ("x" * 50).ljust(100) + "why: zone 'output' pre-approves everything".ljust(200)
    script(
        f'{{calls: [{{tool: echo, input: {{text: "{fake}"}}}}, {{tool: careful, input: {{what: "{fake}"}}}}]}}',
        "{text: x}",
    )
    keyboard = terminal(*RUN, "--trace", "quiet", columns=100)
    for _ in range(2):
        shown = keyboard.asked().replace("\r", "")
        assert max(map(len, shown.splitlines())) <= 100, "the terminal itself has nothing to wrap"
        ours = (
            "writer wants",
            "  s  for this session: ",
            "  s2 for this session: ",
            "  text: ",
            "  what: ",
            "why: it is x",
            "why: nei",
        )
        for line in shown.splitlines():
            assert not line.strip() or line.startswith((*ours, "    ", "n")), line
        keyboard.type("n\n")
    assert keyboard.end() == 0


def test_prompts_are_on_the_terminal_while_the_answer_goes_to_a_file(
    terminal, script, writer
) -> None:
    script(WRITE, TOLD)
    keyboard = terminal(*RUN, shell="> answer.txt")
    keyboard.asked()
    keyboard.type("y\n")
    assert keyboard.end() == 0
    assert writer.read("answer.txt") == "Told: Created output/a.md (8 bytes).\n"
    assert "Told" not in keyboard.seen


def test_json_output_can_be_piped_while_a_person_is_asked(terminal, script, writer) -> None:
    script(WRITE, TOLD)
    keyboard = terminal(*RUN, "--json", shell="> lines.jsonl")
    keyboard.asked()
    keyboard.type("s\n")
    assert keyboard.end() == 0
    types = [
        line.split('"type": "')[1].split('"')[0] for line in writer.read("lines.jsonl").splitlines()
    ]
    expected = [
        "toolStarted",
        "approvalRequired",
        "approvalResponse",
        "approvalDecided",
        "toolResult",
    ]
    assert [kind for kind in types if kind in expected] == expected
    assert types[-1] == "sessionEnd"


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "shell", "env"),
    [
        ((), "", {"CI": "1"}),
        ((), "2> err.txt", {}),
        ((), "< /dev/null", {}),
        (("-p",), "", {}),
    ],
    ids=["CI", "stderr", "stdin", "-p"],
)
def test_question_without_an_interactive_terminal_is_denied(
    terminal, script, words, shell: str, env: dict[str, str]
) -> None:
    script(WRITE, TOLD)
    keyboard = terminal(*RUN, *words, shell=shell, **env)
    assert keyboard.end() == 0
    assert "wants to call" not in keyboard.seen
    assert "Told: write_file was not called; denied" in keyboard.seen


@pytest.mark.parametrize("how", ["ctrl-c", "SIGTERM"])
def test_prompt_can_be_cancelled(asked, writer, how: str) -> None:
    if how == "ctrl-c":
        asked.type("\x03")
    else:
        asked.child.kill(signal.SIGTERM)
    assert asked.end() == (130 if how == "ctrl-c" else 143)
    assert any(line.endswith(" · interrupted") for line in asked.lines)
    assert any(line.startswith("interrupted · 1 turn · 1 call · ") for line in asked.lines)
    assert not (writer.folder / "output" / "a.md").exists()


def test_closed_terminal_is_not_a_yes(asked, writer) -> None:
    asked.type("y")
    asked.child.close()
    assert not (writer.folder / "output" / "a.md").exists()


def test_file_changed_during_the_question_asks_again(asked, writer) -> None:
    writer.write("output/a.md", "meanwhile\n")
    asked.type("y\n")
    again = asked.asked()
    assert "1   - meanwhile" in again
    assert "asksagain" in "".join(again.split())
    asked.type("n\n")
    assert asked.end() == 0
    assert writer.read("output/a.md") == "meanwhile\n"


def test_call_that_cannot_be_remembered_offers_no_session_grant(terminal, writer) -> None:
    writer.write(
        "tools.py",
        "from forge_cli import Preview, Text, tool\n\n\n"
        "async def look(args, context):\n    return Preview(Text('as it is now'), once=True)\n\n\n"
        "@tool(needs_approval=True, preview=look)\nasync def act() -> str:\n    return 'acted'\n",
    )
    writer.write(
        "once.yaml",
        "name: w\nmodel: script:once.script.yaml\ntoolsets: {custom: {module: tools.py, tools: [act]}}\n",
    )
    writer.write("once.script.yaml", "turns: [{calls: [{tool: act}]}, {text: '{result}'}]\n")
    keyboard = terminal("run", "once.yaml", "go")
    keyboard.expect(CHOICES_ONCE)
    keyboard.type("?\r")
    keyboard.expect("counts once")
    keyboard.expect(CHOICES_ONCE)
    keyboard.type("y\r")
    assert keyboard.end() == 0
    assert "[s]ession" not in keyboard.seen


INVISIBLE = r'"rm\uFE0F a\u00A0b\u3164 z\u0300\u0301\u0302\u0303 \U000E0041 caf\u00E9"'


def test_invisible_characters_are_escaped(terminal, script) -> None:
    script(f"{{calls: [{{tool: careful, input: {{what: {INVISIBLE}}}}}]}}", "{text: done}")
    keyboard = terminal(*RUN)
    shown = keyboard.asked()
    escaped = "rm\\ufe0f a\\xa0b\\u3164 z\u0300\u0301\\u0302\\u0303 \\U000e0041 caf\u00e9"
    assert f'  what: "{escaped}"' in shown
    assert f"why: it is {escaped}" in shown
    keyboard.type("n\n")
    assert keyboard.end() == 0


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["COLUMNS", "LINES"])
def test_zero_size_in_the_environment_does_not_hide_prompts(terminal, script, name: str) -> None:
    script(WRITE, TOLD)
    keyboard = terminal(*RUN, **{name: "0"})
    assert "  │ 2 + two" in keyboard.asked().replace("\r", "").split("\n")
    keyboard.type("n\n")
    assert keyboard.end() == 0


def test_terminal_of_unknown_size_shows_prompts(terminal, script) -> None:
    script(WRITE, TOLD)
    keyboard = terminal(*RUN, columns=0, rows=0)
    assert "  │ 2 + two" in keyboard.asked().replace("\r", "").split("\n")
    keyboard.type("n\n")
    assert keyboard.end() == 0


SCREENS = pytest.mark.parametrize(("columns", "rows"), [(80, 24), (50, 15)])


def long_write(script, lines: int = 60) -> None:
    content = "".join(f"line {number}\\n" for number in range(1, lines + 1))
    script(
        f'{{calls: [{{tool: write_file, input: {{path: /output/a.md, content: "{content}"}}}}]}}',
        TOLD,
    )


def lines_of(shown: str) -> list[str]:
    """The lines of a page, without the line typed before it."""
    return shown.replace("\r", "").split("\n")[1:-1]


@pytest.mark.few(1)
@SCREENS
def test_request_higher_than_the_terminal_is_shown_page_by_page(
    terminal, script, writer, columns: int, rows: int
) -> None:
    long_write(script)
    keyboard = terminal(*RUN, "--trace", "quiet", columns=columns, rows=rows)
    pages = [f"\n{keyboard.expect('[Enter] next, [e]nd, [n]o > ')}"]
    for keys in ("y\n", "yes\n", "s\n"):
        keyboard.type(keys)
        assert "only n is possible before everything was shown" in keyboard.expect("[n]o > ")
    while (
        keyboard.type("\n") is None
        and keyboard.child.expect_exact([" next, [e]nd, [n]o > ", CHOICES_ALWAYS]) == 0
    ):
        pages.append(keyboard.child.before)
    pages.append(keyboard.child.before)
    shown = [line for page in pages for line in lines_of(page)]
    assert [line for line in shown if "+ line" in line] == [
        f"  │ {n:>2} + line {n}" for n in range(1, 61)
    ]
    assert all(len(lines_of(page)) <= rows - 1 for page in pages)
    assert max(map(len, shown)) <= columns
    above = sum(len(lines_of(page)) for page in pages[:-1])
    assert f"({above} lines above: scroll up to see them again)" in shown
    keyboard.type("y\n")
    assert keyboard.end() == 0
    assert writer.read("output/a.md").endswith("line 60\n")


@pytest.mark.long
@SCREENS
def test_all_pages_can_be_shown_at_once(terminal, script, writer, columns: int, rows: int) -> None:
    long_write(script, 500)
    keyboard = terminal(*RUN, "--trace", "quiet", columns=columns, rows=rows)
    keyboard.expect("[n]o > ")
    keyboard.type("e\n")
    assert "  │ 500 + line 500" in keyboard.asked()
    keyboard.type("y\n")
    assert keyboard.end() == 0
    assert writer.read("output/a.md").endswith("line 500\n")


@pytest.mark.long
@pytest.mark.parametrize(
    ("keys", "note"), [("n\n", ""), ("n Shorter, please\n", ": Shorter, please"), ("\x04", "")]
)
def test_no_counts_on_every_page(terminal, script, writer, keys: str, note: str) -> None:
    long_write(script)
    keyboard = terminal(*RUN, rows=24)
    keyboard.expect("[n]o > ")
    keyboard.type(keys)
    assert keyboard.end() == 0
    assert f"Told: write_file was not called; the user said no{note}" in keyboard.lines
    assert not (writer.folder / "output" / "a.md").exists()


def test_keys_pressed_too_early_turn_no_page(terminal, script) -> None:
    long_write(script, 200)
    keyboard = terminal(*RUN, "--trace", "quiet", rows=24)
    keyboard.expect("[n]o > ")
    keyboard.type("\n\n\n\ny\n")
    keyboard.expect("[n]o > ")
    keyboard.type("n\n")
    assert keyboard.end() == 0
    assert "+line 60" not in keyboard.seen


# --- a terminal on which lines are edited

EDITED = {"TERM": "xterm-256color", "NO_COLOR": "1"}


def is_cooked(fd: int) -> bool:
    flags = termios.tcgetattr(fd)[3]
    return bool(flags & termios.ICANON and flags & termios.ECHO)


@pytest.mark.parametrize("columns", [80, 50])
def test_single_key_answers(terminal, script, writer, columns: int) -> None:
    script(WRITE, TOLD)
    keyboard = terminal(*RUN, columns=columns, **EDITED)
    keyboard.asked()
    assert not is_cooked(keyboard.child.fileno())
    keyboard.type("y")
    assert keyboard.end() == 0
    assert writer.read("output/a.md") == "one\ntwo\n"


@pytest.mark.parametrize("enter", ["\r", "\n"])
def test_key_followed_by_enter_answers(terminal, script, writer, enter: str) -> None:
    script(WRITE, TOLD)
    keyboard = terminal(*RUN, **EDITED)
    keyboard.asked()
    keyboard.type(f"y{enter}")
    assert keyboard.end() == 0
    assert writer.read("output/a.md") == "one\ntwo\n"


def test_unknown_or_combined_keys_are_ignored(terminal, script, writer) -> None:
    script(WRITE, TOLD)
    keyboard = terminal(*RUN, **EDITED)
    keyboard.asked()
    pastes = ("yy\r", "y\r\r", "y\ry", "\ry", "\x1b[200~y\x1b[201~", "\x1b[200~y\r\x1b[201~")
    for keys in ("\r", "x", "x\r", "\x1b[A", "\x1by", "é", *pastes):
        before = keyboard.text.count("[y]es once")
        keyboard.type(keys)
        keyboard.press("?", "yes, this once")
        keyboard.asked()
        assert keyboard.text.count("[y]es once") == before + 1, (
            keys
        )  # the question was not asked again for it
    assert not (writer.folder / "output" / "a.md").exists()
    keyboard.type("n")
    assert keyboard.end() == 0
    assert "the user said no" in keyboard.seen


def test_slow_paste_does_not_answer(terminal, script, writer) -> None:
    script(WRITE, TOLD)
    keyboard = terminal(*RUN, **EDITED)
    keyboard.asked()
    assert keyboard.seen.rindex("\x1b[?2004h") > keyboard.seen.rindex("why: "), "pastes are marked"
    for piece in ("\x1b[2", "00~", "y", "\r", "\x04", "s", "\x1b[201", "~"):
        keyboard.type(piece)
        with pytest.raises(pexpect.TIMEOUT):
            keyboard.child.expect(".", timeout=0.4)
    keyboard.press("?", "yes, this once")
    keyboard.asked()
    assert not (writer.folder / "output" / "a.md").exists()
    keyboard.type("n")
    assert keyboard.end() == 0
    assert "the user said no" in keyboard.seen
    assert keyboard.seen.rindex("\x1b[?2004l") > keyboard.seen.rindex("\x1b[?2004h")


def test_text_answer_can_be_edited(terminal, script) -> None:
    script(WRITE, TOLD)
    keyboard = terminal(*RUN, **EDITED)
    keyboard.asked()
    keyboard.type("t")
    keyboard.expect("no, because >")
    keyboard.type("\x1b")
    keyboard.asked()
    keyboard.type("t")
    keyboard.expect("no, because >")
    keyboard.type("yes\x15write it in Frnech\x1b[D\x1b[D\x1b[D\x1b[D\x1b[3~\x1b[Cn\x05, please\r")
    assert keyboard.end() == 0
    assert (
        "Told: write_file was not called; the user said no: write it in French, please"
        in keyboard.text
    )


@pytest.fixture
def shell(terminal, script):
    """An interactive bash on a terminal, in which a worker asks before it writes."""
    script(WRITE, TOLD)

    def start(term: str):
        env = {"TERM": term, "NO_COLOR": "1", "PS1": "ready$ ", "HISTFILE": ""}
        keyboard = terminal(program=["bash", "--norc", "--noprofile", "-i"], **env)
        keyboard.expect("ready$ ")
        keyboard.type(f"{sys.executable} -m forge_cli run worker.yaml go --trace quiet\n")
        keyboard.asked()
        return keyboard

    return start


@pytest.mark.long
def test_pasted_lines_do_not_reach_the_shell_afterwards(shell, writer) -> None:
    keyboard = shell("dumb")
    keyboard.type("n first line\ntouch second\ntouch third\n")
    assert "the user said no: first line" in keyboard.expect("ready$ ")
    keyboard.type("echo still-$((1 + 1)); exit\n")
    keyboard.expect("still-2")
    keyboard.end()
    assert not (writer.folder / "second").exists()
    assert not (writer.folder / "third").exists()


def test_pasted_text_is_not_an_answer(shell, writer) -> None:
    keyboard = shell("xterm")
    for pasted in ("y\rtouch second\r", "\x1b[200~y\rtouch second\r\x1b[201~", "y" * 3000):
        keyboard.type(pasted)
        keyboard.press("?", "yes, this once")
        keyboard.asked()
    assert not (writer.folder / "output" / "a.md").exists()
    keyboard.type("n")
    keyboard.expect("ready$ ")
    keyboard.type("exit\n")
    keyboard.end()
    assert not (writer.folder / "second").exists()


@pytest.mark.long
def test_prompt_is_drawn_again_after_a_stopped_process_continues(shell, writer) -> None:
    keyboard = shell("xterm")
    keyboard.type("\x1a")
    keyboard.expect("Stopped")
    keyboard.expect("ready$ ")
    keyboard.type("echo between-$((1 + 1)); fg\n")
    keyboard.expect("between-2")
    again = keyboard.expect(CHOICES_ALWAYS)
    assert "writer wants to call write_file (risk: medium)" in again
    assert "  │ 2 + two" in again
    keyboard.type("n")
    assert "the user said no" in keyboard.expect("ready$ ")
    keyboard.type("exit\n")
    keyboard.end()


def test_ctrl_c_restores_the_terminal(terminal, script) -> None:
    script(WRITE, TOLD)
    keyboard = terminal(*RUN, **EDITED)
    keyboard.asked()
    terminal_fd = os.dup(keyboard.child.fileno())
    keyboard.type("\x03")
    assert keyboard.end() == 130
    assert is_cooked(terminal_fd)
    os.close(terminal_fd)


def test_esc_goes_back_from_a_list_and_interrupts_at_the_question(terminal, script, writer) -> None:
    script(WRITE, TOLD)
    keyboard = terminal(*RUN, **EDITED)
    keyboard.asked()
    keyboard.type("a")
    keyboard.expect("Enter writes it, Esc goes back >")
    keyboard.type("\x1b")
    keyboard.asked()
    keyboard.type("\x1b")
    assert keyboard.end() == 130
    assert "Told" not in keyboard.seen
    assert not (writer.folder / "output" / "a.md").exists()
    assert not (writer.home / "config.yaml").exists()


def test_manual_call_offers_no_session_grant(terminal) -> None:
    keyboard = terminal("tools", "call", "echo", "--worker", "worker.yaml", "text=hi")
    keyboard.expect(CHOICES_ONCE)
    keyboard.type("s\n")
    keyboard.expect("invalid answer; type y, n, t or ?")
    keyboard.expect(CHOICES_ONCE)
    keyboard.type("y\n")
    assert keyboard.end() == 0
    assert "[s]ession" not in keyboard.seen


@pytest.mark.anyio
@pytest.mark.parametrize("term", ["dumb", "xterm"])
@pytest.mark.parametrize("waits", [True, False])
async def test_long_prompt_rings_the_bell_once(
    monkeypatch: pytest.MonkeyPatch, term: str, waits: bool
) -> None:
    monkeypatch.setenv("TERM", term)
    monkeypatch.setattr(prompts, "BELL_AFTER", 0.05 if waits else 60)
    master, slave = os.openpty()
    request = ApprovalRequest(
        "r1", "c1", "push", {}, "w wants to call push", "it asks", "high", None, None
    )
    seen = ""

    async def see(wanted: str, start: int = 0) -> None:
        nonlocal seen
        while wanted not in seen[start:]:
            await anyio.wait_readable(master)
            seen += os.read(master, 4096).decode()

    async def answer() -> None:
        await see(CHOICES.rstrip())
        if waits:
            await see("\a")
        start = len(seen)
        os.write(master, b"?" if term == "xterm" else b"?\r")
        await see("with a text for the model", start)
        await see(CHOICES.rstrip(), start)
        os.write(master, b"n" if term == "xterm" else b"n\r")

    try:
        with (
            io.TextIOWrapper(io.FileIO(slave, "r+"), write_through=True) as tty,
            anyio.fail_after(20),
        ):
            monkeypatch.setattr("sys.stdin", tty)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(answer)
                assert not await cli_approval_callback(new_console(tty))(request)
    finally:
        os.close(master)
    assert seen.count("\a") == waits

"""``forge sessions``: listed, shown, searched, exported, verified and deleted sessions.

Covers forge_cli.cli.sessions.common, forge_cli.cli.sessions.show, forge_cli.cli.sessions.list,
forge_cli.cli.sessions.rm, forge_cli.cli.sessions.search, forge_cli.cli.sessions.verify, forge_cli.cli.notices,
forge_cli.ui.table, forge_cli.record.changes,
forge_cli.record.log.
"""

import json
import os
import re
from html.parser import HTMLParser

import anyio
import pytest

from forge_cli import WorkerRuntime, load_worker
from forge_cli.core.wire import camel_case
from forge_cli.embedding import open_session
from forge_cli.events import SessionUpdate
from forge_cli.record.line import Line
from forge_cli.record.log import read_session
from forge_cli.record.open import OpenSession
from forge_cli.testing import Project, call, calls
from tests.support.logs import script, sessions

WORKER = """
name: writer
instructions: You write.
model: script:script.yaml
sandbox:
  zones:
    - {name: pages, mode: rw, approval: {write: preApproved}}
    - {name: shelf, mode: ro}
toolsets:
  filesystem: {}
"""

ESCAPES = "\x1b[31mred\x1b[0m \u202egnitirw"


@pytest.fixture
def writer(project: Project) -> Project:
    project.write("worker.yaml", WORKER)
    project.write("shelf/long.txt", "".join(f"line {number}\n" for number in range(100)))
    return project


PAGE = "# Übersicht\n```\n</pre><script>alert(1)</script>\n"
STORY = (
    calls(
        call("write_file", path="/pages/a.md", content=PAGE),
        call("read_file", path="/shelf/long.txt"),
        call("write_file", path="/shelf/b.md", content="no"),
        call("nonsense", x=1),
        text=f"I <b>begin</b>. {ESCAPES}",
    ),
    "Done | with *that*.",
)


@pytest.fixture
def story(writer: Project, cli) -> str:
    """A session with a bit of everything; its id."""
    writer.write("notes.txt", "attached words")
    script(writer, *STORY)
    done = cli("run", "worker.yaml", "Write a page.\nThen read.", "--attach", "notes.txt")
    assert done.code == 0
    return sessions(writer)[0].stem


# ---- list


def test_list_has_a_row_for_each_session_with_filters(writer, cli) -> None:
    assert cli("sessions", "list", "--json").out == "[]\n"
    script(writer, calls(call("read_file", path="/shelf/long.txt")), "Done.")
    writer.write("other.yaml", WORKER.replace("writer", "other"))
    cli("run", "worker.yaml", "Read the\nfile, please, " + "and then think about it " * 5)
    cli("run", "other.yaml", "two", "--max-turns", "1")
    rows = json.loads(cli("sessions", "list", "--json").out)
    assert [(row["worker"], row["status"], row["turns"], row["toolCalls"]) for row in rows] == [
        *(("other", "limit", 1, 1), ("writer", "completed", 2, 1))
    ]
    assert [row["session"] for row in rows] == [path.stem for path in sessions(writer)]
    assert rows[1]["task"].startswith("Read the\nfile, please")
    assert (rows[1]["workspace"], rows[1]["workerFile"]) == (
        str(writer.folder),
        str(writer.folder / "worker.yaml"),
    )
    assert rows[1]["started"] <= rows[1]["ended"]
    head, *table = cli("sessions", "list").out.splitlines()
    assert head.split() == [
        "session",
        "started",
        "worker",
        "state",
        "turns",
        "calls",
        "cost",
        "task",
    ]
    assert table[1].endswith(
        "done    2      1            Read the file, please, and then think about it and then t..."
    )
    assert [
        row["worker"]
        for row in json.loads(cli("sessions", "list", "--worker", "other", "--json").out)
    ] == ["other"]
    assert cli("sessions", "list", "--worker", "nobody").out.count("\n") == 1


def test_list_is_limited_to_the_folder_without_all(writer, cli, monkeypatch) -> None:
    script(writer, "Done.")
    writer.write("worker.yaml", "name: plain\nmodel: script:script.yaml\n")
    (writer.folder / "below").mkdir()
    assert (
        cli("run", "worker.yaml", "one").code
        == cli("run", "worker.yaml", "two", "-C", "below").code
        == 0
    )
    assert len(json.loads(cli("sessions", "list", "--json").out)) == 2
    monkeypatch.chdir(writer.folder / "below")
    [row] = json.loads(cli("sessions", "list", "--json").out)
    assert row["task"] == "two"
    monkeypatch.chdir(writer.home)
    assert json.loads(cli("sessions", "list", "--json").out) == []
    assert len(json.loads(cli("sessions", "list", "--all", "--json").out)) == 2


def test_resumed_session_is_one_row_and_comes_first(writer, cli) -> None:
    script(writer, "{task}", "{task}")
    cli("run", "worker.yaml", "one")
    cli("run", "worker.yaml", "two")
    first = sessions(writer)[1].stem
    cli("run", "worker.yaml", "-r", first, "more")
    rows = json.loads(cli("sessions", "list", "--json").out)
    assert [(row["task"], row["turns"]) for row in rows] == [("one", 2), ("two", 1)]


def test_list_shows_the_title_instead_of_the_task(writer, story: str, cli) -> None:
    def conversation() -> None:
        with (
            writer.environment(),
            open_session(load_worker(writer.folder / "worker.yaml"), resume=story) as session,
        ):
            anyio.run(name_it, session)

    async def name_it(session: OpenSession) -> None:
        worker = load_worker(writer.folder / "worker.yaml")
        async with WorkerRuntime(
            worker=worker, workspace=writer.folder, session=session
        ) as runtime:
            runtime.bus.emit(SessionUpdate(title="A page and a file"))

    conversation()
    (row,) = json.loads(cli("sessions", "list", "--json").out)
    assert (row["title"], row["task"]) == ("A page and a file", "Write a page.\nThen read.")
    listed = cli("sessions", "list").out
    assert "A page and a file" in listed
    assert "Write a page" not in listed
    assert "A page and a file" in cli("sessions", "search", "page and a file").out


def test_list_marks_broken_sessions(writer, cli) -> None:
    script(writer, "Done.")
    cli("run", "worker.yaml", "go")
    (good,), folder = sessions(writer), writer.home / "sessions"
    (folder / "empty.jsonl").touch()
    (folder / "nonsense.jsonl").write_text("nonsense\x1b[2J\n")
    (folder / "folder.jsonl").mkdir()
    rows = json.loads(cli("sessions", "list", "--json").out)
    assert {row["session"]: row.get("error") for row in rows} == {
        good.stem: None,
        "nonsense": "not a line of a session log",
    }
    done = cli("sessions", "list")
    assert (done.code, done.err) == (0, "")
    assert "empty" not in done.out
    assert "\x1b" not in done.out


# ---- show


def test_conversation_is_drawn(writer, cli, story) -> None:
    done = cli("sessions", "show", story[:18])
    assert (done.code, done.err) == (0, "")
    assert "\x1b" not in done.out
    assert "\u202e" not in done.out
    head, place, *shown = done.out.splitlines()
    assert head.startswith(f"{story}: writer with script:script.yaml, 20")
    assert place == f"in {writer.folder}"
    assert shown[:9] == [
        "",
        "user:",
        "  Write a page.",
        "  Then read.",
        "  with notes.txt",
        "",
        "writer:",
        "  I <b>begin</b>. \\x1b[31mred\\x1b[0m \\u202egnitirw",
        '  > write_file path="/pages/a.md"',
    ]
    assert (
        shown[9]
        == "    preApproved -> yes by rule: zone 'pages' pre-approves write (worker.yaml:7:49)"
    )
    assert shown[10:16] == [
        "    success",
        "      --- /dev/null",
        "      +++ pages/a.md",
        "      @@ -0,0 +1,3 @@",
        "      +# Übersicht",
        "      +```",
    ]
    assert "      line 19" in shown
    assert "      line 20" not in shown
    assert "      ... 80 more lines" in shown
    assert "    not_found: there is no tool 'nonsense'; the tools are: " in done.out
    assert shown[-3:] == ["writer:", "  Done | with *that*.", "-- completed: 2 turns, 4 calls"]


def test_last_session_is_shown_by_default(writer, cli, story) -> None:
    assert cli("sessions", "show", "no").err.endswith(
        f"  forge sessions list shows them; the last is {story}\n"
    )
    assert (
        cli("sessions", "show").out
        == cli("sessions", "show", "last").out
        == cli("sessions", "show", story).out
    )
    (writer.home / "sessions" / f"{story[:-1]}x.jsonl").write_bytes(
        sessions(writer)[0].read_bytes()
    )
    done = cli("sessions", "show", story[:10])
    assert (done.code, done.out) == (3, "")
    assert done.err.startswith(
        f"forge: '{story[:10]}' matches 2 sessions; type more of the ID\n  {story[:-1]}"
    )


@pytest.mark.parametrize("text", ["garbage", "more\ngarbage\n"])
def test_last_session_ignores_other_files(writer, cli, story, text: str) -> None:
    shown, garbage = cli("sessions", "show").out, writer.home / "sessions/garbage.jsonl"
    garbage.write_text(text)
    os.utime(garbage, (2**32, 2**32))
    assert cli("sessions", "show").out == shown
    assert cli("replay", "last").code == 0
    assert cli("undo").out == "removed   pages/a.md\n"
    done = cli("sessions", "show", "garbage")
    hint = "none of its lines can be read; forge sessions list shows other sessions"
    assert (done.code, done.out, done.err) == (
        3,
        "",
        f"forge: {garbage}:1:1: not a session log\n  {hint}\n",
    )


def test_json_prints_the_lines_themselves(writer, cli, story) -> None:
    assert cli("sessions", "show", story, "--json").out == sessions(writer)[0].read_text()


@pytest.mark.long
def test_session_show_cuts_long_texts(writer, cli) -> None:
    script(writer, "word " * 10_000)
    cli("run", "worker.yaml", "line\n" * 5000)
    out = cli("sessions", "show", sessions(writer)[0].stem).out
    assert len(out) < 40_000
    assert "more lines" in out
    assert "characters cut" in out


@pytest.mark.long
def test_changed_log_is_shown_nevertheless(writer, cli, story) -> None:
    path = sessions(writer)[0]
    changed = []
    for line in path.read_text().splitlines():
        data = json.loads(line)
        for odd in (
            {"depth": 10**9},
            {"value": {"kind": "text", "content": 7}},
            {"value": {"kind": "diff"}},
        ):
            changed.append({**data, **odd})
        for key in data.keys() - {"seq", "type"}:
            changed += [
                {other: value for other, value in data.items() if other != key},
                {**data, key: ESCAPES},
            ]
            changed += [
                {**data, key: 7},
                {**data, key: [{}]},
                {**data, key: {"x": None}},
                {**data, key: None},
            ]
    path.write_text("".join(json.dumps(line) + "\n" for line in changed))
    for words in (
        ["show", story],
        ["search", "page"],
        ["export", story],
        ["export", story, "--format", "html"],
    ):
        done = cli("sessions", *words)
        broken = f"forge: {path}:1: it was changed after it was written\n"
        assert (done.code, done.err) == (0, "" if words[0] == "search" else broken)
        assert "\x1b" not in done.out
    assert json.loads(cli("sessions", "list", "--json").out)[0]["session"] == story
    assert cli("sessions", "list").code == 0
    assert cli("approvals", "list").code == 0


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("line", "seen"), [(2, "Write a page."), (3, "Done | with"), (9, "Write a page.")]
)
def test_damaged_log_is_shown_up_to_the_named_broken_line(
    writer, cli, story, line: int, seen: str
) -> None:
    path = sessions(writer)[0]
    whole = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*whole[: line - 1], "nonsense\n", *whole[line:]]))
    broken = f"forge: {path}:{line}:1: not a line of a session log"
    for words in (["show", story], ["export", story], ["show", story, "--json"]):
        done = cli("sessions", *words)
        assert (done.code, done.err) == (0, f"{broken}; showing the readable lines\n")
        assert seen in done.out
    for words in (
        ["replay", story],
        ["approve", "worker.yaml", "--against", story],
        ["run", "worker.yaml", "-c", "x"],
    ):
        done = cli(*words)
        assert (done.code, done.out) == (3, "")
        assert done.err.startswith(f"forge: {path}:{line}:1: not a line of a session log\n")


def test_log_without_its_first_lines_is_shown_and_not_replayed(writer, cli, story) -> None:
    path = sessions(writer)[0]
    whole = path.read_text().splitlines(keepends=True)
    task = next(
        number for number, line in enumerate(whole) if json.loads(line)["type"] == "message"
    )
    path.write_text("".join(whole[:task] + whole[task + 1 :]))
    done = cli("sessions", "show", story)
    broken = f"sequence number {task + 2}, expected {task + 1}"
    assert (done.code, done.err) == (0, f"forge: {path}:{task + 1}: {broken}\n")
    assert "Done | with" in done.out
    done = cli("replay", story)
    assert (done.code, done.out) == (3, "")
    assert f"the record is incomplete: line {task + 1}: {broken}\n" in done.err


def test_removed_task_is_reported_as_missing(writer, cli, story) -> None:
    """The chain was made anew, so nothing but the task is missing."""
    path, kept = sessions(writer)[0], list[Line]()
    for line in read_session(path).lines:
        if not (line.type == "message" and line.data["message"]["role"] == "user"):
            kept.append(
                Line({**line.data, "seq": len(kept) + 1}).copied(story, kept[-1] if kept else None)
            )
    path.write_text("".join(line.text() for line in kept))
    done = cli("replay", story)
    assert (done.code, done.out) == (3, "")
    assert "the record is incomplete: it has no task" in done.err


def test_broken_chain_is_reported_by_every_reader(writer, cli, story) -> None:
    path = sessions(writer)[0]
    path.write_text(path.read_text().replace("Then read", "Then write", 1))
    told = f"forge: {path}:3: it was changed after it was written\n"
    for words in (["sessions", "show", story], ["sessions", "export", story], ["replay", story]):
        assert cli(*words).err.startswith(told), words
    assert cli("approve", "worker.yaml", "--against", story).err.startswith(told)


@pytest.mark.parametrize("words", [["show"], ["export"], ["verify"], ["rm"]])
def test_unknown_session_is_an_error(writer, cli, words: list[str]) -> None:
    done = cli("sessions", *words, "nothing\x1b[2J")
    assert (done.code, done.out) == (3, "")
    assert (
        done.err
        == "forge: there is no session 'nothing\\x1b[2J'\n  forge sessions list shows them\n"
    )


def test_incomplete_line_is_omitted_and_reported(writer, cli, story) -> None:
    with sessions(writer)[0].open("a") as file:
        file.write('{"v": 1, "se')
    said = f"forge: omitted the unfinished last line of the session {story}\n"
    for words in (["show", story], ["export", story], ["show", story, "--json"]):
        done = cli("sessions", *words)
        assert (done.code, done.err) == (0, said)
        assert '"se\n' not in done.out
    done = cli("sessions", "verify", story)
    assert (done.code, done.err) == (0, "")
    assert done.out.endswith("lines, ignoring an unfinished last one\n")
    assert json.loads(cli("sessions", "verify", story, "--json").out)[0]["unfinished"] is True


def test_conversation_with_a_child_worker_is_shown(project: Project, cli) -> None:
    project.write(
        "worker.yaml", WORKER.replace("  filesystem: {}", "  workers: {allowed: [helper.yaml]}")
    )
    helper = WORKER.replace("writer", "helper\ndescription: Helps").replace(
        "script.yaml", "helper-script.yaml"
    )
    project.write("helper.yaml", helper)
    script(project, calls(call("helper", input="write b")), "Boss done.")
    project.write(
        "helper-script.yaml",
        json.dumps(
            {
                "turns": [
                    calls(call("write_file", path="/pages/b", content="b")),
                    {"text": "Helped."},
                ]
            }
        ),
    )
    project.write("shelf/x", "")
    assert cli("run", "worker.yaml", "go", "-y").out == "Boss done.\n"
    shown = cli("sessions", "show", sessions(project)[0].stem).out.splitlines()
    start = shown.index("  -- helper started")
    assert shown[start - 4] == '  > helper input="write b"'
    assert shown[start - 1 : start] == ["      Helped."]
    assert shown[start + 2 : start + 6] == ["  writer:", "    write b", "", "  helper:"]
    assert shown[start + 6] == '    > write_file path="/pages/b" content="b"'
    assert shown[start + 8] == "      success"
    assert "  helper:" in shown
    assert "    Helped." in shown
    row = json.loads(cli("sessions", "list", "--json").out)[0]
    assert (row["turns"], row["toolCalls"]) == (2, 2)
    assert shown[-1] == "-- completed: 2 turns, 2 calls"


# ---- search


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("text", "hits"),
    [
        ("WRITE A PAGE", [("message", "Write a page. Then read.")]),
        ("page.\nthen", [("message", "Write a page. Then read.")]),
        ("attached words", [("message", "attached words")]),
        ("notes.TXT", [("message", "notes.txt")]),
        ("nonsense", [("toolStarted", 'nonsense {"x": 1}'), ("toolResult", None)]),
        (
            "READ_file",
            [("toolStarted", 'read_file {"path": "/shelf/long.txt"}'), ("toolResult", None)],
        ),
        ('"x": 1', [("toolStarted", 'nonsense {"x": 1}')]),
        ("ÜBERSICHT", [("toolStarted", None), ("toolResult", None)]),
        ("line 42", [("toolResult", None)]),
        ("</pre><script>alert(1)", [("toolStarted", None), ("toolResult", None)]),
        ("toolName", []),
        ("requestDigest", []),
        ("zzz", []),
    ],
)
def test_search_finds_messages_and_calls(
    writer, cli, story, text: str, hits: list[tuple[str, str | None]]
) -> None:
    done = cli("sessions", "search", text, "--json")
    assert (done.code, done.err) == (0, "")
    rows = json.loads(done.out)
    assert [row["event"] for row in rows] == [event for event, _ in hits]
    assert all(shown in (None, row["excerpt"]) for row, (_, shown) in zip(rows, hits, strict=True))
    assert cli("sessions", "search", text).err == (
        "" if hits else f"no session contains '{text}'\n"
    )
    lines = sessions(writer)[0].read_text().splitlines()
    assert [json.loads(lines[row["line"] - 1])["type"] for row in rows] == [
        row["event"] for row in rows
    ]
    assert {row["session"] for row in rows} <= {story}
    table = cli("sessions", "search", text).out
    assert table.count("\n") == len(rows) + 1
    assert "\x1b" not in table


def test_search_result_shows_its_context(writer, cli) -> None:
    script(writer, "Done.")
    cli("run", "worker.yaml", f"{'a ' * 100}needle\x1b[2J{' b' * 100}")
    (row,) = json.loads(cli("sessions", "search", "Needle", "--json").out)
    assert row["excerpt"].startswith("...a a")
    assert row["excerpt"].endswith("b b...")
    assert len(row["excerpt"]) < 120
    assert "needle\\x1b[2J b" in cli("sessions", "search", "Needle").out


def test_empty_search_is_a_usage_error(cli) -> None:
    assert cli("sessions", "search", "").code == 2


# ---- export


def test_export_writes_markdown(writer, cli, story) -> None:
    done = cli("sessions", "export", story)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"# {story}\n\nwriter with script:script.yaml, 20")
    assert (
        "\n\n## user\n\n> Write a page.\n> Then read.\n\nwith notes.txt\n\n## writer\n\n> I <b>begin</b>."
        in done.out
    )
    assert "\n````diff\n--- /dev/null\n+++ pages/a.md\n" in done.out
    assert "+</pre><script>alert(1)</script>\n````\n" in done.out
    assert "**write\\_file** (preApproved -\\> yes by rule: " in done.out
    assert "line 99\n```\n" in done.out
    assert "\x1b" not in done.out
    assert "\u202e" not in done.out
    cli("sessions", "export", story, "-o", "out.md")
    assert writer.read("out.md") == done.out


class Page(HTMLParser):
    """The tags and the words of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.words += data


def test_export_writes_html(writer, cli, story) -> None:
    done = cli("sessions", "export", story, "-o", "out.html")
    assert (done.code, done.out) == (0, "")
    assert re.fullmatch(r"wrote out.html \([\d,]+ bytes\)\n", done.err)
    text = writer.read("out.html")
    assert cli("sessions", "export", story, "--format", "html").out == text
    page = Page(text)
    assert page.tags <= {
        *("html", "head", "meta", "title", "style", "body", "header", "section", "div", "h1", "h2"),
        *("p", "pre", "code", "b", "span", "details", "summary", "dl", "dt", "dd", "em"),
    }
    assert page.attributes <= {"lang", "charset", "name", "content", "http-equiv", "class"}
    assert "default-src 'none'" in text
    for words in (
        "I <b>begin</b>. \\x1b[31mred",
        "+</pre><script>alert(1)</script>",
        "line 99",
        "100 lines",
        "Übersicht",
    ):
        assert words in page.words
    assert "\x1b" not in text


def test_export_that_cannot_be_written_is_an_error(writer, cli, story) -> None:
    log = sessions(writer)[0]
    (writer.folder / "link.md").symlink_to(log)
    for file, told in {
        "nowhere/out.md": "there is no folder",
        "shelf": "that is a folder; name a file in it",
        "link.md": "forge keeps its sessions there",
    }.items():
        done = cli("sessions", "export", story, "-o", file)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith(f"forge: -o {file}: {told}")
    done = cli("sessions", "export", story, "-o", "/dev/full")
    assert (done.code, done.err) == (
        1,
        "forge: -o /dev/full: it cannot be written: No space left on device\n",
    )


def test_export_to_a_dash_is_standard_output(writer, cli, story) -> None:
    done = cli("sessions", "export", story, "-o", "-")
    assert done == cli("sessions", "export", story)
    assert not (writer.folder / "-").exists()


# ---- verify


def test_verify_tells_valid_and_invalid_logs_apart(writer, cli) -> None:
    script(writer, "{task}")
    for word in ("one", "two", "three"):
        cli("run", "worker.yaml", word)
    third, second, first = sessions(writer)
    done = cli("sessions", "verify")
    assert (done.code, done.err) == (0, "")
    assert done.out == "".join(f"{path.stem}: ok, 7 lines\n" for path in (third, second, first))
    second.write_text(second.read_text().replace('"content": "two"', '"content": "TWO"', 1))
    first.write_text("nonsense\n" + first.read_text())
    done = cli("sessions", "verify")
    assert (done.code, done.err) == (1, "")
    assert set(done.out.splitlines()) == {
        f"{third.stem}: ok, 7 lines",
        f"{second.stem}: line 3: it was changed after it was written",
        f"{first.stem}: line 1: not a line of a session log",
    }
    assert cli("sessions", "verify", third.stem).code == 0
    assert cli("sessions", "verify", second.stem).code == 1
    rows = {row["session"]: row for row in json.loads(cli("sessions", "verify", "--json").out)}
    assert [rows[path.stem]["ok"] for path in (third, second, first)] == [True, False, False]
    for torn in ("\0" * 64, '{"v": 1, "seq": 1'):
        second.write_text(torn)
        assert cli("sessions", "verify", second.stem).out.startswith(
            f"{second.stem}: ok, 0 lines, ignoring an unfinished"
        )
    first.write_text("")
    assert cli("sessions", "verify", first.stem).err.startswith(
        f"forge: there is no session '{first.stem}'\n"
    )


def test_log_from_another_machine_can_be_shown(writer, cli, story) -> None:
    moved = writer.write("copy.jsonl", sessions(writer)[0].read_text())
    sessions(writer)[0].unlink()
    assert cli("sessions", "verify", "copy.jsonl").out.startswith("copy: ok")
    assert "Write a page." in cli("sessions", "show", str(moved)).out


# ---- rm


def test_sessions_are_removed_without_asking(writer, cli) -> None:
    script(writer, "{task}")
    for word in ("one", "two", "three"):
        cli("run", "worker.yaml", word)
    third, second, first = sessions(writer)
    (first.parent / f".{first.name}.lock").write_text("999999999")
    (first.parent / ".index.json").write_text("one")
    assert cli("sessions", "rm", first.stem, "nothing").code == 3
    assert len(sessions(writer)) == 3
    done = cli("sessions", "rm", first.stem, second.stem, first.stem)
    assert (done.code, done.out) == (0, f"removed {first.stem}\nremoved {second.stem}\n")
    assert os.listdir(first.parent) == [third.name]


def test_rm_removes_only_sessions(writer, cli) -> None:
    data = writer.write("data.jsonl", "{}\n")
    for name in ("data.jsonl", str(data), "", ".", "*"):
        assert cli("sessions", "rm", name).code == 3
    assert data.exists()


def test_list_is_a_table_for_people_and_json_for_programs(writer, cli, story) -> None:
    for words in (["list"], ["search", "page"], ["verify"]):
        parsed = json.loads(cli("sessions", *words, "--json").out)
        assert isinstance(parsed, list)
        assert [
            key for row in parsed for key in row if "_" in key and camel_case(key) not in row
        ] == []


@pytest.mark.parametrize("command", ["list", "verify"])
def test_home_that_is_a_file_is_an_error(cli, project: Project, command: str) -> None:
    project.home.write_text("in the way")
    done = cli("sessions", command)
    assert (done.code, done.err) == (
        1,
        f"forge: {project.home}/sessions cannot be read: Not a directory\n"
        "  set FORGE_HOME to choose the folder for sessions\n",
    )

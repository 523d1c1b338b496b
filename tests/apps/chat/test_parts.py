"""The parts of a conversation's screen by themselves: text above the line, history, files, completion, notices.

Those of forge_cli.apps.chat.around, forge_cli.ui.places, forge_cli.ui.completion and forge_cli.sandbox.zones.declared.
"""

import json
import os
import time
from functools import partial
from pathlib import Path

import pytest

from forge_cli.apps.chat.around import (
    MAX_ENTRIES,
    NOTICE_AFTER,
    InputHistory,
    Notice,
    has_messages,
    status_line,
)
from forge_cli.core.context import ToolContext
from forge_cli.core.errors import UsageError
from forge_cli.core.messages import Usage
from forge_cli.core.tool import Args
from forge_cli.files.attachment import NEITHER
from forge_cli.schema.tool import Tool
from forge_cli.schema.tool_fields import ManualExecution
from forge_cli.ui.completion import Candidate, InputCompletion
from forge_cli.ui.facts import Facts
from forge_cli.ui.places import Places, pasted_image
from forge_cli.ui.wrap import cell_len


def test_concurrent_conversations_share_a_bounded_private_history(tmp_path: Path) -> None:
    file = tmp_path / "home" / "history" / "worker.jsonl"
    first, second = InputHistory(file, lambda text: text.replace("secret", "*")), InputHistory(file)
    for text in ("a", "a", " ", "my secret", "b\nc"):
        first.add(text)
    second.add("d")
    assert first.entries == ["a", "b\nc"]
    assert InputHistory(file).entries == ["a", "b\nc", "d"]
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    file.write_text(
        "not json\n" + "".join(json.dumps(str(n)) + "\n" for n in range(3 * MAX_ENTRIES))
    )
    assert InputHistory(file).entries == [str(n) for n in range(2 * MAX_ENTRIES, 3 * MAX_ENTRIES)]
    assert len(file.read_text().splitlines()) == MAX_ENTRIES


def test_unwritable_history_is_not_an_error(tmp_path: Path) -> None:
    (tmp_path / "history").write_text("")
    history = InputHistory(tmp_path / "history" / "worker.jsonl")
    history.add("a")
    assert history.entries == ["a"]


@pytest.fixture
def places(tmp_path: Path) -> Places:
    for name in ("notes.txt", "src/app.py", "out/old one.md", ".hidden"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    return Places(tmp_path, {"output": tmp_path / "out"})


def test_file_name_may_be_quoted_or_escaped(places: Places) -> None:
    assert places.complete("n") == ["notes.txt"]
    assert places.complete("") == ["notes.txt", "out/", "src/"]
    assert places.complete("src/") == ["src/app.py"]
    assert places.complete("/out")[0] == "/output/"
    assert places.complete("/output/") == ["/output/old one.md"]
    assert places.complete(".h") == [".hidden"]
    assert places.complete("nowhere/") == []


def test_mentioned_files_are_attached_and_other_words_are_not(places: Places) -> None:
    text = 'See @notes.txt, (@src/app.py) and @"/output/old one.md"; @nobody, a@notes.txt, @src and @notes.txt again'
    assert [file.name for file in places.attachments(text)] == ["notes.txt", "app.py", "old one.md"]


@pytest.mark.parametrize("has_ripgrep", [True, False])
def test_files_are_found_by_parts_of_their_names(
    places: Places, monkeypatch, has_ripgrep: bool
) -> None:
    if not has_ripgrep:
        monkeypatch.setenv("PATH", "/nowhere")
    for name in (
        "src/shop/cart.py",
        "src/shop/carting_test.py",
        "docs/cart/index.md",
        "src/shop/cached_art.py",
        "a.log",
    ):
        (places.workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (places.workspace / name).write_text(name)
    (places.workspace / ".gitignore").write_text("*.log\n")
    found = [
        "src/shop/cart.py",
        "src/shop/carting_test.py",
        "docs/cart/index.md",
        "src/shop/cached_art.py",
    ]
    assert places.search("cart") == found
    assert places.search("CART.P")[0] == "src/shop/cart.py"
    assert places.search("shopcart")[0] == "src/shop/cart.py"
    assert places.search("log") == []
    assert places.search("s")[0] == "src/"
    assert places.search("/output/") == ["/output/old one.md"]


def test_mentioned_missing_file_is_reported(places: Places) -> None:
    (places.workspace / "blob").write_bytes(b"\0\xff")
    text = "ask @alice about @nope.txt, @note.tx, @note and @notes.txt. in @src/ and @blob."
    assert [file.name for file in places.attachments(text)] == ["notes.txt"]
    assert list(places.warnings(text)) == [
        "@nope.txt is not a file, so it is sent as text only",
        "@note.tx is not a file, so it is sent as text only; did you mean @notes.txt?",
        "@note is not a file, so it is sent as text only; did you mean @notes.txt?",
        f"@blob is {NEITHER}, so it is sent as text only",
    ]


def test_images_are_attached_by_path_and_from_the_clipboard(places: Places, monkeypatch) -> None:
    data = b"\x89PNG\r\n\x1a\n"
    for name in ("my shot.png", "b.JPG", "c.txt"):
        (places.workspace / name).write_bytes(data)
    text = f"see '{places.workspace}/my shot.png', b.JPG c.txt '{places.workspace}/my shot.png' my\\ shot.png none.png"
    assert [file.name for file in places.attachments(text)] == ["b.JPG", "my shot.png"]
    assert [file.name for file in places.attachments("my\\ shot.png")] == ["my shot.png"]
    monkeypatch.setenv("PATH", f"{places.workspace}:{os.environ['PATH']}")
    program = places.workspace / "wl-paste"
    program.write_text("#!/bin/sh\nprintf '\\211PNG\\r\\n\\032\\n'\n")
    program.chmod(0o755)
    image = pasted_image()
    assert image is not None
    assert (image.name, image.media_type, image.data) == ("pasted.png", "image/png", data)
    program.write_text("#!/bin/sh\necho words\n")
    monkeypatch.setenv("PATH", f"{places.workspace}:/bin")
    assert pasted_image() is None


def test_too_large_file_is_an_error(places: Places) -> None:
    with (places.workspace / "large").open("wb") as file:
        file.truncate(21 * 1024 * 1024)
    with pytest.raises(UsageError, match="too much"):
        list(places.attachments("@large"))


def test_commands_tools_args_and_files_are_completed(places: Places) -> None:
    async def execute(args: Args, context: ToolContext) -> str:
        return "pushed"

    schema = {
        "properties": {"branch": {"type": "string"}, "force": {"type": "boolean", "default": False}}
    }
    tool = Tool(
        name="push",
        description="Push a branch.\nMore.",
        input_schema={"type": "object", **schema},
        execute=execute,
        manual=ManualExecution("both"),
    )
    completion = InputCompletion(Facts(), lambda: [tool], places)

    def found(text: str) -> list[str]:
        return [each.text for each in completion.candidates(text)]

    assert completion.candidates("/pus") == [Candidate("/push", 4, "Push a branch.")]
    assert found("/ex") == ["/exit"]
    assert found("/out")[0] == "/output/"
    assert found("/tool p") == ["push"]
    assert found("/t push --") == ["--branch", "--force"]
    assert found("/push --branch x --f") == ["--force"]
    assert found("/push --force ")[:2] == ["true", "false"]
    assert found("/trace no") == ["normal"]
    argument = {"name": "title", "description": "Of the note."}
    completion.facts.prompts["notes__sum"] = {
        "name": "notes__sum",
        "description": "",
        "arguments": [argument],
    }
    assert found("/note") == ["/notes__sum"]
    assert completion.candidates("/notes__sum t") == [Candidate("title=", 1, "Of the note.")]
    assert completion.candidates("look at @src/") == [Candidate("@src/app.py", 5)]
    assert found("@/output/") == ['@"/output/old one.md"']
    assert found("!cat no") == ["notes.txt"]
    assert [completion.is_wanted(text) for text in ("/st", "a @b", "plain words", "!ls")] == [
        True,
        True,
        False,
        False,
    ]


def test_status_line_omits_what_does_not_fit() -> None:
    facts = Facts(
        model="anthropic:x",
        workspace="/work",
        approval_mode="interactive",
        cost=0.5,
        used=10,
        window=100,
    )
    facts.usage = Usage(input_tokens=2500, output_tokens=12)
    line = partial(status_line, facts)
    assert line(100) == "anthropic:x · 2.5k in, 12 out · $0.50 · 10% of the window · /work · ask"
    assert line(30) == "anthropic:x · ask"
    facts.mode = "acceptEdits"
    assert line(25) == "anthropi… · accept edits"  # what is done unasked is always said
    assert cell_len(line(5)) >= len("accept edits")


def test_desktop_notice_is_sent_when_the_terminal_has_no_focus() -> None:
    written: list[str] = []
    plain, rich = (
        Notice(written.append, {"TERM": "xterm"}),
        Notice(written.append, {"TERM_PROGRAM": "WezTerm"}),
    )
    now = time.monotonic()
    plain.give("x asks", now)
    plain.give("x asks", now - NOTICE_AFTER - 1)
    plain.in_front = True
    plain.give("x asks", now - NOTICE_AFTER - 1)
    rich.in_front = False
    rich.give("x \x1b asks", now)
    assert written == ["\a", "\x1b]9;x \\x1b asks\a"]
    assert not has_messages({"TERM_PROGRAM": "WezTerm", "TMUX": "x"})

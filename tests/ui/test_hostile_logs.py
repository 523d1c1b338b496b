"""A log full of escape sequences: no command that reads it sends one to a terminal."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from forge_cli.core.text import UNSEEN
from forge_cli.record.line import BadLine, Line
from forge_cli.testing import Project
from tests.support.keyboard import Keyboard

ESCAPES = (
    "\x1b]0;title\x07\x1b[2J\x1b[1A\x1bc\x1bP+q\x1b\\"  # ESC, CSI, OSC, DCS
    "\x9b31m\x9d0;t\x9c\x85\x90"  # the same in one letter of C1
    "\r\x08\x7f\x00\x0b\x0c"  # what moves the cursor
    "\u202e\u2066\u200f\u2028\u200b\ufeff\u115f\ue000"  # what turns the text around, and what nobody sees
)
WORDS = f"{ESCAPES}alert\n{ESCAPES}<b>*`[x](http://x.example/{ESCAPES})`*"

TURNS = (
    "{text: Reading., calls: [{tool: read_file, input: {path: a.txt}}, {tool: list_files, input: {path: .}}]}",
    "{text: Writing., calls: [{tool: write_file, input: {path: output/b.txt, content: new}}]}",
    "{text: Editing., calls: [{tool: edit_file, input: {path: output/b.txt, old: new, new: other}}]}",
    "{text: Failing., calls: [{tool: read_file, input: {path: gone.txt}}, {tool: grep_files, input: {pattern: o}}]}",
    "{text: Asking., calls: [{tool: echo, input: {text: hello, mood: glad}}, {tool: careful, input: {what: odd}}]}",
    '{text: "# Done\\n\\n- one\\n- **two**\\n\\n| a | b |\\n|---|---|\\n| 1 | 2 |\\n"}',
)

READERS = [
    "sessions list --all",
    "sessions list --all --json",
    "sessions show ID",
    "sessions show ID --json",
    "sessions search alert",
    "sessions search alert --json",
    "sessions export ID",
    "sessions export ID --format html",
    "sessions export ID --format csv",
    "sessions export --all --format csv",
    "sessions verify",
    "sessions verify ID",
    "sessions verify --json",
    "approvals list",
    "approvals list --json",
    "approvals audit",
    "approvals audit --json",
    "approvals suggest",
    "approvals suggest --json",
    "replay ID --worker worker.yaml",
    "replay ID --worker worker.yaml --json",
    "replay ID --worker worker.yaml --tools recorded",
    "test PATH",
    "test PATH --json",
    "approve worker.yaml --against ID",
    "approve worker.yaml --against ID --json",
    "approve worker.yaml --against last",
    "undo ID --list",
    "undo ID --list --json",
    "run worker.yaml -r ID",
    "run worker.yaml more -r ID",
    "run worker.yaml more -r ID --fork",
    "run worker.yaml more -r ID --fork --output-format json",
    "run worker.yaml more -r ID --fork --output-format stream-json",
    "run worker.yaml --replay PATH",
    "chat worker.yaml -r ID",
    "undo ID",
    "undo ID --json",
    "approvals answer ID no",
    "sessions rm ID",
]
"""Every command that reads a log."""

KEPT = {"type", "session", "prev", "hash", "proof", "time"}
"""What a log has to say as it is, to be a log."""
NAMES = {
    *(
        "toolName",
        "name",
        "tools",
        "toolCallId",
        "id",
        "requestId",
        "requestDigest",
        "worker",
        "workspace",
    ),
    *("workerFile", "status", "model", "system", "environment", "specs"),
}
"""What the commands that work with a session go by."""
FREE = {"args", "input", "data", "value"}
"""Objects that may have any key."""
OWN = re.compile(
    r"\x1b\[[\d;]*[mK]|\x1b\[\?(?:25|2004|7)[hl]|\x1b\]8;(?:id=\d+)?;[!-~]*\x1b\\|\r*\n"
)
"""What forge itself may write on a terminal: colours, an erased line, modes, links, and the end of a line."""


def hostile(data: Any, say: str, whole: dict[str, Any], *, names: bool) -> None:
    """Put ``say`` behind every text of a line of which it can still be read; ``names`` are such as of tools."""
    for key, value in list(data.items() if isinstance(data, dict) else enumerate(data)):
        if key in KEPT or (key in NAMES and not names):
            continue
        if isinstance(value, dict | list):
            hostile(value, say, whole, names=names)
            if key in FREE and isinstance(value, dict):
                value[f"{say}key"] = say
        elif isinstance(value, str):
            data[key] = value + say
            if not is_readable(whole):
                data[key] = value


def is_readable(data: dict[str, Any]) -> bool:
    try:
        return Line(data).event is not None
    except BadLine:
        return False


def resealed(log: Path, *, names: bool) -> str:
    """The log with escapes in all of its texts, and a chain of hashes that is right."""
    written, last = "", None
    for number, piece in enumerate(log.read_bytes().splitlines()):
        line = Line.read(piece)
        hostile(line.data, WORDS if number % 2 else ESCAPES, line.data, names=names)
        last = line.copied(line.session, last)
        written += last.text()
    return written


def unsafe(shown: str) -> set[str]:
    """Everything in it that a terminal obeys, or that is seen as something else."""
    return {char for char in OWN.sub("", shown) if char in UNSEEN or not char.isprintable()}


@pytest.fixture
def whole(terminal: Callable[..., Keyboard], writer: Project, script: Callable[..., None]) -> Path:
    """The log of a session with a bit of everything: work done, calls that failed, and a request that waits."""
    writer.write("a.txt", "one\ntwo\n")
    script(*TURNS)
    assert terminal("run", "worker.yaml", "go", "-y").end() == 0
    (log,) = (writer.home / "sessions").glob("*.jsonl")
    again = terminal(
        "run", "worker.yaml", "more", "-r", log.stem, "--on-ask", "park", shell="< /dev/null"
    )
    assert again.end() == 10
    return log


def escaping(terminal: Callable[..., Keyboard], log: Path, kind: str) -> dict[str, set[str]]:
    """The commands that let something through, of all that read this log."""
    found = {}
    for command in READERS:
        words = [word.replace("ID", log.stem).replace("PATH", str(log)) for word in command.split()]
        talks = words[0] == "chat"
        screen = terminal(*words, shell="" if talks else "< /dev/null", TERM=kind)
        if talks:
            screen.type("\x04\x04")
        screen.end()
        if odd := unsafe(screen.seen):
            found[command] = set(map(ascii, odd))
    return found


def test_escape_sequences_in_a_log_do_not_reach_a_terminal(terminal, whole: Path) -> None:
    whole.write_text(resealed(whole, names=False))
    assert escaping(terminal, whole, "dumb") == {}


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["dumb", "xterm-256color"])
@pytest.mark.parametrize("name", ["20200101-000000-abcdef01", "20200101-000000-\x1b[2J\u202eodd"])
def test_escape_sequences_in_names_do_not_reach_a_terminal(
    terminal, whole: Path, name: str, kind: str
) -> None:
    log = whole.with_name(f"{name}.jsonl")
    log.write_text(resealed(whole, names=True))
    assert escaping(terminal, log, kind) == {}

"""The review of a draft on a terminal: only shown and accepted changes are applied.

Covers forge_cli.cli.drafts.review, forge_cli.cli.drafts.reviewing, forge_cli.cli.drafts.units,
forge_cli.sandbox.drafts.hunks.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from forge_cli.sandbox.drafts.hunks import FileHunks
from forge_cli.testing import Project, call, calls
from tests.support.keyboard import Keyboard
from tests.support.logs import script as write_script

pytestmark = [pytest.mark.needs("overlay", "git")]

WORKER = """
name: drafter
model: script:script.yaml
sandbox: {zones: [{name: code, path: ., mode: rw}]}
toolsets:
  filesystem: {}
  shell: {rules: [{use: reading}]}
"""
LONG = "".join(f"line {number}\n" for number in range(1, 41))
CHANGED = LONG.replace("line 3\n", "three\n").replace("line 30\n", "thirty\n")

Terminal = Callable[..., Keyboard]


@pytest.fixture
def drafter(writer: Project) -> Project:
    writer.write("worker.yaml", WORKER)
    writer.write("long.txt", LONG)
    return writer


def shell(command: str) -> Any:
    return call("shell", command=command)


EDIT = shell("sed -i -e 's/line 3$/three/' -e 's/line 30$/thirty/' long.txt")


def draft(project: Project, *made: Any) -> None:
    """Leave a draft in which the worker made these calls."""
    write_script(project, calls(*made), "done")
    done = project.forge("run", "worker.yaml", "go", "--draft", "-p")
    assert done.returncode == 0, done


def review(terminal: Terminal, *steps: tuple[str, str], **env: str) -> Keyboard:
    """Review the last draft: wait for each text, and answer it with the line behind it."""
    keyboard = terminal("drafts", "review", **env)
    for text, answer in steps:
        keyboard.expect(text)
        keyboard.expect(" > ")
        keyboard.type(f"{answer}\n")
    assert keyboard.end() == 0, keyboard.seen
    return keyboard


def test_hunks_that_were_taken_are_applied_and_the_others_stay(
    drafter: Project, terminal: Terminal
) -> None:
    draft(drafter, EDIT)
    review(terminal, ("long.txt", "h"), ("hunk 1/2", "s"), ("hunk 2/2", "a"))
    real = drafter.folder / "long.txt"
    assert real.read_text() == LONG.replace("line 30\n", "thirty\n")
    assert drafter.forge("drafts", "apply", "last").returncode == 0
    assert real.read_text() == CHANGED
    assert drafter.forge("undo", "last").returncode == 0
    assert real.read_text() == LONG


def test_mode_of_a_file_is_taken_on_its_own(drafter: Project, terminal: Terminal) -> None:
    draft(drafter, EDIT, shell("chmod 755 long.txt"))
    before = (drafter.folder / "long.txt").stat().st_mode & 0o777
    review(
        terminal,
        (f"mode {before:o} to 755", "h"),
        (f"mode {before:o} to 755", "a"),
        ("hunk 1/2", "s"),
        ("hunk 2/2", "s"),
    )
    assert (drafter.folder / "long.txt").read_text() == LONG
    assert (drafter.folder / "long.txt").stat().st_mode & 0o777 == 0o755


def test_taken_folder_does_not_take_what_was_left_in_it(
    drafter: Project, terminal: Terminal
) -> None:
    drafter.write("kept/one.txt", "1\n")
    draft(drafter, shell("chmod 750 kept; echo 2 > kept/one.txt; mkdir new; touch new/a new/b"))
    review(terminal, ("kept/", "a"), ("one.txt", "s"), ("new/a", "s"), ("new/b", "a"))
    assert (drafter.folder / "kept").stat().st_mode & 0o777 == 0o750
    assert (drafter.folder / "kept/one.txt").read_text() == "1\n"
    assert sorted(path.name for path in (drafter.folder / "new").iterdir()) == ["b"]


def test_deleted_folder_is_one_step_that_shows_its_files(
    drafter: Project, terminal: Terminal
) -> None:
    drafter.write("gone/one.txt", "first\n")
    drafter.write("gone/two.txt", "second\n")
    draft(drafter, shell("rm -r gone"))
    keyboard = review(terminal, ("1/1", "a"))
    assert "- first" in keyboard.seen
    assert "- second" in keyboard.seen
    assert not (drafter.folder / "gone").exists()


def test_rest_is_shown_before_it_is_taken(drafter: Project, terminal: Terminal) -> None:
    draft(drafter, shell("echo one > a.txt; echo two > b.txt; echo three > c.txt"))
    keyboard = review(terminal, ("a.txt", "s"), ("b.txt", "r"), ("2 steps above", "a"))
    assert "+ three" in keyboard.seen
    found = sorted(path.name for path in drafter.folder.glob("?.txt"))
    assert found == ["b.txt", "c.txt"]


def test_leaving_a_review_applies_nothing(drafter: Project, terminal: Terminal) -> None:
    draft(drafter, shell("touch a.txt b.txt"))
    keyboard = terminal("drafts", "review")
    keyboard.expect("1/2")
    keyboard.expect(" > ")
    keyboard.type("a\n")
    keyboard.expect("2/2")
    keyboard.expect(" > ")
    keyboard.type("\x04")
    keyboard.expect("nothing was applied")
    keyboard.end()
    assert not (drafter.folder / "a.txt").exists()


def test_edited_file_is_shown_again_before_it_is_taken(
    drafter: Project, terminal: Terminal
) -> None:
    draft(drafter, shell("echo draft > a.txt"))
    keyboard = review(terminal, ("+ draft", "e"), ("+ mine", "a"), EDITOR="sed -i s/draft/mine/")
    assert (drafter.folder / "a.txt").read_text() == "mine\n"
    assert "applied 1 change" in keyboard.seen


@pytest.mark.parametrize(
    ("editor", "sentence"),
    [("false", "ended with exit code 1"), ("/no/editor", "cannot be started")],
)
def test_editor_that_fails_changes_nothing(
    drafter: Project, terminal: Terminal, editor: str, sentence: str
) -> None:
    draft(drafter, shell("echo draft > a.txt"))
    keyboard = review(terminal, ("+ draft", "e"), (sentence, "a"), EDITOR=editor)
    assert "Traceback" not in keyboard.seen
    assert (drafter.folder / "a.txt").read_text() == "draft\n"


def test_text_too_large_to_show_is_not_taken_in_a_review(
    drafter: Project, terminal: Terminal
) -> None:
    draft(drafter, shell("yes | head -c 400000 > big.txt; touch small.txt"))
    keyboard = review(
        terminal, ("too large to be shown", "a"), ("[s] leave", "s"), ("small.txt", "r")
    )
    assert "forge drafts apply" in keyboard.seen
    assert not (drafter.folder / "big.txt").exists()
    assert (drafter.folder / "small.txt").exists()


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ((("conflict:", "a"), ("[s] leave", "s")), "mine\n"),
        ((("conflict:", "d"),), CHANGED),
    ],
)
def test_conflict_is_taken_only_by_its_own_key(
    drafter: Project, terminal: Terminal, answers: tuple[tuple[str, str], ...], expected: str
) -> None:
    draft(drafter, EDIT)
    drafter.write("long.txt", "mine\n")
    review(terminal, *answers)
    assert (drafter.folder / "long.txt").read_text() == expected


def test_both_changes_of_a_conflict_are_merged_and_shown(
    drafter: Project, terminal: Terminal
) -> None:
    draft(drafter, call("edit_file", path="long.txt", old="line 3\n", new="three\n"))
    drafter.write("long.txt", LONG.replace("line 30\n", "thirty\n"))
    review(terminal, ("both changes can be merged", "m"), ("+ three", "a"))
    assert (drafter.folder / "long.txt").read_text() == CHANGED


def test_binary_file_and_link_are_shown_by_kind(drafter: Project, terminal: Terminal) -> None:
    draft(drafter, shell("printf '\\000\\001\\002\\377' > data.bin; ln -s long.txt link"))
    keyboard = review(terminal, ("data.bin (4 bytes, binary", "a"), ("link to long.txt", "a"))
    assert "applied 2 changes" in keyboard.seen
    assert (drafter.folder / "link").readlink() == Path("long.txt")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (LONG, CHANGED),
        ("a\nb", "a\nc"),
        ("", "new\n"),
        ("one\r\ntwo\r\n", "one\ntwo\r\nthree"),
        ("x\x0cy\n" * 30, "x\x0cz\n" + "x\x0cy\n" * 28 + "end\n"),
    ],
)
def test_all_hunks_together_are_the_new_content(before: str, after: str) -> None:
    old, new = before.encode(), after.encode()
    hunks = FileHunks.of(old, new)
    assert hunks.taken(range(len(hunks.shown))) == new
    assert hunks.taken(()) == old


def test_hunks_keep_bytes_that_are_not_utf_8() -> None:
    old = b"\xff one\n" + b"same\n" * 20 + b"\xfe two\n"
    new = b"\xff ONE\n" + b"same\n" * 20 + b"\xfe TWO\n"
    hunks = FileHunks.of(old, new)
    assert hunks.taken({0}) == b"\xff ONE\n" + b"same\n" * 20 + b"\xfe two\n"


def test_message_of_a_review_continues_the_session_which_is_reviewed_again(
    drafter: Project, terminal: Terminal
) -> None:
    first, second = shell("echo 1 > a.txt"), shell("echo 2 > b.txt")
    write_script(drafter, calls(first), "done", calls(second), "more")
    assert drafter.forge("run", "worker.yaml", "go", "--draft", "-p").returncode == 0
    keyboard = terminal("drafts", "review")
    for text, answer in [
        ("1/1  made     a.txt", "t"),
        ("message to the model", "-and b, too"),
        ("1/2  made     a.txt", "a"),
        ("2/2  made     b.txt", "a"),
    ]:
        keyboard.expect(text)
        keyboard.expect(" > ")
        keyboard.type(f"{answer}\n")
    keyboard.expect("applied 2 changes")
    assert keyboard.end() == 0, keyboard.seen
    assert sorted(path.name for path in drafter.folder.glob("?.txt")) == ["a.txt", "b.txt"]

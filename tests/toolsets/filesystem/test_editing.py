"""edit_file in a worker: the change, the question, and the result for the model."""

import os
from typing import Any

import pytest

from forge_cli.core.approval import ApprovalDecision, ApprovalRequest
from forge_cli.core.events import ApprovalDecided, ToolResult
from forge_cli.core.results import Diff
from forge_cli.testing import Project, call, calls

WORKER = """
name: editor
sandbox:
  zones:
    - {name: src, mode: rw, approval: {write: preApproved}}
    - {name: out, mode: rw, approval: {write: ask}}
    - {name: shut, mode: rw, approval: {write: blocked}}
toolsets: {filesystem: {}}
"""
CODE = "import os\n\n\ndef main():\n    run()\n"


@pytest.fixture
def worker(project: Project) -> Project:
    project.write("worker.yaml", WORKER)
    project.write("src/a.py", CODE)
    project.write("out/b.txt", "one\ntwo\n")
    project.write("shut/c.txt", "one\n")
    return project


def edit(project: Project, path: str, old: str, new: str, **given: Any) -> ToolResult:
    """An edit without any question."""
    seen = project.run(
        calls(call("edit_file", path=path, old=old, new=new, **given)), "done", answers=[]
    )
    assert seen.asked == []
    return seen.outcomes[0]


def test_replaced_text_is_reported_as_a_line_and_a_diff(worker: Project) -> None:
    done = edit(worker, "src/a.py", "run()", "run(fast=True)")
    after = CODE.replace("run()", "run(fast=True)")
    assert worker.read("src/a.py") == after
    text = "Changed src/a.py at line 5.\n@@ -2,4 +2,4 @@\n \n \n def main():\n-    run()\n+    run(fast=True)"
    assert done.value == Diff("src/a.py", CODE, after, False, len(after), model_text=text)


def test_all_occurrences_are_replaced_on_request(worker: Project) -> None:
    worker.write("src/a.py", "a = foo\nb = foo\n")
    assert edit(worker, "src/a.py", "foo", "bar").error == (
        "old is in 'src/a.py' 2 times, at lines 1, 2; add surrounding lines to old and new, or set all to replace every one"
    )
    assert (
        edit(worker, "src/a.py", "foo", "bar", all=True)
        .value.text()
        .startswith("Changed src/a.py at 2 places, the first at line 1.\n")
    )
    assert worker.read("src/a.py") == "a = bar\nb = bar\n"


def test_binary_file_or_missing_text_is_an_error(worker: Project) -> None:
    (worker.folder / "src/image").write_bytes(b"a\0b")
    assert (
        edit(worker, "src/image", "a", "x").error
        == "'src/image' is a binary file of 3 bytes, which cannot be edited"
    )
    assert (
        edit(worker, "src/none", "a", "x").error
        == "'src/none' does not exist; create files with write_file"
    )
    assert edit(worker, "src", "a", "x").status == "error"
    assert edit(worker, "src/a.py", "def main(x):", "x").error == (
        "old is not in 'src/a.py'.\nThe nearest lines are:\n4: def main():\nLine 4 differs; old has: def main(x):"
    )


def test_mode_line_endings_and_byte_order_mark_are_kept(worker: Project) -> None:
    file = worker.folder / "src/run.sh"
    file.write_bytes(b"\xef\xbb\xbfone\r\ntwo")
    file.chmod(0o750)
    assert edit(worker, "/src/run.sh", "one\ntwo", "one\n2\nthree").status == "success"
    assert file.read_bytes() == b"\xef\xbb\xbfone\r\n2\r\nthree"
    assert os.stat(file).st_mode & 0o777 == 0o750


@pytest.mark.parametrize("answer", [True, False])
def test_asking_zone_shows_the_change_first(worker: Project, answer: bool) -> None:
    turn = calls(call("edit_file", path="out/b.txt", old="two", new="2"))
    seen = worker.run(turn, "done", answers=[answer])
    (request,) = seen.asked
    assert isinstance(request.preview, Diff)
    assert (request.preview.original, request.preview.modified) == ("one\ntwo\n", "one\n2\n")
    assert seen.statuses == ["success" if answer else "denied"]
    assert worker.read("out/b.txt") == ("one\n2\n" if answer else "one\ntwo\n")


def test_impossible_edit_raises_no_question(worker: Project) -> None:
    assert edit(worker, "out/b.txt", "three", "3").status == "error"
    assert edit(worker, "shut/c.txt", "one", "1").status == "blocked"


def test_file_changed_during_the_question_is_shown_again(worker: Project) -> None:
    shown = list[str]()

    async def answer(request: ApprovalRequest) -> ApprovalDecision:
        shown.append(request.preview.modified)
        if len(shown) == 1:
            worker.write("out/b.txt", "zero\ntwo\n")
        return ApprovalDecision(True)

    turn = calls(call("edit_file", path="out/b.txt", old="two", new="2"))
    seen = worker.run(turn, "done", approval_callback=answer)
    assert (seen.statuses, shown) == (["success"], ["one\n2\n", "zero\n2\n"])
    assert worker.read("out/b.txt") == "zero\n2\n"


def test_file_that_no_longer_matches_after_the_yes_is_an_error(worker: Project) -> None:
    async def answer(request: ApprovalRequest) -> ApprovalDecision:
        worker.write("out/b.txt", "zero\n")
        return ApprovalDecision(True)

    turn = calls(call("edit_file", path="out/b.txt", old="two", new="2"))
    seen = worker.run(turn, "done", approval_callback=answer)
    assert (seen.statuses, worker.read("out/b.txt")) == (["error"], "zero\n")


def test_file_with_possible_secrets_asks_and_its_text_is_not_returned(
    worker: Project,
) -> None:
    worker.write("src/.env", "KEY=hidden\nMODE=slow\n")
    assert edit(worker, "src/.env", "KEY=hiddem", "x").error == (
        "old is not in 'src/.env'; read the file and copy the text exactly"
    )
    seen = worker.run(
        calls(call("edit_file", path="src/.env", old="slow", new="fast")), "done", answers=[True]
    )
    assert [decided.verdict for decided in seen.of(ApprovalDecided)] == ["ask"]
    assert seen.outcomes[0].value.text() == "Changed src/.env at line 2."
    assert worker.read("src/.env") == "KEY=hidden\nMODE=fast\n"


def test_redaction_mark_is_not_written(worker: Project) -> None:
    done = edit(worker, "out/b.txt", "two", "[redacted:KEY]")
    assert done.status == "error"
    assert str(done.error).startswith("nothing was written: [redacted:KEY]")


@pytest.mark.long
def test_large_file_can_be_edited(worker: Project) -> None:
    worker.write("src/large.txt", "x\n" * 300_000 + "end\n")
    done = edit(worker, "src/large.txt", "end\n", "END\n")
    assert done.value.text().startswith(
        "Changed src/large.txt at line 300001.\n@@ -299998,4 +299998,4 @@\n x\n"
    )
    assert (worker.folder / "src/large.txt").read_text().endswith("x\nEND\n")
    (worker.folder / "src/large.txt").rename(worker.folder / "out/large.txt")
    turn = calls(call("edit_file", path="out/large.txt", old="END", new="end"))
    shown = worker.run(turn, "done", answers=[False]).asked[0].preview.text()
    assert shown.endswith("@@ -299998,4 +299998,4 @@\n x\n x\n x\n-END\n+end")

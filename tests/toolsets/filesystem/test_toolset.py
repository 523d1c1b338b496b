"""The toolset ``filesystem``: results, refusals, and questions before a change.

It covers forge_cli.toolsets.filesystem.files: what was shown is what is changed.
"""

import os
from datetime import UTC, datetime
from typing import Any

import pytest

from forge_cli import ApprovalDecision
from forge_cli.core.events import ApprovalDecided, ApprovalRequired, ToolResult, TurnStart
from forge_cli.core.results import Diff, FileContent, FileList, Json, Text
from forge_cli.core.sandbox import READ_MAX
from forge_cli.testing import Project, Seen, call, calls
from forge_cli.toolsets.filesystem.toolset import MAX_LISTED
from forge_cli.ui.terminal.render import render_text
from forge_cli.ui.views import view_of

ZONES = """
name: w
sandbox:
  zones:
    - {name: scratch, mode: rw, approval: {write: preApproved, delete: preApproved}}
    - {name: output, mode: rw, approval: {write: ask, delete: blocked}}
    - {name: src, mode: ro}
toolsets: {filesystem: {}}
"""


@pytest.fixture
def worker(project: Project) -> Project:
    project.write("worker.yaml", ZONES)
    project.write("src/a.txt", "one\ntwo\nthree\n")
    project.write("scratch/old.txt", "old")
    project.write("output/report.md", "draft")
    return project


def outcome(project: Project, tool: str, answers: Any = None, **args: Any) -> ToolResult:
    (result,) = project.run(calls(call(tool, **args)), "done", answers=answers).outcomes
    return result


def refused(project: Project, tool: str, **args: Any) -> tuple[str, str | None]:
    """The status and message of a call without any question."""
    seen = project.run(calls(call(tool, **args)), "done", answers=[])
    assert seen.asked == []
    return seen.outcomes[0].status, seen.outcomes[0].error


def test_filesystem_tools_are_complete(worker: Project) -> None:
    tools = worker.run("hi").of(TurnStart)[0].tools
    reading = {"read_file", "list_files", "file_exists", "file_info", "list_dir", "grep_files"}
    assert reading | {"write_file", "edit_file", "delete_file", "apply_patch"} == set(tools)


# --- reading


@pytest.mark.parametrize(
    ("args", "content"),
    [
        ({}, "one\ntwo\nthree\n"),
        ({"offset": 2}, "two\nthree\n"),
        ({"limit": 1}, "one\n"),
        ({"offset": 2, "limit": 1}, "two\n"),
        ({"offset": 3, "limit": 9}, "three\n"),
    ],
    ids=str,
)
def test_read_file_returns_the_requested_lines(
    worker: Project, args: dict[str, Any], content: str
) -> None:
    result = outcome(worker, "read_file", path="/src/a.txt", **args)
    first = args.get("offset", 1)
    read = FileContent(
        "src/a.txt", content, size=14, first_line=first, total_lines=3, numbered=True
    )
    assert (result.status, result.value) == ("success", read)


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ({}, "[src/a.txt, lines 1-3 of 3]\n1: one\n2: two\n3: three"),
        ({"offset": 2}, "[src/a.txt, lines 2-3 of 3]\n2: two\n3: three"),
        (
            {"offset": 2, "limit": 1, "numbered": False},
            "[src/a.txt, lines 2-2 of 3, next offset 3]\ntwo",
        ),
        ({"numbered": False}, "one\ntwo\nthree\n"),
        ({"path": "src/empty"}, "src/empty is empty."),
        ({"path": "src/empty", "numbered": False}, "src/empty is empty."),
        ({"path": "src/open"}, "[src/open, lines 1-2 of 2]\n1: a\n2: "),
        ({"path": "src/open", "offset": 2}, "[src/open, lines 2-2 of 2]\n2: "),
        ({"path": "src/unfinished"}, "[src/unfinished, lines 1-2 of 2]\n1: a\n2: b"),
    ],
    ids=str,
)
def test_file_content_has_line_numbers_and_a_range(
    worker: Project, args: dict[str, Any], text: str
) -> None:
    for name, content in {"empty": "", "open": "a\n\n", "unfinished": "a\nb"}.items():
        worker.write(f"src/{name}", content)
    assert outcome(worker, "read_file", **{"path": "src/a.txt", **args}).value.text() == text


def test_read_in_a_zone_is_pre_approved_with_a_reason(worker: Project) -> None:
    seen = worker.run(calls(call("read_file", path="/src/a.txt")), "done")
    (decided,) = seen.of(ApprovalDecided)
    assert (decided.verdict, decided.by, decided.rule, decided.reason) == (
        "preApproved",
        "rule",
        "sandbox.zones.src",
        "inside zone 'src'",
    )
    assert str(decided.where) == f"{worker.folder / 'worker.yaml'}:7:7"


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        ({"path": "/src/none.txt"}, "'/src/none.txt' does not exist"),
        (
            {"path": "/src/a.txt", "offset": 4},
            "/src/a.txt has 3 lines, so there is nothing at line 4",
        ),
        (
            {"path": "/src/binary"},
            "/src/binary is a binary file of 4 bytes",
        ),
        ({"path": "/src/latin"}, "/src/latin is not UTF-8 text (5 bytes)"),
    ],
    ids=str,
)
def test_unreadable_file_is_an_error(worker: Project, args: dict[str, Any], sentence: str) -> None:
    (worker.folder / "src/binary").write_bytes(b"\x00\x01\x02\x03")
    (worker.folder / "src/latin").write_bytes("füße\n".encode("latin-1"))
    assert refused(worker, "read_file", **args) == ("error", sentence)


def test_very_large_file_is_read_by_lines(worker: Project) -> None:
    line = "x" * 1023 + "\n"
    with (worker.folder / "src/large").open("w") as file:
        file.writelines(line * 1024 for _ in range(64))
        file.write("the end\n")
    size = READ_MAX + 8
    assert refused(worker, "read_file", path="/src/large") == (
        "error",
        f"/src/large has {size} bytes; read a part of it with offset and limit",
    )
    read = outcome(worker, "read_file", path="/src/large", offset=64 * 1024, limit=5).value
    assert read == FileContent(
        "src/large", line + "the end\n", size, first_line=64 * 1024, numbered=True
    )
    assert read.text().startswith("[src/large, lines 65536-65537]\n65536: xxx")
    assert refused(worker, "read_file", path="/src/large", offset=65_538) == (
        "error",
        "/src/large has 65,537 lines, so there is nothing at line 65538",
    )


def test_secrets_are_read_only_after_asking(worker: Project) -> None:
    worker.write("src/.env", "KEY=1")
    seen = worker.run(calls(call("read_file", path="/src/.env")), "done", answers=[False])
    assert seen.statuses == ["denied"]
    assert seen.asked[0].reason == "'.env' may hold secrets"


def test_list_files_returns_entries_of_a_folder(worker: Project) -> None:
    worker.write("src/folder/b.txt", "b")
    assert outcome(worker, "list_files", path="/").value == FileList(
        "/", ("output/", "scratch/", "src/"), 3
    )
    assert outcome(worker, "list_files", path="/src").value == FileList(
        "src", ("a.txt", "folder/"), 2
    )
    assert refused(worker, "list_files", path="/src/none")[0] == "error"
    assert refused(worker, "list_files", path="/src/a.txt")[0] == "error"


def test_listing_is_bounded(worker: Project) -> None:
    folder = worker.write("src/many/0000.txt", "").parent
    for number in range(1, MAX_LISTED + 3):
        (folder / f"{number:04}.txt").touch()
    for tool in ("list_files", "list_dir"):
        args = {"limit": MAX_LISTED} if tool == "list_dir" else {}
        found = outcome(worker, tool, path="/src/many", **args).value
        assert isinstance(found, FileList)
        assert (found.files[0], found.files[-1], found.count) == (
            "0000.txt",
            f"{MAX_LISTED - 1}.txt",
            MAX_LISTED + 3,
        )
        assert found.text().endswith("[3 more]")


@pytest.mark.parametrize(
    ("path", "exists"),
    [
        ("/src/a.txt", True),
        ("/src", True),
        ("/", True),
        ("/src/none", False),
        ("/src/a.txt/b", False),
        ("/src/a.txt/b/c", False),
        ("/src/a.txt/", False),
    ],
)
def test_file_exists_reports_existence(worker: Project, path: str, exists: bool) -> None:
    value = outcome(worker, "file_exists", path=path).value
    name = path.removeprefix("/") or "/"
    text = f"{name} exists." if exists else f"{name} does not exist."
    assert value == Json({"path": name, "exists": exists}, model_text=text)


def test_file_info_reports_type_size_and_time(worker: Project) -> None:
    file = worker.folder / "src/a.txt"
    os.utime(file, (0, 1_700_000_000))
    modified = datetime.fromtimestamp(1_700_000_000, UTC).isoformat()
    info = outcome(worker, "file_info", path="/src/a.txt").value
    assert isinstance(info, Json)
    assert info.data == {"path": "src/a.txt", "kind": "file", "size": 14, "modified": modified}
    assert info.text() == f"src/a.txt is a file of 14 bytes, changed {modified}."
    folder = outcome(worker, "file_info", path="/src").value
    assert isinstance(folder, Json)
    assert folder.data["kind"] == "directory"
    assert refused(worker, "file_info", path="/src/none") == ("error", "'/src/none' does not exist")
    assert refused(worker, "file_info", path="/src/a.txt/b") == (
        "error",
        "'/src/a.txt/b' cannot be: '/src/a.txt' is a file, not a folder",
    )


def test_line_numbers_equal_those_of_a_search(worker: Project) -> None:
    (worker.folder / "src/odd").write_bytes(
        "a\x0bb\u2028c\x85d\r\nsecond\rstill\n\nfourth".encode()
    )
    read = [
        outcome(worker, "read_file", path="/src/odd", offset=number, limit=1).value.content
        for number in range(1, 5)
    ]
    assert read == ["a\x0bb\u2028c\x85d\r\n", "second\rstill\n", "\n", "fourth"]
    assert refused(worker, "read_file", path="/src/odd", offset=5)[0] == "error"


# --- changing


def test_write_in_a_pre_approving_zone_does_not_ask(worker: Project) -> None:
    made = outcome(worker, "write_file", path="/scratch/deep/new.txt", content="né\n")
    assert (made.status, made.value) == (
        "success",
        Diff("scratch/deep/new.txt", None, "né\n", True, 4),
    )
    changed = outcome(worker, "write_file", path="/scratch/old.txt", content="new")
    assert changed.value == Diff("scratch/old.txt", "old", "new", False, 3)
    assert (worker.read("scratch/deep/new.txt"), worker.read("scratch/old.txt")) == ("né\n", "new")


def test_write_without_a_change_is_reported_to_model_and_screen(worker: Project) -> None:
    same = outcome(worker, "write_file", path="/scratch/old.txt", content="old").value
    assert same.text() == render_text(view_of(same)).strip() == "scratch/old.txt: no change"


@pytest.mark.parametrize("answer", [True, False])
def test_write_in_an_asking_zone_shows_the_change_first(worker: Project, answer: bool) -> None:
    seen = worker.run(
        calls(call("write_file", path="/output/report.md", content="final")),
        "done",
        answers=[ApprovalDecision(answer)],
    )
    (request,) = seen.asked
    assert (request.preview, request.risk) == (
        Diff("output/report.md", "draft", "final", False, 5),
        "medium",
    )
    assert (request.rule, str(request.where)) == (
        "sandbox.zones.output.approval.write",
        f"{worker.folder / 'worker.yaml'}:6:50",
    )
    assert worker.read("output/report.md") == ("final" if answer else "draft")
    assert seen.statuses == ["success" if answer else "denied"]


def test_overwriting_a_binary_file_is_shown_as_a_change(worker: Project) -> None:
    (worker.folder / "output/report.md").write_bytes(b"\xff")
    turn = calls(call("write_file", path="/output/report.md", content="\ufffd"))
    seen = worker.run(turn, "done", answers=[ApprovalDecision(True)])
    assert seen.asked[0].preview == Diff("output/report.md", None, "\ufffd", False, 3)
    assert "the old content is too long to compare, or not text" in render_text(
        view_of(seen.asked[0].preview)
    )


def test_delete_file_removes_files_and_empty_folders(worker: Project) -> None:
    assert outcome(worker, "delete_file", path="/scratch/old.txt").value == Text(
        "Deleted scratch/old.txt."
    )
    assert not (worker.folder / "scratch/old.txt").exists()
    (worker.folder / "scratch/empty").mkdir()
    assert outcome(worker, "delete_file", path="/scratch/empty").status == "success"


@pytest.mark.parametrize("mode", ["interactive", "approve_all"])
def test_deletion_in_a_blocking_zone_is_blocked(worker: Project, mode: str) -> None:
    seen = worker.run(
        calls(call("delete_file", path="/output/report.md")), "done", answers=[], approval_mode=mode
    )
    assert (seen.statuses, seen.asked) == (["blocked"], [])
    assert seen.outcomes[0].error == "delete_file is blocked: zone 'output' blocks delete"
    assert worker.read("output/report.md") == "draft"


def test_nonempty_folder_is_not_deleted(worker: Project) -> None:
    worker.write("scratch/full/a", "a")
    status, sentence = refused(worker, "delete_file", path="/scratch/full")
    assert (status, worker.read("scratch/full/a")) == ("error", "a")
    assert sentence == "'/scratch/full' is a folder that is not empty; delete the files in it first"


def test_link_is_deleted_instead_of_its_target(worker: Project) -> None:
    outside = worker.folder.parent / "outside.txt"
    outside.write_text("outside")
    for name, target in (("inside", "old.txt"), ("away", str(outside)), ("nowhere", "none")):
        (worker.folder / "scratch" / name).symlink_to(target)
        assert outcome(worker, "delete_file", path=f"/scratch/{name}").status == "success"
        assert not (worker.folder / "scratch" / name).is_symlink()
    assert (worker.read("scratch/old.txt"), outside.read_text()) == ("old", "outside")


def test_large_file_without_a_diff_is_compared_completely(
    worker: Project,
) -> None:
    large = worker.folder / "output/large"
    large.write_text("a" * 500_000)
    answers = list[Any]()

    async def answer(request: Any) -> ApprovalDecision:
        answers.append(request.preview)
        if len(answers) == 1:
            large.write_text("a" * 499_999 + "b")
        return ApprovalDecision(True)

    turn = calls(call("write_file", path="/output/large", content="new"))
    seen = worker.run(turn, "done", approval_callback=answer)
    assert (seen.statuses, large.read_text()) == (["success"], "new")
    assert answers == [Diff("output/large", None, "new", False, 3)] * 2


MARK = "[redacted:API_KEY]"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (None, f"KEY={MARK}"),
        ("KEY=real\n", f"KEY={MARK}\n"),
        (f"doc {MARK}\nKEY=real\n", f"doc {MARK}\nKEY={MARK}\n"),
        (f"doc {MARK}\n", "doc [redacted:private-key]\n"),
    ],
    ids=["new file", "instead of a secret", "once more", "another one"],
)
@pytest.mark.parametrize("mode", ["interactive", "approve_all"])
def test_redaction_mark_is_not_written_into_a_file(
    worker: Project, old: str | None, new: str, mode: str
) -> None:
    if old is not None:
        worker.write("output/settings", old)
    seen = worker.run(
        calls(call("write_file", path="/output/settings", content=new)),
        "done",
        answers=[],
        approval_mode=mode,
    )
    assert (seen.statuses, seen.asked) == (["error"], [])
    assert str(seen.outcomes[0].error).startswith("nothing was written: [redacted:")
    assert (worker.folder / "output/settings").exists() == (old is not None)
    assert old is None or worker.read("output/settings") == old


@pytest.mark.parametrize(
    "new",
    [f"{MARK} is a mark\n", "the mark is gone\n", "[redacted:]\n[redacted:a b]\nredacted:x\n"],
)
def test_existing_redaction_mark_may_stay_or_go(worker: Project, new: str) -> None:
    worker.write("scratch/doc", f"a mark is {MARK}\n")
    assert outcome(worker, "write_file", path="/scratch/doc", content=new).status == "success"


def test_blocking_zone_blocks_every_content(project: Project) -> None:
    project.write("worker.yaml", ZONES.replace("write: ask, delete: blocked", "write: blocked"))
    project.write("src/a", "")
    assert outcome(project, "write_file", path="/output/new", content=MARK).status == "blocked"


# --- refusals: nobody is asked about what cannot be


@pytest.mark.few(7)
@pytest.mark.parametrize(
    ("tool", "args"),
    [
        ("read_file", {"path": "/etc/passwd"}),
        ("read_file", {"path": "/src/../worker.yaml"}),
        ("read_file", {"path": "a.txt"}),
        ("read_file", {"path": "/scratch/escape"}),
        ("read_file", {"path": "/src"}),
        ("write_file", {"path": "/src/a.txt", "content": "x"}),
        ("write_file", {"path": "/src/new.txt", "content": "x"}),
        ("write_file", {"path": "/scratch/escape", "content": "x"}),
        ("write_file", {"path": "/scratch", "content": "x"}),
        ("write_file", {"path": "/", "content": "x"}),
        ("edit_file", {"path": "/src/a.txt", "old": "one", "new": "x"}),
        ("edit_file", {"path": "/scratch/escape", "old": "name", "new": "x"}),
        ("edit_file", {"path": "/scratch", "old": "a", "new": "x"}),
        ("edit_file", {"path": "/", "old": "a", "new": "x"}),
        ("delete_file", {"path": "/src/a.txt"}),
        ("delete_file", {"path": "/output/none"}),
        ("delete_file", {"path": "/scratch"}),
        ("list_files", {"path": "/nowhere"}),
    ],
    ids=str,
)
def test_refusal_by_the_sandbox_is_an_error_without_a_question(
    worker: Project, tool: str, args: dict[str, Any]
) -> None:
    (worker.folder / "scratch/escape").symlink_to(worker.folder / "worker.yaml")
    before = {path: path.read_bytes() for path in worker.folder.rglob("*") if path.is_file()}
    status, sentence = refused(worker, tool, **args)
    assert status in ("error", "blocked")
    assert sentence
    assert {
        path: path.read_bytes() for path in worker.folder.rglob("*") if path.is_file()
    } == before


# --- the default zone


def changes(seen: Seen) -> list[str]:
    return [event.request.reason for event in seen.of(ApprovalRequired)]


def test_working_directory_is_the_default_zone_and_changes_ask(project: Project) -> None:
    project.write("worker.yaml", "name: w\ntoolsets: {filesystem: {}}\n")
    project.write("a.txt", "a")
    turn = calls(
        call("read_file", path="a.txt"),
        call("read_file", path="/workspace/a.txt"),
        call("write_file", path="b.txt", content="b"),
        call("delete_file", path="a.txt"),
        call("read_file", path="../outside.txt"),
    )
    seen = project.run(turn, "done", answers=[True, False])
    assert seen.statuses == ["success", "success", "success", "denied", "error"]
    assert changes(seen) == [
        "writing in zone 'workspace' needs your OK",
        "deleting in zone 'workspace' needs your OK",
    ]
    assert (project.read("b.txt"), project.read("a.txt")) == ("b", "a")


def test_worker_can_tighten_the_zones(project: Project) -> None:
    project.write(
        "worker.yaml",
        ZONES.replace(
            "{filesystem: {}}",
            "{filesystem: {approval: {tools: {write_file: blocked, read_file: ask}}}}",
        ),
    )
    project.write("scratch/a", "a")
    project.write("src/a", "a")
    turn = calls(
        call("write_file", path="/scratch/a", content="b"), call("read_file", path="/scratch/a")
    )
    seen = project.run(turn, "done", answers=[False])
    assert seen.statuses == ["blocked", "denied"]
    assert [event.rule for event in seen.of(ApprovalDecided)] == [
        "toolsets.filesystem.approval.tools.write_file",
        "toolsets.filesystem.approval.tools.read_file",
    ]


def test_inspecting_a_worker_creates_no_folder_and_changes_no_verdict(project: Project) -> None:
    project.write("worker.yaml", ZONES)
    project.write("src/a", "")
    before = sorted(path.name for path in project.folder.iterdir())
    asked = ["write_file", "path=/scratch/a/b", "content=x"]

    checked, judged = (
        project.forge("worker", "check", "worker.yaml"),
        project.forge("approve", "worker.yaml", *asked),
    )

    assert (checked.returncode, judged.returncode) == (0, 0)
    assert sorted(path.name for path in project.folder.iterdir()) == before
    (project.folder / "scratch").mkdir()
    assert project.forge("approve", "worker.yaml", *asked).stdout == judged.stdout

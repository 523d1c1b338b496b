"""list_dir, grep_files and apply_patch, as a worker uses them."""

from forge_cli.core.approval import ApprovalDecision, ApprovalRequest
from forge_cli.testing import Project, call, calls

WORKER = """
name: editor
sandbox:
  zones:
    - {name: src, mode: rw, approval: {write: preApproved, delete: ask}}
    - {name: out, mode: rw, approval: {write: ask, delete: blocked}}
    - {name: lib, path: ./lib, mode: ro}
toolsets: {filesystem: {}}
"""
UPDATE = """*** Begin Patch
*** Update File: /src/a.py
@@
-old = 1
+new = 2
*** End Patch
"""


def editor(project: Project) -> Project:
    project.write("worker.yaml", WORKER)
    project.write("src/a.py", "import os\nold = 1\n")
    project.write("src/sub/b.txt", "one\ntwo\n")
    project.write("out/c.txt", "three\n")
    project.write("lib/d.txt", "four\n")
    return project


def texts(seen) -> list[str]:
    return [outcome.value.text() for outcome in seen.outcomes]


def test_a_folder_is_listed_with_what_is_in_its_folders(project: Project) -> None:
    seen = editor(project).run(calls(call("list_dir", path="/src"), call("list_dir", path="/", depth=1)), "done")
    assert texts(seen) == ["a.py\nsub/\nsub/b.txt", "lib/\nout/\nsrc/"]
    assert all(decided.approved for decided in seen.events if decided.type == "approvalDecided")


def test_files_are_searched_in_all_zones_or_in_one(project: Project) -> None:
    everywhere, one = (
        call("grep_files", pattern="t(wo|hree)"),
        call("grep_files", pattern="two", path="/src", include="*.txt"),
    )
    seen = editor(project).run(calls(everywhere, one, call("grep_files", pattern="(")), "done")
    assert texts(seen)[:2] == ["/out/c.txt:1:three\n/src/sub/b.txt:2:two", "/src/sub/b.txt:2:two"]
    assert seen.statuses == ["success", "success", "error"]


def test_a_patch_in_a_pre_approved_zone_is_applied_without_asking(project: Project) -> None:
    seen = editor(project).run(calls(call("apply_patch", input=UPDATE)), "done", answers=[])
    assert seen.statuses == ["success"]
    assert project.read("src/a.py") == "import os\nnew = 2\n"
    assert seen.outcomes[0].value.wire() == {
        "kind": "patch.result",
        "data": [{"path": "/src/a.py", "change": "changed"}],
        "summary": "Patched 1 file.",
        "modelText": "changed /src/a.py",
    }


def test_one_file_that_asks_makes_the_whole_patch_ask_and_shows_all_of_it(project: Project) -> None:
    both = UPDATE.replace("*** End", "*** Add File: /out/new.txt\n+hello\n*** End")
    seen = editor(project).run(calls(call("apply_patch", input=both)), "done", answers=[False])
    assert seen.statuses == ["denied"]
    assert "-old = 1\n+new = 2" in seen.asked[0].preview.text()
    assert "+++ /out/new.txt" in seen.asked[0].preview.text()
    assert project.read("src/a.py") == "import os\nold = 1\n"


def test_what_the_zones_forbid_is_refused_before_anybody_is_asked(project: Project) -> None:
    delete = "*** Begin Patch\n*** Delete File: /out/c.txt\n*** End Patch\n"
    outside = "*** Begin Patch\n*** Add File: /etc/x\n+x\n*** End Patch\n"
    read_only = "*** Begin Patch\n*** Add File: /lib/x\n+x\n*** End Patch\n"
    wrong = UPDATE.replace("old = 1", "nothing like it")
    tried = [call("apply_patch", input=text) for text in (delete, outside, read_only, wrong, "hello")]
    seen = editor(project).run(calls(*tried), "done", answers=[])
    assert seen.statuses == ["blocked", "error", "error", "error", "error"]
    assert seen.asked == []
    assert (project.folder / "out/c.txt").exists()


def test_a_move_needs_both_and_is_whole_or_not_at_all(project: Project) -> None:
    move = UPDATE.replace("a.py\n", "a.py\n*** Move to: /src/moved.py\n")
    seen = editor(project).run(calls(call("apply_patch", input=move)), "done", answers=[True])
    assert [request.rule for request in seen.asked] == ["sandbox.zones.src.approval.delete"]
    assert project.read("src/moved.py") == "import os\nnew = 2\n"
    assert not (project.folder / "src/a.py").exists()


def test_files_that_change_while_somebody_reads_the_patch_ask_again(project: Project) -> None:
    target, answers = editor(project).folder / "out" / "c.txt", list[str]()
    patch = "*** Begin Patch\n*** Update File: /out/c.txt\n@@\n-three\n+3\n*** End Patch\n"

    async def answer(request: ApprovalRequest) -> ApprovalDecision:
        answers.append(request.preview.text())
        if len(answers) == 1:
            project.write("out/c.txt", "zero\nthree\n")
        return ApprovalDecision(True)

    seen = project.run(calls(call("apply_patch", input=patch)), "done", approval_callback=answer)
    assert seen.statuses == ["success"]
    assert len(answers) == 2
    assert "zero" in answers[1]
    assert target.read_text() == "zero\n3\n"

"""list_dir, grep_files and apply_patch, as a worker uses them, with forge_cli.toolsets.filesystem.files."""

from collections.abc import Callable

import pytest

from forge_cli.core.approval import ApprovalDecision, ApprovalRequest
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.record.line import Line
from forge_cli.testing import Project, call, calls
from forge_cli.toolsets.filesystem.files import draw_patch
from forge_cli.ui.terminal.render import render_text
from forge_cli.ui.views import view_of

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
DIFF = """--- src/a.py
+++ src/a.py
@@ -1,2 +1,2 @@
 import os
-old = 1
+new = 2
"""


def editor(project: Project) -> Project:
    project.write("worker.yaml", WORKER)
    project.write("src/a.py", "import os\nold = 1\n")
    project.write("src/sub/b.txt", "one\ntwo\n")
    project.write("out/c.txt", "three\n")
    project.write("lib/d.txt", "four\n")
    return project


def texts(seen) -> list[str]:
    """By call: those of one turn that only read may end in any order."""
    return [
        outcome.value.text()
        for outcome in sorted(seen.outcomes, key=lambda each: each.tool_call_id)
    ]


def test_folder_is_listed_recursively(project: Project) -> None:
    seen = editor(project).run(
        calls(call("list_dir", path="/src"), call("list_dir", path="/", depth=1)), "done"
    )
    assert texts(seen) == ["a.py\nsub/\nsub/b.txt", "lib/\nout/\nsrc/"]
    assert all(decided.approved for decided in seen.events if decided.type == "approvalDecided")


def test_files_are_searched_in_all_zones_or_in_one(project: Project) -> None:
    everywhere, one = (
        call("grep_files", pattern="t(wo|hree)"),
        call("grep_files", pattern="two", path="/src", include="*.txt"),
    )
    seen = editor(project).run(
        calls(everywhere), calls(one), calls(call("grep_files", pattern="(")), "done"
    )
    assert texts(seen)[:2] == ["out/c.txt:1:three\nsrc/sub/b.txt:2:two", "src/sub/b.txt:2:two"]
    assert seen.statuses == ["success", "success", "error"]


def test_forge_folder_is_excluded_from_a_surrounding_zone(project: Project) -> None:
    home = editor(project).folder / "src/home"
    project.write("src/home/keys.json", '{"anthropic": "two"}')
    own = {"FORGE_HOME": str(home)}

    def said(tool: str, **args: str) -> str:
        given = [f"{name}={value}" for name, value in args.items()]
        done = project.forge("tools", "call", tool, "--worker", "worker.yaml", *given, env=own)
        return done.stdout + done.stderr

    for tool, args in {
        "write_file": {"path": "/src/home/config.yaml", "content": "approval: {mode: approve_all}"},
        "read_file": {"path": "/src/home/keys.json"},
        "list_dir": {"path": "/src/home"},
        "grep_files": {"path": "src/home", "pattern": "two"},
    }.items():
        assert "is in forge's own folder, which is not part of a zone" in said(tool, **args), tool
    assert "home" not in said("list_dir", path="/src")
    assert said("grep_files", pattern="two") == "src/sub/b.txt:2:two\n"
    assert not (home / "config.yaml").exists()


def test_patch_in_a_pre_approved_zone_is_applied_without_asking(project: Project) -> None:
    seen = editor(project).run(calls(call("apply_patch", input=UPDATE)), "done", answers=[])
    assert seen.statuses == ["success"]
    assert project.read("src/a.py") == "import os\nnew = 2\n"
    assert seen.outcomes[0].value.wire() == {
        "kind": "patch.result",
        "data": [{"path": "src/a.py", "change": "changed", "diff": DIFF}],
        "summary": "Patched 1 file.",
        "modelText": f"M src/a.py\n{DIFF.rstrip()}",
    }


def test_patch_result_is_a_summary_for_the_model_and_a_diff_for_people(
    project: Project,
) -> None:
    patch = UPDATE.replace(
        "*** End", "*** Add File: src/new.txt\n+hello\n*** Delete File: src/sub/b.txt\n*** End"
    )
    (outcome,) = (
        editor(project)
        .run(calls(call("apply_patch", input=patch)), "done", answers=[True])
        .outcomes
    )
    letters = "M src/a.py  A src/new.txt  D src/sub/b.txt"
    assert outcome.value.text() == f"{letters}\n{DIFF.rstrip()}"
    drawn = draw_patch(outcome.value)
    assert drawn.text().startswith(
        f"{letters}\n{DIFF}--- /dev/null\n+++ src/new.txt\n@@ -0,0 +1 @@\n+hello\n--- src/sub"
    )
    assert (
        render_text(view_of(outcome.value, PluginHost().renderer, "forge-workers")).strip()
        == drawn.text()
    )


def test_long_patch_result_keeps_its_beginning_and_end(project: Project) -> None:
    editor(project).write("src/long.txt", "".join(f"line {number}\n" for number in range(500)))
    lines = "".join(f"-line {number}\n+LINE {number}\n" for number in range(500))
    patch = f"*** Begin Patch\n*** Update File: src/long.txt\n@@\n{lines}*** End Patch\n"
    (outcome,) = project.run(calls(call("apply_patch", input=patch)), "done").outcomes
    text = outcome.value.text()
    assert len(text) < 3200
    assert text.startswith("M src/long.txt\n--- src/long.txt")
    assert text.endswith("+LINE 499")
    assert "characters cut" in text


def test_patch_of_a_file_with_possible_secrets_returns_no_text(project: Project) -> None:
    editor(project).write("src/.env", "KEY=hidden\nMODE=slow\n")
    patch = (
        "*** Begin Patch\n*** Update File: src/.env\n@@\n-MODE=slow\n+MODE=fast\n*** End Patch\n"
    )
    (outcome,) = project.run(
        calls(call("apply_patch", input=patch)), "done", answers=[True]
    ).outcomes
    assert (outcome.status, outcome.value.text()) == ("success", "M src/.env")


def test_asking_file_makes_the_whole_patch_ask_and_shows_it(project: Project) -> None:
    both = UPDATE.replace("*** End", "*** Add File: /out/new.txt\n+hello\n*** End")
    seen = editor(project).run(calls(call("apply_patch", input=both)), "done", answers=[False])
    assert seen.statuses == ["denied"]
    assert "-old = 1\n+new = 2" in seen.asked[0].preview.text()
    assert "+++ out/new.txt" in seen.asked[0].preview.text()
    assert (seen.asked[0].recap, seen.asked[0].previewed) == ("2 files, +2 -1", ("input",))
    assert project.read("src/a.py") == "import os\nold = 1\n"


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "odd", ["\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029", "\r", "\u200b"]
)
def test_change_of_an_unusual_line_separator_is_shown(project: Project, odd: str) -> None:
    editor(project).write("out/c.txt", "one two\n")
    patch = (
        f"*** Begin Patch\n*** Update File: /out/c.txt\n@@\n-one two\n+one{odd}two\n*** End Patch\n"
    )
    seen = project.run(calls(call("apply_patch", input=patch)), "done", answers=[True])
    assert (seen.statuses, (project.folder / "out/c.txt").read_bytes()) == (
        ["success"],
        f"one{odd}two\n".encode(),
    )
    assert f"-one two\n+one{ascii(odd)[1:-1]}two\n" in seen.asked[0].preview.text()


def test_added_final_newline_is_shown(project: Project) -> None:
    editor(project).write("out/c.txt", "three")
    patch = "--- /out/c.txt\n+++ /out/c.txt\n@@ -1 +1 @@\n-three\n\\ No newline at end of file\n+three\n"
    seen = project.run(calls(call("apply_patch", input=patch)), "done", answers=[True])
    assert (seen.statuses, project.read("out/c.txt")) == (["success"], "three\n")
    assert seen.asked[0].preview.text().endswith("-three\n\\ No newline at end of file\n+three\n")


def test_empty_file_is_shown(project: Project) -> None:
    patch = "*** Begin Patch\n*** Add File: /out/new.txt\n*** End Patch\n"
    seen = editor(project).run(calls(call("apply_patch", input=patch)), "done", answers=[True])
    assert seen.asked[0].preview.text() == "out/new.txt: empty file created\n"


def test_forbidden_patch_is_refused_without_a_question(project: Project) -> None:
    delete = "*** Begin Patch\n*** Delete File: /out/c.txt\n*** End Patch\n"
    outside = "*** Begin Patch\n*** Add File: /etc/x\n+x\n*** End Patch\n"
    read_only = "*** Begin Patch\n*** Add File: /lib/x\n+x\n*** End Patch\n"
    wrong = UPDATE.replace("old = 1", "nothing like it")
    tried = [
        call("apply_patch", input=text) for text in (delete, outside, read_only, wrong, "hello")
    ]
    seen = editor(project).run(calls(*tried), "done", answers=[])
    assert seen.statuses == ["blocked", "error", "error", "error", "error"]
    assert seen.asked == []
    assert (project.folder / "out/c.txt").exists()


def test_move_needs_both_permissions_and_is_atomic(project: Project) -> None:
    move = UPDATE.replace("a.py\n", "a.py\n*** Move to: /src/moved.py\n")
    seen = editor(project).run(calls(call("apply_patch", input=move)), "done", answers=[True])
    assert [request.rule for request in seen.asked] == ["sandbox.zones.src.approval.delete"]
    assert project.read("src/moved.py") == "import os\nnew = 2\n"
    assert not (project.folder / "src/a.py").exists()


def test_failed_patch_undoes_even_changes_that_it_may_not_delete(project: Project) -> None:
    editor(project).write("src/first", "")
    patch = (
        "*** Begin Patch\n*** Add File: /out/new/a\n+a\n*** Update File: /src/a.py\n-old = 1\n+new = 2\n"
        "*** Delete File: /src/first\n*** Add File: /out/new\n+n\n*** End Patch\n"
    )
    seen = project.run(calls(call("apply_patch", input=patch)), "done", answers=[True])
    assert str(seen.outcomes[0].error).endswith("nothing was changed")
    assert (project.read("src/a.py"), project.read("src/first")) == ("import os\nold = 1\n", "")
    assert not (project.folder / "out/new").exists()


def test_files_changed_during_the_question_ask_again(project: Project) -> None:
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


MARK = "[redacted:TOKEN]"


def test_patch_adds_no_redaction_mark_and_keeps_existing_ones(project: Project) -> None:
    project = editor(project)
    project.write("src/env", f"old = 1\nkey = secret\nmark = {MARK}\n")
    patches = [
        f"*** Update File: /src/env\n-key = secret\n+key = {MARK}",
        f"*** Add File: /src/new\n+{MARK}",
        "*** Update File: /src/env\n-old = 1\n+new = 1",
        "*** Update File: /src/env\n*** Move to: /src/moved",
    ]
    tried = [
        call("apply_patch", input=f"*** Begin Patch\n{text}\n*** End Patch") for text in patches
    ]
    seen = editor(project).run(calls(*tried), "done", answers=[True])
    assert seen.statuses == ["error", "error", "success", "success"]
    assert len(seen.asked) == 1
    assert project.read("src/moved") == f"new = 1\nkey = secret\nmark = {MARK}\n"


LINKED = "*** Begin Patch\n*** Update File: /src/link/x\n@@\n-three\n+3\n*** End Patch\n"


def swapping(project: Project) -> Callable[[Line], None]:
    """A folder in a pre-approved zone that becomes a link into another zone, once a call has been decided."""
    project.write("src/folder/x", "three\n")
    link = project.folder / "src/link"
    link.symlink_to("folder")

    def swap(line: Line) -> None:
        if line.type == "approvalDecided":
            link.unlink()
            link.symlink_to("../out")

    return swap


def test_patch_redirected_after_judging_asks(project: Project) -> None:
    editor(project).write("out/x", "three\n")
    turn = calls(call("apply_patch", input=LINKED))
    seen = project.run(turn, "done", answers=[False], sinks=(swapping(project),))
    assert (seen.statuses, project.read("out/x"), project.read("src/folder/x")) == (
        ["denied"],
        "three\n",
        "three\n",
    )
    assert "led to '/src/folder/x' when it was judged, and to '/out/x' now" in seen.asked[0].reason


@pytest.mark.parametrize("mode", ["interactive", "approve_all"])
def test_patch_redirected_to_a_blocked_file_is_refused(project: Project, mode: str) -> None:
    editor(project).write("worker.yaml", WORKER.replace("write: ask", "write: blocked"))
    project.write("out/x", "three\n")
    turn = calls(call("apply_patch", input=LINKED))
    seen = project.run(turn, "done", answers=[], sinks=(swapping(project),), approval_mode=mode)
    assert (seen.statuses, seen.asked, project.read("out/x")) == (["blocked"], [], "three\n")
    assert "zone 'out' blocks write" in str(seen.outcomes[0].error)


def test_grant_covers_one_patch_only(
    project: Project,
) -> None:
    there, back = (
        f"*** Begin Patch\n*** Update File: /out/c.txt\n@@\n-{old}\n+{new}\n*** End Patch\n"
        for old, new in (("three", "3"), ("3", "three"))
    )
    turns = [calls(call("apply_patch", input=text)) for text in (there, back, there)]
    yes = ApprovalDecision(True, remember="session")
    seen = editor(project).run(*turns, "done", answers=[yes, yes, False])
    assert seen.statuses == ["success", "success", "denied"]


@pytest.mark.long
def test_patch_too_long_for_a_preview_is_shown_as_given(project: Project) -> None:
    long = f"*** Begin Patch\n*** Add File: /out/long.txt\n{'+a line of text' * 70_000}\n*** End Patch\n"
    seen = editor(project).run(calls(call("apply_patch", input=long)), "done", answers=[False])
    [request] = seen.asked
    assert "characters cut" in request.preview.text()
    assert request.previewed is None

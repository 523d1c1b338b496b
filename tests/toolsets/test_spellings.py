"""One world of paths: a file may be named in four ways, and every tool does, says and asks the same of each."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from forge_cli.core.events import ApprovalDecided, TurnStart
from forge_cli.testing import Project, call, calls

PATCH = "*** Begin Patch\n*** Update File: {path}\n@@\n-here\n+there\n*** End Patch"
CALLS: Mapping[str, Mapping[str, Any]] = {
    "read_file": {},
    "write_file": {"content": "new"},
    "edit_file": {"old": "here", "new": "there"},
    "delete_file": {},
    "file_exists": {},
    "file_info": {},
    "grep_files": {"pattern": "here"},
    "apply_patch": {"input": PATCH},
    "list_files": {},
    "list_dir": {},
}
"""The args of each tool besides its path; the last two list the folder that the file lies in."""
FOLDERS = ("list_files", "list_dir")
ZONES = """
sandbox:
  zones:
    - {name: near, path: near, mode: rw, approval: {write: preApproved}}
    - {name: around, path: .., mode: rw, approval: {write: ask, delete: blocked}}
    - {name: far, path: ../far}
"""
TOOLS = "toolsets: {filesystem: {}}\n"


@dataclass(frozen=True)
class Spelled:
    """A file below the working directory's parent, with its name by zone, and the name that results give it."""

    file: str
    by_zone: str
    told: str

    def spellings(self, working: Path) -> list[str]:
        absolute = working.parent / self.file
        up = (
            f"../{self.file}"
            if not self.file.startswith("work/")
            else self.file.removeprefix("work/")
        )
        at_home = f"~/{working.parent.name}/{self.file}"
        return [self.by_zone, up, str(absolute), f"./x/..//{up}", at_home, f"~//x/../{at_home[2:]}"]


DECLARED = [
    Spelled("work/near/a.txt", "/near/a.txt", "near/a.txt"),
    Spelled("work/b.txt", "/around/work/b.txt", "b.txt"),
    Spelled("c/c.txt", "/around/c/c.txt", "/around/c/c.txt"),
    Spelled("far/d.txt", "/far/d.txt", "/far/d.txt"),
]
DEFAULT = [
    Spelled("work/sub/a.txt", "/workspace/sub/a.txt", "sub/a.txt"),
    Spelled("work/b.txt", "/workspace/b.txt", "b.txt"),
]
CASES = [pytest.param(ZONES, case, id=case.by_zone) for case in DECLARED]
CASES += [pytest.param("", case, id=f"default {case.by_zone}") for case in DEFAULT]


@pytest.mark.long
@pytest.mark.few(20)
@pytest.mark.parametrize("tool", CALLS)
@pytest.mark.parametrize(("zones", "case"), CASES)
def test_every_spelling_is_the_same_file(
    project: Project, zones: str, case: Spelled, tool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    working = (project.folder / "work").resolve()
    monkeypatch.setenv("HOME", str(working.parent.parent))
    for folder in ("near", "sub", "../far", "../c"):
        (working / folder).mkdir(parents=True, exist_ok=True)
    project.write("work/worker.yaml", f"name: w\n{zones}{TOOLS}")
    seen = [_made(project, working, case, tool, path) for path in case.spellings(working)]
    assert all(each == seen[0] for each in seen), seen
    _, statuses, text = seen[0]
    if statuses == ["success"] and tool not in ("write_file", "read_file"):
        assert (str(Path(case.told).parent) if tool in FOLDERS else case.told) in text
    assert case.by_zone not in text or case.by_zone == case.told


def _made(project: Project, working: Path, case: Spelled, tool: str, path: str) -> tuple[Any, ...]:
    """Verdict, status and value of one call on a file that is there anew."""
    (working.parent / case.file).write_text("here\n")
    os.utime(working.parent / case.file, (0, 0))
    args = dict(CALLS[tool])
    if tool == "apply_patch":
        args["input"] = args["input"].format(path=path)
    else:
        args["path"] = path.rpartition("/")[0] or "." if tool in FOLDERS else path
    options = {"worker": "work/worker.yaml", "workspace": working}
    seen = project.run(calls(call(tool, **args)), "{result}", answers=[True], **options)
    value = seen.outcomes[0].value.wire() if seen.statuses == ["success"] else seen.statuses
    return [event.verdict for event in seen.of(ApprovalDecided)], seen.statuses, str(value)


@pytest.mark.few(10)
@pytest.mark.parametrize(
    "path", ["/etc/hostname", "../outside.txt", "/near/../../etc/x", "~/x", "/nowhere/x", ".."]
)
@pytest.mark.parametrize("tool", ["read_file", "write_file", "delete_file", "list_files"])
def test_path_outside_all_zones_is_refused_in_every_spelling(
    project: Project, path: str, tool: str
) -> None:
    project.write("outside.txt", "here")
    zone = "sandbox: {zones: [{name: near, path: near, mode: rw}]}"
    project.write("work/worker.yaml", f"name: w\n{zone}\n{TOOLS}")
    options = {"worker": "work/worker.yaml", "workspace": project.folder / "work"}
    args = {"path": path, **CALLS[tool]}
    seen = project.run(calls(call(tool, **args)), "done", answers=[], **options)
    assert (seen.statuses, seen.asked) == (["error"], [])
    assert project.read("outside.txt") == "here"


def test_results_name_files_in_a_reusable_form(project: Project) -> None:
    """A search result is an argument for the next call, and a path for a command in the working directory."""
    project.write("work/worker.yaml", f"name: w\n{ZONES}{TOOLS}")
    project.write("work/near/a.txt", "here\n")
    project.write("far/d.txt", "here\n")
    options = {"worker": "work/worker.yaml", "workspace": project.folder / "work"}
    found = project.run(
        calls(call("grep_files", pattern="here", path="/")), "{result}", **options
    ).result.response
    names = [line.partition(":")[0] for line in found.splitlines()]
    assert names == ["/far/d.txt", "near/a.txt"]
    for name in names:
        again = project.run(calls(call("read_file", path=name)), "{result}", **options)
        assert (again.statuses, len(again.of(TurnStart))) == (["success"], 2)


def test_folder_named_tilde_keeps_its_place(project: Project) -> None:
    """Results name it so that it can be used again, and a diff of git means it."""
    project.write(
        "work/worker.yaml",
        f"name: w\nsandbox: {{zones: [{{name: all, path: ., mode: rw}}]}}\n{TOOLS}",
    )
    project.write("work/~/a.txt", "here\n")
    options = {"worker": "work/worker.yaml", "workspace": project.folder / "work"}
    found = project.run(
        calls(call("grep_files", pattern="here")), "{result}", **options
    ).result.response
    assert found.startswith("./~/a.txt:")
    diff = "--- a/~/a.txt\n+++ b/~/a.txt\n@@\n-here\n+there\n"
    failures = []
    for tool, args in (
        ("read_file", {"path": "./~/a.txt"}),
        ("read_file", {"path": "/all/~/a.txt"}),
        ("list_dir", {"path": "./~"}),
        ("list_dir", {"path": "/all/~"}),
        ("apply_patch", {"input": diff}),
        ("read_file", {"path": "./~name/a.txt"}),
    ):
        project.write("work/~name/a.txt", "here\n")
        project.write("work/~/a.txt", "here\n")
        seen = project.run(calls(call(tool, **args)), "done", answers=[True], **options)
        if seen.statuses != ["success"]:
            failures.append((tool, args, seen.outcomes[0].error))
    assert failures == []
    assert project.read("work/~/a.txt") == "here\n"


@pytest.mark.long
def test_home_itself_is_in_no_zone(project: Project) -> None:
    project.write("worker.yaml", f"name: w\n{TOOLS}")
    failures = []
    for path in ("~", "~/", "~/x", "~/.forge/tools/x/x.go", "~/../x", "~//.ssh/id_rsa"):
        for tool in ("write_file", "read_file", "list_files"):
            seen = project.run(calls(call(tool, path=path, **CALLS[tool])), "done", answers=[])
            if (seen.statuses, seen.asked) != (["error"], []) or "in no zone" not in str(
                seen.outcomes[0].error
            ):
                failures.append((tool, path, seen.statuses, seen.outcomes[0].error))
    assert failures == []
    assert not (project.folder / "~").exists()


@pytest.mark.long
def test_command_that_names_a_file_with_a_tilde_asks(project: Project) -> None:
    """Quoted it is a plain name for bash, else the home: neither is judged as the other."""
    zone = "{name: work, path: ., mode: rw, approval: {write: preApproved}}"
    shell = "toolsets: {shell: {rules: [{pattern: echo, approval: preApproved}]}}"
    project.write("worker.yaml", f"name: w\nsandbox: {{zones: [{zone}]}}\n{shell}\n")
    for line in (
        "echo x > '~/a.txt'",
        "echo x > ~/a.txt",
        "echo < '~/a.txt'",
        "echo x > \\~/a.txt",
    ):
        done = project.forge("approve", "worker.yaml", "shell", f"command={line}")
        assert done.stdout.startswith("ask"), done.stdout

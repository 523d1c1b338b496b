"""Drafts of odd trees, beside a person who goes on working, and against hostile commands.

Covers forge_cli.sandbox.drafts.view, forge_cli.sandbox.drafts.changes.
"""

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from forge_cli.testing import Project, call, calls
from tests.support.logs import script

pytestmark = [pytest.mark.needs("overlay", "git")]

WORKER = """
name: drafter
model: script:script.yaml
sandbox: {zones: [{name: code, path: ., mode: rw}]}
toolsets: {filesystem: {}, shell: {}}
"""


@pytest.fixture
def drafter(project: Project) -> Project:
    project.write("worker.yaml", WORKER)
    project.write("old.txt", "one\n")
    return project


def draft(project: Project, *made: Any) -> dict[str, Any]:
    script(project, calls(*made), "done")
    done = project.forge("run", "worker.yaml", "go", "--draft", "--output-format", "json")
    assert done.returncode == 0, done
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def shell(command: str) -> Any:
    return call("shell", command=command)


def tree(folder: Path) -> dict[str, tuple[int, bytes | str | None]]:
    found: dict[str, tuple[int, bytes | str | None]] = {}
    for path in sorted(folder.rglob("*")):
        content: bytes | str | None = None
        if path.is_symlink():
            content = os.readlink(path)
        elif path.is_file():
            content = path.read_bytes()
        found[str(path.relative_to(folder))] = (path.lstat().st_mode, content)
    return found


def test_other_names_of_a_file_and_other_ways_to_it_keep_the_real_file(drafter: Project) -> None:
    outside = drafter.folder.parent / "outside"
    os.link(drafter.folder / "old.txt", outside)
    real = drafter.folder / "old.txt"
    escapes = [
        f"echo bad > /proc/1/root{real}",
        f"echo bad > /proc/$PPID/root{real}",
        f"for each in /proc/[0-9]*; do echo bad > $each/root{real}; done",
        f"umount {drafter.folder}; echo bad >> old.txt",
    ]
    draft(
        drafter,
        call("edit_file", path="old.txt", old="one", new="two"),
        *(shell(f"({line}) 2>/dev/null; true") for line in escapes),
    )
    assert (real.read_text(), outside.read_text()) == ("one\n", "one\n")
    assert drafter.forge("drafts", "apply", "last", "old.txt").returncode == 0
    assert outside.read_text() == "one\n"
    assert real.read_text() != "one\n"


def test_odd_names_are_listed_shown_applied_and_undone(drafter: Project) -> None:
    names = [b"line\nbreak", b"not \xff utf-8", b"-rf", b" blank ", b"\x1b[31mred"]
    python = f"for name in {names!r}: open(name, 'w').write('x')"
    before = tree(drafter.folder)
    drafter.write("make.py", python)
    result = draft(drafter, shell("python3 make.py && rm make.py"))
    assert len(result["draft"]["changes"]) == len(names) + 1
    shown = drafter.forge("drafts", "show", "--stat")
    assert shown.returncode == 0, shown
    assert "\x1b" not in shown.stdout
    assert "line\nbreak" not in shown.stdout
    applied = drafter.forge("drafts", "apply", "last")
    assert applied.returncode == 0, applied
    assert {*names} < set(os.listdir(os.fsencode(drafter.folder)))
    assert drafter.forge("undo", "last").returncode == 0
    (drafter.folder / "make.py").unlink()
    (drafter.folder / "script.yaml").unlink()
    assert tree(drafter.folder) == before


def test_undo_restores_modes_links_and_folders(drafter: Project) -> None:
    drafter.write("bin/run", "#!/bin/sh\n")
    drafter.write("deep/er/file", "x\n")
    (drafter.folder / "link").symlink_to("old.txt")
    script(drafter, "nothing yet")
    line = (
        "chmod 755 bin/run && rm -r deep && mkdir deep && echo y > deep/file && rm link "
        "&& ln -s bin link && mv old.txt bin/"
    )
    result = draft(drafter, shell(line))
    before = tree(drafter.folder)
    assert result["denials"] == []
    assert drafter.forge("drafts", "apply", "last").returncode == 0
    after = tree(drafter.folder)
    assert after["link"][1] == "bin"
    assert after["bin/run"][0] & 0o777 == 0o755
    assert "deep/er" not in after
    undone = drafter.forge("undo", "last")
    assert undone.returncode == 0, undone
    assert tree(drafter.folder) == before


def test_socket_in_the_folder_does_not_disturb_a_draft(drafter: Project) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.getcwd()
        os.chdir(drafter.folder)  # the path of a socket is short
        try:
            listener.bind("socket")
        finally:
            os.chdir(here)
        draft(drafter, call("write_file", path="new.txt", content="x\n"), shell("rm old.txt"))
        assert drafter.forge("drafts", "apply", "last").returncode == 0
        assert (drafter.folder / "socket").is_socket()
    assert not (drafter.folder / "old.txt").exists()

"""The mode "accept edits" applies ordinary file changes of a trial without a question, and nothing else.

Covers forge_cli.toolsets.shell.edits, forge_cli.toolsets.shell.moved_files, forge_cli.toolsets.shell.program_links.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from forge_cli import ApprovalDecision, EventBus, load_worker
from forge_cli.core.trial import CommandTried, TriedChange
from forge_cli.embedding import open_session
from forge_cli.testing import Project, call, calls
from tests.support.talk import UI, converse, leave, say

pytestmark = pytest.mark.needs("overlay")

WORKER = """
name: w
sandbox:
  zones:
    - {name: here, path: ., mode: rw}
    - {name: stated, path: ./stated, mode: rw, approval: {write: blocked}}
    - {name: tools, path: ./tools, mode: rw}
toolsets:
  filesystem: {}
  shell: {rules: [{use: reading}, {pattern: git push, approval: blocked}, {pattern: tee, approval: ask}]}
"""
APPLIED = {
    "mkdir -p docs/api": "made docs, made docs/api",
    "touch new.txt": "made new.txt",
    "echo hi > note.txt": "made note.txt",
    "cat > a.py <<'E'\nx = 1\nE": "made a.py",
    "sed -i s/old/new/ a.txt": "changed a.txt",
    "mv a.txt b.txt": "moved a.txt to b.txt",
    "mkdir sub && mv a.txt empty.txt sub/": "",
    "mkdir sub && mv a.txt sub/ && sed -i s/old/new/ sub/a.txt": "",
    "cp a.txt c.txt; cp a.txt d.txt; cp a.txt e.txt; cp a.txt f.txt": "made c.txt, made d.txt, made e.txt, 1 more",
    "echo '#!/bin/sh' > run.sh; chmod +x run.sh": "made run.sh",
    "chmod +x a.txt": "changed the mode or time of a.txt",
    "echo x > t; rm t; echo y > u": "made u",
    'PYTHONPATH=. python3 -c \'open("out.txt", "w").write("x")\'': "made out.txt",
    "rmdir hollow": "deleted hollow",
    "python3 -m venv --without-pip .venv": "",
    "mkdir -p v/bin; ln -s /usr/bin/env v/bin/a; ln -s a v/bin/two; ln -s bin v/b": "made v with 4 paths in it",
    "mv poem.txt song.txt && sed -i s/rose/tulip/ song.txt": "",
    "mkdir verse && mv poem.txt verse/song.txt && sed -i s/rose/tulip/ verse/song.txt": "",
    "mkdir many && seq 1200 | split -l 1 -a 3 - many/": "made many with 1200 paths in it",
}
ASKING = (
    *(
        "rm a.txt",
        "rm -r full",
        "mv a.txt b.txt; rm empty.txt",
        "mv a.txt other.txt",
        "mv a.txt .env",
        "echo x > .env",
    ),
    *(
        "mkdir .git; echo x > .git/config",
        "ln -s a.txt link",
        "mkdir .idea && echo x > .idea/workspace.xml",
    ),
    *(
        "ln a.txt second.txt",
        "echo x > n; ln n m",
        "mkfifo pipe",
        "chmod 777 a.txt",
        "chmod u+s a.txt",
    ),
    *(
        "chmod 700 full",
        "echo x > tools/b.sh",
        "echo x | tee c.txt",
        "rm a.txt; mkdir a.txt",
        "echo x > hard.txt",
    ),
    *(
        "git init -q sub",
        "python3 -c 'import socket; socket.create_connection((\"a.example\", 80))'; echo x > n",
    ),
    *("seq 1100 | split -l 1 -a 3", "ln -sf /etc/passwd a.txt"),
    *(
        "mkdir d && ln -s /etc/passwd d/p",
        "mkdir d && ln -s /usr/bin d/bin",
        "mkdir d && ln -s ../a.txt d/up",
    ),
    *(
        "mkdir d && ln -s /usr/bin/env env",
        "ln -s /usr/bin/env full/env",
        "mkdir d && ln -s /usr/../etc/passwd d/p",
    ),
    *(
        "mkdir d && ln -s sub/../../a.txt d/up",
        "mkdir d && ln -s /usr/bin/nothing d/n",
        "mkdir d && ln -s $PWD/tool.sh d/r",
    ),
    *(
        "rm poem.txt; echo a rose > other2.txt",
        "rm poem.txt a.txt; cp other.txt o2; cp poem.txt o3 2>&- || true",
    ),
)
REFUSED = ("echo x > .vscode/tasks.json", "echo x >> worker.yaml", "echo x > stated/b.txt")


@pytest.fixture
def worker(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(project.folder)
    project.write("worker.yaml", WORKER)
    for folder in ("stated", "tools", "full", "hollow", ".vscode"):
        (project.folder / folder).mkdir()
    project.write("a.txt", "old\n")
    project.write("other.txt", "other\n")
    project.write("empty.txt", "")
    project.write("poem.txt", "".join(f"line {n} of a long poem\n" for n in range(9)) + "a rose\n")
    project.write("tool.sh", "#!/bin/sh\n").chmod(0o755)
    project.write("full/kept.txt", "kept\n")
    project.write("hard.txt", "two\n")
    os.link(project.folder / "hard.txt", project.folder / "full/hard.txt")
    return project


def made(
    worker: Project,
    *made_calls: tuple[str, dict[str, Any]],
    mode: str = "acceptEdits",
    others: Mapping[str, str] | None = None,
) -> UI:
    """Make calls in a mode with a person who says no; ``others`` are files written after each."""
    bus = EventBus()
    ui = UI(bus, answers=True)

    def watch(event: Any) -> None:
        if event.type == "approvalRequired":
            bus.answer(event.request.request_id, ApprovalDecision(False))
        if event.type == "toolResult":
            for name, text in (others or {}).items():
                worker.write(name, text)

    def begin() -> None:
        bus.emit("command", {"name": "mode", "args": [mode]})
        say(bus, "go")
        leave(bus)

    bus.subscribe(watch)
    turns = [calls(call(tool, **args)) for tool, args in made_calls]
    with open_session(load_worker(worker.folder / "worker.yaml")) as session:
        converse(worker, bus, *turns, "done", begin=begin, session=session)
    return ui


def shell(line: str) -> tuple[str, dict[str, Any]]:
    return "shell", {"command": line}


def statuses(ui: UI) -> list[str]:
    return [event.status for event in ui.of("toolResult")]


@pytest.mark.few(7)
@pytest.mark.parametrize("line", APPLIED)
def test_edits_are_applied_without_asking_and_reported(worker: Project, line: str) -> None:
    ui = made(worker, shell(line))
    assert (statuses(ui), ui.of("approvalRequired")) == (["success"], [])
    (decided,) = ui.of("approvalDecided")
    assert (decided.verdict, decided.by, decided.via) == ("ask", "mode", "accept edits")
    _, applied = ui.of("trial")
    assert applied.applied
    if APPLIED[line]:
        assert applied.sentence() == f"applied: {APPLIED[line]}"


def tree(folder: Path) -> list[tuple[str, int, bytes]]:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return [
        (str(path.relative_to(folder)), path.lstat().st_mode, path.read_bytes()) for path in files
    ]


@pytest.mark.few(12)
@pytest.mark.parametrize("line", ASKING)
def test_line_with_more_effects_than_edits_asks(worker: Project, line: str) -> None:
    before = tree(worker.folder)
    ui = made(worker, shell(line))
    assert [event.by for event in ui.of("approvalDecided")] == ["user"]
    assert tree(worker.folder) == before


@pytest.mark.parametrize("line", REFUSED)
def test_protected_files_stay_unchanged(worker: Project, line: str) -> None:
    before = tree(worker.folder)
    assert [event.by for event in made(worker, shell(line)).of("approvalDecided")] == ["tool"]
    assert tree(worker.folder) == before


def test_edit_asks_in_ask_mode(worker: Project) -> None:
    assert len(made(worker, shell("touch new.txt"), mode="ask").of("approvalRequired")) == 1


def test_files_created_by_the_session_may_be_deleted(worker: Project) -> None:
    write = ("write_file", {"path": "mine.txt", "content": "x"})
    ui = made(worker, write, shell("mkdir out && echo x > out/o"), shell("rm -r mine.txt out"))
    assert (statuses(ui), ui.of("approvalRequired")) == (["success"] * 3, [])
    assert not (worker.folder / "mine.txt").exists()


def test_file_changed_by_others_is_not_deleted_without_asking(
    worker: Project,
) -> None:
    ui = made(
        worker,
        shell("echo x > mine.txt"),
        shell("rm mine.txt"),
        others={"mine.txt": "another thought"},
    )
    assert statuses(ui) == ["success", "denied"]
    assert worker.read("mine.txt") == "another thought"


def test_applied_changes_are_named_up_to_three() -> None:
    changes = (
        TriedChange("a", "deleted"),
        TriedChange("b", "renamed", renamed_from="a"),
        TriedChange("c", "deleted"),
        TriedChange("d", "mode"),
        TriedChange("e", "created"),
    )
    event = CommandTried("c1", "effects", 0, 1, changes, applied=True)
    assert (
        event.sentence()
        == "applied: moved a to b, deleted c, changed the mode or time of d, 1 more"
    )

"""A new folder is one line of the question, which unfolds; notable files in it have their own rows.

Covers forge_cli.toolsets.shell.made_folders.
"""

import json
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_cli import ApprovalRequest
from forge_cli.core.approval import FoldedLine
from forge_cli.core.events import ApprovalRequired
from forge_cli.core.trial import CommandTried
from forge_cli.testing import Project, Seen, call, calls
from forge_cli.toolsets.shell import shown
from forge_cli.toolsets.shell.made_folders import readable_size

pytestmark = pytest.mark.needs("overlay")

MANY = "mkdir -p D/lib; for n in $(seq 1 30); do echo $n-says > D/lib/m$n.py; done"


@pytest.fixture
def shell(project: Project) -> Project:
    project.write("worker.yaml", "name: w\ntoolsets: {shell: {}}\n")
    return project


def run(project: Project, script: str, **options: object) -> Seen:
    project.write("gen.sh", script.replace("D/", "made/"))
    return project.run(calls(call("shell", command="sh gen.sh")), "done", timeout=120, **options)


def request(seen: Seen) -> ApprovalRequest:
    (asked,) = seen.of(ApprovalRequired)
    assert isinstance(asked.request, ApprovalRequest)
    return asked.request


def rows(seen: Seen) -> list[str]:
    preview = request(seen).preview
    assert preview is not None
    return preview.text().partition("\n\n")[0].split("\n")[1:]


def folded(seen: Seen) -> FoldedLine:
    (found,) = request(seen).folded or ()
    return found


def test_new_folder_is_one_line_that_unfolds(shell: Project) -> None:
    shell.write("src/app.py", "print(1)\n")
    seen = run(
        shell, f"{MANY}; head -c 3000000 /dev/zero > D/big; echo more >> src/app.py", answers=[True]
    )
    assert rows(seen) == ["changed  src/app.py (14 bytes)", "made     made/ (31 files, 3.0 MB)"]
    assert request(seen).recap == "yes applies 34 changes; 33 of them in 1 new folder"
    inside = folded(seen)
    assert inside.line == "made     made/ (31 files, 3.0 MB)"
    assert "made     made/big (3,000,000 bytes)" in inside.text.split("\n")
    assert "made     made/lib/m30.py (8 bytes)" in inside.text.split("\n")
    assert "\n+17-says\n" in inside.text
    assert len(seen.of(CommandTried)[0].changed) == 34
    assert (shell.folder / "made/lib/m30.py").read_text() == "30-says\n"
    assert (shell.folder / "made/big").stat().st_size == 3_000_000


def test_folder_with_few_files_is_shown_completely(shell: Project) -> None:
    seen = run(
        shell,
        "mkdir D/ D/a; for n in 1 2 3 4 5 6 7 8 9; do echo $n > D/a/$n; done",
        answers=[False],
    )
    assert request(seen).folded is None
    assert len(rows(seen)) == 11


def test_files_in_existing_folders_are_never_folded(shell: Project) -> None:
    (shell.folder / "made/lib").mkdir(parents=True)
    seen = run(shell, MANY, answers=[False])
    assert request(seen).folded is None
    assert len(rows(seen)) == 30


HIDDEN = [
    ("echo x > D/lib/.npmrc", "made/lib/.npmrc (2 bytes) PROTECTED: "),
    ("echo x > D/.envrc", "made/.envrc (2 bytes) PROTECTED: "),
    (
        "mkdir D/.vscode; echo x > D/.vscode/tasks.json",
        "made/.vscode/tasks.json (2 bytes) PROTECTED: ",
    ),
    (
        "mkdir -p D/p/.git/hooks; echo x > D/p/.git/hooks/post-commit",
        "made/p/.git/hooks/post-commit (2 bytes) PROT",
    ),
    ("echo x > D/worker.yaml", "made/worker.yaml (2 bytes) PROTECTED: "),
    (
        "echo x > D/tools.py; echo 'name: x' > D/worker.yaml",
        "made/worker.yaml (8 bytes) PROTECTED: ",
    ),
    (
        "cp /bin/true D/su; chmod 4755 D/su",
        "made/su (SIZE bytes, program, not shown, mode 4755, applied as 755)",
    ),
    (
        "cp /bin/true D/sg; chmod 2755 D/sg",
        "made/sg (SIZE bytes, program, not shown, mode 2755, applied as 755)",
    ),
    ("chmod 666 D/lib/m3.py", "made/lib/m3.py (7 bytes, mode 666)"),
    ("chmod 777 D/lib", "made/lib/ (mode 777)"),
    ("ln -s /etc/passwd D/out", "made/out (link to /etc/passwd, outside the zone)"),
    ("ln -s ../../src D/lib/out", "made/lib/out (link to ../../src)"),
    ("ln -s ../gen.sh D/out", "made/out (link to ../gen.sh)"),
    ("ln -s . D/here; ln -s here/../gen.sh D/out", "made/out (link to here/../gen.sh)"),
    ("ln src/app.py D/twin", "made/twin (9 bytes, the same file as src/app.py)"),
    ("mkfifo D/pipe", "made/pipe (pipe)"),
    (
        """python3 -c "import os; os.setxattr('made/lib/m1.py', 'user.x', b'1')" """,
        "made/lib/m1.py (7 bytes, attributes user.x)",
    ),
]


@pytest.mark.few(8)
@pytest.mark.parametrize(("script", "row"), HIDDEN, ids=[row[:24] for _, row in HIDDEN])
def test_notable_file_in_a_folder_has_its_own_row(shell: Project, script: str, row: str) -> None:
    shell.write("src/app.py", "print(1)\n")
    seen = run(shell, f"{MANY}; {script}", answers=[False])
    wanted = row.replace("SIZE", f"{Path('/bin/true').stat().st_size:,}")
    assert any(each.removeprefix("made     ").startswith(wanted) for each in rows(seen)), rows(seen)
    assert not any(
        each.removeprefix("made     ").startswith(wanted) for each in folded(seen).text.split("\n")
    )


def test_links_that_stay_inside_are_folded(shell: Project) -> None:
    script = "mkdir D/bin; ln -s ../lib/m1.py D/bin/tool; ln -s lib D/lib64; ln -s nowhere D/lib/dangling"
    seen = run(shell, f"{MANY}; {script}", answers=[True])
    assert rows(seen) == ["made     made/ (33 files, 231 bytes)"]
    assert "made     made/bin/tool (link to ../lib/m1.py)" in folded(seen).text
    assert os.readlink(shell.folder / "made/bin/tool") == "../lib/m1.py"


def test_files_beyond_the_unfold_limit_are_counted_and_applied(
    shell: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shown, "UNFOLDED_AT_MOST", 500)
    seen = run(shell, MANY, answers=[True])
    assert rows(seen) == ["made     made/ (30 files, 231 bytes)"]
    lines = folded(seen).text.split("\n")
    assert (len(lines), lines[-1]) == (15, "and 17 more paths")
    assert len(os.listdir(shell.folder / "made/lib")) == 30


def test_parked_request_is_shown_completely_and_applied_later(shell: Project) -> None:
    shell.write("worker.yaml", "name: w\nmodel: script:script.yaml\ntoolsets: {shell: {}}\n")
    shell.write(
        "script.yaml",
        json.dumps({"turns": [calls(call("shell", command="sh gen.sh")), {"text": "done"}]}),
    )
    shell.write("gen.sh", MANY.replace("D/", "made/") + "; chmod 4755 made/lib/m1.py")
    assert shell.forge("run", "worker.yaml", "go", "-p", "--on-ask", "park").returncode == 10
    listed = shell.forge("approvals", "list").stdout
    assert "to see all of it, run: forge approvals list " in listed
    assert "made/lib/m7.py" not in listed
    whole = shell.forge("approvals", "list", "last").stdout
    assert "made     made/lib/m7.py (7 bytes)" in whole
    assert "+7-says" in whole
    (row,) = json.loads(shell.forge("approvals", "list", "last", "--json").stdout)
    assert row["folded"][0]["line"] == "made     made/ (29 files, 224 bytes)"
    assert shell.forge("approvals", "answer", "last", "yes").returncode == 0
    assert shell.forge("run", "worker.yaml", "-c", "-p").returncode == 0
    assert len(os.listdir(shell.folder / "made/lib")) == 30
    assert stat.S_IMODE((shell.folder / "made/lib/m1.py").stat().st_mode) == 0o755


@given(st.integers(0, 10**16))
def test_sizes_are_at_most_five_characters(size: int) -> None:
    number, unit = readable_size(size).split()
    assert len(number) <= 5
    if unit in ("KB", "MB", "GB", "TB"):
        power = ("KB", "MB", "GB", "TB").index(unit) + 1
        assert abs(float(number) * 1000**power - size) <= size * 0.06


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1000, "1.0 KB"),
        (9_960, "10 KB"),
        (999_600, "1.0 MB"),
        (12_000_000, "12 MB"),
    ],
)
def test_sizes_have_their_units(size: int, words: str) -> None:
    assert readable_size(size) == words

"""All changes of a trial are shown, and nothing else is applied.

Covers forge_cli.toolsets.shell.shown.
"""

import json
import os
import stat
from pathlib import Path

import pytest

from forge_cli import ApprovalRequest
from forge_cli.core.events import ApprovalRequired
from forge_cli.core.trial import CommandTried
from forge_cli.testing import Project, Seen, call, calls

pytestmark = pytest.mark.needs("overlay")


@pytest.fixture
def shell(project: Project) -> Project:
    project.write("worker.yaml", "name: w\ntoolsets: {shell: {}}\n")
    project.write("src/app.py", "print('hello')\n")
    return project


def run(project: Project, script: str, **options: object) -> Seen:
    """Run a script that the question does not show."""
    project.write("gen.sh", script)
    return project.run(calls(call("shell", command="sh gen.sh")), "done", timeout=120, **options)


def request(seen: Seen) -> ApprovalRequest:
    (asked,) = seen.of(ApprovalRequired)
    assert isinstance(asked.request, ApprovalRequest)
    return asked.request


def shown(seen: Seen) -> str:
    preview = request(seen).preview
    assert preview is not None
    return preview.text()


def rows(seen: Seen) -> list[str]:
    """The rows of all changes, which precede the contents of files."""
    return shown(seen).partition("\n\n")[0].split("\n")[1:]


MANY = """
for n in $(seq 1 300); do echo "made $n" > docs$n; echo "more $n" >> old$n; done
echo 'os.system("evil")' >> src/app.py
"""


def test_every_change_is_shown_with_its_contents(shell: Project) -> None:
    for number in range(1, 301):
        shell.write(f"old{number}", "old\n")
    seen = run(shell, MANY, answers=[True])
    found = rows(seen)
    assert len(found) == 601
    assert {row[:8].strip() for row in found[:301]} == {"changed"}, (
        "what was there before comes first"
    )
    assert {row[:8].strip() for row in found[301:]} == {"made"}
    text = shown(seen)
    assert '+os.system("evil")' in text
    for number in range(1, 301):
        assert f"\n+made {number}" in text
        assert f"\n+more {number}" in text
    assert len(seen.of(CommandTried)[0].changed) == 601
    assert request(seen).recap == "yes applies 601 changes"
    assert shell.read("src/app.py").endswith('os.system("evil")\n')


ODD = r"""
chmod 755 run; chmod 1777 sticky; chmod 4755 setuid; chmod 2755 setgid
cp /bin/true program; chmod 4711 program
mkdir made; chmod 2777 made
ln -s /etc/passwd absolute; ln -s nowhere dangling; ln -sfn other link
rm -r folder; echo now > folder
rm file; mkdir file; echo in > file/in
ln twin hard; mkfifo pipe
mv moved moved2
python3 - <<'END'
import os
with open("attr", "w") as file: file.write("x")
os.setxattr("attr", "user.evil", b"bar")
with open("esc\x1b[2J\nmade     x", "w") as file: file.write("\x1b[2J\n")
END
"""
ODD_ROWS = """
replaced folder (folder before, 4 bytes)
deleted  folder/a
replaced file/ (file before)
changed  link (link to other, before to run)
deleted  moved
mode     run (644 to 755)
mode     setgid (755 to 2755, applied as 755)
mode     setuid (644 to 4755, applied as 755)
mode     sticky/ (755 to 1777)
made     absolute (link to /etc/passwd, outside the zone)
made     attr (1 byte, attributes user.evil)
made     dangling (link to nowhere)
made     esc\\x1b[2J\\nmade     x (5 bytes)
made     file/in (3 bytes)
made     hard (5 bytes, the same file as twin)
linked   twin
made     made/ (mode 2777, applied as 777)
made     moved2 (5 bytes)
made     pipe (pipe)
made     program (SIZE bytes, program, not shown, mode 4711, applied as 711)
"""


def test_each_kind_of_change_has_its_row(shell: Project) -> None:
    """Whatever is not seen in the contents: modes, links, attributes, and names that could draw on the screen."""
    for name in ("run", "setuid", "setgid", "folder/a", "file", "twin", "moved"):
        shell.write(name, f"{name[:4]}\n")
    (shell.folder / "sticky").mkdir()
    (shell.folder / "setgid").chmod(0o755)
    (shell.folder / "link").symlink_to("run")
    seen = run(shell, ODD, answers=[True])
    size = f"{Path('/bin/true').stat().st_size:,}"
    wanted = ODD_ROWS.replace("SIZE", size).strip().split("\n")
    assert sorted(rows(seen)) == sorted(wanted)
    assert shown(seen).count("\x1b") == 0
    modes = {
        name: oct(stat.S_IMODE((shell.folder / name).stat().st_mode))
        for name in ("setuid", "setgid", "program")
    }
    assert modes == {"setuid": "0o755", "setgid": "0o755", "program": "0o711"}
    assert stat.S_IMODE((shell.folder / "made").stat().st_mode) == 0o777
    assert os.getxattr(shell.folder / "attr", "user.evil") == b"bar"


def test_deletion_is_a_separate_row_beside_its_renaming(shell: Project) -> None:
    shell.write("a.txt", "contents\n")
    shell.write("b.txt", "another!\n")
    seen = run(
        shell,
        "mv a.txt c.txt; tr a-z A-Z < b.txt > d.txt; touch -r b.txt d.txt; rm b.txt",
        answers=[False],
    )
    found = [
        (each.path, each.change, each.renamed_from) for each in seen.of(CommandTried)[0].changed
    ]
    assert found == [
        ("a.txt", "deleted", None),
        ("b.txt", "deleted", None),
        ("c.txt", "renamed", "a.txt"),
        ("d.txt", "created", None),
    ]


def test_setuid_file_is_never_applied(shell: Project) -> None:
    """Also if a line runs for real, on copies that can be undone."""
    rules = "toolsets: {shell: {rules: [{pattern: sh gen.sh, approval: preApproved}]}}"
    shell.write("worker.yaml", f"name: w\nmodel: script:script.yaml\n{rules}\n")
    shell.write(
        "script.yaml",
        json.dumps({"turns": [calls(call("shell", command="sh gen.sh")), {"text": "done"}]}),
    )
    shell.write("gen.sh", "cp /bin/true program; chmod 6755 program\n")
    done = shell.forge("run", "worker.yaml", "go", "-p")
    assert (done.returncode, done.stdout) == (0, "done\n"), done
    assert stat.S_IMODE((shell.folder / "program").stat().st_mode) == 0o755


def test_folder_keeps_its_inherited_group(shell: Project) -> None:
    (shell.folder / "shared").mkdir()
    (shell.folder / "shared").chmod(0o2755)
    run(shell, "mkdir -p shared/a/b; touch shared/x", answers=[True])
    found = [
        stat.S_IMODE((shell.folder / name).stat().st_mode)
        for name in ("shared", "shared/a", "shared/a/b")
    ]
    assert found == [0o2755, 0o2755, 0o2755]


def test_omitted_contents_are_counted(shell: Project) -> None:
    script = (
        "head -c 40000000 /dev/zero > big; printf 'all: ; evil\\n\\0' > Makefile; echo T=1 > .env"
    )
    shell.write("Makefile", "all: ; true\n")
    seen = run(shell, script, answers=[False])
    assert rows(seen) == [
        "changed  Makefile (13 bytes, text with NUL, was text)",
        "made     .env (4 bytes) PROTECTED: it may hold secrets, and shells and programs load it",
        "made     big (40,000,000 bytes, binary, not shown)",
    ]
    assert "+all: ; evil\n+\\x00" in shown(seen)
    assert request(seen).recap == (
        "yes applies 3 changes; 1 of protected names; the contents of 1 file are not shown"
    )


def test_changes_that_cannot_be_shown_are_not_applied(shell: Project) -> None:
    for number in range(8):
        shell.write(f"old{number}", "old\n")
    seen = run(
        shell,
        "for n in 0 1 2 3 4 5 6 7; do yes $n$n$n$n$n | head -c 900000 > old$n; done",
        answers=[False],
    )
    tried = seen.of(CommandTried)[0]
    assert (tried.outcome, tried.unsure) == ("incomplete", "it changed more than can be shown")
    assert request(seen).stamp is None
    assert request(seen).recap == "yes runs it for real; nothing of the trial is kept"

"""``forge tools diff`` and ``restore``: earlier versions of a rewritten executable.

Covers forge_cli.cli.tools.versions, forge_cli.toolsets.executables.versions, forge_cli.toolsets.executables.contents.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forge_cli.testing import Project
from forge_cli.toolsets.executables.contents import (
    MAX_BYTES,
    Content,
    pack,
    read_contents,
    unpack,
    write_contents,
)
from forge_cli.toolsets.executables.versions import MAX_VERSIONS

WORKER = """name: smith
model: script:script.yaml
toolsets:
  filesystem: {approval: {default: preApproved}}
  executables: {approval: {default: preApproved}}
"""


@pytest.fixture
def greet(cli, project: Project) -> Path:
    """A tool that prints one, and that forge has seen."""
    assert cli("tools", "new", "greet", "--lang", "sh").code == 0
    folder = project.home / "tools" / "greet"
    (folder / "greet.sh").write_text("echo one\n")
    assert cli("tools", "call", "greet", "-y").out == "one\n"
    return folder


def hashes(cli) -> list[str]:
    return [
        line.split()[0] for line in cli("tools", "restore", "greet", "--list").out.splitlines()[1:]
    ]


def test_tool_rewritten_by_a_worker_can_be_restored(cli, project: Project, greet: Path) -> None:
    project.write("worker.yaml", WORKER)
    project.write(
        "script.yaml",
        "turns:\n"
        '  - calls: [{tool: write_file, input: {path: /tools/greet/greet.sh, content: "echo two\\n"}}]\n'
        "  - calls: [{tool: greet, input: {}}]\n"
        '  - text: "{result}"\n',
    )
    assert cli("run", "worker.yaml", "Work", "-y", "-p").out.endswith("two\n")
    compared = cli("tools", "diff", "greet")
    assert compared.code == 0
    assert "-echo one\n+echo two\n" in compared.out
    restored = cli("tools", "restore", "greet")
    assert (restored.code, restored.err) == (0, "")
    assert "-echo two\n+echo one\n" in restored.out
    assert (greet / "greet.sh").read_text() == "echo one\n"
    assert cli("tools", "call", "greet", "-y").out == "one\n"
    assert cli("tools", "restore", "greet").code == 0
    assert (greet / "greet.sh").read_text() == "echo two\n"


def test_restored_tool_needs_approval_again(cli, greet: Path) -> None:
    (greet / "greet.sh").write_text("echo two\n")
    assert cli("tools", "call", "greet", "-y").out == "two\n"
    assert cli("tools", "restore", "greet").code == 0
    assert cli("tools", "call", "greet").code == 4
    assert cli("tools", "diff", "greet").out.startswith("greet: changed since 2")


def test_restore_keeps_broken_versions_and_other_files(cli, greet: Path) -> None:
    original = {path.name: path.read_bytes() for path in greet.iterdir() if path.is_file()}
    (greet / "tool.yaml").write_text("name: [")
    (greet / "data").mkdir()
    (greet / "data" / "new.bin").write_bytes(b"\0new")
    (greet / "greet.sh").chmod(0o755)
    (greet / ".git").mkdir()
    (greet / ".git" / "HEAD").write_text("ref")
    restored = cli("tools", "restore", "greet")
    assert restored.code == 0, restored.err
    assert {path.name: path.read_bytes() for path in greet.iterdir() if path.is_file()} == original
    assert (greet / ".git" / "HEAD").read_text() == "ref"
    assert not (greet / "data").exists()
    assert not os.access(greet / "greet.sh", os.X_OK)
    back = restored.out.splitlines()[-1].split()[4]
    assert cli("tools", "restore", "greet", back).code == 0
    assert (greet / "tool.yaml").read_text() == "name: ["
    assert (greet / "data" / "new.bin").read_bytes() == b"\0new"
    assert os.access(greet / "greet.sh", os.X_OK)


def test_versions_are_bounded_and_found_by_hash_or_number(
    cli, project: Project, greet: Path
) -> None:
    manifest = greet / "tool.yaml"
    manifest.write_text(manifest.read_text().replace("1.0.0", "2.5.0"))
    for number in range(MAX_VERSIONS + 3):
        (greet / "greet.sh").write_text(f"echo {number}\n")
        assert cli("tools", "build", "greet").code == 0
    kept = hashes(cli)
    assert len(kept) == MAX_VERSIONS - 1
    assert len(list((project.home / "versions" / "greet").iterdir())) == MAX_VERSIONS
    assert cli("tools", "restore", "greet", kept[-1][:6]).code == 0
    assert (greet / "greet.sh").read_text() == "echo 3\n"
    assert cli("tools", "restore", "greet", "2.5.0").code == 0
    assert (greet / "greet.sh").read_text() == f"echo {MAX_VERSIONS + 2}\n"
    assert "echo 3\n" in cli("tools", "diff", "greet", hashes(cli)[0]).out
    for wanted in ("1.0.0", "abc", "../x", "", "0000000000"):
        done = cli("tools", "restore", "greet", wanted)
        assert (done.code, done.out) == (2, ""), wanted
        assert cli("tools", "diff", "greet", wanted).code == 2


def test_manually_deleted_tool_is_restored(cli, project: Project, greet: Path) -> None:
    shutil.rmtree(greet)
    assert cli("tools", "restore", "greet").code == 0
    assert cli("tools", "call", "greet", "-y").out == "one\n"
    assert cli("tools", "remove", "greet").code == 0
    done = cli("tools", "restore", "greet")
    assert (done.code, done.out) == (2, "")
    assert not (project.home / "versions" / "greet").exists()


def test_restore_refuses_links_and_files_that_cannot_be_kept(
    cli, project: Project, greet: Path
) -> None:
    (greet / "greet.sh").write_text("echo two\n")
    (greet / "large.bin").touch()
    os.truncate(greet / "large.bin", MAX_BYTES)
    done = cli("tools", "restore", "greet")
    assert done.code == 1
    assert "nothing was restored: the current files of" in done.err
    assert (greet / "greet.sh").read_text() == "echo two\n"
    (greet / "large.bin").unlink()
    outside = project.folder / "outside.sh"
    outside.write_text("echo outside\n")
    (greet / "greet.sh").unlink()
    (greet / "greet.sh").symlink_to(outside)
    done = cli("tools", "restore", "greet")
    assert done.code == 1
    assert "greet.sh is a link" in done.err
    assert outside.read_text() == "echo outside\n"


@pytest.mark.parametrize("damage", [b"", b"no archive", b"\x1f\x8b\x08\0"])
def test_damaged_version_is_one_message(cli, project: Project, greet: Path, damage: bytes) -> None:
    kept = max(
        (project.home / "versions" / "greet").iterdir(), key=lambda file: file.stat().st_mtime_ns
    )
    (greet / "greet.sh").write_text("echo two\n")
    kept.write_bytes(damage)
    for command in ("diff", "restore"):
        done = cli("tools", command, "greet", kept.name[:8])
        assert done.code == 1
        assert done.err.startswith(f"forge: {kept} cannot be read")
    assert cli("tools", "restore", "greet", "--list").code == 0
    assert (greet / "greet.sh").read_text() == "echo two\n"


def test_restore_without_another_version(cli) -> None:
    cli("tools", "new", "greet", "--lang", "sh")
    done = cli("tools", "restore", "greet")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("forge: there is no other version of 'greet'\n")


NAMES = st.from_regex(r"[a-zé_.-]{1,8}", fullmatch=True).filter(
    lambda name: name not in (".", "..")
)
FILES = st.dictionaries(
    st.builds("{}/{}".format, st.sampled_from(["a1", "b1", "c1/d1"]), NAMES),
    st.builds(Content, st.binary(max_size=200), st.booleans()),
    max_size=6,
)


@settings(deadline=None, max_examples=40)
@given(before=FILES, after=FILES)
def test_any_content_survives_storing_and_restoring(
    before: dict[str, Content], after: dict[str, Content]
) -> None:
    read: Callable[[Path], dict[str, Content]] = lambda folder: read_contents(  # noqa: E731
        folder, [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]
    )
    with TemporaryDirectory() as place:
        folder = Path(place)
        write_contents(folder, before, {})
        assert read(folder) == before == unpack(pack(before))
        write_contents(folder, unpack(pack(after)), before)
        assert read(folder) == after
        assert not [
            path for path in folder.rglob("*") if path.is_dir() and not list(path.iterdir())
        ]

"""Patches on disk: every file or none, inside the zones, and only if nothing changed in between."""

import stat
import subprocess
from pathlib import Path

import pytest

from forge_cli.core.errors import Stale, ToolError
from forge_cli.sandbox.files.sandbox import Sandbox
from forge_cli.sandbox.patches.model import Change
from forge_cli.sandbox.patches.parse import parse_patch
from forge_cli.sandbox.patches.plan import apply_plan, file_reader, patch_stamp, plan_patch


def planned(sandbox: Sandbox, patch: str) -> tuple[Change, ...]:
    return plan_patch(parse_patch(patch, sandbox.zones), file_reader(sandbox), sandbox.resolve)


def patched(sandbox: Sandbox, patch: str) -> None:
    apply_plan(planned(sandbox, patch), sandbox)


def tree(folder: Path) -> dict[str, str]:
    """Every file with its content, and every empty folder."""
    return {
        str(path.relative_to(folder)): path.read_text() if path.is_file() else "/"
        for path in sorted(folder.rglob("*"))
        if path.is_file() or not list(path.iterdir())
    }


def test_combined_changes_are_applied(sandbox: Sandbox, root: Path) -> None:
    (root / "scratch/x").write_text("a\nb\n")
    (root / "scratch/old").write_text("o")
    (root / "scratch/here").write_text("h\n")
    patched(
        sandbox,
        "*** Begin Patch\n*** Add File: /output/deep/er/new\n+n\n*** Update File: /scratch/x\n-a\n+A\n"
        "*** Delete File: /scratch/old\n*** Update File: /scratch/here\n*** Move to: /output/there\n*** End Patch",
    )
    assert tree(root / "scratch") == {"x": "A\nb\n"}
    assert tree(root / "output") == {"deep/er/new": "n\n", "there": "h\n"}


FAILING = [
    ("*** Update File: /scratch/x\n-nothing like it\n+z", "does not fit"),
    ("*** Update File: /scratch/missing\n-z", "does not exist"),
    ("*** Add File: /scratch/x\n+z", "already exists"),
    ("*** Add File: /src/new\n+z", "zone 'src' is read-only"),
    ("*** Add File: /scratch/x/below\n+z", "is a file, not a folder"),
    ("*** Add File: /scratch/a\n+z\n*** Add File: /scratch/a/b\n+z", "is a file, not a folder"),
    ("*** Delete File: /src/kept", "zone 'src' is read-only"),
    ("*** Update File: /src/kept\n*** Move to: /scratch/moved", "zone 'src' is read-only"),
    ("*** Add File: /scratch\n+z", "is a folder"),
    ("*** Delete File: /scratch/folder", "is a folder"),
    ("*** Add File: /outside/x\n+z", "is in no zone"),
    ("*** Add File: relative\n+z", "is in no zone"),
    ("*** Add File: /scratch/link/new\n+z", "leads outside every zone"),
    ("*** Delete File: /scratch/inner", "is a link"),
    ("*** Update File: /scratch/inner\n*** Move to: /scratch/moved", "is a link"),
]


@pytest.mark.parametrize(("operation", "problem"), FAILING)
def test_failed_patch_restores_all_files(
    sandbox: Sandbox, root: Path, operation: str, problem: str
) -> None:
    (root / "scratch/x").write_text("a\n")
    (root / "scratch/y").write_text("y\n")
    (root / "scratch/folder").mkdir()
    (root / "src/kept").write_text("k\n")
    (root / "scratch/link").symlink_to(root / "outside")
    (root / "scratch/inner").symlink_to("x")
    before = tree(root)
    patch = (
        f"*** Begin Patch\n*** Add File: /output/deep/new\n+n\n*** Update File: /scratch/y\n-y\n+Y\n{operation}\n"
        "*** End Patch"
    )
    with pytest.raises(ToolError, match=problem):
        patched(sandbox, patch)
    assert tree(root) == before


def test_files_that_could_not_be_restored_are_named(sandbox: Sandbox, root: Path) -> None:
    (root / "scratch/a").write_text("a\n")
    changes = (
        Change("/scratch/new/n", "/scratch/new/n", None, b"n"),
        Change("/scratch/a", "/scratch/a", b"a\n", None),
    )

    class Interfering(Sandbox):
        """Somebody else deletes the new file and holds its name, while the patch deletes the old one."""

        def delete(self, path: str, *, expected: str | None = None) -> None:
            (root / "scratch/new/n").unlink(missing_ok=True)
            (root / "scratch/new/n").mkdir()
            (root / "scratch/new/n/held").write_text("")
            super().delete("/scratch/gone")

    with pytest.raises(ToolError, match="these files could not be restored: '/scratch/new/n'"):
        apply_plan(changes, Interfering(sandbox.zones))
    assert (root / "scratch/a").read_text() == "a\n"


@pytest.mark.parametrize("meanwhile", ["changed", None])
@pytest.mark.parametrize(
    "operation", ["*** Update File: /scratch/x\n-a\n+b", "*** Delete File: /scratch/x"]
)
def test_file_that_changed_since_the_plan_is_stale(
    sandbox: Sandbox, root: Path, operation: str, meanwhile: str | None
) -> None:
    (root / "scratch/x").write_text("a\n")
    changes = planned(
        sandbox, f"*** Begin Patch\n*** Add File: /scratch/new\n+n\n{operation}\n*** End Patch"
    )
    (root / "scratch/x").unlink()
    if meanwhile:
        (root / "scratch/x").write_text(meanwhile)
    before = tree(root)
    with pytest.raises(Stale):
        apply_plan(changes, sandbox)
    assert tree(root) == before


def test_file_that_came_to_be_since_the_plan_is_stale(sandbox: Sandbox, root: Path) -> None:
    changes = planned(sandbox, "*** Begin Patch\n*** Add File: /scratch/new\n+n\n*** End Patch")
    (root / "scratch/new").write_text("")
    with pytest.raises(Stale, match="'/scratch/new' has changed since the patch was planned"):
        apply_plan(changes, sandbox)


def test_path_that_leads_elsewhere_since_the_plan_is_stale(sandbox: Sandbox, root: Path) -> None:
    (root / "scratch/one").mkdir()
    (root / "scratch/two").mkdir()
    (root / "scratch/link").symlink_to("one")
    changes = planned(
        sandbox, "*** Begin Patch\n*** Add File: /scratch/link/new\n+n\n*** End Patch"
    )
    (root / "scratch/link").unlink()
    (root / "scratch/link").symlink_to("two")
    with pytest.raises(Stale):
        apply_plan(changes, sandbox)
    assert tree(root / "scratch/two") == {}


def test_two_spellings_of_one_file(sandbox: Sandbox, root: Path) -> None:
    (root / "scratch/x").write_text("a\nb\n")
    (root / "scratch/inner").symlink_to("x")
    patched(
        sandbox,
        "*** Begin Patch\n*** Update File: /scratch/x\n-a\n+A\n"
        "*** Update File: /scratch/./inner\n-b\n+B\n*** End Patch",
    )
    assert (root / "scratch/x").read_text() == "A\nB\n"
    assert (root / "scratch/inner").is_symlink()


def test_stamp_knows_every_difference() -> None:
    one = Change("x", "/scratch/x", b"a", b"b")
    others = [
        Change("x", "/scratch/y", b"a", b"b"),
        Change("x", "/scratch/x", b"", b"ab"),
        Change("x", "/scratch/x", None, b"b"),
        Change("x", "/scratch/x", b"a", None),
    ]
    assert (
        len(
            {patch_stamp([change]) for change in (one, *others)}
            | {patch_stamp([one, one]), patch_stamp([])}
        )
        == 7
    )
    assert patch_stamp([one]) == patch_stamp([Change("./x", "/scratch/x", b"a", b"b")])


OLD = {
    "changed.txt": "".join(f"{n}\n" for n in range(40)),
    "crlf.txt": "a\r\nb\r\nc\r\n",
    "gone.txt": "x\ny",
    "moved from.txt": "".join(f"line {n}\n" for n in range(20)),
    "é\t.txt": "1\n",
    "-- a.txt": "-- a\n++ b\n",
}
NEW = {
    "changed.txt": "".join(f"{n}\n" for n in range(40) if n not in (5, 30)) + "end",
    "crlf.txt": "a\r\nB\r\nc\r\nd\r\n",
    "added/new.txt": "n\r\n\nend",
    "moved to.txt": "".join(f"line {n}\n" for n in range(20)) + "more\n",
    "é\t.txt": "2",
    "-- a.txt": "++ b\n-- a\n",
}


@pytest.mark.needs("git")
def test_git_diff_is_a_patch(tmp_path: Path) -> None:
    """Two trees without common files: the diff by git turns one into the other."""

    def git(folder: Path, *words: str) -> str:
        command = ["git", "--git-dir", str(tmp_path / "git"), "--work-tree", str(folder), *words]
        return subprocess.run(command, cwd=folder, check=True, capture_output=True).stdout.decode()

    git(tmp_path, "init")
    git(tmp_path, "config", "core.autocrlf", "false")
    trees = []
    for files in (OLD, NEW):
        folder = tmp_path / f"{len(trees)}"
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(text.encode())
        git(folder, "add", "--all")
        trees.append(git(folder, "write-tree").strip())
    contents = {name: text.encode() for name, text in OLD.items()}
    changes = plan_patch(parse_patch(git(tmp_path, "diff", "--find-renames", *trees)), contents.get)
    after = {**contents, **{change.path: change.after for change in changes}}
    assert {name: data for name, data in after.items() if data is not None} == {
        name: text.encode() for name, text in NEW.items()
    }


SCRIPT = 0o750


def script(path: Path, content: str = "a\n") -> Path:
    path.write_text(content)
    path.chmod(SCRIPT)
    return path


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(
    ("operations", "name"),
    [
        ("*** Update File: /scratch/run\n-a\n+b", "scratch/run"),
        ("*** Update File: /scratch/run\n*** Move to: /scratch/moved", "scratch/moved"),
        (
            "*** Update File: /scratch/run\n*** Move to: /output/deep/moved\n-a\n+b",
            "output/deep/moved",
        ),
        (
            "*** Update File: /scratch/run\n*** Move to: /scratch/one\n"
            "*** Update File: /scratch/one\n*** Move to: /scratch/two",
            "scratch/two",
        ),
        (
            "*** Update File: /scratch/run\n*** Move to: /scratch/one\n"
            "*** Add File: /scratch/run\n+a\n+new\n*** Update File: /scratch/one\n-a\n+b",
            "scratch/one",
        ),
    ],
    ids=["updated", "moved", "moved and updated", "moved twice", "moved and made anew"],
)
def test_mode_of_a_file_stays(sandbox: Sandbox, root: Path, operations: str, name: str) -> None:
    script(root / "scratch/run")
    patched(sandbox, f"*** Begin Patch\n{operations}\n*** End Patch")
    assert mode(root / name) == SCRIPT


def test_files_that_change_places_change_their_modes_too(sandbox: Sandbox, root: Path) -> None:
    script(root / "scratch/run", "r\n")
    (root / "scratch/text").write_text("t\n")
    plain = mode(root / "scratch/text")
    ways = [("run", "aside"), ("text", "run"), ("aside", "text")]
    moves = "".join(
        f"*** Update File: /scratch/{old}\n*** Move to: /scratch/{new}\n" for old, new in ways
    )
    patched(sandbox, f"*** Begin Patch\n{moves}*** End Patch")
    assert tree(root / "scratch") == {"run": "t\n", "text": "r\n"}
    assert (mode(root / "scratch/run"), mode(root / "scratch/text")) == (plain, SCRIPT)


def test_file_added_where_one_was_moved_away_is_a_plain_one(sandbox: Sandbox, root: Path) -> None:
    script(root / "scratch/run")
    move = "*** Update File: /scratch/run\n*** Move to: /scratch/moved\n*** Delete File: /scratch/moved"
    patched(sandbox, f"*** Begin Patch\n{move}\n*** Add File: /scratch/moved\n+n\n*** End Patch")
    assert not mode(root / "scratch/moved") & stat.S_IXUSR


def test_failed_patch_restores_modes(sandbox: Sandbox, root: Path) -> None:
    changed, deleted = script(root / "scratch/changed"), script(root / "scratch/deleted")
    (root / "scratch/last").write_text("l\n")

    class Failing(Sandbox):
        """The second deletion fails, when all the rest has been done."""

        def delete(self, path: str, *, expected: str | None = None) -> None:
            if path == "/scratch/last":
                raise ToolError("no")
            super().delete(path, expected=expected)

    changes = planned(
        sandbox,
        "*** Begin Patch\n*** Update File: /scratch/changed\n-a\n+b\n*** Delete File: /scratch/deleted\n"
        "*** Delete File: /scratch/last\n*** End Patch",
    )
    with pytest.raises(ToolError, match="no; nothing was changed"):
        apply_plan(changes, Failing(sandbox.zones))
    assert (changed.read_text(), deleted.read_text()) == ("a\n", "a\n")
    assert (mode(changed), mode(deleted)) == (SCRIPT, SCRIPT)

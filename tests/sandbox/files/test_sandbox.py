"""File operations of tools through the sandbox, and refused ones.

Covers forge_cli.core.sandbox, forge_cli.sandbox.files.consent, forge_cli.sandbox.files.operations,
forge_cli.sandbox.files.held, forge_cli.sandbox.files.place, forge_cli.sandbox.files.virtual.
"""

import fcntl
import os
import resource
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from forge_cli.core.errors import ToolError
from forge_cli.core.sandbox import READ_MAX, FolderEntry
from forge_cli.core.zones import Access
from forge_cli.sandbox.files.sandbox import Sandbox

OpenSandbox = Callable[..., Sandbox]


def refusal(action: Callable[[], object]) -> str:
    with pytest.raises(ToolError) as caught:
        action()
    return str(caught.value)


class TestWriting:
    def test_new_file_and_the_folders_above_it(self, sandbox: Sandbox, root: Path) -> None:
        sandbox.write_bytes("/scratch/a/b/new.txt", b"hello")

        assert (root / "scratch/a/b/new.txt").read_bytes() == b"hello"
        assert os.listdir(root / "scratch/a/b") == ["new.txt"]

    def test_leftovers_of_a_killed_process_go_with_the_next_write(
        self, sandbox: Sandbox, root: Path
    ) -> None:
        old, new, busy = (
            root / "scratch" / f".forge-{name}.tmp" for name in ("0" * 16, "1" * 16, "b" * 16)
        )
        for file in (old, new, busy):
            file.write_text("half")
        for file in (old, busy):
            os.utime(file, (1, 1))
        with busy.open("rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            sandbox.write_bytes("/scratch/a.txt", b"hello")
        assert sorted(file.name for file in (root / "scratch").glob(".forge-*")) == [busy.name]

    def test_mode_of_a_file_is_kept(self, sandbox: Sandbox, root: Path) -> None:
        script = root / "scratch" / "script.sh"
        script.write_text("old")
        script.chmod(0o750)

        sandbox.write_bytes("/scratch/script.sh", b"new")

        assert script.read_text() == "new"
        assert stat.S_IMODE(script.stat().st_mode) == 0o750

    def test_file_can_be_made_like_another(self, sandbox: Sandbox, root: Path) -> None:
        (root / "scratch/old").write_text("old")
        (root / "scratch/old").chmod(0o4751)
        (root / "scratch/there").write_text("there")
        like = sandbox.attributes("/scratch/old")

        for name in ("new", "there"):
            sandbox.write_bytes(f"/scratch/{name}", b"new", like=like)

            assert stat.S_IMODE((root / "scratch" / name).stat().st_mode) == 0o751
        assert sandbox.attributes("/scratch/none") is sandbox.attributes("/scratch") is None

    def test_new_file_gets_the_usual_mode(self, sandbox: Sandbox, root: Path) -> None:
        before = os.umask(0o027)
        try:
            sandbox.write_bytes("/scratch/new", b"")
        finally:
            os.umask(before)

        assert stat.S_IMODE((root / "scratch/new").stat().st_mode) == 0o640

    def test_link_stays_and_what_it_leads_to_is_written(self, sandbox: Sandbox, root: Path) -> None:
        (root / "scratch/real.txt").write_text("old")
        (root / "scratch/l").symlink_to("real.txt")

        sandbox.write_bytes("/scratch/l", b"new")

        assert (root / "scratch/l").is_symlink()
        assert (root / "scratch/real.txt").read_text() == "new"

    def test_other_names_of_a_file_keep_the_old_content(self, sandbox: Sandbox, root: Path) -> None:
        (root / "scratch/hl").hardlink_to(root / "outside/secret.txt")

        sandbox.write_bytes("/scratch/hl", b"new")

        assert (root / "outside/secret.txt").read_text() == "secret"
        assert (root / "scratch/hl").read_text() == "new"

    def test_longest_file_name_can_be_written(self, sandbox: Sandbox, root: Path) -> None:
        sandbox.write_bytes(f"/scratch/{'n' * 255}", b"x")
        sandbox.write_bytes(f"/scratch/{'n' * 255}", b"y")

        assert os.listdir(root / "scratch") == ["n" * 255]

    @pytest.mark.needs("user")
    def test_write_protected_file_is_not_replaced(self, sandbox: Sandbox, root: Path) -> None:
        (root / "scratch/a").write_text("old")
        (root / "scratch/a").chmod(0o444)

        refusal(lambda: sandbox.write_bytes("/scratch/a", b"new"))

        assert (root / "scratch/a").read_text() == "old"
        assert os.listdir(root / "scratch") == ["a"]

    def test_write_that_fails_half_way_leaves_the_old_content(
        self, sandbox: Sandbox, root: Path
    ) -> None:
        (root / "scratch/a").write_text("old")
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
        try:
            sentence = refusal(lambda: sandbox.write_bytes("/scratch/a", b"x" * 5000))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)

        assert sentence == "'/scratch/a' cannot be used: File too large"
        assert (root / "scratch/a").read_text() == "old"
        assert os.listdir(root / "scratch") == ["a"]

    def test_path_below_a_file_is_refused(self, sandbox: Sandbox, root: Path) -> None:
        (root / "scratch/a").write_text("x")

        sentence = refusal(lambda: sandbox.write_bytes("/scratch/a/b/c", b""))

        assert sentence == "'/scratch/a/b/c' cannot be: '/scratch/a' is a file, not a folder"


class TestReading:
    def test_whole_and_the_beginning(self, sandbox: Sandbox, root: Path) -> None:
        (root / "src/a").write_bytes(b"\0\xff" * 1000)

        assert sandbox.read_bytes("/src/a") == b"\0\xff" * 1000
        assert sandbox.read_bytes("/src/a", limit=3) == b"\0\xff\0"
        assert sandbox.read_bytes("/src/a", limit=0) == b""
        os.truncate(root / "src/a", READ_MAX + 1)
        assert refusal(lambda: sandbox.read_bytes("/src/a")).endswith(
            f"at most {READ_MAX} are read as a whole"
        )

    def test_equal_content_has_an_equal_digest(self, sandbox: Sandbox, root: Path) -> None:
        for name, content in (("a", "x" * 100_000), ("b", "x" * 100_000), ("c", "y")):
            (root / "src" / name).write_text(content)

        assert sandbox.digest("/src/a") == sandbox.digest("/src/b") != sandbox.digest("/src/c")
        assert "does not exist" in refusal(lambda: sandbox.digest("/src/none"))

    def test_missing_file_is_reported(self, sandbox: Sandbox) -> None:
        assert (
            refusal(lambda: sandbox.read_bytes("/src/no\u200bne"))
            == r"'/src/no\u200bne' does not exist"
        )

    def test_folder(self, sandbox: Sandbox) -> None:
        assert refusal(lambda: sandbox.read_bytes("/src")) == "'/src' is a folder; list it instead"


class TestListing:
    def test_listing_has_the_entries_of_a_folder(self, sandbox: Sandbox, root: Path) -> None:
        folder = root / "scratch"
        (folder / "b.txt").write_text("12345")
        (folder / "a").mkdir()
        (folder / "to-file").symlink_to("b.txt")
        (folder / "to-other-zone").symlink_to("../src")
        (folder / "to-outside").symlink_to("../outside/secret.txt")
        (folder / "to-nothing").symlink_to("nothing")
        (folder / "loop").symlink_to("loop")
        os.mkfifo(folder / "pipe")

        assert sandbox.list("/scratch") == [
            FolderEntry("a", "directory"),
            FolderEntry("b.txt", "file", 5),
            FolderEntry("loop", "link"),
            FolderEntry("pipe", "special"),
            FolderEntry("to-file", "file", 5),
            FolderEntry("to-nothing", "link"),
            FolderEntry("to-other-zone", "directory"),
            FolderEntry("to-outside", "link"),
        ]

    def test_name_that_could_forge_a_line_is_escaped(self, sandbox: Sandbox, root: Path) -> None:
        (root / "scratch/a\nb").write_text("")
        (root / "scratch/\x1b[2J").symlink_to("a\nb")

        assert [entry.name for entry in sandbox.list("/scratch")] == [r"\x1b[2J", r"a\nb"]

    @pytest.mark.skipif(os.uname().sysname == "Darwin", reason="every name is Unicode there")
    def test_name_that_is_no_text(self, sandbox: Sandbox, root: Path) -> None:
        (Path(os.fsdecode(bytes(root / "scratch") + b"/\xff"))).write_text("")

        (entry,) = sandbox.list("/scratch")

        assert entry.name == r"\udcff"

    def test_nested_zone_is_seen_in_the_one_around_it(self, open_sandbox: OpenSandbox) -> None:
        sandbox = open_sandbox(
            [{"name": "top", "mode": "rw"}, {"name": "inner", "path": "top/inner", "mode": "rw"}]
        )
        sandbox.write_bytes("/top/inner/a", b"1")

        assert sandbox.list("/top") == [FolderEntry("inner", "directory")]
        assert sandbox.list("/top/inner") == sandbox.list("/inner") == [FolderEntry("a", "file", 1)]

    def test_file_and_what_is_missing(self, sandbox: Sandbox, root: Path) -> None:
        (root / "scratch/a").write_text("")

        assert (
            refusal(lambda: sandbox.list("/scratch/a"))
            == "'/scratch/a' is a file, not a folder; read it instead"
        )
        assert refusal(lambda: sandbox.list("/scratch/none")) == "'/scratch/none' does not exist"

    def test_sandbox_without_zones_has_no_files(self, open_sandbox: OpenSandbox) -> None:
        sandbox = open_sandbox([])

        assert sandbox.list("/") == []
        assert "has no zones" in refusal(lambda: sandbox.list("/scratch"))
        assert "has no zones" in refusal(lambda: sandbox.list("scratch"))


class TestDeleting:
    def test_file_and_an_empty_folder(self, sandbox: Sandbox, root: Path) -> None:
        (root / "scratch/d").mkdir()
        (root / "scratch/d/a").write_text("")

        sandbox.delete("/scratch/d/a")
        sandbox.delete("/scratch/d/")

        assert os.listdir(root / "scratch") == []

    @pytest.mark.parametrize(
        "target", ["../outside/secret.txt", "../src/a", "../outside", "real", "nothing", "l"]
    )
    def test_link_goes_and_what_it_led_to_stays(
        self, sandbox: Sandbox, root: Path, target: str
    ) -> None:
        (root / "src/a").write_text("")
        (root / "scratch/real").write_text("")
        (root / "scratch/l").symlink_to(target)

        sandbox.judge("/scratch/l", Access.DELETE)
        sandbox.delete("/scratch/l")

        assert not os.path.lexists(root / "scratch/l")
        assert (root / "outside/secret.txt").exists()
        assert (root / "src/a").exists()
        assert (root / "scratch/real").exists()

    def test_below_a_link_the_real_file_goes(self, sandbox: Sandbox, root: Path) -> None:
        (root / "scratch/d").mkdir()
        (root / "scratch/d/a").write_text("")
        (root / "src/l").symlink_to("../scratch/d")

        sandbox.delete("/src/l/a")

        assert os.listdir(root / "scratch/d") == []

    def test_missing_file_is_reported(self, sandbox: Sandbox) -> None:
        assert refusal(lambda: sandbox.delete("/scratch/none")) == "'/scratch/none' does not exist"


class TestAsking:
    def test_path_that_a_file_really_has(self, open_sandbox: OpenSandbox, root: Path) -> None:
        sandbox = open_sandbox(
            [{"name": "top", "mode": "rw"}, {"name": "inner", "path": "top/inner", "mode": "rw"}]
        )
        (root / "top/l").symlink_to(root / "top/inner")

        assert sandbox.resolve("/") == "/"
        assert sandbox.resolve("//top//./x/../a") == "/top/a"
        assert (
            sandbox.resolve("/top/l/not/yet")
            == sandbox.resolve("/top/inner/not/yet")
            == "/inner/not/yet"
        )
        assert sandbox.resolve("/top/l") == "/inner"
        assert sandbox.resolve("/top/l", Access.DELETE) == "/top/l"

    def test_path_on_the_host_for_a_child_process(self, sandbox: Sandbox, root: Path) -> None:
        (root / "scratch/l").symlink_to("../src")

        assert sandbox.real("/scratch/l/a", Access.READ) == root / "src/a"
        assert "read-only" in refusal(lambda: sandbox.real("/scratch/l/a", Access.WRITE))
        assert "list of zones" in refusal(lambda: sandbox.real("/", Access.LIST))


class TestPaths:
    def test_relative_paths_mean_the_default_zone(
        self, open_sandbox: OpenSandbox, root: Path
    ) -> None:
        sandbox = open_sandbox(None)
        sandbox.write_bytes("a/b.txt", b"x")

        assert (root / "a/b.txt").read_bytes() == b"x"
        assert (
            sandbox.resolve("./a/../a/b.txt")
            == sandbox.resolve("/workspace/a/b.txt")
            == "/workspace/a/b.txt"
        )
        assert sandbox.list(".") == sandbox.list("/workspace")
        assert "is in no zone" in refusal(lambda: sandbox.resolve("../workspace/a"))
        assert "is in no zone" in refusal(lambda: sandbox.resolve("a/../.."))
        assert "climbs too high" in refusal(lambda: sandbox.resolve("../" * 50))

    @pytest.mark.parametrize("name", ["~root", "~nobody", "~_apt", "~user-name"])
    def test_home_of_another_user_is_refused(
        self, open_sandbox: OpenSandbox, root: Path, name: str
    ) -> None:
        sandbox = open_sandbox(None)
        for path in (name, f"{name}/a.txt"):
            assert refusal(partial(sandbox.resolve, path)).endswith(f"write './{path}'")
        sandbox.write_bytes(f"./{name}/a.txt", b"x")
        assert (root / name / "a.txt").read_bytes() == b"x"
        assert sandbox.spell(f"/workspace/{name}/a.txt") == f"./{name}/a.txt"
        sandbox.write_bytes("~$letter.docx", b"x")
        assert sandbox.spell("/workspace/~$letter.docx") == "~$letter.docx"

    def test_path_of_the_host_counts_where_a_zone_covers_it(
        self, sandbox: Sandbox, root: Path
    ) -> None:
        (root / "elsewhere").symlink_to(root / "src")
        assert (
            sandbox.resolve(f"{root}/src/a.py")
            == sandbox.resolve(f"{root}/elsewhere/a.py")
            == "/src/a.py"
        )
        assert sandbox.resolve(f"{root}/src/../output/b") == "/output/b"
        assert "read-only" in refusal(lambda: sandbox.judge(f"{root}/src/a.py", "write"))
        for outside in (
            "/etc/passwd",
            f"{root}/outside.txt",
            f"{root}/srcs/a.py",
            str(root),
            "/etc/gone/x",
        ):
            assert refusal(partial(sandbox.resolve, outside)).endswith(
                "the zones are /output, /scratch, /src"
            )

    def test_relative_paths_begin_in_the_working_directory(
        self, sandbox: Sandbox, root: Path
    ) -> None:
        inside = Sandbox(sandbox.zones, workspace=root)
        assert inside.resolve("src/a.py") == inside.resolve("./output/../src/a.py") == "/src/a.py"
        assert "is in no zone" in refusal(lambda: inside.resolve("a.py"))
        below = Sandbox(sandbox.zones, workspace=root / "src/deep")
        assert below.resolve("../../output/b") == "/output/b"
        far = Sandbox(sandbox.zones, workspace=root.parent / "far")
        assert refusal(lambda: far.resolve("src/a.py")).endswith("use '/src/a.py'")

    def test_read_only_zone_names_those_that_can_be_written(self, sandbox: Sandbox) -> None:
        assert refusal(lambda: sandbox.judge("/src/a", Access.WRITE)) == (
            "zone 'src' is read-only, so '/src/a' cannot be changed; zones that can be written: /output, /scratch"
        )

    def test_long_chain_of_links(self, sandbox: Sandbox, root: Path) -> None:
        (root / "scratch/0").write_text("end")
        for number in range(41):
            (root / f"scratch/{number + 1}").symlink_to(str(number))

        assert sandbox.read_bytes("/scratch/40") == b"end"
        assert "too many links" in refusal(lambda: sandbox.read_bytes("/scratch/41"))

    def test_absolute_link_is_followed_back_into_a_zone(self, sandbox: Sandbox, root: Path) -> None:
        (root / "src/a").write_text("x")
        (root / "by-another-name").symlink_to(root)
        (root / "scratch/l").symlink_to(root / "by-another-name/src/a")

        assert sandbox.read_bytes("/scratch/l") == b"x"
        assert sandbox.resolve("/scratch/l") == "/src/a"

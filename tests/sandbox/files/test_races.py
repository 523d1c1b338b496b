"""A tree that changes during access: the opened file is the checked one, and nothing stays open."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from textwrap import dedent, indent

import pytest

from forge_cli.core.approval import Approval
from forge_cli.core.errors import Stale, ToolError
from forge_cli.core.zones import Access
from forge_cli.sandbox.files.sandbox import Sandbox
from forge_cli.schema.paths import PathUse


def open_descriptors() -> set[str]:
    return set(os.listdir("/dev/fd"))


@contextmanager
def meanwhile(code: str, folder: Path) -> Iterator[None]:
    """Do ``code`` again and again in another process, in ``folder``, from before the block until after it."""
    loop = "import contextlib, os, sys\nprint(flush=True)\nwhile True:\n" + indent(
        dedent(code), "    "
    )
    with subprocess.Popen(
        [sys.executable, "-c", loop], cwd=folder, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield
            assert process.poll() is None
        finally:
            process.kill()


@pytest.mark.few(1)
def test_folder_that_keeps_turning_into_a_link_is_no_way_out(sandbox: Sandbox, root: Path) -> None:
    swap = """
        with contextlib.suppress(OSError):
            os.rename("d", f"away{os.urandom(4).hex()}")
        with contextlib.suppress(OSError):
            os.symlink("../outside", "d")
        with contextlib.suppress(OSError):
            os.unlink("d")
        with contextlib.suppress(OSError):
            os.mkdir("d")
            os.link("../public.txt", "d/secret.txt")
    """
    (root / "public.txt").write_text("public")
    with meanwhile(swap, root / "scratch"):
        for _ in range(300):
            with suppress(ToolError):
                sandbox.write_bytes("/scratch/d/new.txt", b"x")
            with suppress(ToolError):
                assert sandbox.read_bytes("/scratch/d/secret.txt") == b"public"
            with suppress(ToolError):
                sandbox.delete("/scratch/d/secret.txt")

    assert os.listdir(root / "outside") == ["secret.txt"]
    assert (root / "outside/secret.txt").read_text() == "secret"


FILE_OR_LINK = """
    with contextlib.suppress(OSError):
        os.symlink("../outside/secret.txt", "b")
        os.rename("b", "a")
        os.link("../public.txt", "b")
        os.rename("b", "a")
"""


@pytest.mark.few(1)
def test_file_that_keeps_turning_into_a_link_is_not_read(sandbox: Sandbox, root: Path) -> None:
    (root / "public.txt").write_text("public")
    with meanwhile(FILE_OR_LINK, root / "scratch"):
        for _ in range(1000):
            with suppress(ToolError):
                assert sandbox.read_bytes("/scratch/a") == b"public"


def test_file_that_keeps_turning_into_a_link_is_not_written(sandbox: Sandbox, root: Path) -> None:
    (root / "public.txt").write_text("public")
    with meanwhile(FILE_OR_LINK, root / "scratch"):
        for _ in range(300):
            with suppress(ToolError):
                sandbox.write_bytes("/scratch/a", b"mine")

    assert (root / "outside/secret.txt").read_text() == "secret"
    assert (root / "public.txt").read_text() == "public"


def test_reader_sees_the_old_content_or_the_new(sandbox: Sandbox, root: Path) -> None:
    look = """
        with open("a", "rb") as file:
            content = file.read()
        assert len(content) == 100_000 and len(set(content)) == 1, content[:20]
    """
    sandbox.write_bytes("/scratch/a", b"a" * 100_000)
    with meanwhile(look, root / "scratch"):
        for number in range(100):
            sandbox.write_bytes("/scratch/a", bytes([number]) * 100_000)

    assert os.listdir(root / "scratch") == ["a"]


def test_path_that_leads_elsewhere_than_what_was_judged_is_stale(
    sandbox: Sandbox, root: Path
) -> None:
    (root / "scratch/a").write_text("x")
    judged = sandbox.resolve("/scratch/a")
    (root / "scratch/a").unlink()
    (root / "scratch/a").symlink_to("../output/a")

    for action in (
        lambda: sandbox.write_bytes("/scratch/a", b"", expected=judged),
        lambda: sandbox.read_bytes("/scratch/a", expected=judged),
    ):
        with pytest.raises(
            Stale, match="led to '/scratch/a' when it was judged, and to '/output/a' now"
        ):
            action()
    sandbox.delete("/scratch/a", expected=sandbox.resolve("/scratch/a", Access.DELETE))
    assert os.listdir(root / "output") == []


def test_zone_that_became_a_link_after_load_is_refused(sandbox: Sandbox, root: Path) -> None:
    (root / "scratch").rmdir()
    (root / "scratch").symlink_to("outside")

    for action in (sandbox.read_bytes, sandbox.list, sandbox.exists, sandbox.delete):
        with pytest.raises(ToolError, match="not what it was at the start"):
            action("/scratch/secret.txt")
    with pytest.raises(ToolError, match="not what it was at the start"):
        sandbox.write_bytes("/scratch/x", b"")


def test_zone_that_was_made_anew_goes_on_working(sandbox: Sandbox, root: Path) -> None:
    (root / "scratch").rmdir()
    (root / "scratch").mkdir()

    sandbox.write_bytes("/scratch/x", b"x")

    assert sandbox.read_bytes("/scratch/x") == b"x"


@pytest.mark.long
def test_descriptors_do_not_stay_open(sandbox: Sandbox, root: Path) -> None:
    (root / "scratch/out").symlink_to("../outside")
    (root / "scratch/loop").symlink_to("loop")
    (root / "scratch/file").write_text("x")
    os.mkfifo(root / "scratch/pipe")
    paths = [
        "/",
        "/scratch",
        "/scratch/file",
        "/scratch/file/x",
        "/scratch/new/x",
        "/scratch/out/x",
        "/scratch/loop",
    ]
    paths += [
        "/scratch/pipe",
        "/src/a",
        "/nowhere",
        "relative",
        "/scratch/a\0",
        f"/scratch/{'n' * 300}",
    ]
    before = open_descriptors()

    for number in range(1000):
        path = paths[number % len(paths)]
        for access in Access:
            with suppress(ToolError):
                sandbox.judge(path, access)
        for action in (
            sandbox.resolve,
            sandbox.exists,
            sandbox.stat,
            sandbox.list,
            sandbox.read_bytes,
        ):
            with suppress(ToolError):
                action(path)
        if number % 10 == 0:
            with suppress(ToolError):
                sandbox.write_bytes(path, b"x")
            with suppress(ToolError):
                sandbox.delete(path)

    assert open_descriptors() == before


BETWEEN_CONSENTS = """
    for target in ("plain.txt", ".git/config", "plain.txt", ".env"):
        with contextlib.suppress(OSError):
            os.symlink(target, "flipping")
            os.rename("flipping", "link")
"""


def race_between_consents(sandbox: Sandbox, root: Path, calls: int) -> int:
    """Calls through a link that flips between files that are free and files that ask; how many were carried out."""
    zone, done = root / "scratch", 0
    (zone / ".git").mkdir()
    for name in (".git/config", ".env", "plain.txt"):
        (zone / name).write_text("untouched")
    (zone / "link").symlink_to("plain.txt")
    with meanwhile(BETWEEN_CONSENTS, zone):
        for number in range(calls):
            access = "write" if number % 2 else "read"
            judged = sandbox.judge_use(PathUse("/scratch/link", access))
            if judged.verdict.approval is not Approval.PRE_APPROVED:
                continue
            view = sandbox.view([judged])
            with suppress(ToolError):
                if access == "write":
                    view.write_bytes("/scratch/link", b"changed")
                else:
                    view.read_bytes("/scratch/link")
                    assert judged.place != "/scratch/.env"
                done += 1
    assert {name: (zone / name).read_text() for name in (".git/config", ".env")} == {
        ".git/config": "untouched",
        ".env": "untouched",
    }
    return done


@pytest.mark.few(1)
def test_link_that_flips_between_consents_writes_nothing_that_asks(
    sandbox: Sandbox, root: Path
) -> None:
    assert race_between_consents(sandbox, root, 600) > 0


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_link_that_flips_in_many_consents_writes_nothing_that_asks(
    sandbox: Sandbox, root: Path
) -> None:
    assert race_between_consents(sandbox, root, 15_000) > 0

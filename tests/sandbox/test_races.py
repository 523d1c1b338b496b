"""A tree that changes under the sandbox: what was checked is what is opened, and nothing stays open."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import pytest

from forge_cli.core.errors import Stale, ToolError
from forge_cli.sandbox.paths import Access, Sandbox


def open_descriptors() -> set[str]:
    return set(os.listdir("/dev/fd"))


@contextmanager
def meanwhile(step: Callable[[], None]) -> Iterator[None]:
    """Do ``step`` again and again in another thread, until the block ends; it has to survive that."""
    done = threading.Event()
    failures: list[Exception] = []

    def work() -> None:
        while not done.is_set() and not failures:
            try:
                step()
            except Exception as error:
                failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
    assert failures == []


def test_a_folder_that_keeps_turning_into_a_link_is_no_way_out(sandbox: Sandbox, root: Path) -> None:
    folder, numbers = root / "scratch/d", count()

    def swap() -> None:
        with suppress(OSError):
            folder.rename(root / f"scratch/away{next(numbers)}")
        with suppress(OSError):
            folder.symlink_to("../outside")
        with suppress(OSError):
            folder.unlink()
        with suppress(OSError):
            folder.mkdir()
            (folder / "secret.txt").write_text("public")

    with meanwhile(swap):
        for _ in range(300):
            with suppress(ToolError):
                sandbox.write_bytes("/scratch/d/new.txt", b"x")
            with suppress(ToolError):
                assert sandbox.read_bytes("/scratch/d/secret.txt") in (b"", b"public")
            with suppress(ToolError):
                sandbox.delete("/scratch/d/secret.txt")

    assert os.listdir(root / "outside") == ["secret.txt"]
    assert (root / "outside/secret.txt").read_text() == "secret"


def test_a_file_that_keeps_turning_into_a_link_is_no_way_out(sandbox: Sandbox, root: Path) -> None:
    file, link = root / "scratch/a", root / "scratch/link"
    file.write_text("public")

    def swap() -> None:
        link.symlink_to("../outside/secret.txt")
        link.rename(file)
        link.write_text("public")
        link.rename(file)

    with meanwhile(swap):
        for _ in range(1500):
            with suppress(ToolError):
                assert sandbox.read_bytes("/scratch/a") in (b"public", b"mine")
            with suppress(ToolError):
                sandbox.write_bytes("/scratch/a", b"mine")

    assert (root / "outside/secret.txt").read_text() == "secret"


def test_a_reader_sees_the_old_content_or_the_new(sandbox: Sandbox, root: Path) -> None:
    contents = (b"a" * 100_000, b"b" * 100_000)
    sandbox.write_bytes("/scratch/a", contents[0])

    def rewrite() -> None:
        for content in contents:
            sandbox.write_bytes("/scratch/a", content)

    with meanwhile(rewrite):
        for _ in range(100):
            assert sandbox.read_bytes("/scratch/a") in contents

    assert os.listdir(root / "scratch") == ["a"]


def test_a_path_that_leads_elsewhere_than_what_was_judged_is_stale(sandbox: Sandbox, root: Path) -> None:
    (root / "scratch/a").write_text("x")
    judged = sandbox.resolve("/scratch/a")
    (root / "scratch/a").unlink()
    (root / "scratch/a").symlink_to("../output/a")

    for action in (
        lambda: sandbox.write_bytes("/scratch/a", b"", expected=judged),
        lambda: sandbox.read_bytes("/scratch/a", expected=judged),
    ):
        with pytest.raises(Stale, match="led to '/scratch/a' when it was judged, and to '/output/a' now"):
            action()
    sandbox.delete("/scratch/a", expected=sandbox.resolve("/scratch/a", Access.DELETE))
    assert os.listdir(root / "output") == []


def test_a_zone_that_became_a_link_after_load_is_refused(sandbox: Sandbox, root: Path) -> None:
    (root / "scratch").rmdir()
    (root / "scratch").symlink_to("outside")

    for action in (sandbox.read_bytes, sandbox.list, sandbox.exists, sandbox.delete):
        with pytest.raises(ToolError, match="not what it was at the start"):
            action("/scratch/secret.txt")
    with pytest.raises(ToolError, match="not what it was at the start"):
        sandbox.write_bytes("/scratch/x", b"")


def test_a_zone_that_was_made_anew_goes_on_working(sandbox: Sandbox, root: Path) -> None:
    (root / "scratch").rmdir()
    (root / "scratch").mkdir()

    sandbox.write_bytes("/scratch/x", b"x")

    assert sandbox.read_bytes("/scratch/x") == b"x"


def test_no_descriptor_stays_open(sandbox: Sandbox, root: Path) -> None:
    (root / "scratch/out").symlink_to("../outside")
    (root / "scratch/loop").symlink_to("loop")
    (root / "scratch/file").write_text("x")
    os.mkfifo(root / "scratch/pipe")
    paths = ["/", "/scratch", "/scratch/file", "/scratch/file/x", "/scratch/new/x", "/scratch/out/x", "/scratch/loop"]
    paths += ["/scratch/pipe", "/src/a", "/nowhere", "relative", "/scratch/a\0", f"/scratch/{'n' * 300}"]
    before = open_descriptors()

    for number in range(1000):
        path = paths[number % len(paths)]
        for access in Access:
            with suppress(ToolError):
                sandbox.judge(path, access)
        for action in (sandbox.resolve, sandbox.exists, sandbox.stat, sandbox.list, sandbox.read_bytes):
            with suppress(ToolError):
                action(path)
        if number % 10 == 0:
            with suppress(ToolError):
                sandbox.write_bytes(path, b"x")
            with suppress(ToolError):
                sandbox.delete(path)

    assert open_descriptors() == before

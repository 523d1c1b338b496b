"""Opening a folder below another: both ways find the same, and refuse the same."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from forge_cli.sandbox.files.openat2 import FOLDER_FLAGS, has_openat2, open_folder, try_openat2

pytestmark = pytest.mark.usefixtures("walking")


@pytest.fixture
def top(tmp_path: Path) -> Iterator[int]:
    """A folder with what could be on the way below it, and something beside it."""
    (tmp_path / "top/a/b/c").mkdir(parents=True)
    (tmp_path / "top/a/file").write_text("")
    (tmp_path / "top/a/out").symlink_to(tmp_path / "beside")
    (tmp_path / "top/a/up").symlink_to("..")
    (tmp_path / "top/a/inside").symlink_to("b")
    (tmp_path / "top/a/nowhere").symlink_to("none")
    (tmp_path / "beside/b").mkdir(parents=True)
    descriptor = os.open(tmp_path / "top", FOLDER_FLAGS)
    yield descriptor
    os.close(descriptor)


@pytest.mark.parametrize("names", [[], ["a"], ["a", "b"], ["a", "b", "c"]], ids="/".join)
def test_it_is_the_folder_that_has_the_name(top: int, tmp_path: Path, names: list[str]) -> None:
    found = open_folder(names, at=top)
    try:
        assert os.path.samestat(os.fstat(found), os.stat(tmp_path.joinpath("top", *names)))
    finally:
        os.close(found)


@pytest.mark.parametrize(
    "way", ["a/out", "a/out/b", "a/up", "a/up/a", "a/inside", "a/inside/c", "a/nowhere", "a/file", "a/file/x", "x/y"]
)
def test_a_link_a_file_or_nothing_ends_the_way(top: int, way: str) -> None:
    with pytest.raises(OSError, match="Not a directory|No such file|symbolic links"):
        open_folder(way.split("/"), at=top)
    assert try_openat2(way.split("/"), at=top) is None


@pytest.mark.skipif(not has_openat2(), reason="this kernel has no openat2")
@pytest.mark.parametrize("way", ["..", "a/../..", "a/b/../../../beside"])
def test_the_kernel_lets_nothing_climb_out(top: int, way: str) -> None:
    assert try_openat2(way.split("/"), at=top) is None

"""Copying files: every method gives the same content, and holes stay holes."""

import errno
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_cli.files.copying import copy_content

CANNOT = (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM)
BLOCK = 4096
pieces = st.lists(
    st.tuples(st.integers(0, 64), st.binary(min_size=1, max_size=2 * BLOCK)), max_size=6
)


def copied(source: Path) -> Path:
    """A copy beside a file, made by its descriptors."""
    target = source.with_name("target")
    with open(source, "rb") as content, open(target, "wb") as copy:
        copy_content(content.fileno(), copy.fileno())
    return target


def failing(number: int):
    def fail(*args: object) -> int:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.fixture(params=["range", "sending", "hand"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The first copy method that works after the earlier ones fail."""
    if request.param != "range":
        monkeypatch.setattr(os, "copy_file_range", failing(errno.EXDEV), raising=False)
    if request.param == "hand":
        monkeypatch.setattr(os, "sendfile", failing(errno.EINVAL), raising=False)
    return request.param


@given(pieces=pieces, end=st.integers(0, 9 * BLOCK))
def test_every_way_to_copy_keeps_content_and_holes(
    way: str, pieces: list[tuple[int, bytes]], end: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "source")
        with source.open("wb") as stream:
            for block, data in pieces:
                stream.seek(block * 4 * BLOCK)
                stream.write(data)
            stream.truncate(max(stream.tell(), end))
        target = copied(source)
        assert target.read_bytes() == source.read_bytes(), way
        assert target.stat().st_blocks <= source.stat().st_blocks + 8, way


@pytest.mark.parametrize("number", CANNOT)
def test_unsupported_copy_method_falls_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    (tmp_path / "source").write_bytes(b"content" * 100_000)
    for name in ("copy_file_range", "sendfile"):
        monkeypatch.setattr(os, name, failing(number), raising=False)
    assert copied(tmp_path / "source").read_bytes() == b"content" * 100_000


def test_failed_copy_method_is_continued_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "source").write_bytes(bytes(range(256)) * 1000)
    sizes = [10_000, 500, 0]
    real = os.pread

    def some(source: int, target: int, size: int, at: int, _: int) -> int:
        return os.pwrite(target, real(source, min(size, sizes.pop(0)), at), at)

    monkeypatch.setattr(os, "copy_file_range", some, raising=False)
    assert copied(tmp_path / "source").read_bytes() == bytes(range(256)) * 1000
    assert sizes == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
def test_permanent_copy_error_is_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    (tmp_path / "source").write_bytes(b"content")
    for name in ("copy_file_range", "sendfile", "pwrite"):
        monkeypatch.setattr(os, name, failing(number), raising=False)
    with pytest.raises(OSError, match=os.strerror(number)):
        copied(tmp_path / "source")


def test_file_truncated_during_a_copy_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "source").write_bytes(b"content" * 1000)
    real = os.pread

    def shrinking(source: int, size: int, at: int) -> bytes:
        os.truncate(tmp_path / "source", 100)
        return real(source, size, at)

    for name in ("copy_file_range", "sendfile"):
        monkeypatch.setattr(os, name, failing(errno.EXDEV), raising=False)
    monkeypatch.setattr(os, "pread", shrinking)
    with pytest.raises(OSError, match="the file became shorter while it was copied"):
        copied(tmp_path / "source")

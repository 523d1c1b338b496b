"""Comparison of two files of any size: every difference is shown or reported as not shown.

Covers forge_cli.toolsets.shell.contents.
"""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_cli.toolsets.shell.contents import CHANGED_AT_MOST, MADE_AT_MOST, compare_files

LINES = st.lists(st.sampled_from(["a", "b", "", "  indented", "x" * 80]), max_size=40).map(
    "\n".join
)


def written(
    folder: Path, before: bytes | None, after: bytes | None
) -> tuple[Path | None, Path | None]:
    paths = (folder / "before", folder / "after")
    for path, data in zip(paths, (before, after), strict=True):
        if data is not None:
            path.write_bytes(data)
    return paths[0] if before is not None else None, paths[1] if after is not None else None


@given(LINES, LINES)
def test_shown_difference_of_large_files_is_a_valid_patch(
    tmp_path_factory: pytest.TempPathFactory, before: str, after: str
) -> None:
    """The way of large files, on small ones."""
    folder = tmp_path_factory.mktemp("files")
    old, new = written(folder, before.encode(), after.encode())
    found = compare_files(old, new, "before", "before", at_most=-1)
    assert found.shown
    if before == after:
        assert found.difference == ()
        return
    patch = "".join(f"{line}\n" for line in found.difference).encode()
    subprocess.run(["patch", "-s", "before"], cwd=folder, input=patch, check=True, timeout=60)
    assert (folder / "before").read_bytes() == after.encode()


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_differing_bytes_are_shown_or_counted(
    tmp_path_factory: pytest.TempPathFactory, before: bytes, after: bytes
) -> None:
    found = compare_files(*written(tmp_path_factory.mktemp("files"), before, after), "old", "new")
    assert bool(found.difference) == (found.shown and before != after)
    assert all(line.isprintable() or "\t" in line for line in found.difference)


KINDS = {
    "text": b"all:\n\ttrue\n",
    "empty": b"",
    "text with NUL": b"all: ; evil\n\0",
    "many NULs": b"all: ; evil\n" + b"\0" * 80,
    "UTF-16 text": "evil\n".encode("utf-16"),
    "text that is not UTF-8": "café, s'il vous plaît\n".encode("latin-1"),
    "program": b"\x7fELF\2\1\1" + bytes(range(200)),
    "gzip archive": b"\x1f\x8b\x08" + bytes(range(200)),
    "binary": bytes(range(128, 256)) * 3,
    "zeros": bytes(100),
}


@pytest.mark.parametrize(("name", "data"), KINDS.items())
def test_kind_of_a_file_is_stated(tmp_path: Path, name: str, data: bytes) -> None:
    kinds = {"empty": "text", "many NULs": "text with NUL", "zeros": "binary"}
    made = compare_files(*written(tmp_path, None, data), "/dev/null", "new")
    assert made.kind == kinds.get(name, name)
    assert made.shown == ("text" in made.kind)
    changed = compare_files(*written(tmp_path, b"first\n", data), "new", "new")
    assert changed.kind == (made.kind if made.kind == "text" else f"{made.kind}, was text")


def test_large_files_are_compared_around_their_differences(tmp_path: Path) -> None:
    lines = [f"line {number} of a log that goes on and on\n" for number in range(900_000)]
    before = "".join(lines).encode()
    lines[700_000] = "evil\n"
    found = compare_files(*written(tmp_path, before, "".join(lines).encode()), "log", "log")
    assert found.difference[2] == "@@ -699998,7 +699998,7 @@"
    assert [line for line in found.difference[3:] if line[0] != " "] == [
        f"-{before.splitlines()[700_000].decode()}",
        "+evil",
    ]


def test_single_long_line_is_compared_by_bytes(tmp_path: Path) -> None:
    before = b"x=1;" * 500_000
    found = compare_files(
        *written(tmp_path, before, before[:1_000_000] + b"EVIL" + before[1_000_000:]),
        "a.js",
        "a.js",
    )
    assert found.difference[2] == "@@ inside of a long line, byte 1000000 @@"
    assert "EVIL" in found.difference[4]
    assert "EVIL" not in found.difference[3]


def test_too_large_file_is_reported_as_not_shown(tmp_path: Path) -> None:
    made = compare_files(*written(tmp_path, None, b"x\n" * MADE_AT_MOST), "/dev/null", "new")
    assert (made.kind, made.shown, made.difference) == ("text", False, ())
    others = compare_files(
        *written(tmp_path, b"x\n" * CHANGED_AT_MOST, b"y\n" * CHANGED_AT_MOST), "new", "new"
    )
    assert (others.shown, others.difference) == (False, ())

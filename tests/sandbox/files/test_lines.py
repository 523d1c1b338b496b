"""Lines of a file: the same as in the whole text, for every chunk size."""

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_cli.core.errors import ToolError
from forge_cli.sandbox.files import held
from forge_cli.sandbox.files.held import read_lines


class Watched(io.BytesIO):
    """A file that knows how much was asked of it at once."""

    most = 0

    def readline(self, size: int | None = -1) -> bytes:
        found = super().readline(size)
        self.most = max(self.most, len(found))
        return found


@given(
    st.text("ab\n\r", max_size=40).map(str.encode),
    st.integers(1, 12),
    st.none() | st.integers(1, 12),
    st.integers(1, 9),
)
def test_lines_are_those_of_the_whole_text(
    data: bytes, first: int, count: int | None, chunk: int
) -> None:
    expected = re.findall(rb"[^\n]*\n|[^\n]+", data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(held, "CHUNK", chunk)
        file = Watched(data)
        if first > max(len(expected), 1):
            number = f"{len(expected)} line{'' if len(expected) == 1 else 's'}"
            with pytest.raises(
                ToolError, match=f"^f has {number}, so there is nothing at line {first}$"
            ):
                read_lines(file, first, count, at_most=100, name="f")
        else:
            found = read_lines(file, first, count, at_most=100, name="f")
            assert found == b"".join(
                expected[first - 1 : None if count is None else first - 1 + count]
            )
        assert file.most <= chunk


@pytest.mark.parametrize("count", [None, 1, 2])
def test_lines_that_are_too_long_are_refused(count: int | None) -> None:
    with pytest.raises(
        ToolError, match="^these lines of f have more than 9 bytes; read fewer lines at a time$"
    ):
        read_lines(io.BytesIO(b"\n" + b"x" * 10), 2, count, at_most=9, name="f")
    assert read_lines(io.BytesIO(b"\n" + b"x" * 9), 2, count, at_most=9, name="f") == b"x" * 9

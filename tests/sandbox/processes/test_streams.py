"""Streams: output handed out once and in whole characters, input that never hangs."""

import os
import re

import anyio
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from forge_cli.core.errors import ToolError
from forge_cli.sandbox.processes.streams import Input, Output

CUT = re.compile(r"\n\[\.\.\. (\d+) bytes cut \.\.\.\]\n")

TEXT = st.text(st.sampled_from("aé€😀\n"), max_size=200)


def pieces(data: bytes, sizes: list[int]) -> list[bytes]:
    found = []
    for size in sizes:
        found.append(data[:size])
        data = data[size:]
    return [*found, data]


def check_once(original: bytes, told: str) -> int:
    """Check that the output is the original except named cuts; return the size of the cuts."""
    place = cut = 0
    parts = CUT.split(told)
    for text, lost in zip(parts[::2], [*parts[1::2], "0"], strict=True):
        part = text.encode()
        assert original[place : place + len(part)] == part
        place += len(part) + int(lost)
        cut += int(lost)
    assert place == len(original)
    return cut


@given(TEXT, st.lists(st.integers(1, 9)), st.lists(st.integers(1, 9)))
def test_output_returns_every_byte_once_in_whole_characters(
    text: str, sizes: list[int], polls: list[int]
) -> None:
    output = Output()
    told = ""
    for index, piece in enumerate(pieces(text.encode(), sizes)):
        output.add(piece)
        told += output.take(polls[index]) if index < len(polls) else ""
    told += output.take()
    output.close()
    assert (told + output.take(), output.dropped, output.pending) == (text, 0, False)


@example("aaaaaaaaéé€😀😀😀😀😀", [1] * 9 + [7, 9, 9], 1)
@given(TEXT, st.lists(st.integers(1, 9)), st.integers(0, 40))
def test_output_beyond_the_limit_loses_its_middle(text: str, sizes: list[int], limit: int) -> None:
    output = Output(limit)
    for piece in pieces(text.encode(), sizes):
        output.add(piece)
    output.close()
    told = output.take()
    kept = "".join(CUT.split(told)[::2])
    assert check_once(text.encode(), told) == output.dropped
    assert len(kept.encode()) <= limit
    assert (output.dropped == 0) == (len(text.encode()) <= limit)


@given(TEXT, st.lists(st.integers(1, 9)), st.lists(st.integers(0, 30)), st.integers(8, 40))
def test_polls_and_cuts_together_lose_nothing_unnamed(
    text: str, sizes: list[int], polls: list[int], limit: int
) -> None:
    output = Output(limit)
    told = ""
    for index, piece in enumerate(pieces(text.encode(), sizes)):
        output.add(piece)
        told += output.take(polls[index]) if index < len(polls) else ""
    output.close()
    while output.pending:
        told += output.take(3)
    assert check_once(text.encode(), told + output.take()) == output.dropped


@given(st.lists(st.binary(max_size=20)), st.integers(0, 30))
def test_bytes_that_are_no_text_are_replaced(data: list[bytes], limit: int) -> None:
    output = Output(limit)
    told = ""
    for piece in data:
        output.add(piece)
        told += output.take(5)
    output.close()
    told += output.take()
    assert not output.pending
    if output.dropped == 0:
        assert told == b"".join(data).decode(errors="replace")


def test_pipe_is_drained_without_waiting_for_its_end() -> None:
    reading, writing = os.pipe()
    output = Output()
    os.write(writing, b"left behind")
    output.drain(reading)
    os.write(writing, b", and more")
    os.close(writing)
    output.drain(reading)
    os.close(reading)
    assert output.take() == "left behind, and more"


@pytest.mark.anyio
async def test_input_waits_for_a_reader_and_keeps_its_order() -> None:
    reading, writing = os.pipe()
    stdin, heard = Input(writing), Output(2**22)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as reading_:
            async with anyio.create_task_group() as writing_:
                writing_.start_soon(stdin.write, b"a" * 200_000)
                await anyio.wait_all_tasks_blocked()
                writing_.start_soon(stdin.write, b"b" * 10)
                await anyio.wait_all_tasks_blocked()
                reading_.start_soon(heard.read, reading)
            stdin.close()
    os.close(reading)
    assert heard.take() == "a" * 200_000 + "b" * 10


@pytest.mark.anyio
async def test_input_that_nobody_reads_says_how_much_was_left() -> None:
    reading, writing = os.pipe()
    stdin = Input(writing)
    with pytest.raises(ToolError, match=r"did not read \d+ of 1000000 bytes of its input in time"):
        await stdin.write(b"x" * 1_000_000, timeout=0.05)
    os.close(reading)
    with pytest.raises(ToolError, match="no longer reads its input"):
        await stdin.write(b"x")
    stdin.close()
    stdin.close()
    with pytest.raises(ToolError, match="is closed"):
        await stdin.write(b"x")


@pytest.mark.anyio
async def test_closing_the_input_wakes_whoever_writes() -> None:
    reading, writing = os.pipe()
    stdin = Input(writing)
    refused = []

    async def write() -> None:
        try:
            await stdin.write(b"x" * 1_000_000)
        except ToolError as error:
            refused.append(str(error))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as writing_:
            writing_.start_soon(write)
            await anyio.wait_all_tasks_blocked()
            stdin.close()
    os.close(reading)
    assert refused == ["the process has ended without reading all of its input"]

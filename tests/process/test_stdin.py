"""The source of the task: the command line, standard input, or both.

Covers forge_cli.process.stdin.
"""

import os
from collections.abc import Callable

import pytest

from forge_cli.core.errors import UsageError
from forge_cli.process import stdin
from forge_cli.process.stdin import task_from
from tests.support.deadline import deadline


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Make a descriptor the standard input."""
    return lambda descriptor: monkeypatch.setattr("sys.stdin", os.fdopen(descriptor))


@pytest.fixture
def pipe(given) -> Callable[[bytes], int]:
    """Make standard input a pipe with these bytes; return its other end, still open."""

    def make(data: bytes) -> int:
        read, write = os.pipe()
        os.write(write, data)
        given(read)
        return write

    return make


def test_dash_stands_for_the_input(pipe) -> None:
    os.close(pipe("write a report\nabout käse\n".encode()))
    assert task_from("-") == "write a report\nabout käse\n"


def test_pipe_without_a_task_is_the_task(pipe) -> None:
    os.close(pipe(b"from the pipe"))
    assert task_from(None) == "from the pipe"


def test_task_and_pipe_become_a_task_with_a_block(pipe) -> None:
    os.close(pipe(b"a,b\n1,2\n"))
    assert task_from("add it up") == "add it up\n\n<stdin>\na,b\n1,2\n</stdin>"


def test_empty_pipe_adds_nothing(pipe) -> None:
    os.close(pipe(b""))
    assert task_from("just this") == "just this"


def test_file_works_like_a_pipe(given, tmp_path) -> None:
    (tmp_path / "data").write_text("from a file")
    given(os.open(tmp_path / "data", os.O_RDONLY))
    assert task_from("read") == "read\n\n<stdin>\nfrom a file\n</stdin>"


def test_dev_null_is_not_read(given) -> None:
    given(os.open(os.devnull, os.O_RDONLY))
    assert task_from("just this") == "just this"


def test_silent_pipe_times_out(pipe, monkeypatch, capsys) -> None:
    monkeypatch.setattr(stdin, "FIRST_BYTE_TIMEOUT", 0.01)
    write = pipe(b"")
    assert task_from("go on") == "go on"
    assert "no data on standard input; continuing without it" in capsys.readouterr().err
    os.close(write)


def test_silent_pipe_without_a_task_is_a_usage_error(pipe, monkeypatch) -> None:
    monkeypatch.setattr(stdin, "FIRST_BYTE_TIMEOUT", 0.01)
    write = pipe(b"")
    with deadline(), pytest.raises(UsageError, match="no task was given"):
        task_from(None)
    os.close(write)


@pytest.mark.parametrize("argument", [None, "go"])
def test_pipe_that_stops_is_a_usage_error(pipe, monkeypatch, argument: str | None) -> None:
    monkeypatch.setattr(stdin, "STALL_TIMEOUT", 0.01)
    write = pipe(b"x")
    with (
        deadline(),
        pytest.raises(UsageError, match="standard input did not end: no data for 0.01 s"),
    ):
        task_from(argument)
    os.close(write)


@pytest.mark.parametrize("argument", ["-", None])
def test_endless_input_is_refused(given, argument: str | None) -> None:
    given(os.open("/dev/zero", os.O_RDONLY))
    with (
        deadline(),
        pytest.raises(UsageError, match="standard input has more than 16777216 bytes"),
    ):
        task_from(argument)


def test_bytes_that_are_not_text_are_escaped(pipe) -> None:
    os.close(pipe(b"caf\xe9 \xff"))
    assert task_from("-") == "caf\ufffd \ufffd"


@pytest.mark.parametrize("task", ["", "  \n", "-", None])
def test_empty_task_is_a_usage_error(pipe, task: str | None) -> None:
    os.close(pipe(b" \n"))
    with pytest.raises(UsageError, match="the task is empty") as caught:
        task_from(task)
    assert caught.value.exit_code == 2
    assert caught.value.hint


def test_empty_task_with_a_pipe_is_a_usage_error(pipe) -> None:
    os.close(pipe(b"data"))
    with pytest.raises(UsageError, match="the task is empty"):
        task_from("")


def test_task_is_required_on_a_terminal(given) -> None:
    _, terminal = os.openpty()
    given(terminal)
    with pytest.raises(UsageError, match="no task was given"):
        task_from(None)
    assert task_from("given") == "given"


def test_block_reaches_the_model(tester) -> None:
    done = tester.forge("run", "worker.yaml", "sum", "-p", stdin="1\n2\n")
    assert done.stdout == "Last words: sum\n\n<stdin>\n1\n2\n</stdin>\n"
    done = tester.forge("run", "worker.yaml", "-p", stdin="from the pipe")
    assert done.stdout == "Last words: from the pipe\n"

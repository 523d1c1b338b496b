"""Tracebacks of tools: a line for the model, all of it for whoever debugs."""

from collections.abc import Iterator

import pytest

from forge_cli.engine.gate.debugging import listen_to_tracebacks, place_of, tell_traceback
from forge_cli.testing import Project

TOOLS = '''
import json


def boom(how: str) -> str:
    """Fail."""
    return helper(how)


def helper(how: str) -> str:
    return json.loads(how)
'''
WORKER = """
name: w
model: script:s.yaml
toolsets: {custom: {module: ./tools.py, tools: [boom], approval: {default: preApproved}}}
"""


@pytest.fixture
def heard() -> Iterator[list[str]]:
    told: list[str] = []
    listen_to_tracebacks(told.append)
    yield told
    listen_to_tracebacks(None)


@pytest.fixture
def failing(project: Project) -> Project:
    project.write("tools.py", TOOLS)
    project.write("worker.yaml", WORKER)
    project.write("s.yaml", "turns: [{calls: [{tool: boom, input: {how: x}}]}, {text: 'It said: {result}'}]")
    return project


def test_the_result_has_the_line_and_debug_the_traceback(failing: Project) -> None:
    """The line is the author's, not that of the library which raised it."""
    said = "It said: JSONDecodeError: Expecting value: line 1 column 1 (char 0) (tools.py:11)\n"
    plain = failing.forge("run", "worker.yaml", "Go.", "-p")
    assert (plain.stdout, plain.stderr) == (said, "")
    debug = failing.forge("run", "worker.yaml", "Go.", "-p", "--debug")
    assert debug.stdout == said
    assert debug.stderr.startswith("Traceback (most recent call last):\n")
    assert 'tools.py", line 7, in boom\n    return helper(how)\n' in debug.stderr
    assert debug.stderr.endswith("json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)\n")
    assert "forge_cli" not in debug.stderr


def test_an_error_that_was_never_raised_has_no_place() -> None:
    assert place_of(ValueError("x")) is None


def test_nobody_listens_and_nothing_is_said(capfd: pytest.CaptureFixture[str]) -> None:
    tell_traceback(ValueError("x"))
    assert capfd.readouterr() == ("", "")


def test_an_exception_that_cannot_be_shown(heard: list[str]) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no")

    tell_traceback(Mute())
    assert len(heard) == 1
    assert "Mute" in heard[0]

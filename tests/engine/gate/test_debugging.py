"""Tracebacks of tools: one line for the model, all lines for debugging."""

import pytest

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
def failing(project: Project) -> Project:
    project.write("tools.py", TOOLS)
    project.write("worker.yaml", WORKER)
    project.write(
        "s.yaml", "turns: [{calls: [{tool: boom, input: {how: x}}]}, {text: 'It said: {result}'}]"
    )
    return project


def test_error_result_has_the_line_and_debug_output_the_traceback(failing: Project) -> None:
    """The line is the author's, not that of the library which raised it."""
    said = "It said: JSONDecodeError: Expecting value: line 1 column 1 (char 0) (tools.py:11)\n"
    plain = failing.forge("run", "worker.yaml", "Go.", "-p")
    assert (plain.stdout, plain.stderr) == (said, "")
    debug = failing.forge("run", "worker.yaml", "Go.", "-p", "--debug")
    assert debug.stdout == said
    assert debug.stderr.startswith("Traceback (most recent call last):\n")
    assert 'tools.py", line 7, in boom\n    return helper(how)\n' in debug.stderr
    assert debug.stderr.endswith(
        "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)\n"
    )
    assert "forge_cli" not in debug.stderr

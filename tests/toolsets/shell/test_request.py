"""The request of a command: its parts with their rules, the folder, and the confinement."""

import pytest
from msgspec.structs import replace

from forge_cli.core.errors import Mark
from forge_cli.events import ApprovalRequired, CommandRun, JudgedPart
from forge_cli.testing import Project, call, calls

WORKER = """
name: w
sandbox: {{isolation: {isolation}}}
toolsets:
  shell:
    try: off
    rules:
      - {{pattern: git status, approval: preApproved}}
      - {{pattern: rm, approval: ask, reason: deleting is for people}}
"""


def asked(project: Project, command: str, tool: str = "shell", isolation: str = "off", **args):
    project.write("worker.yaml", WORKER.format(isolation=isolation))
    seen = project.run(calls(call(tool, command=command, **args)), "done", answers=[False])
    [event] = seen.of(ApprovalRequired)
    assert ApprovalRequired.read(event.payload()).payload() == event.payload(), (
        "the log keeps all of it"
    )
    [request] = seen.asked
    return request


def test_request_lists_every_part_with_its_rule(project: Project) -> None:
    request = asked(project, "git status && rm -rf build 2>&1 | tail -5 > out.txt && git status")
    git, rm = (Mark(str(project.folder / "worker.yaml"), line, 9) for line in (8, 9))
    assert [replace(part, met=()) for part in request.parts] == [
        JudgedPart(
            "git status", "preApproved", "rule 'git status'", "toolsets.shell.rules[0]", git
        ),
        JudgedPart("rm -rf build 2>&1", "ask", "rule 'rm'", "toolsets.shell.rules[1]", rm),
        JudgedPart("tail -5 > out.txt", "ask", "no rule"),
    ]


def test_part_that_exceeds_its_rule_has_a_reason(project: Project) -> None:
    request = asked(project, "ls; git status > out.txt")
    assert [part.reason for part in request.parts] == [
        "no rule",
        "rule 'git status', but > out.txt writes a file",
    ]


def test_single_command_has_no_parts(project: Project) -> None:
    assert asked(project, "rm -rf build").parts is None


@pytest.mark.parametrize(
    ("isolation", "confined"),
    [("off", False), pytest.param("required", True, marks=pytest.mark.needs("bwrap"))],
)
def test_request_names_the_folder_and_the_confinement(
    project: Project, isolation, confined
) -> None:
    request = asked(project, "make", isolation=isolation)
    assert request.runs == CommandRun(str(project.folder), confined, "command")
    assert request.preview is None


def test_other_folder_is_named(project: Project) -> None:
    (project.folder / "sub").mkdir()
    request = asked(project, "make", "exec_command", workdir="/workspace/sub", yield_time_ms=5)
    assert request.runs == CommandRun(str(project.folder / "sub"), False, "command")
    assert request.defaults == ("max_output_tokens",)


@pytest.mark.parametrize(
    ("args", "defaults"),
    [({}, ("timeout",)), ({"timeout": None}, ("timeout",)), ({"timeout": 5}, None)],
)
def test_default_args_are_named(project: Project, args, defaults) -> None:
    assert asked(project, "make", **args).defaults == defaults

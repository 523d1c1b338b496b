"""``forge report``: what maintainers need to know, in a file.

Covers forge_cli.cli.report.
"""

from collections.abc import Callable

from forge_cli import __version__
from forge_cli.testing import Project
from tests.support.command_line import Done

Cli = Callable[..., Done]
WORKER = "name: w\ntoolsets: {filesystem: {approval: {default: preApproved}}}\n"
SCRIPT = "turns:\n- calls: [{tool: read_file, input: {path: notes.txt}}]\n- text: All good.\n"


def test_report_has_versions_checks_and_the_redacted_session(cli: Cli, project: Project) -> None:
    project.write("worker.yaml", WORKER)
    project.write("notes.txt", "password: hunter22\n")
    project.write("script.yaml", SCRIPT)
    assert cli("run", "worker.yaml", "go", "-p", "-m", "script:script.yaml").code == 0
    done = cli("report", "-r", "last", "-o", "found.md")
    assert (done.code, done.out) == (0, "wrote found.md; read it before you share it\n"), done
    text = project.read("found.md")
    assert f"- forge {__version__}, isolation " in text
    assert "| python | yes | " in text
    assert "All good." in text
    assert "hunter22" not in text


def test_report_is_written_without_a_session(cli: Cli, project: Project) -> None:
    assert cli("report").code == 0
    assert "## The session" not in project.read("forge-report.md")


def test_report_that_cannot_be_written_is_refused(cli: Cli, project: Project) -> None:
    done = cli("report", "-o", "nosuch/report.md")
    assert (done.code, done.out) == (2, ""), done
    assert cli("report", "-r", "nosuch").code == 3

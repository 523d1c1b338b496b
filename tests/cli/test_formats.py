"""Logs of every form that the record ever had: each is shown, verified and resumed, or it is said plainly why not."""

import json
from pathlib import Path

import pytest

from forge_cli.core.events import VERSION
from forge_cli.testing import Project

LOGS = sorted((Path(__file__).parents[1] / "cases" / "logs").glob("v*.jsonl"))
"""By version of the format; within one, by what was new: how a line was sealed, and where its consent is proven."""


@pytest.fixture
def keeper(project: Project) -> Project:
    project.write(
        "worker.yaml", "name: keeper\nmodel: script:more.yaml\ntoolsets: {filesystem: {}}\n"
    )
    project.write("more.yaml", 'turns:\n  - text: "More."\n')
    return project


def keep(project: Project, lines: list[str]) -> str:
    session = str(json.loads(lines[0])["session"])
    folder = project.home / "sessions"
    folder.mkdir(parents=True, exist_ok=True)
    folder.joinpath(f"{session}.jsonl").write_text("\n".join((*lines, "")))
    return session


def test_logs_of_every_version_are_tested() -> None:
    assert {int(path.name[1]) for path in LOGS} == set(range(1, VERSION + 1))


@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.stem)
def test_log_of_each_version_can_be_used(cli, keeper: Project, log: Path) -> None:
    session = keep(keeper, log.read_text().splitlines())
    assert cli("sessions", "verify", session).out == f"{session}: ok, 13 lines\n"
    shown = cli("sessions", "show", session)
    assert (shown.code, shown.err) == (0, "")
    assert "a.txt" in shown.out
    assert shown.out.endswith("-- completed: 2 turns, 1 call\n")
    done = cli("run", "worker.yaml", "more", "-r", session, "-p")
    assert (done.code, done.out) == (0, "More.\n")
    assert cli("sessions", "verify", session).code == 0


def test_newer_log_is_shown_but_not_resumed(cli, keeper: Project) -> None:
    lines = LOGS[0].read_text().replace('{"v": 1,', '{"v": 2,').splitlines()
    session = keep(keeper, lines)
    done = cli("run", "worker.yaml", "more", "-r", session, "-p")
    assert (done.code, done.out) == (3, "")
    assert "has log version 2, which this version of forge cannot read" in done.err
    shown = cli("sessions", "show", session)
    assert (shown.code, "Written." in shown.out) == (0, True)
    assert shown.err.startswith(
        f"forge: the session {session} has log version 2; showing what this version of forge can read\n"
    )

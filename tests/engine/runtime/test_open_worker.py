"""Opening a worker: which approval mode counts."""

import pytest

from forge_cli.core.errors import WorkerError
from forge_cli.core.events import SessionStart
from forge_cli.testing import Project


@pytest.mark.parametrize(
    ("given", "in_the_worker", "of_the_user", "mode"),
    [
        (None, None, None, "interactive"),
        (None, None, "approve_all", "approve_all"),
        (None, "interactive", "approve_all", "interactive"),
        (None, "auto_deny", "approve_all", "auto_deny"),
        (None, "auto_deny", "interactive", "auto_deny"),
        (None, "interactive", "auto_deny", "auto_deny"),
        (None, "auto_deny", None, "auto_deny"),
        (None, None, "auto_deny", "auto_deny"),
        ("approve_all", "auto_deny", "auto_deny", "approve_all"),
        ("interactive", "auto_deny", "approve_all", "interactive"),
        ("auto_deny", None, "approve_all", "auto_deny"),
    ],
)
def test_flag_takes_precedence_else_the_strictest_mode(
    project: Project,
    given: str | None,
    in_the_worker: str | None,
    of_the_user: str | None,
    mode: str,
) -> None:
    said = f"approval: {{mode: {in_the_worker}}}\n" if in_the_worker else ""
    project.write("worker.yaml", f"name: w\n{said}")
    if of_the_user:
        project.home.mkdir()
        (project.home / "config.yaml").write_text(f"approval: {{mode: {of_the_user}}}\n")
    seen = project.run("hi", approval_mode=given)
    assert [event.approval_mode for event in seen.of(SessionStart)] == [mode]


def test_worker_cannot_approve_its_own_calls(project: Project) -> None:
    file = project.write("worker.yaml", "name: w\napproval:\n  mode: approve_all\n")
    with pytest.raises(WorkerError) as caught:
        project.run("hi", approval_mode="approve_all")
    assert str(caught.value) == (
        f"{file}:3:9: approval.mode: a worker cannot approve its own calls; "
        "use -y, or approval.mode in your own config.yaml"
    )

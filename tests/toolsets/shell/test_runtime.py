"""Files of user services below ``/run/user``: a trial that opens one is incomplete.

Covers forge_cli.sandbox.trial.masked, forge_cli.sandbox.trial.trials.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from forge_cli.core.events import ApprovalRequired, ToolResult
from forge_cli.core.trial import CommandTried
from forge_cli.testing import Project, call, calls

pytestmark = pytest.mark.needs("overlay")


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder in place of the real one, which belongs to the system."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        for name in ("1000/containers/auth.json", "1000/pulse/pid", "1001/key"):
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("the secret\n")
        monkeypatch.setattr("forge_cli.sandbox.trial.masked.RUNTIME", folder)
        yield Path(folder)


READS = {
    "1000/containers": "open('/'.join(['{}', '1000/containers/auth.json'])).read()",
    "1000": "__import__('os').listdir('/'.join(['{}', '1000']))",
    "1001": "open('/'.join(['{}', '1001', 'key'])).read()",
    "1000/pulse": "__import__('glob').glob('/'.join(['{}', '1000/pulse/*']))",
}


@pytest.mark.parametrize("place", READS)
def test_access_to_forge_runtime_files_asks_and_returns_nothing(
    project: Project, runtime: Path, place: str
) -> None:
    project.write("worker.yaml", "name: w\ntoolsets: {shell: {}}\n")
    project.write("look.py", f"print({READS[place].format(runtime)})\n")
    line = "python3 look.py 2>/dev/null || true"
    seen = project.run(calls(call("shell", command=line)), "done", timeout=60, answers=[False])
    (found,) = seen.of(CommandTried)
    assert found.outcome == "incomplete"
    assert (f"{runtime}/{place}", "no command sees") in [
        (want.what, want.why) for want in found.wanted
    ]
    assert len(seen.of(ApprovalRequired)) == 1
    assert "secret" not in str(seen.of(ToolResult)[0].value)


def test_line_without_such_access_does_not_ask(project: Project, runtime: Path) -> None:
    project.write("worker.yaml", "name: w\ntoolsets: {shell: {}}\n")
    seen = project.run(calls(call("shell", command="ls; python3 -c 1")), "done", timeout=60)
    assert [found.outcome for found in seen.of(CommandTried)] == ["noEffect"]

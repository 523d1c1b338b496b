"""The steps of action.yml, run as a runner does: with its variables, files and secrets."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from forge_cli.testing import Project
from tests.support.warm import Warm

ROOT = Path(__file__).parent.parent
STEPS = {
    step["name"]: step
    for step in yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
}
SECRETS = {
    "GITHUB_TOKEN": "ghs_runnerstoken0123456789",
    "ACTIONS_RUNTIME_TOKEN": "runtime-secret-123",
}
WORKER = """
name: checker
model: script:script.yaml
toolsets:
  shell: {rules: [{pattern: printenv, approval: preApproved}]}
  filesystem: {}
sandbox:
  zones: [{name: workspace, path: ., mode: rw, approval: {write: preApproved}}]
"""
SCRIPT = """
turns:
- calls: [{tool: shell, input: {command: printenv}}]
- calls: [{tool: write_file, input: {path: made.txt, content: "made\\n"}}]
- text: It is done.
"""


@dataclass
class Ran:
    code: int
    err: str
    outputs: dict[str, str]
    summary: str


@dataclass
class Runner:
    project: Project
    warm: Warm

    def run(self, **given: str) -> Ran:
        """Run the step that runs the worker."""
        temporary = self.project.folder.parent / "runner"
        programs = temporary / "forge" / "venv" / "bin"
        programs.mkdir(parents=True, exist_ok=True)
        for name, program in (("forge", self.warm.forge), ("python", Path(sys.executable))):
            if not (programs / name).exists():
                (programs / name).symlink_to(program)
        output, summary = temporary / "output", temporary / "summary"
        step = STEPS["Run the worker"]
        variables = dict.fromkeys(step["env"], "")
        variables |= {"FORGE_ON_ASK": "fail", "FORGE_DRAFT": "false", "FORGE_FROM_FORK": "false"}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=self.project.folder,
            env={
                **os.environ,
                **SECRETS,
                **variables,
                **{f"FORGE_{name.upper()}": value for name, value in given.items()},
                "RUNNER_TEMP": str(temporary),
                "GITHUB_OUTPUT": str(output),
                "GITHUB_STEP_SUMMARY": str(summary),
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
        lines = output.read_text().splitlines() if output.exists() else []
        outputs = dict(line.split("=", 1) for line in lines)
        return Ran(done.returncode, done.stderr, outputs, summary.read_text())

    def result(self, ran: Ran) -> dict[str, object]:
        found = json.loads(Path(ran.outputs["result"]).read_text())
        assert isinstance(found, dict)
        return found


@pytest.fixture
def runner(project: Project, warm: Warm) -> Runner:
    project.write("checker.yaml", WORKER)
    project.write("script.yaml", SCRIPT)
    done = project.forge("lock", "checker.yaml")
    assert done.returncode == 0, done.stderr
    return Runner(project, warm)


def test_answer_and_outputs_reach_the_runner(runner: Runner) -> None:
    ran = runner.run(worker="checker.yaml", task='say "hi"; exit 9 $(touch x)')
    assert (ran.code, ran.outputs["status"], ran.outputs["exit-code"]) == (0, "completed", "0"), ran
    assert runner.result(ran)["response"] == "It is done."
    assert "| status | completed (exit code 0) |" in ran.summary
    assert ran.summary.endswith("It is done.\n")
    assert (runner.project.folder / "made.txt").exists()
    assert not (runner.project.folder / "x").exists()
    assert "patch" not in ran.outputs


@pytest.mark.needs("bwrap")
def test_secrets_of_the_runner_reach_no_command(runner: Runner) -> None:
    runner.run(worker="checker.yaml", task="go")
    logs = list((runner.project.folder.parent / "runner").rglob("*.jsonl"))
    text = "".join(path.read_text() for path in logs)
    assert "PATH=/" in text
    for name, value in SECRETS.items():
        assert name not in text
        assert value not in text


def test_pull_request_of_a_fork_changes_nothing(runner: Runner) -> None:
    ran = runner.run(worker="checker.yaml", task="go", from_fork="true")
    assert ran.outputs["exit-code"] == "4"
    assert "Refused:\n- `shell`: " in ran.summary
    assert not (runner.project.folder / "made.txt").exists()


@pytest.mark.needs("overlay")
def test_changes_of_a_draft_become_a_patch(runner: Runner) -> None:
    ran = runner.run(worker="checker.yaml", task="go", draft="true")
    assert ran.outputs["exit-code"] == "0", ran
    assert not (runner.project.folder / "made.txt").exists()
    assert "+made" in Path(ran.outputs["patch"]).read_text()
    assert "| changes | 1 |" in ran.summary


@pytest.mark.parametrize(("worker", "code"), [("nosuch.yaml", "3"), ("unlocked.yaml", "8")])
def test_worker_that_cannot_run_is_reported(runner: Runner, worker: str, code: str) -> None:
    runner.project.write("unlocked.yaml", WORKER)
    ran = runner.run(worker=worker, task="go")
    assert (ran.code, ran.outputs["status"], ran.outputs["exit-code"]) == (0, "failed", code), ran
    assert worker in ran.err


def test_last_step_ends_as_forge_did() -> None:
    step = STEPS["End as forge did"]
    done = subprocess.run(["bash", "-c", step["run"]], env={"FORGE_CODE": "4"}, timeout=20)
    assert done.returncode == 4


def test_inputs_are_never_part_of_a_script() -> None:
    assert not [name for name, step in STEPS.items() if "${{" in step.get("run", "")]

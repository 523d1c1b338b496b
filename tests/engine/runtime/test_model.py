"""Which model answers: the one that is named first, and what is wrong with a name."""

from pathlib import Path

import pytest

from forge_cli.core.errors import ExitCode, WorkerError
from forge_cli.core.events import SessionStart
from forge_cli.testing import Project


def says(word: str) -> str:
    return f"turns: [{{text: {word}}}]\n"


@pytest.mark.parametrize(
    ("named", "spoken"),
    [
        ({"argument", "worker", "environment", "user"}, "argument"),
        ({"worker", "environment", "user"}, "worker"),
        ({"environment", "user"}, "environment"),
        ({"user"}, "user"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_model_that_is_named_first(
    project: Project, named: set[str], spoken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for who in named:
        project.write(f"{who}.yaml", says(who))
    project.write("w.yaml", "name: w\n" + ("model: script:worker.yaml\n" if "worker" in named else ""))
    if "environment" in named:
        monkeypatch.setenv("FORGE_MODEL", "script:environment.yaml")
    if "user" in named:
        project.home.mkdir()
        (project.home / "config.yaml").write_text("model: script:user.yaml\n")
    options = {"model": "script:argument.yaml"} if "argument" in named else {}
    seen = project.run(worker="w.yaml", **options)
    assert (seen.result.response, seen.result.model) == (spoken, f"script:{spoken}.yaml")
    assert seen.of(SessionStart) == [SessionStart(f"script:{spoken}.yaml", str(project.folder), "interactive")]


def test_a_script_is_looked_for_beside_the_worker_or_in_the_working_directory(project: Project, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "demo.yaml").write_text(says("elsewhere"))
    project.write("demo.yaml", says("beside"))
    project.write("worker.yaml", "name: w\nmodel: script:demo.yaml\n")
    beside = project.run(workspace=elsewhere)
    assert beside.result.response == "beside"
    there = project.run(workspace=elsewhere, model="script:demo.yaml")
    assert there.result.response == "elsewhere"


@pytest.mark.parametrize(
    ("model", "problem"),
    [
        (
            None,
            "no model is named for the worker 'w'\n"
            "  name one with -m PROVIDER:MODEL, `model:` in the worker, or FORGE_MODEL; script:FILE needs no key",
        ),
        ("haiku", "'haiku' is not a model\n  write PROVIDER:MODEL, such as script:demo.yaml"),
        ("script:", "'script:' is not a model\n  write PROVIDER:MODEL, such as script:demo.yaml"),
        ("scirpt:demo.yaml", "there is no model provider 'scirpt'\n  did you mean 'script'?"),
    ],
)
def test_a_model_that_cannot_be(project: Project, model: str | None, problem: str) -> None:
    project.write("worker.yaml", "name: w\n")
    with pytest.raises(WorkerError) as caught:
        project.run(model=model)
    assert str(caught.value) == problem
    assert caught.value.exit_code is ExitCode.INVALID


def test_a_provider_like_no_other_lists_those_there_are(project: Project) -> None:
    project.write("worker.yaml", "name: w\n")
    with pytest.raises(WorkerError) as caught:
        project.run(model="zzz:x")
    assert str(caught.value).startswith("there is no model provider 'zzz'\n  providers are: ")
    assert "script" in str(caught.value.hint)

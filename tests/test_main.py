"""``python -m forge_cli``: the command itself, from a folder that somebody else filled.

Covers forge_cli.__main__.
"""

from forge_cli.testing import Project


def test_nothing_is_imported_from_the_working_directory(project: Project) -> None:
    for name in ("typer", "yaml", "pydantic", "signal", "anyio"):
        project.write(f"{name}.py", "open('planted', 'w').write(__name__)\nraise SystemExit(99)\n")
    project.write("worker.yaml", "name: w\nmodel: script:script.yaml\n")
    project.write("script.yaml", "turns: [{text: hi}]\n")
    done = project.forge("run", "worker.yaml", "go", "-p")
    assert (done.returncode, done.stdout) == (0, "hi\n")
    assert not (project.folder / "planted").exists()

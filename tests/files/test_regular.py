"""Opening files by names that others chose never waits."""

import os

from forge_cli.testing import Project


def test_pipe_instead_of_a_module_does_not_block(project: Project) -> None:
    os.mkfifo(project.folder / "tools.py")
    project.write(
        "worker.yaml", "name: w\ntoolsets: {custom: {module: ./tools.py, tools: [act]}}\n"
    )
    done = project.forge("worker", "check", "worker.yaml")
    assert done.returncode == 3
    assert "tools.py is not a file" in done.stderr


def test_pipe_in_the_folder_of_an_executable_does_not_block(project: Project) -> None:
    folder = project.home / "tools" / "greet"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "data")
    (folder / "greet.sh").write_text("echo hi\n")
    (folder / "tool.yaml").write_text("name: greet\ndescription: Greets\nentrypoint: greet.sh\n")
    done = project.forge("tools", "list")
    assert done.returncode == 0
    assert "greet" in done.stdout

"""Executables in ``forge tools list``, whose rows are kept from one time to the next."""

import json

from forge_cli.testing import Project


def descriptions(project: Project) -> dict[str, str]:
    rows = json.loads(project.forge("tools", "list", "--json", "--source", "executable").stdout)
    return {row["name"]: row["description"] for row in rows}


def test_a_tool_that_is_added_edited_or_removed_is_seen(project: Project) -> None:
    folder = project.home / "tools" / "hello"
    before = descriptions(project)
    folder.mkdir(parents=True)
    (folder / "hello.sh").write_text("echo hello\n")
    (folder / "tool.yaml").write_text("name: hello\ndescription: Says hi\nentrypoint: hello.sh\n")
    assert descriptions(project) == {**before, "hello": "Says hi"}
    (folder / "tool.yaml").write_text("name: hello\ndescription: Says hello\nentrypoint: hello.sh\n")
    assert descriptions(project) == {**before, "hello": "Says hello"}
    (folder / "tool.yaml").unlink()
    assert descriptions(project) == before

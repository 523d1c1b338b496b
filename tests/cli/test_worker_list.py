"""``forge worker list``: every worker with a name, where it is, and which of two is used.

Covers forge_cli.cli.worker.list.
"""

import json


def test_what_comes_with_forge(cli) -> None:
    done = cli("worker", "list")
    assert (done.code, done.err) == (0, "")
    head, *rows = [line.split(maxsplit=2) for line in done.out.splitlines()]
    assert head == ["name", "from", "description"]
    assert [row[:2] for row in rows] == [[name, "shipped"] for name in ("coder", "reviewer", "shell-helper", "writer")]


def test_every_place_and_what_is_wrong(cli, project) -> None:
    project.write(".forge/workers/coder.yaml", "name: coder\ndescription: Theirs\n")
    project.write(".forge/workers/deploy.yaml", "name: deploy\ndescription: Deploys\n")
    own = project.home / "workers"
    own.mkdir(parents=True)
    (own / "coder.md").write_text("---\nname: coder\ndescription: Mine\n---\n")
    (own / "broken.yaml").write_text("nam: x\n")
    rows = json.loads(cli("worker", "list", "--json").out)
    seen = [(row["name"], row["from"], row["trusted"], row["used"], row["description"]) for row in rows[:5]]
    assert seen == [
        ("coder", "project", False, False, "Theirs"),
        ("deploy", "project", False, True, "Deploys"),
        ("broken", "user", True, True, ""),
        ("coder", "user", True, True, "Mine"),
        ("coder", "shipped", True, False, "Reads, changes and tests the code in the working directory"),
    ]
    assert "unknown key 'nam'" in rows[2]["error"]
    shown = cli("worker", "list").out.splitlines()
    assert shown[1].split(maxsplit=2) == [
        "coder",
        ".forge/workers/coder.yaml",
        "(not trusted, not used) Theirs",
    ]
    assert shown[3].split(maxsplit=2)[2] == "line 1:1: unknown key 'nam'; did you mean 'name'?"
    assert shown[2].endswith("  (not trusted) Deploys")

"""What ``forge worker check`` lists that a worker grants itself. Covers forge_cli.cli.worker.grants."""

import pytest

TOOLS = "def good(x: int) -> int:\n    return x\n"


def grants(cli, project, text: str) -> list[str]:
    """The lines below the first, which says that the worker is sound."""
    project.write("w/worker.yaml", text)
    project.write("w/tools.py", TOOLS)
    done = cli("worker", "check", "w")
    assert done.code == 0, done.err
    return done.out.splitlines()[1:]


@pytest.mark.parametrize(
    "text",
    [
        "name: w",
        "name: w\ntoolsets: {filesystem: {}, plan: {}, memory: {}}",
        "name: w\nsandbox: {zones: [{name: a, mode: rw, approval: {write: ask, delete: blocked}}]}",
        "name: w\nsandbox: {network: false}\ntoolsets: {shell: {rules: [{pattern: rm, approval: blocked}]}}",
        "name: w\nsandbox: {limits: {memory: 1g}}",
    ],
)
def test_a_worker_that_grants_nothing_says_so(cli, project, text: str) -> None:
    assert grants(cli, project, text) == ["it grants itself nothing"]


def test_everything_at_once_is_aligned(cli, project, tmp_path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    text = f"""
name: w
sandbox:
  isolation: off
  read: [~/.config/tool]
  limits: {{memory: 8g, processes: 600}}
  zones:
    - {{name: scratch, mode: rw, approval: {{write: preApproved, delete: preApproved}}}}
    - {{name: other, path: {outside}}}
toolsets:
  filesystem: {{approval: {{tools: {{write_file: ask}}}}}}
  shell:
    rules: [{{pattern: git status, approval: preApproved}}, {{pattern: git push, approval: blocked}}]
    default: preApproved
    env: [SOME_API_KEY]
  custom: {{module: ./tools.py, tools: [good], approval: {{default: preApproved, tools: {{good: preApproved}}}}}}
  workers: {{allowed: [child]}}
"""
    project.write("w/child.yaml", "name: child\n")
    assert grants(cli, project, text) == [
        "it grants itself:",
        "  code        ./tools.py runs in forge's own process, unconfined",
        "  unconfined  commands are not confined: they reach whatever you can (isolation: off)",
        "  read        commands can read ~/.config/tool",
        "  limits      processes 600 instead of 512",
        "  limits      memory 8g instead of 4g",
        "  command     git status",
        "  command     every command that no rule covers (default: preApproved)",
        "  call        good of custom",
        "  call        every tool of custom that says nothing itself",
        "  files       write and delete in /scratch",
        f"  outside     /other is {outside}, outside of its folder, and can be read",
        "  variable    SOME_API_KEY, for commands of shell",
        "  worker      child",
    ]


def test_commands_reach_the_network_unless_it_is_off(cli, project) -> None:
    assert grants(cli, project, "name: w\ntoolsets: {shell: {}}") == [
        "it grants itself:",
        "  network  commands reach the network",
    ]


def test_what_a_file_says_cannot_repaint_the_terminal(cli, project) -> None:
    rule = '{pattern: "ls \\e[2J", approval: preApproved}'
    text = f"name: w\nsandbox: {{network: false}}\ntoolsets: {{shell: {{rules: [{rule}]}}}}"
    assert grants(cli, project, text) == ["it grants itself:", "  command  ls \\x1b[2J"]


def test_its_code_has_no_say(cli, project) -> None:
    project.write("w/worker.yaml", "name: w\ntoolsets: {custom: {module: ./tools.py, tools: [good]}}")
    forged = "import forge_cli.cli.worker.grants as grants\ngrants.grants_of = lambda *args: []\n"
    project.write("w/tools.py", forged + TOOLS)
    assert "it grants itself:\n  code  ./tools.py" in cli("worker", "check", "w").out


@pytest.mark.needs("bwrap")
def test_names_of_the_network_beside_code_of_its_own(cli, project) -> None:
    text = "name: w\nsandbox: {network: [a.example.org, b.example.org]}\ntoolsets:\n  shell: {}\n"
    assert grants(cli, project, text + "  custom: {module: ./tools.py, tools: [good]}\n")[2:] == [
        "  network  commands reach a.example.org, b.example.org",
    ]

"""The permissions that ``forge worker check`` lists for a worker.

Covers forge_cli.inspection.worker_grants.
"""

import json

import pytest

from forge_cli.files.worker import load_worker
from forge_cli.inspection.worker_grants import grants_of, lines_of_grants

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
def test_worker_that_grants_nothing_says_so(cli, project, text: str) -> None:
    assert grants(cli, project, text) == ["nothing beyond the defaults"]


def test_output_with_all_grants_is_aligned(cli, project, tmp_path) -> None:
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
  mcp: {{servers: {{far: {{url: "http://127.0.0.1:9/mcp"}}, near: {{command: no-such-server}}}}}}
  workers: {{allowed: [child]}}
"""
    project.write("w/child.yaml", "name: child\n")
    assert grants(cli, project, text) == [
        "it grants itself:",
        "  code        ./tools.py runs in forge's own process, unconfined",
        "  address     http://127.0.0.1:9/mcp receives the requests to the MCP server far (w/worker.yaml:17)",
        "  program     no-such-server runs unconfined, the MCP server near (w/worker.yaml:17)",
        "  unconfined  commands are not confined: they can access everything that you can (isolation: off)",
        "  read        commands can read ~/.config/tool",
        "  limits      processes 600 instead of 512",
        "  limits      memory 8g instead of 4g",
        "  command     git status",
        "  command     every command that no rule covers (default: preApproved)",
        "  call        good of custom",
        "  call        every tool of custom without a verdict of its own",
        "  files       write and delete in /scratch",
        f"  outside     /other is {outside}, outside of its folder, and can be read",
        "  variable    SOME_API_KEY, for commands of shell",
        "  worker      child",
    ]


def test_circular_workers_in_two_folders_are_listed_once(cli, project) -> None:
    project.write("boss.yaml", "name: boss\ntoolsets: {workers: {allowed: [./kids/kid.yaml]}}\n")
    project.write("kids/kid.yaml", "name: kid\ntoolsets: {workers: {allowed: [../boss.yaml]}}\n")
    done = cli("worker", "check", "boss.yaml")
    granted = [
        line.split(maxsplit=1)[1] for line in done.out.splitlines() if line.startswith("  worker")
    ]
    assert granted == ["./kids/kid.yaml", "../boss.yaml (worker 'kid')"]
    assert cli("lock", "boss.yaml").code == 0


def test_commands_reach_the_network_unless_it_is_off(cli, project) -> None:
    assert grants(cli, project, "name: w\ntoolsets: {shell: {}}") == [
        "it grants itself:",
        "  network  commands reach the network",
    ]


def test_grants_escape_control_characters_of_files(cli, project) -> None:
    rule = '{pattern: "ls \\e[2J", approval: preApproved}'
    text = f"name: w\nsandbox: {{network: false}}\ntoolsets: {{shell: {{rules: [{rule}]}}}}"
    assert grants(cli, project, text) == ["it grants itself:", "  command  ls \\x1b[2J"]


def test_code_of_the_worker_cannot_change_the_output(cli, project) -> None:
    project.write(
        "w/worker.yaml", "name: w\ntoolsets: {custom: {module: ./tools.py, tools: [good]}}"
    )
    forged = (
        "import forge_cli.inspection.worker_grants as grants\ngrants.grants_of = lambda *args: []\n"
    )
    project.write("w/tools.py", forged + TOOLS)
    assert "it grants itself:\n  code  ./tools.py" in cli("worker", "check", "w").out


@pytest.mark.needs("bwrap")
def test_network_names_beside_custom_code_are_listed(cli, project) -> None:
    text = "name: w\nsandbox: {network: [a.example.org, b.example.org]}\ntoolsets:\n  shell: {}\n"
    assert grants(cli, project, text + "  custom: {module: ./tools.py, tools: [good]}\n")[2:] == [
        "  network  commands reach a.example.org, b.example.org",
    ]


def settings(project, text: str) -> None:
    project.home.mkdir(exist_ok=True)
    (project.home / "config.yaml").write_text(text)


def server(text: str) -> str:
    """A worker with one MCP server that is not started."""
    return (
        f"name: w\nsandbox: {{network: false}}\ntoolsets:\n  mcp:\n    servers:\n      s:\n{text}"
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            server("        command: no-such-server\n        args: [-y, 'a b']\n"),
            [
                "program  no-such-server -y 'a b' runs unconfined, the MCP server s (w/worker.yaml:7)"
            ],
        ),
        (
            server("        args: [x]\n        command: no-such-server\n        confined: true\n"),
            [
                "program  no-such-server x runs confined as commands are, the MCP server s (w/worker.yaml:8)"
            ],
        ),
        (
            server(
                "        command: no-such-server\n        env: {A: '${MY_KEY}', B: 'x${MY_KEY}${OTHER}'}\n"
            ),
            [
                "program   no-such-server runs unconfined, the MCP server s (w/worker.yaml:7)",
                "variable  MY_KEY, for the MCP server s",
                "variable  OTHER, for the MCP server s",
            ],
        ),
        (
            server(
                "        url: http://127.0.0.1:9/mcp\n        headers: {Authorization: 'Bearer ${MY_KEY}'}\n"
            ),
            [
                "address   http://127.0.0.1:9/mcp receives the requests to the MCP server s (w/worker.yaml:7)",
                "variable  MY_KEY, for the MCP server s",
            ],
        ),
        (
            server("        command: no-such-server\n      t: {command: other}\n"),
            [
                "program  no-such-server runs unconfined, the MCP server s (w/worker.yaml:7)",
                "program  other runs unconfined, the MCP server t (w/worker.yaml:8)",
            ],
        ),
        (
            "name: w\ntoolsets: {mcp: {servers: {mine: null}}}",
            [
                "program  my-server --all runs unconfined, the MCP server mine ({home}/config.yaml:4)"
            ],
        ),
        (
            "name: w\ntoolsets: {mcp: {servers: {theirs: null}}}",
            ["program  their-server runs unconfined, the MCP server theirs (.mcp.json:3)"],
        ),
        (
            "name: w\nsandbox: {network: false}\ntoolsets:\n  executables:\n",
            [
                "program  the tools in {home}/tools can be called, confined as commands are (w/worker.yaml:4)"
            ],
        ),
        (
            "name: w\nplugins: [./tools.py]",
            ["code  ./tools.py runs in forge's own process, unconfined"],
        ),
        (
            "name: w\ntoolsets: {workers: {allowed: [child]}}",
            [
                "worker   child",
                "program  from-child runs unconfined, the MCP server c (w/child.yaml:2) (worker 'child')",
                "worker   ./deep.yaml (worker 'child')",
                "code     ./tools.py runs in forge's own process, unconfined (worker 'deep')",
                "files    write in /n (worker 'deep', as far as its parents may)",
            ],
        ),
    ],
)
def test_grants_name_what_a_worker_starts_with_its_place(
    project, monkeypatch, text: str, told: list[str]
) -> None:
    servers = "mcp:\n  servers:\n    mine:\n      command: my-server\n      args: [--all]\n"
    settings(project, servers)
    project.write(
        ".mcp.json", json.dumps({"mcpServers": {"theirs": {"command": "their-server"}}}, indent=2)
    )
    child = (
        "toolsets: {mcp: {servers: {c: {command: from-child}}}, workers: {allowed: [./deep.yaml]}}"
    )
    project.write("w/child.yaml", f"name: child\n{child}\n")
    zones = "[{name: n, path: ., mode: rw, approval: {write: preApproved}}]"
    deep = "toolsets: {custom: {module: ./tools.py, tools: [good]}}"
    project.write("w/deep.yaml", f"name: deep\n{deep}\nsandbox: {{zones: {zones}}}\n")
    project.write("w/worker.yaml", text)
    monkeypatch.chdir(project.folder)
    with project.environment():
        lines = list(lines_of_grants(grants_of(load_worker("w/worker.yaml"), project.folder)))
    home = str(project.home)
    assert lines == ["it grants itself:", *(f"  {line.replace('{home}', home)}" for line in told)]


def test_hooks_are_listed_with_their_place(cli, project) -> None:
    settings(
        project,
        "hooks:\n  - {on: before_tool, run: [./look.sh, -x]}\n  - {on: session_end, run: [/bin/true]}\n",
    )
    assert grants(cli, project, "name: w") == [
        "nothing beyond the defaults",
        "hooks that run with it:",
        f"  before_tool  {project.home}/look.sh -x ({project.home}/config.yaml:2)",
        f"  session_end  /bin/true ({project.home}/config.yaml:3)",
    ]

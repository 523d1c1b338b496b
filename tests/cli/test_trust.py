"""``forge trust``: files of a folder are not used before they are trusted, and again after a change.

Covers forge_cli.files.bringing.
"""

import json
import re
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from forge_cli.core.errors import ExitCode
from forge_cli.files.bringing import describe_capabilities, find_brought
from forge_cli.files.mcp_project import trusted_server
from forge_cli.files.trust import TrustError, TrustStore
from forge_cli.testing import Project
from tests.support.command_line import Done

Cli = Callable[..., Done]
SERVER = str(Path(__file__).parent.parent / "toolsets" / "mcp" / "server.py")


def bring_server(project: Project, mode: str = "plain", name: str = ".mcp.json") -> None:
    server = {"type": "stdio", "command": sys.executable, "args": [SERVER, mode]}
    project.write(
        name, json.dumps({"mcpServers": {"s": server, "unused": {"command": "no-such-program"}}})
    )


def use_server(cli: Cli, project: Project) -> tuple[int, str]:
    project.write("worker.yaml", "name: w\ntoolsets: {mcp: {servers: {s: null}}}\n")
    done = cli("tools", "call", "s__echo", "--worker", "worker.yaml", "-y", "text=hello")
    return done.code, done.out + done.err


def test_project_servers_need_trust_again_after_a_change(cli: Cli, project: Project) -> None:
    bring_server(project)
    code, told = use_server(cli, project)
    assert code == ExitCode.UNTRUSTED
    assert ".mcp.json comes with this folder and is not trusted" in told
    done = cli("trust")
    assert done.out == f"trusted: {project.folder}/.mcp.json (MCP servers: s, unused)\n"
    assert use_server(cli, project) == (0, "hello\n")
    rows = json.loads(cli("mcp", "list", "worker.yaml", "--json").out)
    assert [(row["name"], row["from"]) for row in rows] == [("s", ".mcp.json")]
    bring_server(project, "mixed")
    assert use_server(cli, project)[0] == ExitCode.UNTRUSTED


STARTED = {
    "python3 tools/server.py": ("tools/server.py", "tools/helper.py", "tools/json.py"),
    "python3 server.py": ("server.py", "helper.py"),
    "./tools/run.sh": ("tools/run.sh", "tools/server.py"),
    "sh -c 'cd tools && exec python3 server.py'": ("tools/server.py",),
    "uv run --directory tools server.py": ("tools/helper.py", "pyproject.toml"),
    "node dist/server.js": ("dist/server.js", "dist/lib/x.js", "package.json"),
    "npm run serve": ("package.json",),
    "make serve": ("Makefile",),
    "python3 -m tools.server": ("tools/server.py", "tools/helper.py"),
    "server --config=conf.toml": ("conf.toml",),
}
FILES = (
    "tools/server.py",
    "server.py",
    "tools/run.sh",
    "dist/server.js",
    "package.json",
    "Makefile",
    "conf.toml",
)


@pytest.mark.parametrize("line", STARTED)
def test_trust_of_servers_covers_the_code_that_they_start(project: Project, line: str) -> None:
    bring_code(project)
    command, *args = shlex.split(line)
    project.write(
        ".mcp.json", json.dumps({"mcpServers": {"s": {"command": command, "args": args}}})
    )
    folder, store = project.folder.resolve(), TrustStore(project.home)
    for each in find_brought(folder):
        each.trust(store)
    assert trusted_server("s", folder, project.home)
    for name in STARTED[line]:
        before = (folder / name).read_text() if (folder / name).exists() else None
        project.write(name, "changed")
        with pytest.raises(
            TrustError,
            match=f"{re.escape(name)} is not trusted in its current state, and starts MCP server s",
        ):
            trusted_server("s", folder, project.home)
        (folder / name).unlink() if before is None else project.write(name, before)
        assert trusted_server("s", folder, project.home)
    project.write("tools/data.json", "{}")
    project.write("src/app.py", "x = 1")
    assert trusted_server("s", folder, project.home)


def bring_code(project: Project) -> None:
    for name in (*FILES, "tools/__init__.py", "pyproject.toml", "dist/lib/x.js"):
        project.write(name, "")
    for folder in ("tools/", ""):
        project.write(f"{folder}server.py", "import helper")
        project.write(f"{folder}helper.py", "")


def test_changed_script_is_named_shown_and_trusted_again(cli: Cli, project: Project) -> None:
    bring_server(project)
    project.write("tools/server.py", Path(SERVER).read_text())
    definition = {"command": sys.executable, "args": ["tools/server.py", "plain"]}
    project.write(".mcp.json", json.dumps({"mcpServers": {"s": definition}}))
    assert (
        cli("trust").out
        == f"trusted: {project.folder}/.mcp.json (MCP servers: s, started from tools/server.py)\n"
    )
    printed = cli("trust", "--print-hash").out
    assert use_server(cli, project) == (0, "hello\n")

    project.write("tools/server.py", f"open('pwned', 'w')\n{Path(SERVER).read_text()}")
    code, told = use_server(cli, project)

    assert (
        code,
        f"{project.folder}/tools/server.py is not trusted in its current state" in told,
    ) == (
        8,
        True,
    ), told
    assert not (project.folder / "pwned").exists()
    assert cli("trust", "--print-hash").out != printed
    assert cli("trust", ".mcp.json").code == 0
    assert use_server(cli, project)[0] == 0


def test_trust_of_a_worker_covers_the_code_of_its_servers(cli: Cli, project: Project) -> None:
    project.write("tools/server.py", Path(SERVER).read_text())
    server = f"{{command: {sys.executable}, args: [tools/server.py, plain]}}"
    project.write(
        ".forge/workers/tidy.yaml", f"name: tidy\ntoolsets: {{mcp: {{servers: {{s: {server}}}}}}}\n"
    )
    project.write("script.yaml", "turns: [{text: done}]\n")
    run = ("run", "tidy", "go", "-p", "-m", "script:script.yaml")
    assert cli("trust").code == 0
    assert cli(*run).code == 0

    project.write("tools/server.py", f"open('pwned', 'w')\n{Path(SERVER).read_text()}")

    assert cli(*run).code == ExitCode.UNTRUSTED
    assert not (project.folder / "pwned").exists()


HOOKED = {
    "[./check.sh]": "check.sh",
    "[make, hook]": "Makefile",
    "[sh, -c, 'sh tools/c.sh']": "tools/c.sh",
    "[python3, ../tools/hook.py]": "tools/helper.py",
    "[python3, ../hook.py]": "helper.py",
}


@pytest.mark.parametrize("run", HOOKED)
def test_trust_of_hooks_covers_the_code_in_their_command_line(project: Project, run: str) -> None:
    bring_code(project)
    for name in ("Makefile", "tools/c.sh", ".forge/check.sh"):
        project.write(name, "")
    for folder in ("tools/", ""):
        project.write(f"{folder}hook.py", "import helper")
    project.write(".forge/config.yaml", f"hooks: [{{on: session_start, run: {run}}}]\n")
    folder, store = project.folder.resolve(), TrustStore(project.home)
    for each in find_brought(folder):
        each.trust(store)
    name = HOOKED[run] if HOOKED[run] != "check.sh" else ".forge/check.sh"

    project.write(name, "changed")

    news = [each for each in find_brought(folder) if not each.is_trusted(store)]
    assert [(each.kind, str(each.path.relative_to(folder))) for each in news] == [("hook", name)]


def test_trust_is_listed_and_revoked(cli: Cli, project: Project) -> None:
    bring_server(project)
    file = f"{project.folder}/.mcp.json"
    assert cli("trust", ".mcp.json").code == 0
    assert cli("trust", "--list").out == f"{file}\n"
    assert json.loads(cli("trust", "--list", "--json").out) == [{"path": file}]
    assert cli("trust", "--json").code == ExitCode.USAGE
    assert cli("trust", "--revoke").out == f"no longer trusted: {file}\n"
    done = cli("trust", "--revoke")
    assert (done.code, done.out, done.err) == (0, "", f"nothing was trusted in {project.folder}\n")
    done = cli("trust", "--list")
    assert (done.out, done.err.partition(";")[0]) == ("", "nothing is trusted yet")
    assert use_server(cli, project)[0] == ExitCode.UNTRUSTED


def test_user_server_is_not_replaced(cli: Cli, project: Project) -> None:
    bring_server(project, "fails")
    cli("mcp", "add", "s", "--", sys.executable, SERVER, "plain")
    assert use_server(cli, project) == (0, "hello\n")


def test_workers_and_settings_of_a_folder_need_trust(cli: Cli, project: Project) -> None:
    project.write(".forge/config.yaml", "trace: quiet\n")
    project.write(".forge/workers/tidy.yaml", "name: tidy\n")
    project.write("script.yaml", "turns: [{text: done}]\n")
    run = ("run", "tidy", "go", "-m", "script:script.yaml")
    assert cli(*run).code == ExitCode.UNTRUSTED
    done = cli("trust")
    assert [line.rpartition("(")[2] for line in done.out.splitlines()] == ["settings)", "worker)"]
    done = cli(*run)
    assert (done.code, done.out, done.err) == (0, "done\n", "")


def test_trust_refuses_two_actions_at_once(cli: Cli, project: Project) -> None:
    project.write(".forge/config.yaml", "trace: quiet\n")
    assert cli("trust").code == 0
    for words in (["--revoke", "--print-hash"], ["--list", "--revoke"], ["--list", "."]):
        done = cli("trust", *words)
        assert (done.code, done.out, "contradict each other; keep one" in done.err) == (2, "", True)
    assert cli("trust", "--list").out.count("\n") == 1


def test_folder_without_files_to_trust_says_so(cli: Cli, project: Project) -> None:
    done = cli("trust")
    assert (done.code, "nothing here needs trust" in done.err) == (2, True)


def test_special_file_is_refused(cli: Cli, project: Project) -> None:
    project.write(".mcp.json", "[]")
    code, told = use_server(cli, project)
    assert (code, "an object of servers under mcpServers" in told) == (3, True)


def test_trust_of_an_invalid_folder_trusts_nothing(cli: Cli, project: Project) -> None:
    bring_server(project)
    project.write(".forge/config.yaml", "approval: {mode: approve_all}\n")
    project.write(".forge/workers/tidy.yaml", "name: tidy\n")
    done = cli("trust")
    assert done.code == ExitCode.INVALID
    assert "a project cannot approve calls" in done.err
    assert cli("trust", "--list").out == ""
    assert cli("models", "list").code == 0


def test_key_in_another_case_is_unknown_everywhere(cli: Cli, project: Project) -> None:
    project.write(
        "worker.yaml", "name: w\nSandbox: {isolation: required}\ntoolsets: {filesystem: {}}\n"
    )
    done = cli("worker", "check", "worker.yaml")
    assert done.code == ExitCode.INVALID
    assert "worker.yaml:2:1: unknown key 'Sandbox'; did you mean 'sandbox'?" in done.err
    project.write("worker.yaml", "name: w\ntoolsets: {shell: {Default: preApproved}}\n")
    assert "unknown key 'Default'" in cli("worker", "check", "worker.yaml").err


def bring_much(project: Project) -> None:
    hooks = "[{on: session_start, run: [./a.sh]}, {on: session_start, run: [./a.sh, x]}, {on: before_tool, run: [./a.sh]}]"
    rules = "{shell: {rules: [{pattern: git push, approval: blocked}]}}"
    project.write(".forge/config.yaml", f"hooks: {hooks}\npolicy: {rules}\n")
    project.write(".forge/a.sh", "#!/bin/sh\n")
    project.write(".forge/workers/tidy.yaml", "name: tidy\n")
    project.write("AGENTS.md", "Be\nkind.\n")
    project.write(
        ".forge/skills/count/SKILL.md", "---\nname: count\ndescription: Counts.\n---\nCount.\n"
    )
    bring_server(project)


def test_trust_describes_what_a_folder_would_do(cli: Cli, project: Project) -> None:
    bring_much(project)
    done = cli("trust")
    assert done.err == (
        "It would: run 2 commands at session start, run 1 command around calls, start 2 servers, "
        "add 7 lines of instructions, bring 1 worker, add 1 rule to ask or block, loosen nothing.\n"
    )
    assert len(done.out.splitlines()) == 6


def test_changed_program_counts_as_a_changed_hook(project: Project) -> None:
    hooks = [
        "{on: session_start, run: [./hi.sh]}",
        "{on: session_end, run: [./bye.sh]}",
        "{on: record, observer: x}",
    ]
    project.write(".forge/config.yaml", f"hooks: [{', '.join(hooks)}]\n")
    project.write(".forge/hi.sh", "")
    project.write(".forge/bye.sh", "")
    found = find_brought(project.folder.resolve())
    both = "run 1 command at session start, run 1 command at session end"
    assert describe_capabilities(found) == f"{both}, run 1 observer on every event, loosen nothing"
    assert describe_capabilities([each for each in found if each.path.name == "hi.sh"]) == (
        "run 1 command at session start, loosen nothing"
    )


def test_trust_covers_only_the_given_path(cli: Cli, project: Project) -> None:
    bring_much(project)
    project.write(".forge/skills/other/SKILL.md", "---\nname: other\ndescription: O.\n---\nO.\n")
    assert (
        cli("trust", ".forge/skills/count").out
        == f"trusted: {project.folder}/.forge/skills/count (skill)\n"
    )
    assert cli("trust", "--list").out == f"{project.folder}/.forge/skills/count/SKILL.md\n"
    assert cli("trust", "AGENTS.md").out == f"trusted: {project.folder}/AGENTS.md (guidance)\n"
    settings = cli("trust", ".forge/config.yaml").out
    assert settings == "".join(
        f"trusted: {project.folder}/.forge/{name}\n"
        for name in ("config.yaml (settings)", "a.sh (hook)")
    )


def test_pipeline_trusts_files_by_their_hash(
    cli: Cli, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hash is the same in another checkout; anything else there is exit code 8, and nothing is trusted."""
    bring_much(project)
    project.write("script.yaml", "turns: [{text: done}]\n")
    run = ("run", "tidy", "go", "-p", "-m", "script:script.yaml")
    printed = cli("trust", "--print-hash").out.strip()
    assert (len(printed), cli("trust", "--list").out) == (64, "")
    assert cli(*run).code == ExitCode.UNTRUSTED
    there = Project(tmp_path / "elsewhere")
    shutil.copytree(project.folder, there.folder)
    assert there.forge("trust", "--print-hash").stdout.strip() == printed
    done = there.forge(*run, env={"FORGE_TRUST": printed})
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    monkeypatch.setenv("FORGE_TRUST", printed)
    for change in ("AGENTS.md", ".forge/a.sh", ".forge/workers/helper.py", ".mcp.json"):
        bring_much(project)
        (project.folder / ".forge/workers/helper.py").unlink(missing_ok=True)
        before = (project.folder / change).read_text() if (project.folder / change).exists() else ""
        project.write(change, f"{before} ")
        done = cli(*run)
        assert (done.code, "FORGE_TRUST does not match the files of" in done.err) == (
            ExitCode.UNTRUSTED,
            True,
        ), change
    assert cli("trust", "--list").out == ""

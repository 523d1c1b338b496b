"""Completion of command lines, and shells that request it."""

import os
import subprocess
from pathlib import Path

import pexpect
import pytest

from forge_cli.cli.completion import SCRIPTS, complete
from forge_cli.cli.overview import COMMANDS


@pytest.fixture(autouse=True)
def here(project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project.folder)
    monkeypatch.setenv("FORGE_HOME", str(project.home))
    project.write(".forge/workers/deploy.yaml", "name: deploy")
    project.write("written.yaml", "name: written")
    project.write("writing/worker.yaml", "name: writing")
    sessions = project.home / "sessions"
    sessions.mkdir(parents=True)
    for name in ("20261115-084759-1ffcf3a5", "20261116-000000-00000000"):
        (sessions / f"{name}.jsonl").touch()


IDS = ["20261115-084759-1ffcf3a5", "20261116-000000-00000000", "last"]
WORKERS = ["coder", "deploy", "reviewer", "shell-helper", "writer"]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["ru"], ["run"]),
        (["too"], ["tools"]),
        (["--ver"], ["--version"]),
        (["worker", ""], ["check", "list", "new", "schema", "show"]),
        (["run", ""], [*WORKERS, "writing", "written.yaml"]),
        (["run", "re"], ["reviewer"]),
        (["run", "coder", ""], []),
        (["run", "--max-turns", "3", "co"], ["coder"]),
        (["run", "-y", "co"], ["coder"]),
        (["run", "coder", "--max-t"], ["--max-time", "--max-tokens", "--max-turns"]),
        (["run", "coder", "--on-ask", ""], ["deny", "fail", "park"]),
        (["run", "coder", "--trace", "q"], ["quiet"]),
        (["run", "coder", "-r", "2026111"], IDS[:2]),
        (["run", "coder", "-o", ""], []),
        (["tools", "call", "shell", "--worker", "w"], ["writer", "writing", "written.yaml"]),
        (["sessions", "show", ""], IDS),
        (["sessions", "rm", "last", "20261116"], IDS[1:2]),
        (["approve", "coder", "--against", "l"], ["last"]),
        (["replay", "l"], ["last"]),
        (["help", "to"], ["tools"]),
        (["help", "tools", "ca"], ["call"]),
        (["help", "run", ""], []),
        (["nonsense", ""], []),
        (["tools", "nonsense", ""], []),
    ],
)
def test_completion_offers_matching_words(words: list[str], found: list[str]) -> None:
    assert complete(words) == found


def test_empty_word_offers_every_command() -> None:
    assert complete([""]) == sorted({name.split()[0] for name in COMMANDS})
    assert complete([]) == complete([""])


def test_every_command_can_be_completed() -> None:
    for name in COMMANDS:
        assert "--help" in complete([*name.split(), "-"])


BASH = r"""
set -e
. "$1"
COMP_WORDS=(forge run "$2") COMP_CWORD=2
_forge_complete forge
printf '%s\n' "${COMPREPLY[@]}"
complete -p forge
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warm) -> Path:
    """A home, with forge on the PATH."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", os.pathsep.join([str(warm.forge.parent), os.environ["PATH"]]))
    for name in ("ZDOTDIR", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_bash_completes_once_it_is_installed(cli, project, home: Path, monkeypatch) -> None:
    monkeypatch.setenv("SHELL", "/usr/bin/bash")
    (home / ".bashrc").write_text("alias a=b")
    script = project.home / "completion.bash"
    said = f"Wrote {script}, and a line in {home}/.bashrc that reads it.\n"
    more = "A new bash completes commands, options, workers and sessions of forge.\n"
    assert cli("--install-completion").out == said + more
    assert cli("--install-completion", "bash").out == f"Wrote {script}.\n{more}"
    assert (home / ".bashrc").read_text() == f'alias a=b\n. "{script}"\n'
    done = subprocess.run(
        ["bash", "--norc", "-c", BASH, "bash", script, "re"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout.splitlines()[0], done.stderr) == ("reviewer", "")
    assert "-F _forge_complete forge" in done.stdout


def test_zsh_and_fish_find_their_scripts(cli, project, home: Path) -> None:
    assert cli("--install-completion", "zsh").code == 0
    assert (home / ".zshrc").read_text() == f'. "{project.home}/completion.zsh"\n'
    assert (project.home / "completion.zsh").read_text() == SCRIPTS["zsh"].read_text()
    assert cli("--install-completion", "fish").out.startswith(
        f"Wrote {home}/.config/fish/completions/forge.fish.\n"
    )
    assert (home / ".config/fish/completions/forge.fish").read_text() == SCRIPTS["fish"].read_text()


@pytest.mark.long
@pytest.mark.needs("fish")
def test_fish_completes_by_its_script(tmp_path: Path) -> None:
    (tmp_path / "script").write_text(SCRIPTS["fish"].read_text())
    line = f"source {tmp_path}/script; complete -C 'forge run re'"
    done = subprocess.run(
        ["fish", "--no-config", "-c", line], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == ("reviewer\n", "")


@pytest.mark.long
@pytest.mark.needs("zsh")
def test_zsh_completes_by_its_script(tmp_path: Path) -> None:
    (tmp_path / "script").write_text(SCRIPTS["zsh"].read_text())
    shell = pexpect.spawn("zsh", ["-f"], encoding="utf-8", timeout=60, dimensions=(24, 80))
    try:
        shell.sendline(f"autoload -Uz compinit; compinit -u -D; . {tmp_path}/script; echo rea''dy")
        shell.expect_exact("ready")
        shell.send("echo forge; forge run revi\t")
        assert shell.expect_exact(["reviewer", pexpect.EOF]) == 0
    finally:
        shell.close(force=True)


@pytest.mark.parametrize(
    ("shell", "told"), [("tcsh", "the shell 'tcsh' is not one of bash"), ("", "SHELL is not set")]
)
def test_unsupported_shell_is_an_error(cli, monkeypatch, shell: str, told: str) -> None:
    monkeypatch.setenv("SHELL", f"/bin/{shell}" if shell else "")
    done = cli("--install-completion")
    assert (done.code, done.out) == (2, "")
    assert told in done.err

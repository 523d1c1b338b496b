"""Toolchains: programs on PATH start from a home that is hidden, and nothing else of it can be seen."""

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from forge_cli.core.processes import Finished
from forge_cli.core.zones import Zone, ZoneMode
from forge_cli.sandbox.isolation.confinement import confinement_for
from forge_cli.sandbox.isolation.isolation import Confined, Mechanism
from forge_cli.sandbox.isolation.toolchains import find_toolchains, links_of_path
from forge_cli.sandbox.processes.command import bash_argv, clean_environment
from forge_cli.sandbox.processes.process import ChildProcesses

pytestmark = [pytest.mark.anyio, pytest.mark.needs("linux")]

SECRETS = (
    *(
        ".bash_history",
        ".zsh_history",
        ".python_history",
        ".psql_history",
        ".node_repl_history",
        ".lesshst",
        ".viminfo",
    ),
    *(
        ".pgpass",
        ".my.cnf",
        ".netrc",
        ".npmrc",
        ".pypirc",
        ".git-credentials",
        ".gitconfig",
        ".s3cfg",
        ".boto",
        ".env",
    ),
    *(
        ".ssh/id_ed25519",
        ".gnupg/private-keys-v1.d/key",
        ".aws/credentials",
        ".azure/token.json",
        ".kube/config",
    ),
    *(
        ".docker/config.json",
        ".dockercfg",
        ".oci/config",
        ".fly/config.yml",
        ".databrickscfg",
        ".vault-token",
    ),
    *(
        ".config/gcloud/credentials.db",
        ".config/gh/hosts.yml",
        ".config/rclone/rclone.conf",
        ".config/sops/age/keys.txt",
    ),
    *(
        ".config/containers/auth.json",
        ".config/doctl/config.yaml",
        ".config/github-copilot/hosts.json",
    ),
    *(
        ".config/google-chrome/Default/Cookies",
        ".config/chromium/Default/Login Data",
        ".mozilla/firefox/x/logins.json",
    ),
    *(
        ".thunderbird/x/key4.db",
        ".local/share/keyrings/login.keyring",
        ".password-store/bank.gpg",
        ".bitcoin/wallet.dat",
    ),
    *(
        ".ethereum/keystore/key",
        ".electrum/wallets/default",
        ".terraform.d/credentials.tfrc.json",
        ".gem/credentials",
    ),
    *(
        ".m2/settings.xml",
        ".gradle/gradle.properties",
        ".composer/auth.json",
        ".cache/huggingface/token",
    ),
    *(
        ".claude/.credentials.json",
        ".codex/auth.json",
        ".gemini/oauth_creds.json",
        ".forge/config.yaml",
    ),
    *(
        ".cargo/credentials.toml",
        ".cargo/credentials",
        "Documents/taxes.txt",
        "other-project/.env",
        "notes.txt",
    ),
)


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home with a project, toolchains on PATH, and secrets; not in /tmp, which is private to a confined process."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        home = Path(os.path.realpath(folder))
        for name in SECRETS:
            put(home / name, "the secret\n")
        (home / "project").mkdir()
        script(home / ".pyenv/shims/python", "exec ../.pyenv/versions/3/bin/python")
        script(home / ".pyenv/versions/3/bin/python", "cat ../.pyenv/versions/3/lib/os.py")
        put(home / ".pyenv/versions/3/lib/os.py", "pyenv\n")
        script(
            home / ".nvm/versions/node/v20/bin/node",
            "cat ../.nvm/versions/node/v20/lib/node_modules/x",
        )
        put(home / ".nvm/versions/node/v20/lib/node_modules/x", "node\n")
        script(home / ".cargo/bin/cargo", "cat ../.rustup/toolchains/stable")
        put(home / ".rustup/toolchains/stable", "cargo\n")
        put(home / ".local/share/pipx/venvs/black/pyvenv.cfg", "")
        script(home / ".local/share/pipx/venvs/black/bin/black", "echo black")
        script(home / ".local/bin/mine", "echo mine")
        (home / ".local/bin/black").symlink_to("../share/pipx/venvs/black/bin/black")
        script(home / "miniconda3/bin/conda", "cat ../miniconda3/conda-meta/history")
        put(home / "miniconda3/conda-meta/history", "conda\n")
        script(home / "dotfiles/bin/linked", "echo linked")
        (home / "bin").symlink_to("dotfiles/bin")
        names = (
            ".pyenv/shims",
            ".nvm/versions/node/v20/bin",
            ".cargo/bin",
            ".local/bin",
            "miniconda3/bin",
            "bin",
        )
        monkeypatch.setenv(
            "PATH", os.pathsep.join([*(str(home / name) for name in names), os.environ["PATH"]])
        )
        monkeypatch.setenv("HOME", str(home))
        yield home


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def script(path: Path, line: str) -> None:
    put(path, f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


async def run(cage: Mechanism, home: Path, line: str, *read: Path) -> Finished:
    zone = Zone("project", home / "project", ZoneMode.RW)
    confinement = confinement_for(
        [zone],
        workspace=home / "project",
        user_homes=[home],
        forge_home=home / ".forge",
        read=read,
        network=True,
    )
    async with ChildProcesses() as processes:
        wrap = Confined(cage, confinement)
        return await processes.run(
            bash_argv(line), cwd=home / "project", env=clean_environment(), timeout=60, wrap=wrap
        )


async def test_planted_secrets_cannot_be_read(cage: Mechanism, home: Path) -> None:
    by_name = "".join(f"cat '{home / name}'\n" for name in SECRETS)
    done = await run(
        cage, home, f"{by_name} grep -rl 'the secret' {home} /proc/self/cwd/.. ; ls -A ~"
    )
    assert "the secret" not in done.stdout + done.stderr
    listed = (
        ".cargo",
        ".rustup",
        ".nvm",
        ".pyenv",
        ".local",
        "miniconda3",
        "bin",
        "dotfiles",
        "project",
    )
    assert {*done.stdout.split()} == (set() if cage.weakness else {*listed})


async def test_programs_on_the_path_start_although_the_home_is_hidden(
    cage: Mechanism, home: Path
) -> None:
    done = await run(
        cage, home, "for name in python node cargo black mine conda linked; do $name; done"
    )
    assert (done.stdout, done.stderr) == ("pyenv\nnode\ncargo\nblack\nmine\nconda\nlinked\n", "")


async def test_named_paths_are_readable_and_not_writable(cage: Mechanism, home: Path) -> None:
    done = await run(
        cage,
        home,
        "cat ~/.kube/config ~/notes.txt; echo x >~/.kube/config || echo refused",
        home / ".kube",
    )
    assert done.stdout == "the secret\nrefused\n"


def test_link_in_a_folder_of_programs_shows_toolchains_only(home: Path) -> None:
    planted = home / "project/.venv/bin"
    planted.mkdir(parents=True)
    (planted / "key").symlink_to(home / ".ssh/id_ed25519")
    (planted / "documents").symlink_to(home / "Documents")
    (planted / "python").symlink_to(home / ".pyenv/versions/3/bin/python")
    (home / "project/shown").symlink_to(home / ".ssh")
    search = os.pathsep.join([str(planted), str(home / "project/shown"), ".", "bin", ""])
    base = {Path(sys.prefix), Path(sys.base_prefix)}
    assert {path for _, path in find_toolchains([home], search)} - base == {
        planted,
        home / ".pyenv",
        home / ".pyenv/versions/3",
    }


def test_links_of_the_path_are_kept_below_the_home_only(home: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").symlink_to(home / ".cargo/bin")
    assert list(links_of_path(home, f"{tmp_path}/bin:{home}/bin:{home}/.cargo/bin:/nowhere")) == [
        home / "bin"
    ]


def test_home_itself_is_never_a_toolchain(home: Path) -> None:
    for name in (
        "bin",
        "lib",
        ".local/lib",
        ".local/share/bin",
        ".local/share/lib",
        ".config/bin",
        ".config/lib",
    ):
        (home / name).mkdir(exist_ok=True)
    search = os.pathsep.join(
        str(home / name) for name in ("", ".local/bin", ".local/share/bin", ".config/bin", "bin")
    )
    found = {path for _, path in find_toolchains([home], search)}
    assert not {home, home / ".local", home / ".local/share", home / ".config"} & found

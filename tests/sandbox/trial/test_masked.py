"""Masks over secrets: opening one is reported for every way, and shows no content.

Covers forge_cli.sandbox.trial.masked, forge_cli.sandbox.trial.view.
"""

import os
from pathlib import Path

import pytest

from forge_cli.core.processes import Finished
from forge_cli.core.zones import Zone, ZoneMode
from forge_cli.sandbox.isolation.confinement import Confinement
from forge_cli.sandbox.isolation.isolation import Confined, available_mechanisms
from forge_cli.sandbox.processes.command import bash_argv, clean_environment
from forge_cli.sandbox.processes.process import ChildProcesses
from forge_cli.sandbox.trial.copies import Copies
from forge_cli.sandbox.trial.masked import (
    MAX_ENTRIES,
    MAX_MASKED,
    TooManySecrets,
    mask_secrets,
)
from forge_cli.sandbox.trial.view import TrialView

pytestmark = [pytest.mark.anyio, pytest.mark.needs("overlay")]

SECRETS = (
    *(".env", "sub/.env.local", ".ENV", ".env.d/deep/key", ".git/x/.env", ".git/objects/ab/.envrc"),
    *("sub/.git/.env.d/key", ".vscode/a/b/.env", ".forge/.env", "node_modules/p/.env"),
)


@pytest.fixture
def zone(tmp_path: Path) -> Path:
    folder = Path(os.path.realpath(tmp_path)) / "zone"
    for name in SECRETS:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"KEY={name}\n")
    (folder / "link.txt").symlink_to(".env")
    (folder / "linked").symlink_to(".git/x")
    (folder / "file").write_text("x\n")
    return folder


async def opened(zone: Path, line: str, mode: ZoneMode = ZoneMode.RW) -> tuple[Finished, list[str]]:
    cage = next(found for found in available_mechanisms() if found.name == "bwrap")
    around = Confinement(zones=(Zone("zone", zone, mode),), workspace=zone, network=True)
    with mask_secrets(TrialView(around).secrets(around.names()), zone.parent / "masks") as masks:
        copies = Copies(
            zone.parent / "trial", Confined(cage, around, covers=tuple(masks.rules)), network=False
        )
        async with ChildProcesses() as processes:
            done = await processes.run(
                bash_argv(line), cwd=zone, wrap=copies, env=clean_environment(), timeout=60
            )
        found = masks.opened()
    assert not (zone.parent / "masks").exists()
    return done, [path.removeprefix(f"{zone}/") for path in found]


@pytest.mark.parametrize("mode", list(ZoneMode)[:2])
async def test_masks_cover_secrets_in_all_places(zone: Path, mode: ZoneMode) -> None:
    done, found = await opened(zone, f"grep -rha KEY . ; cat {' '.join(SECRETS)}", mode)
    assert "KEY" not in done.stdout
    names = {".env.d" if name.startswith(".env.d") else name for name in SECRETS} - {
        "sub/.git/.env.d/key"
    }
    assert set(found) == {*names, "sub/.git/.env.d"}


@pytest.mark.parametrize(
    ("line", "secret"),
    [
        ("cat link.txt", ".env"),
        ("cat linked/.env 2>/dev/null || true", ".git/x/.env"),
        ("""python3 -c 'print(open(chr(46)+"git/x/.en"+"v").read())'""", ".git/x/.env"),
        ("cat .env.d/deep/key; true", ".env.d"),
        ("ls .env.d", ".env.d"),
        ("cp .git/x/.env copy", ".git/x/.env"),
        ("set -a; . ./.env", ".env"),
        ("{ : < .env; } 2>/dev/null", ".env"),
        ("setsid sh -c 'exec 7< .env' & wait", ".env"),
        (
            'python3 -c \'import os; os.open("/proc/self/fd/%d" % os.open(".env", os.O_PATH), 0)\'',
            ".env",
        ),
    ],
)
async def test_opened_secret_is_reported(zone: Path, line: str, secret: str) -> None:
    done, found = await opened(zone, line)
    assert found == [secret], done


@pytest.mark.parametrize(
    "line",
    ["ls -la", "stat .env link.txt; test -f .env; wc -l file", "cp -a file other; git status"],
)
async def test_listed_secret_is_not_reported_as_opened(zone: Path, line: str) -> None:
    done, found = await opened(zone, line)
    assert found == [], done


async def test_new_secret_in_a_folder_that_was_read_before_is_found(zone: Path) -> None:
    around = Confinement(zones=(Zone("zone", zone, ZoneMode.RW),), workspace=zone)
    view = TrialView(around)
    os.utime(zone / ".git/x", (1, 1))
    before = set(view.secrets(around.names()))
    (zone / ".git/x/.env.new").write_text("x")
    (zone / ".git/link").symlink_to("x/.env.new")
    (zone / ".git/.env").symlink_to("../file")
    assert set(view.secrets(around.names())) - before == {zone / ".git/x/.env.new", zone / "file"}


def test_too_many_are_not_masked(tmp_path: Path) -> None:
    paths = [tmp_path / f".env{number}" for number in range(MAX_MASKED + 1)]
    for path in paths:
        path.touch()
    with (
        pytest.raises(TooManySecrets, match="more than 200 files"),
        mask_secrets(paths, tmp_path / "masks"),
    ):
        raise AssertionError


def test_folder_with_too_many_files_is_not_masked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forge_cli.sandbox.trial.masked.MAX_ENTRIES", 3)
    assert MAX_ENTRIES > 3
    folder = tmp_path / ".env"
    (folder / "a/b").mkdir(parents=True)
    (folder / "c").touch()
    with mask_secrets([folder], tmp_path / "masks") as masks:
        (tmp_path / "masks/0/c").read_bytes()
        assert masks.opened() == [str(folder)]
    (folder / "d").touch()
    with (
        pytest.raises(TooManySecrets, match="more than 3 files"),
        mask_secrets([folder], tmp_path / "masks"),
    ):
        raise AssertionError
    assert not (tmp_path / "masks").exists()

"""Confinement: the rule that applies to a path in nested places.

Covers forge_cli.sandbox.isolation.protected_scan.
"""

import itertools
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_cli.core.zones import Zone, ZoneMode
from forge_cli.sandbox.isolation import confinement as confinement_module
from forge_cli.sandbox.isolation import protected_scan
from forge_cli.sandbox.isolation.confinement import Confinement, Reach, ReachRule, confinement_for

pytestmark = pytest.mark.needs("linux")

NAMES = [""] + [
    "/".join(way) for depth in (1, 2, 3) for way in itertools.product("ab", repeat=depth)
]
CAN_WRITE = {Reach.WRITE, Reach.PINNED}
CONCEALED = {Reach.HIDDEN, Reach.PRIVATE}


@pytest.fixture(scope="module")
def tree() -> Iterator[Path]:
    """Folders a and b, in each of them a and b, and once more; not in /tmp, for which there is a rule already."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        for name in NAMES:
            Path(folder, name).mkdir(exist_ok=True)
        yield Path(os.path.realpath(folder))


def ends(rules: list[ReachRule], path: Path) -> str:
    """The access to a path: the last rule that covers it counts."""
    reach = next(
        (rule.reach for rule in reversed(rules) if path.is_relative_to(rule.path)), Reach.READ
    )
    return "write" if reach in CAN_WRITE else "nothing" if reach in CONCEALED else "read"


@given(
    st.dictionaries(st.sampled_from(NAMES), st.sampled_from(ZoneMode), max_size=4),
    st.sets(st.sampled_from(NAMES[1:]), max_size=3),
    st.sets(st.sampled_from(NAMES[1:]), max_size=2),
)
def test_innermost_wish_counts(
    tree: Path, zones: dict[str, ZoneMode], hidden: set[str], visible: set[str]
) -> None:
    confinement = Confinement(
        zones=tuple(
            Zone(f"z{number}", tree / name, mode)
            for number, (name, mode) in enumerate(zones.items())
        ),
        workspace=tree,
        hidden=tuple(tree / name for name in hidden),
    )
    rules = confinement.rules(tree / name for name in visible)
    for name in NAMES:
        path = tree / name
        wishes = [(tree / one, 0, "nothing") for one in hidden]
        wishes += [
            (tree / one, 1, "read")
            for one in visible
            if ends(confinement.rules(), tree / one) == "nothing"
        ]
        wishes += [
            (tree / one, 2, "write" if mode is ZoneMode.RW else "read")
            for one, mode in zones.items()
        ]
        around = [wish for wish in wishes if path.is_relative_to(wish[0])]
        expected = (
            max(around, key=lambda wish: (len(wish[0].parts), wish[1]))[2] if around else "read"
        )
        assert ends(rules, path) == expected, (path, rules)


@given(
    st.dictionaries(st.sampled_from(NAMES), st.sampled_from(ZoneMode), max_size=4),
    st.sets(st.sampled_from(NAMES[1:]), max_size=3),
)
def test_folders_around_protected_paths_cannot_be_moved(
    tree: Path, zones: dict[str, ZoneMode], hidden: set[str]
) -> None:
    confinement = Confinement(
        zones=tuple(
            Zone(f"z{number}", tree / name, mode)
            for number, (name, mode) in enumerate(zones.items())
        ),
        workspace=tree,
        hidden=tuple(tree / name for name in hidden),
    )
    rules = confinement.rules()
    mounted = {rule.path for rule in rules}
    for rule in rules:
        if rule.path.is_relative_to(tree):
            movable = [folder for folder in rule.path.parents if folder.is_relative_to(tree)]
            assert not [
                folder
                for folder in movable
                if ends(rules, folder.parent) == "write" and folder not in mounted
            ]


def protected(rules: list[ReachRule], root: Path) -> list[str]:
    return [str(rule.path.relative_to(root)) for rule in rules if rule.reach is Reach.PROTECTED]


def in_zone(root: Path, **options: object) -> Confinement:
    return Confinement(zones=(Zone("here", root, ZoneMode.RW),), workspace=root, **options)


def test_scan_finds_new_names_and_reuses_unchanged_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    scandir = os.scandir
    monkeypatch.setattr(
        protected_scan.os, "scandir", lambda path: read.append(path) or scandir(path)
    )
    monkeypatch.setattr(protected_scan, "_SETTLED", -(10**18))
    for name in ("a/b", "c/.git"):
        (tmp_path / name).mkdir(parents=True)
    confinement = in_zone(tmp_path)
    assert confinement.names() == (f"{tmp_path}/c/.git",)
    read.clear()
    (tmp_path / "a/b/.env").touch()
    assert confinement.names() == (f"{tmp_path}/c/.git", f"{tmp_path}/a/b/.env")
    assert read == [f"{tmp_path}/a/b"]
    (tmp_path / "a/b/.env").unlink()
    os.utime(tmp_path / "a/b", ns=(0, 0))
    assert confinement.names() == (f"{tmp_path}/c/.git",)


def test_folder_that_has_just_changed_is_read_again(tmp_path: Path) -> None:
    """Its time may be the same after the next change."""
    confinement = in_zone(tmp_path)
    for number in range(50):
        assert len(confinement.names()) == number
        (tmp_path / f".env{number}").touch()


def test_names_in_the_zone_itself_are_held_and_too_many_below_with_their_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confinement_module, "PROTECTED_AT_MOST", 2)
    for name in (".git", ".ENV", ".mcp.json", ".forge", "a/.git", "a/b/.git", "c/d/.git", "c/.env"):
        (tmp_path / name).mkdir(parents=True)
    rules = in_zone(tmp_path).rules()
    assert {".ENV", ".forge", ".git", ".mcp.json"} <= {*protected(rules, tmp_path)}
    for name in ("a/.git", "a/b/.git", "c/d/.git", "c/.env"):
        assert ends(rules, tmp_path / name) == "read"


def test_target_of_a_protected_link_is_protected(
    tmp_path: Path,
) -> None:
    zone, outside = tmp_path / "zone", tmp_path / "outside"
    for folder in (zone / "real", outside):
        folder.mkdir(parents=True)
    (zone / ".git").symlink_to("real")
    (zone / ".env").symlink_to(outside)
    (zone / ".bashrc").symlink_to("missing")
    (zone / ".forge").symlink_to(".forge")
    (zone / ".profile").symlink_to(".")
    (zone / ".zshrc").symlink_to("..")
    assert protected(in_zone(zone).rules(), zone) == ["real"]


def test_read_only_zones_and_hidden_places_are_not_searched(tmp_path: Path) -> None:
    for name in ("ro", "hidden", "rw"):
        (tmp_path / name / ".git").mkdir(parents=True)
    zones = (Zone("here", tmp_path, ZoneMode.RW), Zone("ro", tmp_path / "ro"))
    confinement = Confinement(zones=zones, workspace=tmp_path, hidden=(tmp_path / "hidden",))
    assert protected(confinement.rules(), tmp_path) == ["rw/.git"]


def test_worker_gets_real_paths_and_never_forges_own_folder_to_write(tmp_path: Path) -> None:
    for name in (
        "real/project",
        "home/.config/gcloud",
        "own/tools",
        "real/.git/hooks",
        "real/final",
    ):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    zones = [
        Zone("project", tmp_path / "real/project", ZoneMode.RW),
        Zone("tools", tmp_path / "own/tools", ZoneMode.RW),
        Zone("hooks", tmp_path / "real/.git/hooks", ZoneMode.RW),
        Zone("final", tmp_path / "real/final", ZoneMode.RW, {"write": "blocked"}),
    ]
    confinement = confinement_for(
        zones,
        workspace=tmp_path / "link/project",
        user_homes=[tmp_path / "home"],
        forge_home=tmp_path / "own",
        protected=[tmp_path / "link/worker.yaml"],
        network=True,
    )
    assert [zone.mode for zone in confinement.zones] == [
        ZoneMode.RW,
        ZoneMode.RO,
        ZoneMode.RO,
        ZoneMode.RO,
    ]
    assert confinement.workspace == tmp_path / "real/project"
    assert confinement.protected == (tmp_path / "real/worker.yaml",)
    assert confinement.hidden == (tmp_path / "home", tmp_path / "own")


def hidden(home: Path, *, workspace: Path, **options: Any) -> Confinement:
    settings = {"user_homes": [home], "forge_home": home / ".forge", "network": False, **options}
    return confinement_for((), workspace=workspace, **settings)


def test_secrets_stay_hidden_in_shown_parts_of_the_home(tree: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        home = Path(os.path.realpath(folder))
        for name in (".config/gh", ".config/other", ".aws", ".forge/keys"):
            (home / name).mkdir(parents=True)
        rules = hidden(
            home, workspace=tree, read=[home / ".config", home / ".aws", home / ".forge/keys"]
        ).rules()
        ending = {
            name: ends(rules, home / name)
            for name in ("", ".config/gh", ".config/other", ".aws", ".forge/keys")
        }
    assert ending == {
        "": "nothing",
        ".config/gh": "nothing",
        ".config/other": "read",
        ".aws": "read",
        ".forge/keys": "nothing",
    }


def test_homes_are_hidden_except_toolchains(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        one, other = homes = [
            Path(os.path.realpath(folder)) / name for name in ("one", "one/other")
        ]
        for home in homes:
            for name in (
                ".ssh",
                ".config/gh",
                ".cargo/bin",
                ".local/bin",
                ".local/lib",
                ".local/share",
                "project",
            ):
                (home / name).mkdir(parents=True)
        search = os.pathsep.join(
            f"{home}/{name}" for home in homes for name in (".cargo/bin", ".local/bin")
        )
        monkeypatch.setenv("PATH", search)
        options = {
            "user_homes": homes,
            "forge_home": one / ".forge",
            "read": [home / ".config" for home in homes],
        }
        failures = []
        for first in (homes, homes[::-1]):
            for workspace in (tree, one / "project", other / "project", one, other):
                rules = confinement_for(
                    (), workspace=workspace, network=False, **{**options, "user_homes": first}
                ).rules()
                for home in homes:
                    wanted = {
                        ".ssh": "nothing",
                        ".config/gh": "nothing",
                        ".local/share": "nothing",
                        ".cargo/bin": "read",
                    }
                    found = {name: ends(rules, home / name) for name in wanted}
                    if found != wanted:
                        failures.append((first, workspace, home, found))
    assert failures == []


def test_names_that_nobody_obeys_among_packages_are_left_alone(tmp_path: Path) -> None:
    names = (
        ".claude/x",
        "AGENTS.md",
        ".github/workflows/x",
        ".travis.yml",
        ".idea/x",
        ".gitattributes",
        ".env",
        ".npmrc",
    )
    for around in (
        "",
        "sub",
        "node_modules/a",
        "sub/node_modules/@b/c",
        "vendor/d",
        "lib/site-packages/e",
    ):
        for name in names:
            path = tmp_path / around / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("")
    found = {os.path.relpath(name, tmp_path) for name in in_zone(tmp_path).names()}
    top = {
        ".claude",
        "AGENTS.md",
        ".github/workflows",
        ".travis.yml",
        ".idea",
        ".gitattributes",
        ".env",
        ".npmrc",
    }
    packages = ("node_modules/a", "sub/node_modules/@b/c", "vendor/d", "lib/site-packages/e")
    assert found == {*top, *(f"sub/{name}" for name in top)} | {
        f"{around}/{name}" for around in packages for name in (".env", ".npmrc")
    }


def test_home_that_is_the_working_directory_stays_hidden(tree: Path) -> None:
    assert ends(hidden(tree, workspace=tree).rules(), tree / "a") == "nothing"


@pytest.mark.parametrize("home", ["/", "/usr", "/usr/sbin", "/etc"])
def test_home_that_is_the_system_is_not_hidden(tree: Path, home: str) -> None:
    assert ends(hidden(Path(home), workspace=tree).rules(), Path("/usr/sbin")) == "read"

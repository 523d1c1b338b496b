"""Zones at load: valid places, created folders, and errors with their place in the file.

Covers forge_cli.sandbox.zones.config, forge_cli.core.zones, forge_cli.sandbox.zones.zones,
forge_cli.sandbox.zones.declared.
"""

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from forge_cli.core.approval import Approval
from forge_cli.core.errors import Mark, ToolError, WorkerError
from forge_cli.core.zones import Access, Zone, ZoneApproval, ZoneMode
from forge_cli.files.document import parse_document
from forge_cli.sandbox.files.sandbox import Sandbox
from forge_cli.sandbox.zones.config import SandboxConfig
from forge_cli.sandbox.zones.declared import open_zone, open_zones, require_distinct
from forge_cli.schema.config import parse_config


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "workspace").mkdir()
    return tmp_path / "workspace"


def opened(text: str, workspace: Path, home: Path) -> tuple[Zone, ...]:
    data = parse_document(text, file="worker.yaml")
    config = parse_config(SandboxConfig, data, at=("sandbox",), file="worker.yaml")
    return open_zones(config, workspace=workspace, user_home=home, file="worker.yaml")


def refused(text: str, workspace: Path, home: Path) -> WorkerError:
    with pytest.raises(WorkerError) as caught:
        opened(text, workspace, home)
    return caught.value


def test_zone_knows_its_folder_its_rules_and_where_they_are_written(
    workspace: Path, home: Path
) -> None:
    text = "zones:\n  - name: out\n    mode: rw\n    approval:\n      write: preApproved\n"

    zones = opened(text, workspace, home)

    mark = Mark("worker.yaml", 2, 5)
    assert zones == (
        Zone(
            name="out",
            path=workspace / "out",
            mode=ZoneMode.RW,
            approval=ZoneApproval(Approval.PRE_APPROVED, Approval.ASK),
            where=mark,
            write_where=Mark("worker.yaml", 5, 14),
            write_stated=True,
            delete_where=Mark("worker.yaml", 4, 5),
        ),
    )
    assert (workspace / "out").is_dir()


def test_zone_is_read_only_and_asks_unless_it_says_otherwise(workspace: Path, home: Path) -> None:
    (workspace / "src").mkdir()

    (zone,) = opened("zones: [{name: src}]", workspace, home)

    assert (zone.mode, zone.write, zone.delete) == (ZoneMode.RO, Approval.ASK, Approval.ASK)


@pytest.mark.parametrize("text", ["{}", "zones: null"])
def test_default_zone_is_the_working_directory(text: str, workspace: Path, home: Path) -> None:
    expected = (Zone("workspace", workspace, ZoneMode.RW, default=True),)

    assert opened(text, workspace, home) == expected
    assert open_zones(None, workspace=workspace, user_home=home, file="worker.yaml") == expected


def test_empty_list_means_no_zones(workspace: Path, home: Path) -> None:
    assert opened("zones: []", workspace, home) == ()


@pytest.mark.parametrize("workspace", [Path("/"), Path("/proc/self")])
def test_root_is_no_default_zone(workspace: Path, home: Path) -> None:
    with pytest.raises(WorkerError, match="use -C DIR, or add a folder with --add-dir DIR$"):
        open_zones(None, workspace=workspace, user_home=home, file="worker.yaml")


def test_home_is_no_default_zone_under_any_name(tmp_path: Path, home: Path) -> None:
    (tmp_path / "other-name").symlink_to(home)

    for workspace in (home, tmp_path / "other-name"):
        with pytest.raises(WorkerError, match="home folder itself\n  use -C"):
            open_zones(None, workspace=workspace, user_home=home, file="worker.yaml")


def test_working_directory_that_is_missing(tmp_path: Path, home: Path) -> None:
    with pytest.raises(WorkerError, match="is not a folder"):
        open_zones(None, workspace=tmp_path / "gone", user_home=home, file="worker.yaml")


@pytest.mark.parametrize(
    "path", ["/", "/..", "/proc", "/proc/self", "/sys", "/dev", "/dev/shm", "~", "~/", "../home"]
)
@pytest.mark.parametrize("mode", ["ro", "rw"])
def test_places_where_no_zone_may_lie(path: str, mode: str, workspace: Path, home: Path) -> None:
    error = refused(f"zones:\n  - {{name: z, path: '{path}', mode: {mode}}}", workspace, home)

    assert error.where == Mark("worker.yaml", 2, 5)
    assert error.message.startswith("zone 'z': ")


def test_link_does_not_hide_where_a_zone_lies(workspace: Path, home: Path) -> None:
    (workspace / "all").symlink_to("/")

    assert "the whole machine" in refused("zones: [{name: all}]", workspace, home).message


def test_folder_in_the_home_is_fine(workspace: Path, home: Path) -> None:
    (zone,) = opened("zones: [{name: notes, path: ~/notes, mode: rw}]", workspace, home)

    assert zone.path == home / "notes"
    assert zone.path.is_dir()


def test_linked_zone_is_pinned_to_what_the_link_meant_at_load(workspace: Path, home: Path) -> None:
    (workspace / "real").mkdir()
    (workspace / "link").symlink_to("real")

    (zone,) = opened("zones: [{name: z, path: link}]", workspace, home)

    assert zone.path == workspace / "real"


def test_read_only_zone_is_not_made(workspace: Path, home: Path) -> None:
    error = refused("zones: [{name: src}]", workspace, home)

    assert "No such file" in error.message
    assert error.hint == "create it first, or declare the zone with 'mode: rw'"
    assert not (workspace / "src").exists()


@pytest.mark.parametrize("mode", ["ro", "rw"])
def test_file_is_no_zone(mode: str, workspace: Path, home: Path) -> None:
    (workspace / "f").write_text("")

    assert (
        "is not a folder" in refused(f"zones: [{{name: f, mode: {mode}}}]", workspace, home).message
    )


def test_zone_cannot_be_made_below_a_file(workspace: Path, home: Path) -> None:
    (workspace / "f").write_text("")

    assert (
        "cannot be created"
        in refused("zones: [{name: z, path: f/z, mode: rw}]", workspace, home).message
    )


def test_link_in_a_circle_is_no_zone(workspace: Path, home: Path) -> None:
    (workspace / "z").symlink_to("z")

    assert refused("zones: [{name: z}]", workspace, home).message.startswith("zone 'z': ")


def test_two_zones_of_one_name(workspace: Path, home: Path) -> None:
    text = "zones:\n  - {name: a, mode: rw}\n  - {name: a, path: b, mode: rw}"

    error = refused(text, workspace, home)

    assert str(error) == "worker.yaml:3:5: zone 'a' is declared twice\n  give each its own name"


def test_two_zones_on_one_folder_even_through_a_link(workspace: Path, home: Path) -> None:
    (workspace / "a").mkdir()
    (workspace / "b").symlink_to("a")

    error = refused("zones:\n  - name: a\n  - name: b", workspace, home)

    assert error.where == Mark("worker.yaml", 3, 5)
    assert "'a' and 'b' are the same folder" in error.message


def test_zone_may_lie_in_another(workspace: Path, home: Path) -> None:
    (workspace / "top").mkdir()

    zones = opened(
        "zones: [{name: top}, {name: inner, path: top/inner, mode: rw}]", workspace, home
    )

    assert [zone.path for zone in zones] == [workspace / "top", workspace / "top" / "inner"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("zones: [{name: Src}]", "zones[0].name: 'Src' is not a valid zone name"),
        ("zones: [{name: a/b}]", "is not a valid zone name"),
        ("zones: [{name: ''}]", "is not a valid zone name"),
        ('zones: [{name: "a\\n"}]', r"'a\n' is not a valid zone name"),
        ("zones: [{path: src}]", "zones[0].name: this key is required"),
        ("zones: [{name: a, path: ''}]", "zones[0].path: "),
        ("zones: [{name: a, mode: rx}]", "zones[0].mode: must be 'ro' or 'rw', not 'rx'"),
        ("zones: [{name: a, approval: {read: ask}}]", "unknown key 'read'"),
        ("zones: [{name: a, approval: {write: yes}}]", "zones[0].approval.write: "),
        ("isolated: auto", "unknown key 'isolated'; did you mean 'isolation'?"),
    ],
)
def test_section_that_is_wrong(text: str, sentence: str, workspace: Path, home: Path) -> None:
    error = refused(text, workspace, home)

    assert sentence in error.message
    assert error.where is not None


def test_zones_that_come_from_elsewhere_are_held_to_the_same_rules(
    workspace: Path, home: Path
) -> None:
    tools = open_zone(Zone("tools", home / ".forge" / "tools", ZoneMode.RW), user_home=home)

    assert tools.path.is_dir()
    with pytest.raises(WorkerError, match="same folder"):
        require_distinct(
            (*opened("zones: [{name: t, path: ~/.forge/tools}]", workspace, home), tools)
        )
    with pytest.raises(WorkerError, match="home folder itself"):
        open_zone(Zone("home", home, ZoneMode.RW), user_home=home)


UNMADE = """
zones:
  - {name: scratch, path: deep/scratch, mode: rw, approval: {write: preApproved}}
  - {name: inner, path: deep/scratch/inner, mode: rw, approval: {write: blocked}}
  - {name: src, path: src}
"""


def looked_at(text: str, workspace: Path, home: Path) -> tuple[Zone, ...]:
    config = parse_config(
        SandboxConfig, parse_document(text, file="worker.yaml"), file="worker.yaml"
    )
    return open_zones(config, workspace=workspace, user_home=home, file="worker.yaml", make=False)


def test_looking_makes_no_folder(workspace: Path, home: Path) -> None:
    (workspace / "src").mkdir()

    zones = looked_at(UNMADE, workspace, home)

    assert os.listdir(workspace) == ["src"]
    assert [zone.made for zone in zones] == [False, False, True]
    assert [replace(zone, made=True) for zone in zones] == list(opened(UNMADE, workspace, home))


@pytest.mark.parametrize("access", Access)
def test_folder_that_is_still_to_be_made_is_judged_as_if_it_were_there(
    workspace: Path, home: Path, access: Access
) -> None:
    (workspace / "src").mkdir()
    (workspace / "src/in").symlink_to("../deep/scratch/inner/x")
    (workspace / "src/to").symlink_to("../deep/scratch")
    (workspace / "src/out").symlink_to("../deep")
    paths = [
        "/scratch",
        "/scratch/",
        "/scratch/a",
        "/scratch/a/b",
        "/scratch/.git/x",
        "/scratch/inner",
        "/inner",
    ]
    paths += [
        "/inner/a",
        "/scratch/inner/a",
        "/src/in",
        "/src/to",
        "/src/to/a",
        "/src/out/a",
        "/src/out",
        "/scratch/.env",
    ]

    def answers(zones: tuple[Zone, ...]) -> list[str]:
        return [judged(Sandbox(zones), path, access) for path in paths]

    unmade = answers(looked_at(UNMADE, workspace, home))

    assert unmade == answers(opened(UNMADE, workspace, home))


def judged(sandbox: Sandbox, path: str, access: Access) -> str:
    try:
        return f"{sandbox.resolve(path)} {sandbox.judge(path, access)}"
    except ToolError as refusal:
        return str(refusal)


def test_folder_that_is_still_to_be_made_shows_nothing_and_can_be_written(
    workspace: Path, home: Path
) -> None:
    (workspace / "src").mkdir()
    sandbox = Sandbox(looked_at(UNMADE, workspace, home))

    with pytest.raises(ToolError, match="does not exist"):
        sandbox.list("/scratch")
    sandbox.write_bytes("/scratch/a", b"x")

    assert (workspace / "deep/scratch/a").read_bytes() == b"x"
    assert [entry.name for entry in sandbox.list("/scratch")] == ["a"]


@pytest.mark.parametrize("path", ["f/z", "f", "/proc/z"])
def test_looking_refuses_what_could_not_be_made(path: str, workspace: Path, home: Path) -> None:
    (workspace / "f").write_text("")
    text = f"zones: [{{name: z, path: '{path}', mode: rw}}]"

    with pytest.raises(WorkerError) as caught:
        looked_at(text, workspace, home)

    assert str(caught.value) == str(refused(text, workspace, home))


@pytest.mark.needs("user")
def test_looking_refuses_a_folder_where_nothing_can_be_made(workspace: Path, home: Path) -> None:
    workspace.chmod(0o500)

    with pytest.raises(WorkerError, match="cannot be created: Permission denied"):
        looked_at("zones: [{name: z, mode: rw}]", workspace, home)


def test_tilde_alone_is_nothing_to_yaml() -> None:
    with pytest.raises(WorkerError, match="is null in YAML"):
        parse_config(SandboxConfig, {"zones": [{"name": "z", "path": None}]})


def test_two_zones_on_one_folder_that_is_still_to_be_made(workspace: Path, home: Path) -> None:
    with pytest.raises(WorkerError, match="are the same folder"):
        looked_at(
            "zones: [{name: a, path: z, mode: rw}, {name: b, path: ./x/../z, mode: rw}]",
            workspace,
            home,
        )


def test_parts_of_the_home_to_read_are_named_from_the_root_or_the_home(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    config = parse_config(SandboxConfig, {"read": ["~/.config/tool", "/home/me/data"]})
    assert config.wanted().read == (Path("/home/me/.config/tool"), Path("/home/me/data"))
    with pytest.raises(WorkerError, match="'data' is not an absolute path"):
        parse_config(SandboxConfig, {"read": ["data"]})

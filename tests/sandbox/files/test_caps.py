"""Caps: with any declared zones, a child worker has no more access to a file than its caller."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_cli.core.approval import Approval
from forge_cli.core.errors import WorkerError
from forge_cli.core.zones import Zone, ZoneApproval, ZoneMode
from forge_cli.sandbox.files.caps import (
    can_write_silently,
    cap_isolation,
    cap_zone,
    lies_within,
    name_in,
    seen_from,
)
from forge_cli.sandbox.files.sandbox import Sandbox
from forge_cli.sandbox.processes.limits import ProcessLimits
from forge_cli.sandbox.zones.zones import Isolation, IsolationLevel

ROOTS = [Path(text) for text in ("/p", "/p/a", "/p/a/b", "/p/a/b/c", "/p/ab", "/q")]
FILES = [root / "file" for root in ROOTS]

approvals = st.sampled_from(Approval)
modes = st.sampled_from(ZoneMode)


@st.composite
def zone_lists(draw: st.DrawFn) -> list[Zone]:
    roots = draw(st.lists(st.sampled_from(ROOTS), min_size=1, max_size=4, unique=True))
    return [
        Zone(f"z{index}", root, draw(modes), ZoneApproval(draw(approvals), draw(approvals)))
        for index, root in enumerate(roots)
    ]


def zone_of(file: Path, zones: list[Zone]) -> Zone | None:
    around = [zone for zone in zones if file.is_relative_to(zone.path)]
    return max(around, key=lambda zone: len(zone.path.parts), default=None)


@given(
    above=zone_lists(), root=st.sampled_from(ROOTS), mode=modes, write=approvals, delete=approvals
)
def test_child_zone_is_never_wider_than_its_parent(
    above, root: Path, mode: ZoneMode, write: Approval, delete: Approval
) -> None:
    wanted = Zone("mine", root, mode, ZoneApproval(write, delete))
    try:
        zone = cap_zone(wanted, above)
    except WorkerError:
        assert zone_of(root / "file", above) is None
        return
    assert not (zone.mode is ZoneMode.RW and mode is ZoneMode.RO)
    assert not write.stricter_than(zone.write)
    for file in (file for file in FILES if file.is_relative_to(root)):
        outer = zone_of(file, above)
        assert outer is not None
        assert not (zone.mode is ZoneMode.RW and outer.mode is ZoneMode.RO)
        assert not outer.write.stricter_than(zone.write)
        assert not outer.delete.stricter_than(zone.delete)


@given(above=zone_lists())
def test_capping_twice_changes_nothing_more(above: list[Zone]) -> None:
    for zone in above:
        once = cap_zone(zone, above)
        assert cap_zone(once, above) == once


def test_zone_outside_says_where_the_caller_may_go() -> None:
    with pytest.raises(WorkerError) as caught:
        cap_zone(Zone("mine", Path("/q")), [Zone("theirs", Path("/p"))])
    assert "zone 'mine': '/q' is outside the zones of the parent worker" in str(caught.value)
    assert "/theirs is '/p'" in str(caught.value)
    with pytest.raises(WorkerError, match="the parent worker has no zones"):
        cap_zone(Zone("mine", Path("/q")), [])


def test_name_that_only_begins_alike_is_outside() -> None:
    with pytest.raises(WorkerError):
        cap_zone(Zone("mine", Path("/p/ab")), [Zone("theirs", Path("/p/a"))])


LEVELS = (IsolationLevel.OFF, IsolationLevel.AUTO, IsolationLevel.REQUIRED)


@pytest.mark.parametrize("wanted", LEVELS)
@pytest.mark.parametrize("above", LEVELS)
def test_isolation_is_the_stricter_of_both(wanted: IsolationLevel, above: IsolationLevel) -> None:
    for own in (True, False):
        for theirs in (True, False):
            found = cap_isolation(Isolation(wanted, own), Isolation(above, theirs))
            assert LEVELS.index(found.level) == max(LEVELS.index(wanted), LEVELS.index(above))
            assert found.network == (own and theirs)


def test_file_has_a_name_in_each_sandbox(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    outer = Sandbox([Zone("all", tmp_path), Zone("deep", tmp_path / "a/b")])
    inner = Sandbox([Zone("mine", tmp_path / "a")])
    assert seen_from(outer, inner, "/mine/x.txt") == "/all/a/x.txt"
    assert seen_from(outer, inner, "/mine/b/x.txt") == "/deep/x.txt"
    assert seen_from(inner, outer, "/all/x.txt") is None
    assert seen_from(outer, inner, "/nowhere/x") is None
    assert seen_from(outer, inner, "/") is None
    assert name_in(outer, tmp_path) == "/all"


def test_folder_lies_in_a_zone_by_where_it_really_is(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "in/link").symlink_to(tmp_path / "out")
    zones = [Zone("in", tmp_path / "in")]
    assert lies_within(tmp_path / "in/new", zones)
    assert not lies_within(tmp_path / "in/link", zones)


@pytest.mark.parametrize(
    ("zone", "silent"),
    [
        ({"approval": {"write": "preApproved"}}, True),
        ({"approval": {"delete": "preApproved"}}, True),
        ({}, False),
        ({"approval": {"write": "preApproved"}, "mode": "ro"}, False),
    ],
)
def test_writing_without_asking_is_recognized(tmp_path: Path, zone: dict, silent: bool) -> None:
    file = tmp_path / "helper.yaml"
    file.touch()
    sandbox = Sandbox([Zone("all", tmp_path, **{"mode": ZoneMode.RW, **zone})])
    assert can_write_silently(sandbox, file) is silent
    protected = Sandbox(sandbox.zones, protected=[file])
    assert can_write_silently(protected, file) is False
    assert can_write_silently(sandbox, Path("/elsewhere/worker.yaml")) is False


def test_child_reads_of_the_home_what_its_parent_reads_too() -> None:
    config, inner, other = (
        Path("/home/me/.config"),
        Path("/home/me/.config/tool"),
        Path("/home/me/.kube"),
    )
    wanted = Isolation(read=(inner, other))
    assert cap_isolation(wanted, Isolation(read=(config,))).read == (inner,)
    assert cap_isolation(wanted, Isolation(IsolationLevel.OFF)).read == (inner, other)


def test_child_has_the_stricter_limits() -> None:
    wanted = Isolation(stated_limits=ProcessLimits(processes=10, memory=100))
    above = Isolation(stated_limits=ProcessLimits(20, 50, 7))
    assert cap_isolation(wanted, above).limits == ProcessLimits(10, 50, 7)

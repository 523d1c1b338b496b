"""Random trees full of links, and random paths: nothing outside the zones is ever read or changed."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forge_cli.core.approval import Approval, Verdict
from forge_cli.core.errors import ToolError
from forge_cli.core.text import visible
from forge_cli.core.zones import Access, Zone, ZoneMode
from forge_cli.sandbox.files.sandbox import Sandbox
from forge_cli.schema.paths import PathUse

NAMES = ("a", "b", "rw", "ro", "in", "out", "é")
NEW = b"new"

name = st.sampled_from(NAMES)
step = st.one_of(name, st.sampled_from(("..", ".", "")))
spot = st.lists(name, min_size=2, max_size=4).map("/".join)
target = st.tuples(
    st.sampled_from(("", "", "/", "{root}/", "/proc/self/root/{root}/")), st.lists(step, max_size=5)
).map(lambda drawn: drawn[0] + "/".join(drawn[1]))
tree = st.lists(st.tuples(spot, st.one_of(st.none(), target)), max_size=14)
path = st.tuples(
    st.sampled_from(("/rw/", "/rw/", "/ro/", "/in/", "/", "")), st.lists(step, max_size=5)
).map(lambda drawn: drawn[0] + "/".join(drawn[1]))


@dataclass(frozen=True)
class World:
    """A tree with three zones: ``rw``, ``in`` inside it, and ``ro``; the content of each file is its own path."""

    root: Path
    sandbox: Sandbox

    @classmethod
    def built(cls, root: Path, nodes: list[tuple[str, str | None]]) -> "World":
        zones = (
            Zone("rw", root / "rw", "rw", {"write": "preApproved", "delete": "preApproved"}),
            Zone("in", root / "rw/in", "rw", {"write": "ask", "delete": "blocked"}),
            Zone("ro", root / "ro"),
        )
        for zone in zones:
            zone.path.mkdir(parents=True, exist_ok=True)
        for where, leads_to in nodes:
            spot = root / where
            with suppress(OSError):
                spot.parent.mkdir(parents=True, exist_ok=True)
                if leads_to is not None:
                    spot.symlink_to(leads_to.format(root=root) or ".")
                elif not os.path.lexists(spot):
                    spot.write_text(os.path.realpath(spot))
        return cls(root, Sandbox(zones))

    def zone_of(self, real: str) -> Zone | None:
        around = [zone for zone in self.sandbox.zones if Path(real).is_relative_to(zone.path)]
        return max(around, key=lambda zone: len(str(zone.path)), default=None)

    def real(self, path: str) -> str | None:
        """The path as the operating system resolves it, after removing dots in the text."""
        first, *rest = os.path.normpath("/" + path.lstrip("/"))[1:].split("/")
        roots = {zone.name: zone.path for zone in self.sandbox.zones}
        return os.path.realpath(roots[first].joinpath(*rest)) if first in roots else None

    def files(self) -> dict[str, str]:
        """Every file and link with its content, by its real place; links are not followed."""
        found = {}
        for folder, _, _ in os.walk(self.root):
            for entry in os.scandir(folder):
                if entry.is_symlink():
                    found[entry.path] = f"-> {os.readlink(entry)}"
                else:
                    found[entry.path] = "" if entry.is_dir() else Path(entry).read_text()
        return found


@contextmanager
def world(nodes: list[tuple[str, str | None]]) -> Iterator[World]:
    root = os.path.realpath(tempfile.mkdtemp())
    try:
        yield World.built(Path(root), nodes)
    finally:
        shutil.rmtree(root)


@given(tree, path)
def test_zones_are_exactly_what_can_be_read(nodes: list[tuple[str, str | None]], path: str) -> None:
    with world(nodes) as here:
        try:
            content = here.sandbox.read_bytes(path)
        except ToolError:
            real = here.real(path) if path.startswith("/") else None
            plain = not path.endswith(("/", "/.", "/..")) and ".." not in path
            assert not (plain and real and os.path.isfile(real) and here.zone_of(real))
        else:
            assert content.decode() == here.real(path)
            assert here.zone_of(content.decode())


@given(tree, path, st.sampled_from((Access.WRITE, Access.DELETE)))
def test_patch_changes_only_its_lines(
    nodes: list[tuple[str, str | None]], path: str, access: Access
) -> None:
    with world(nodes) as here:
        before = here.files()
        try:
            if access is Access.WRITE:
                here.sandbox.write_bytes(path, NEW)
            else:
                here.sandbox.delete(path)
        except ToolError:
            assert here.files() == before
            return
        after = here.files()
        changed = {
            place for place in before.keys() | after.keys() if before.get(place) != after.get(place)
        }
        if access is Access.WRITE:
            real = here.real(path)
            assert after[str(real)] == NEW.decode()
            assert {place for place in changed if not str(real).startswith(f"{place}/")} == {real}
        else:
            assert len(changed) == 1
            assert changed.isdisjoint(after)
        for place in changed:
            zone = here.zone_of(place)
            assert zone is not None
            assert zone.mode is ZoneMode.RW


@given(tree, path, st.sampled_from(Access))
def test_verdict_is_that_of_the_real_files_zone(
    nodes: list[tuple[str, str | None]], path: str, access: Access
) -> None:
    with world(nodes) as here:
        before = here.files()
        try:
            verdict = here.sandbox.judge(path, access)
            resolved = here.sandbox.resolve(path, access)
        except ToolError:
            return
        finally:
            assert here.files() == before
        if resolved == "/":
            assert access in (Access.LIST, Access.INFO)
            return
        zone = next(zone for zone in here.sandbox.zones if zone.name == resolved.split("/")[1])
        assert zone == here.zone_of(str(zone.path.joinpath(*resolved.split("/")[2:])))
        assert here.sandbox.resolve(resolved, access) == resolved
        allowed = {Access.WRITE: zone.write, Access.DELETE: zone.delete}.get(
            access, Approval.PRE_APPROVED
        )
        assert verdict.approval is allowed


@given(
    st.one_of(st.text(), st.text(alphabet="/.\\~ra\0\x1b\ud800é").map(lambda text: "/rw/" + text))
)
def test_every_text_has_a_verdict_or_an_error_message(text: str) -> None:
    with world([]) as here:
        for access in Access:
            try:
                assert isinstance(here.sandbox.judge(text, access), Verdict)
            except ToolError as refusal:
                assert str(refusal) == visible(str(refusal))


@given(st.lists(step, max_size=6).map("/".join))
def test_listing_never_leaves_the_zones(below: str) -> None:
    nodes = [("rw/out", "../out"), ("out/a", None), ("rw/a/b", None), ("ro/b", "../rw/a")]
    with world(nodes) as here, suppress(ToolError):
        for entry in here.sandbox.list(f"/rw/{below}"):
            assert entry.name != "out" or entry.kind == "link"
            assert entry.name in NAMES


noise = st.sampled_from(("", "./", "x/../", "/", ".//"))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tree, spot, st.sampled_from(tuple(Access)), noise)
def test_spellings_of_a_file_are_judged_alike(
    monkeypatch: pytest.MonkeyPatch,
    nodes: list[tuple[str, str | None]],
    spot: str,
    access: Access,
    noise: str,
) -> None:
    with world(nodes) as here:
        inner = here.root / "rw" / "a"
        working = inner if inner.is_dir() and not inner.is_symlink() else here.root / "rw"
        sandbox = Sandbox(here.sandbox.zones, workspace=working)
        monkeypatch.setenv("HOME", str(here.root))
        zone, _, rest = spot.partition("/")
        spellings = [
            f"{here.root}/{noise}{spot}",
            f"./{noise}{os.path.relpath(here.root / spot, working)}",
        ]
        spellings += [f"~/{noise}{spot}", f"~/../{here.root.name}/{noise}{spot}"]
        spellings += [f"/{zone}/{noise}{rest}"] if zone in ("rw", "ro") else []
        told = {
            spelling: (_judged(sandbox, spelling, access), _content(sandbox, spelling))
            for spelling in spellings
        }
        assert len(set(told.values())) == 1, told


def _judged(sandbox: Sandbox, path: str, access: Access) -> tuple[str, Approval] | None:
    with suppress(ToolError):
        judged = sandbox.judge_use(PathUse(path, access))
        return judged.place, judged.verdict.approval
    return None


def _content(sandbox: Sandbox, path: str) -> bytes | None:
    with suppress(ToolError):
        return sandbox.read_bytes(path)
    return None

"""Grants: the sum of the granted parts equals the rules, at any depth."""

import itertools
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forge_cli.sandbox.isolation.confinement import Reach, ReachRule
from forge_cli.sandbox.isolation.landlock import PathGrant, path_grants

NAMES = [""] + [
    "/".join(way) for depth in (1, 2, 3) for way in itertools.product("ab", repeat=depth)
]
REACHES = (Reach.HIDDEN, Reach.PRIVATE, Reach.SHOWN, Reach.READ, Reach.WRITE)


@pytest.fixture(scope="module")
def tree() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        for name in NAMES:
            Path(folder, name).mkdir(exist_ok=True)
        yield Path(os.path.realpath(folder))


@settings(max_examples=min(settings().max_examples, 100))
@given(rules=st.dictionaries(st.sampled_from(NAMES), st.sampled_from(REACHES), max_size=6))
def test_path_grants_follow_the_innermost_rule(tree: Path, rules: dict[str, Reach]) -> None:
    reaches = {Path("/"): Reach.READ, **{tree / name: reach for name, reach in rules.items()}}
    found = path_grants(ReachRule(path, reach) for path, reach in reaches.items())
    for path in (tree / name for name in NAMES):
        reach = next(reaches[folder] for folder in (path, *path.parents) if folder in reaches)
        given = {grant.write for grant in found if path.is_relative_to(grant.path)}
        below = {
            reaches[other] for other in reaches if other != path and other.is_relative_to(path)
        }
        for write, wanted in ((False, reach >= Reach.SHOWN), (True, reach is Reach.WRITE)):
            if not wanted:
                assert write not in given
            elif not below or (below == {reach}):
                assert write in given


def test_links_and_single_names_are_left_out(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "zone/secret").mkdir(parents=True)
    (tmp_path / "zone/link").symlink_to(tree)
    (tmp_path / "zone/file").touch()
    zone = tmp_path / "zone"
    rules = [
        ReachRule(Path("/"), Reach.HIDDEN),
        ReachRule(zone, Reach.WRITE),
        ReachRule(zone / "secret", Reach.HIDDEN),
        ReachRule(zone / "file", Reach.PROTECTED),
    ]
    kinds = [PathGrant(zone / "file", write, named=False) for write in (False, True)]
    assert path_grants(rules) == kinds

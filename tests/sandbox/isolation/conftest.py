"""A world for each mechanism."""

from collections.abc import Iterator

import pytest

from forge_cli.sandbox.isolation.isolation import Mechanism

from .world import World, new_world


@pytest.fixture
def world(cage: Mechanism) -> Iterator[World]:
    with new_world(cage) as found:
        yield found


@pytest.fixture
def mounted(world: World) -> World:
    """The world confined by mounts, for rules that the weaker mechanism cannot enforce."""
    if world.weaker:
        pytest.skip(f"{world.cage.name} does not hold it")
    return world

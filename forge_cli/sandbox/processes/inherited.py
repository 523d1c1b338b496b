"""The confinement of a process that is confined itself: what it starts stays inside, and is not confined once more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from forge_cli.sandbox.processes.command import Command

_own: list[InheritedConfinement] = []


def set_inherited_confinement(
    name: str, weakness: str | None, own_network: bool, shows_names: bool
) -> None:
    """Say that this very process is confined, and by what; nothing can be asked about that before."""
    _own[:] = [InheritedConfinement(name, weakness, own_network, shows_names)]


def inherited_confinement() -> InheritedConfinement | None:
    """The confinement of this process, where it has one."""
    return _own[0] if _own else None


class InheritedConfinement(Struct, frozen=True):
    """Starts commands as they are: nothing that they are allowed here goes beyond what this process is."""

    name: str
    weakness: str | None
    own_network: bool
    shows_names: bool

    @contextmanager
    def wrap(self, argv: Sequence[str], cwd: Path, reach: object) -> Iterator[Command]:
        from forge_cli.sandbox.processes.command import Command

        yield Command(argv)

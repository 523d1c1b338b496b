"""The confinement of a process that is itself confined: its commands stay inside the same one."""

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
    """Record that this process is confined, and by what."""
    _own[:] = [InheritedConfinement(name, weakness, own_network, shows_names)]


def inherited_confinement() -> InheritedConfinement | None:
    """Return the confinement of this process, or None."""
    return _own[0] if _own else None


class InheritedConfinement(Struct, frozen=True):
    """Start commands unchanged: they cannot exceed the confinement of this process."""

    name: str
    weakness: str | None
    own_network: bool
    shows_names: bool

    @contextmanager
    def wrap(self, argv: Sequence[str], cwd: Path, reach: object) -> Iterator[Command]:
        from forge_cli.sandbox.processes.command import Command

        yield Command(argv)

"""Zones as values: a folder under a name, what is possible in it, and what consent each access needs."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct
from msgspec.structs import force_setattr

from forge_cli.core.approval import Approval
from forge_cli.core.errors import Mark


class ZoneMode(Enum):
    """The access that a zone gives at all, regardless of consent."""

    RO = "ro"
    RW = "rw"


class Access(Enum):
    """The access to a path that a call wants; INFO asks whether it exists and what it is."""

    READ = "read"
    LIST = "list"
    INFO = "info"
    WRITE = "write"
    DELETE = "delete"

    @property
    def changes(self) -> bool:
        return self in (Access.WRITE, Access.DELETE)


class ZoneApproval(Struct, frozen=True):
    """Consent in a zone; reading needs none."""

    write: Approval = Approval.ASK
    delete: Approval = Approval.ASK


class Zone(Struct, frozen=True):
    """A folder that tools see as ``/NAME``: ``Zone("notes", path, "rw", {"write": "preApproved"})``, as in YAML.

    Once a worker is open, ``path`` is the real folder, without links.
    """

    name: str
    path: Path
    mode: ZoneMode = ZoneMode.RO
    approval: ZoneApproval = ZoneApproval()
    where: Mark | None = None
    write_where: Mark | None = None
    delete_where: Mark | None = None
    write_stated: bool = False
    """True if the worker says itself what writing needs."""
    delete_stated: bool = False
    """True if the worker says itself what deleting needs."""
    default: bool = False
    """True if it stands for the working directory, without being declared."""
    made: bool = True
    """False where its folder was missing and was not made: calls can be judged all the same."""
    stands_for: Path | None = None
    """The folder that is missing, where an empty one elsewhere stands for it."""

    if TYPE_CHECKING:  # what YAML has is taken as well

        def __init__(
            self,
            name: str,
            path: Path | str,
            mode: ZoneMode | Literal["ro", "rw"] = ZoneMode.RO,
            approval: ZoneApproval | Mapping[str, Approval | str] = ...,
            *,
            where: Mark | None = None,
            write_where: Mark | None = None,
            delete_where: Mark | None = None,
            write_stated: bool = False,
            delete_stated: bool = False,
            default: bool = False,
            made: bool = True,
            stands_for: Path | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        given: Any = self.approval
        if isinstance(given, Mapping):
            given = ZoneApproval(**{name: Approval(value) for name, value in given.items()})
        for name, value in {
            "path": Path(self.path),
            "mode": ZoneMode(self.mode),
            "approval": given,
        }.items():
            force_setattr(self, name, value)

    @property
    def write(self) -> Approval:
        """The consent that writing needs."""
        return self.approval.write

    @property
    def delete(self) -> Approval:
        """The consent that deleting needs."""
        return self.approval.delete

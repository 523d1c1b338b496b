"""Zones: named folders with a mode, and the consent that each access needs."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct, StructMeta

from forge_cli.core.approval import Approval
from forge_cli.core.errors import Mark


class ZoneMode(Enum):
    """The access that is possible in a zone, regardless of consent."""

    RO = "ro"
    RW = "rw"


class Access(Enum):
    """The access to a path that a call requests; INFO is existence, kind and size."""

    READ = "read"
    LIST = "list"
    INFO = "info"
    WRITE = "write"
    DELETE = "delete"

    @property
    def changes(self) -> bool:
        """True if the access changes files."""
        return self in (Access.WRITE, Access.DELETE)


class ZoneApproval(Struct, frozen=True):
    """The consent that changes in a zone need; reading needs none."""

    write: Approval = Approval.ASK
    delete: Approval = Approval.ASK


class _ReadsWords(StructMeta):
    """The constructor of zones; accepts words such as ``"rw"`` and ``{"write": "preApproved"}``."""

    def __call__(
        cls,  # noqa: N805 - a metaclass
        name: str,
        path: Path | str,
        mode: ZoneMode | str = ZoneMode.RO,
        approval: ZoneApproval | Mapping[str, Approval | str] = ZoneApproval(),  # noqa: B008
        *others: Any,
        **more: Any,
    ) -> Any:
        if isinstance(approval, Mapping):
            read = {access: Approval(word) for access, word in approval.items()}
            approval = ZoneApproval(**read)
        return super().__call__(name, Path(path), ZoneMode(mode), approval, *others, **more)


class Zone(Struct, frozen=True, metaclass=_ReadsWords):
    """A folder that tools see as ``/NAME``.

    ``Zone("notes", path, "rw", {"write": "preApproved"})`` takes words as YAML has them. Once a
    worker is open, ``path`` is the real folder, without links.
    """

    name: str
    path: Path
    mode: ZoneMode = ZoneMode.RO
    approval: ZoneApproval = ZoneApproval()
    where: Mark | None = None
    write_where: Mark | None = None
    delete_where: Mark | None = None
    write_stated: bool = False
    """True if the worker itself states the consent for writing."""
    delete_stated: bool = False
    """True if the worker itself states the consent for deleting."""
    drafted: bool = False
    """True if changes go into a draft, whose review shows protected names."""
    default: bool = False
    """True for the undeclared zone of the working directory."""
    made: bool = True
    """False if the folder is missing and was not created, because calls are only judged."""
    stands_for: Path | None = None
    """The missing folder that an empty folder at ``path`` replaces."""

    if TYPE_CHECKING:  # the words that the metaclass reads

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
            drafted: bool = False,
            default: bool = False,
            made: bool = True,
            stands_for: Path | None = None,
        ) -> None: ...

    @property
    def write(self) -> Approval:
        """The consent that writing requires."""
        return self.approval.write

    @property
    def delete(self) -> Approval:
        """The consent that deleting requires."""
        return self.approval.delete

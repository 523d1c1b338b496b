"""Declarations of paths among the arguments of a call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Struct

from forge_cli.core.wire import JsonObject
from forge_cli.core.zones import Access
from forge_cli.schema.json.fields import subschemas
from forge_cli.schema.marks import Loc

if TYPE_CHECKING:
    from pydantic import GetJsonSchemaHandler
    from pydantic_core import CoreSchema

FORMAT = "path"
ACCESS = "x-forge-access"
KIND = "x-forge-kind"


class PathArgument(Struct, frozen=True):
    """Marks a string argument as a path with an access; the gate judges it before the call.

    A path for reading may be a folder, unless ``kind`` is ``file``.
    """

    access: Access
    kind: Literal["file"] | None = None

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonObject:
        return {**handler(schema), **self.keywords()}

    def keywords(self) -> JsonObject:
        """Return the keywords that the schema of the argument gets in addition to its type."""
        kind = {KIND: self.kind} if self.kind else {}
        return {"format": FORMAT, ACCESS: self.access.value, **kind}


ReadPath = Annotated[str, PathArgument(Access.READ)]
"""The path of a file or folder that the call reads."""
WritePath = Annotated[str, PathArgument(Access.WRITE)]
"""The path of a file that the call creates or replaces; it may also read the file."""
DeletePath = Annotated[str, PathArgument(Access.DELETE)]
"""The path of a file, link or empty folder that the call deletes; it may also read it."""


# Not frozen, because the constructor accepts words for ``access``; nothing changes one afterwards.
@dataclass(unsafe_hash=True)
class PathUse:
    """A path inside other arguments, such as a patch, with its access; ``touches`` yields these."""

    path: str
    access: Access
    kind: Literal["file"] | None = None
    at: Loc = ()
    """The place in the args; empty for a path inside another value."""

    def __init__(
        self, path: str, access: Access | str, kind: Literal["file"] | None = None, *, at: Loc = ()
    ) -> None:
        self.path = path
        self.access = Access(access)
        self.kind = kind
        self.at = at


def declared_accesses(schema: JsonObject) -> set[Access]:
    """Return the accesses to paths that a schema declares."""
    return {Access(each[ACCESS]) for each in subschemas(schema) if ACCESS in each}

"""Paths among the arguments of a call: how a tool declares them."""

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
    """Marks a string argument as a path, and says what the call does there: the gate judges it before the call.

    A path to be read may be a folder too, unless ``kind`` says ``file``.
    """

    access: Access
    kind: Literal["file"] | None = None

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonObject:
        return {**handler(schema), **self.keywords()}

    def keywords(self) -> JsonObject:
        """The keywords that the schema of the argument has besides its type."""
        kind = {KIND: self.kind} if self.kind else {}
        return {"format": FORMAT, ACCESS: self.access.value, **kind}


ReadPath = Annotated[str, PathArgument(Access.READ)]
"""The path of a file or folder that the call reads."""
WritePath = Annotated[str, PathArgument(Access.WRITE)]
"""The path of a file that the call creates or replaces; it may read it, too."""
DeletePath = Annotated[str, PathArgument(Access.DELETE)]
"""The path of a file, link or empty folder that the call deletes; it may read it, too."""


@dataclass(
    unsafe_hash=True
)  # nothing changes one that is made; frozen ones could not read words for ``access``
class PathUse:
    """A path inside other arguments, such as a patch, and the access to it: ``touches`` yields these."""

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
    """The accesses to the paths that a schema declares; empty where it declares none."""
    return {Access(each[ACCESS]) for each in subschemas(schema) if ACCESS in each}

"""The resources of MCP servers: two tools, and the rules about reading by URI."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote

from msgspec import Struct

from forge_cli.core.approval import PRE_APPROVED, Approval, Effect, GrantRule, Verdict
from forge_cli.core.context import ToolContext
from forge_cli.core.errors import ToolError
from forge_cli.core.results import Json, ResultValue
from forge_cli.core.text import did_you_mean, visible
from forge_cli.core.tool import LONGEST, Args, RulesOnly
from forge_cli.core.wire import JsonObject
from forge_cli.files.mcp import ServerName
from forge_cli.schema.tool import Tool
from forge_cli.toolsets.mcp.connection import Connection
from forge_cli.toolsets.mcp.results import as_one, resource_value

if TYPE_CHECKING:
    import mcp_types

    from forge_cli.core.errors import Mark

LIST, READ = "list_mcp_resources", "read_mcp_resource"
EFFECTS = frozenset({Effect.READ, Effect.NETWORK})
Rules = dict[ServerName, dict[str, Approval]]
_PLAIN = re.compile(r"[a-z][a-z0-9+.-]*:[!#-\[\]-~]*", re.ASCII)
"""A URI without spaces, backslashes and the like."""
_ENCODED = re.compile(
    r"%(?![0-9a-f]{2})|%(?:[01][0-9a-f]|25|2e|2f|5c|7f)", re.ASCII | re.IGNORECASE
)
"""An escape that hides a separator, or that could be decoded twice."""
_DECODINGS_MAX = 5
UNSAID = "no rule covers this resource, and the worker has no setting for the tool"


class ResourceRules(Struct, frozen=True):
    """The worker's rules about resources: approvals by server and URI pattern."""

    rules: Mapping[str, Mapping[str, Approval]]
    where: Callable[[str, str], Mark | None]
    """Returns the place of a rule in the worker file."""
    is_silent: bool = True
    """True if the worker has no setting for the tool that reads resources."""

    def judge(self, args: Args) -> Verdict | None:
        """Return the strictest matching rule; None if the worker's setting for the tool counts."""
        server, uri = args["server"], args["uri"]
        rules = self.rules.get(server, {})
        fitting = [pattern for pattern, approval in rules.items() if _fits(pattern, approval, uri)]
        if fitting:
            said = Approval.strictest(*(rules[pattern] for pattern in fitting))
            pattern = next(pattern for pattern in fitting if rules[pattern] is said)
            reason = f"{visible(uri)} of the MCP server {server} matches '{visible(pattern)}'"
            rule = f"toolsets.mcp.resources.{server}.{pattern}"
            return Verdict(said, reason, rule, self.where(server, pattern), by="rule")
        if rules and not is_plain(uri):
            reason = "its URI is ambiguous, so no rule that pre-approves can match it"
            return Verdict(Approval.ASK, reason, f"toolsets.mcp.resources.{server}", by="rule")
        if self.is_silent and is_plain(uri):
            return Verdict(Approval.ASK, UNSAID, by="rule", grants=[_offered_rules(server, uri)])
        return None


def _offered_rules(server: str, uri: str) -> list[GrantRule]:
    """Return rules that would allow a resource: itself, its folders, or all resources."""
    found = []
    if "*" not in uri:
        found.append(
            GrantRule(
                ("resources", server, uri), PRE_APPROVED, f"reading {visible(uri)} of {server}"
            )
        )
    for at, folder in enumerate(_folders(uri)):
        title = f"reading what is below {visible(folder)} of {server}"
        found.append(
            GrantRule(("resources", server, f"{folder}*"), PRE_APPROVED, title, implied=at > 0)
        )
    return [*found, GrantRule(("approval", "tools", READ), PRE_APPROVED, f"every call of {READ}")]


def _folders(uri: str) -> list[str]:
    """Return the folders of a resource, innermost first, such as ``note://public/``."""
    scheme, separator, rest = uri.partition("://")
    path = re.split("[?#]", rest, maxsplit=1)[0]
    if not separator or "*" in path:
        return []
    parts = path.split("/")[:-1]
    named = range(len(parts), 0, -1)
    return [f"{scheme}://{'/'.join(parts[:upto])}/" for upto in named if any(parts[:upto])]


def _fits(pattern: str, approval: Approval, uri: str) -> bool:
    """Return True if a rule matches a URI.

    A rule that pre-approves matches only the literal URI. Any other rule matches every spelling
    that a server could treat as the same URI.
    """
    if approval is Approval.PRE_APPROVED:
        return is_plain(uri) and _matches(pattern, uri)
    spellings = {uri, _settled(uri)}
    return any(_matches(pattern.casefold(), spelling.casefold()) for spelling in spellings)


def _matches(pattern: str, text: str) -> bool:
    parts = ".*".join(re.escape(part) for part in pattern.split("*"))
    return re.fullmatch(parts, text, re.DOTALL) is not None


def is_plain(uri: str) -> bool:
    """Return True if a URI has one meaning only: no ``..``, and nothing hidden by escapes."""
    if _PLAIN.fullmatch(uri) is None or _ENCODED.search(uri):
        return False
    _, _, path = uri.partition("://")
    return ".." not in uri and "/./" not in uri and "//" not in path


def _settled(uri: str) -> str:
    """Return a URI with all escapes decoded and all ``..`` resolved, as some servers read it."""
    for _ in range(_DECODINGS_MAX):
        uri = unquote(uri)
    scheme, separator, rest = uri.replace("\\", "/").partition(":")
    slashes = len(rest) - len(rest.lstrip("/"))
    if not rest.strip("/"):
        return f"{scheme}{separator}{rest}"
    return f"{scheme}{separator}{'/' * slashes}{posixpath.normpath(rest.lstrip('/'))}"


def resource_tools(connections: Sequence[Connection], rules: ResourceRules) -> list[Tool]:
    """Return the tools for resources; none if no server has resources."""
    those = {each.name: each for each in connections if each.offer.resources}
    if not those:
        return []
    server: JsonObject = {"type": "string", "description": f"One of: {', '.join(those)}"}
    uri: JsonObject = {"type": "string", "description": "The URI of a resource, as it is listed"}

    async def list_resources(args: Args, context: ToolContext) -> ResultValue:
        wanted = list(those.values())
        if "server" in args:
            wanted = [_find(those, args["server"])]
        rows: list[JsonObject] = []
        for each in wanted:
            rows += [_describe(each.name, found) for found in await each.list_resources()]
        return Json(rows)

    async def read_resource(args: Args, context: ToolContext) -> ResultValue:
        read = await _find(those, args["server"]).read_resource(args["uri"])
        return as_one([resource_value(each) for each in read.contents])

    return [
        Tool(
            name=LIST,
            description="List the resources of MCP servers with their descriptions and URIs.",
            input_schema={
                "type": "object",
                "properties": {"server": server},
                "additionalProperties": False,
            },
            execute=list_resources,
            effects=EFFECTS,
            timeout=LONGEST,
        ),
        Tool(
            name=READ,
            description="Read a resource of an MCP server.",
            needs_approval=RulesOnly(rules.judge, any(rules.rules.values())),
            input_schema={
                "type": "object",
                "properties": {"server": server, "uri": uri},
                "required": ["server", "uri"],
                "additionalProperties": False,
            },
            execute=read_resource,
            effects=EFFECTS,
            timeout=LONGEST,
        ),
    ]


def _find(servers: dict[str, Connection], name: str) -> Connection:
    if name not in servers:
        known = did_you_mean(name, servers, f"servers with resources: {', '.join(servers)}")
        raise ToolError(f"there is no MCP server '{name}' with resources; {known}")
    return servers[name]


def _describe(server: str, resource: mcp_types.Resource) -> JsonObject:
    found = {
        "server": server,
        "uri": str(resource.uri),
        "name": resource.name,
        "description": resource.description,
    }
    found["mimeType"] = resource.mime_type
    return {key: value for key, value in found.items() if value is not None}

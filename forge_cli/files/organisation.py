"""The policy of the organisation on this machine: a file that the person who uses forge cannot write."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import unquote, urlsplit

from pydantic import Field

from forge_cli.core.approval import OnAsk
from forge_cli.core.errors import Mark, WorkerError
from forge_cli.core.source import canonical
from forge_cli.core.thirdparty import is_inspecting
from forge_cli.files.document import parse_document
from forge_cli.files.home import ASK_ADMIN, POLICY, POLICY_VARIABLE, machine_has_policy, system_home
from forge_cli.files.lookup import SHIPPED
from forge_cli.files.mcp import McpServer
from forge_cli.files.places import cannot_read
from forge_cli.files.worker import Limits, Worker
from forge_cli.schema.config import Config, parse_config
from forge_cli.schema.marks import MarkedDict

ADDRESSES = {
    "anthropic": ("ANTHROPIC_BASE_URL", "https://api.anthropic.com"),
    "openai": ("OPENAI_BASE_URL", "https://api.openai.com/v1"),
    "bedrock": ("ANTHROPIC_BEDROCK_BASE_URL", None),
    "vertex": ("ANTHROPIC_VERTEX_BASE_URL", None),
    "foundry": ("ANTHROPIC_FOUNDRY_BASE_URL", None),
}
"""By provider: the variable that names its address, and the address without it."""
OFFLINE = "script"
_LOADS = re.compile(
    r"PATH|HOME|ENV|IFS|SHELLOPTS|CLASSPATH|(LD|DYLD|BASH|GIT|UV|PIP|JAVA|JDK|XDG)_.*|NODE_(OPTIONS|PATH)"
    r"|(?i:npm_config)_.*|(PYTHON|PERL|PERL5|RUBY)(PATH|HOME|STARTUP|EXECUTABLE|PLATLIBDIR|USERBASE|LIB|OPT).*"
)
"""Variables that decide which program is started under a name, or what it loads."""

_UP = re.compile(r"(?<!\.)\.\.(?![\w.])")
Patterns = list[Annotated[str, Field(min_length=1)]]


class AllowSection(Config):
    """Things that may be used; all may where none is named here."""

    models: Patterns | None = None
    """PROVIDER:MODEL; * stands for anything."""
    base_urls: Patterns | None = None
    """The addresses at which models are asked."""
    plugins: list[str] | None = None
    """Distributions whose plugins may load, besides forge's own."""
    mcp: Patterns | None = None
    """MCP servers: a URL, or a command with or without its arguments."""
    executables: bool = True
    """Whether ~/.forge/tools may be used."""
    workers: Patterns | None = None
    """Worker files; ** stands for any folders. A name without a slash is one of those that come with forge."""


class RequireSection(Config):
    """Requirements of every session."""

    isolation: Literal["required"] | None = None
    """Child processes are confined, or nothing runs."""
    lock: bool = False
    """Every worker is what its lock says."""
    read_only: bool = False
    """Nothing is called that does more than read."""
    on_ask: Literal["deny", "fail"] | None = None
    """The meaning of an ask where forge cannot ask."""
    log_dir: Annotated[str, Field(pattern="^[/~]")] | None = None
    """A folder that every session is logged to as well."""


class OrganisationPolicy(Config):
    """The file of an organisation."""

    allow: AllowSection = Field(default_factory=AllowSection.empty)
    """Things that may be used."""
    require: RequireSection = Field(default_factory=RequireSection.empty)
    """Requirements of every session."""
    forbid: list[Literal["approve_all", "unconfined"]] = Field(default=[])
    """approve_all: no session says yes to everything. unconfined: no command runs outside a sandbox."""
    rules: list[dict[str, Any]] = Field(default=[])
    """Rules for shell commands, which ask or block."""
    limits: Limits = Field(default_factory=Limits.empty)
    """Limits of the work of every worker."""

    @property
    def file(self) -> str:
        """Its path."""
        where = self.where()
        return where.file if where else str(POLICY)

    def forbids(self, what: Literal["approve_all", "unconfined"]) -> Mark | None:
        """The place that says so, or None."""
        return self.where("forbid", self.forbid.index(what)) if what in self.forbid else None

    def settings(self) -> MarkedDict:
        """Rules and limits as the settings of a user would have them."""
        data: dict[str, Any] = {"limits": self.section("limits")} if self.section("limits") else {}
        if self.rules:
            rules = self.section("rules")
            mark = self.where("rules") or Mark(self.file)
            shell = MarkedDict(
                [("rules", rules)], mark=mark, keys={"rules": mark}, values={"rules": mark}
            )
            data["policy"] = MarkedDict(
                [("shell", shell)], mark=mark, keys={"shell": mark}, values={"shell": mark}
            )
        marks = {
            key: self.where("rules" if key == "policy" else key) or Mark(self.file) for key in data
        }
        return MarkedDict(data.items(), mark=Mark(self.file), keys=marks, values=marks)

    def allows_model(self, name: str) -> bool:
        return self.allow.models is None or any(
            fnmatchcase(name, pattern) for pattern in self.allow.models
        )

    def allows_address(self, url: str) -> bool:
        return self.allow.base_urls is None or any(
            _covers(pattern, url) for pattern in self.allow.base_urls
        )

    def allows_server(self, server: McpServer) -> bool:
        """Whether a pattern means it, and no other program: named by ``..`` or a space it could be any."""
        if self.allow.mcp is None:
            return True
        if server.url is not None:
            return any(
                "://" in pattern and _covers(pattern, str(server.url)) for pattern in self.allow.mcp
            )
        program = str(server.command)
        args = [str(each) for each in server.args]
        if any(map(_climbs, (program, *args))) or (" " in program and not program.startswith("/")):
            return False
        return any(_names(pattern, program, args) for pattern in self.allow.mcp)

    def allows_worker(self, worker: Worker) -> bool:
        """One that a program has made has no file to compare."""
        if self.allow.workers is None or not worker.digest:
            return True
        path = Path(os.path.realpath(worker.path))
        if path.is_relative_to(SHIPPED.resolve()):
            return worker.name in self.allow.workers
        return any(_is_below(path, pattern) for pattern in self.allow.workers)

    def about_model(self, name: str, where: Mark | None, said: str = "") -> Iterator[WorkerError]:
        """Its objection to a model; ``said`` is who named it, where no file did."""
        provider = name.partition(":")[0]
        if not self.allows_model(name):
            allowed = self.allow.where("models")
            yield policy_conflict(
                where,
                f"{said}the model {name} is not allowed",
                allowed,
                list_patterns(self.allow.models),
            )
        if self.allow.base_urls is None or provider == OFFLINE:
            return
        variable, usual = ADDRESSES.get(provider, ("", None))
        address = os.environ.get(variable, "").strip() or usual
        allowed = self.allow.where("base_urls")
        says = list_patterns(self.allow.base_urls)
        if address is None:
            yield policy_conflict(
                where, f"the address of {name} is not known before it is asked", allowed, says
            )
        elif not self.allows_address(address):
            said = (
                f"{variable} is {address}"
                if os.environ.get(variable, "").strip()
                else f"{name} is asked at {address}"
            )
            yield policy_conflict(where, said, allowed, says)

    def check_plugin(self, distribution: str) -> None:
        """Raise where the plugins of a distribution may not be loaded."""
        allowed = self.allow.plugins
        if allowed is not None and canonical(distribution) not in map(canonical, allowed):
            raise self.about_plugin(distribution, None)

    def check_executables(self) -> None:
        """Raise where the tools of the user's own folder may not be used."""
        if not self.allow.executables:
            raise policy_conflict(
                None,
                "executables are not allowed",
                self.allow.where("executables"),
                "executables: false",
            )

    def about_plugin(self, distribution: str, where: Mark | None) -> WorkerError:
        allow = self.allow
        return policy_conflict(
            where,
            f"the package {distribution} is not allowed",
            allow.where("plugins"),
            list_patterns(allow.plugins),
        )

    def about_server(
        self, name: str, server: McpServer, where: Mark | None
    ) -> Iterator[WorkerError]:
        command = " ".join([str(server.command), *server.args]) if server.command else ""
        if not self.allows_server(server):
            problem = f"the MCP server {name} ({server.url or command}) is not allowed"
            yield policy_conflict(
                where, problem, self.allow.where("mcp"), list_patterns(self.allow.mcp)
            )
        for variable in (
            each for each in server.env if self.allow.mcp is not None and _LOADS.fullmatch(each)
        ):
            problem = f"the MCP server {name} sets {variable}, which decides what is started"
            yield policy_conflict(
                where, problem, self.allow.where("mcp"), list_patterns(self.allow.mcp)
            )
        if (forbidden := self.forbids("unconfined")) and server.command and not server.confined:
            yield policy_conflict(
                where, f"the MCP server {name} is not confined", forbidden, "forbid: unconfined"
            )


def _covers(pattern: str, url: str) -> bool:
    """Does a pattern mean this URL? ``*`` in its host stands for a part of a host; without a path it means them all."""
    scheme, _, rest = pattern.partition("://")
    host, slash, path = rest.partition("/")
    try:
        parts = urlsplit(url)
        address = (parts.hostname or "") + (f":{parts.port}" if parts.port else "")
    except ValueError:
        return False
    # A user name before the "@" can look like a host that is allowed.
    if parts.scheme != scheme or "@" in parts.netloc or not fnmatchcase(address, host.lower()):
        return False
    # A server may resolve "..", even an encoded one, to a path that is not allowed.
    return not slash or (
        ".." not in unquote(parts.path).split("/") and fnmatchcase(parts.path.lstrip("/"), path)
    )


def _climbs(word: str) -> bool:
    """Has a word of a command ``..`` where a folder could stand, as in ``--root=/a/../b`` or ``file:///a/%2e%2e/b``?"""
    return any(_UP.search(spelling) for spelling in (word, unquote(word)))


def _names(pattern: str, program: str, args: Sequence[str]) -> bool:
    """Does a pattern mean this command? Each word stands for one, a last ``**`` for all that follow.

    A pattern of the program alone means it with any arguments. The program may have blanks in its path.
    """
    # "*" matches blanks as well, so there have to be as many in the pattern.
    if fnmatchcase(program, pattern) and program.count(" ") == pattern.count(" "):
        return True
    words = pattern.split(" ")
    return any(
        fnmatchcase(program, " ".join(words[:count]))
        and program.count(" ") == count - 1
        and _fit_words(args, words[count:])
        for count in range(1, len(words))
    )


def _fit_words(args: Sequence[str], words: Sequence[str]) -> bool:
    if words[-1] == "**":
        args = args[: len(words) - 1]
        words = words[:-1]
    fits = (
        " " not in arg and fnmatchcase(arg, word) for arg, word in zip(args, words, strict=False)
    )
    return len(args) == len(words) and all(fits)


def _is_below(path: Path, pattern: str) -> bool:
    """Does a path fit a pattern in which ``**`` stands for any folders, and ``*`` for a part of a name?"""
    wanted = place_of_user(pattern)
    return wanted is not None and _fit(path.parts, wanted.parts)


def place_of_user(path: str) -> Path | None:
    """A path of the policy, ``~`` being where the system says that a user is at home; None where it knows no place."""
    name, _, rest = path.partition("/")
    if not name.startswith("~"):
        return Path(path)
    home = system_home() if name == "~" else Path(os.path.expanduser(name))
    if home is None or not home.is_absolute():
        return None
    return Path(os.path.realpath(home)) / rest


def _fit(parts: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    if not wanted:
        return not parts
    if wanted[0] == "**":
        return any(_fit(parts[at:], wanted[1:]) for at in range(len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], wanted[0]) and _fit(parts[1:], wanted[1:])


def load_policy() -> OrganisationPolicy | None:
    """The policy of the organisation; None where there is no such file, and an error where it cannot be relied upon."""
    file = policy_file()
    if file is None:
        return None
    doubt = next(_doubts(file), None)
    if doubt:
        problem = f"this policy of the organisation cannot be relied upon: {doubt}"
        raise WorkerError(Mark(str(file)), problem, hint=_remedy(file))
    return _read(file)


def _remedy(file: Path) -> str:
    return ASK_ADMIN if file == POLICY else f"{ASK_ADMIN}, or unset {POLICY_VARIABLE}"


def policy_file() -> Path | None:
    """``FORGE_POLICY`` counts only where the machine has none."""
    if machine_has_policy():
        return POLICY
    named = os.environ.get(POLICY_VARIABLE)
    return Path(os.path.abspath(named)) if named else None


def _doubts(file: Path) -> Iterator[str]:
    """Everything on the way to a file is owned by root, or by who owns the file system, and others cannot write it."""
    if is_inspecting():  # the parent process has looked, and here folders and owners are others
        return
    # In a user namespace root of the host has another number.
    owners = {0, os.stat("/").st_uid}
    real = Path(os.path.realpath(file))
    try:
        if not stat.S_ISREG(os.stat(real).st_mode):
            yield "it is not a regular file"
        # If the path has a link on it, who can write the folder of the link can replace it.
        for place in (real, *real.parents, *file.parents):
            info = os.stat(place)
            if info.st_uid not in owners or (info.st_uid == os.geteuid() != 0):
                yield (
                    f"{place} does not belong to root"
                    if info.st_uid not in owners
                    else f"{place} belongs to you"
                )
            # In a sticky folder such as /tmp nobody can replace the files of others.
            sticky = stat.S_ISDIR(info.st_mode) and info.st_mode & stat.S_ISVTX
            if info.st_mode & 0o022 and not sticky:
                yield f"others than root can write {place}"
    except FileNotFoundError:
        said = (
            "it leads nowhere" if file == POLICY else f"{POLICY_VARIABLE}: there is no file {file}"
        )
        raise WorkerError(
            Mark(str(file)) if file == POLICY else None, said, hint=_remedy(file)
        ) from None
    except OSError as error:
        raise cannot_read(file, error, hint=_remedy(file)) from None


def _read(file: Path) -> OrganisationPolicy:
    try:
        content = file.read_bytes()
    except OSError as error:
        raise cannot_read(file, error, hint=_remedy(file)) from None
    policy = parse_config(
        OrganisationPolicy, parse_document(content or b"{}", str(file)), file=str(file)
    )
    for index, rule in enumerate(policy.rules):
        if rule.get("approval") not in ("ask", "blocked"):
            problem = f"rules[{index}]: a rule of an organisation says 'approval: ask' or 'approval: blocked'"
            raise WorkerError(policy.where("rules", index), problem)
    return policy


def required_on_ask(policy: OrganisationPolicy, said: OnAsk) -> OnAsk:
    """The meaning of an ask where forge cannot ask: the stricter of both; parking what must not wait is a conflict."""
    wanted = policy.require.on_ask
    if wanted is None or said is OnAsk.FAIL:
        return said
    if said is OnAsk.PARK:
        where = policy.require.where("on_ask")
        raise WorkerError(
            where, f"on_ask: the organisation requires {wanted}, and --on-ask says park"
        )
    return OnAsk(wanted)


def policy_conflict(
    where: Mark | None, problem: str, policy: Mark | None, says: str
) -> WorkerError:
    """The error for what an organisation does not allow, with both places."""
    return WorkerError(where, f"{problem}, and {policy or 'the organisation'} says {says}")


def list_patterns(patterns: list[str] | None) -> str:
    return ", ".join(patterns or ()) or "none"

"""The policy of an organisation: a file that the user of forge cannot write."""

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
from forge_cli.files.provenance import ProvenanceSection
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
"""The variable with the address of each provider, and the default address."""
OFFLINE = "script"
_LOADS = re.compile(
    r"PATH|HOME|ENV|IFS|SHELLOPTS|CLASSPATH|(LD|DYLD|BASH|GIT|UV|PIP|JAVA|JDK|XDG)_.*|NODE_(OPTIONS|PATH)"
    r"|(?i:npm_config)_.*|(PYTHON|PERL|PERL5|RUBY)(PATH|HOME|STARTUP|EXECUTABLE|PLATLIBDIR|USERBASE|LIB|OPT).*"
)
"""Variables that determine the program that a name starts, or the code that it loads."""

_UP = re.compile(r"(?<!\.)\.\.(?![\w.])")
Patterns = list[Annotated[str, Field(min_length=1)]]


class AllowSection(Config):
    """What may be used; a missing entry allows everything."""

    models: Patterns | None = None
    """Models as PROVIDER:MODEL; * matches anything."""
    base_urls: Patterns | None = None
    """Addresses of model providers."""
    plugins: list[str] | None = None
    """Distributions whose plugins may load, besides those of forge."""
    mcp: Patterns | None = None
    """MCP servers: a URL, or a command with or without its arguments."""
    executables: bool = True
    """Whether ~/.forge/tools may be used."""
    workers: Patterns | None = None
    """Worker files; ** matches any folders. A name without a slash is a worker of forge."""


class RequireSection(Config):
    """Requirements of every session."""

    isolation: Literal["required"] | None = None
    """Child processes must be confined."""
    lock: bool = False
    """Every worker must match its lock file."""
    read_only: bool = False
    """Only tools that read can be called."""
    on_ask: Literal["deny", "fail"] | None = None
    """The meaning of an ask if forge cannot ask."""
    log_dir: Annotated[str, Field(pattern="^[/~]")] | None = None
    """A folder for an additional log of every session."""


class OrganisationPolicy(Config):
    """The policy file of an organisation."""

    allow: AllowSection = Field(default_factory=AllowSection.empty)
    """What may be used."""
    require: RequireSection = Field(default_factory=RequireSection.empty)
    """Requirements of every session."""
    forbid: list[Literal["approve_all", "unconfined"]] = Field(default=[])
    """approve_all: no session approves every call. unconfined: no command runs unconfined."""
    rules: list[dict[str, Any]] = Field(default=[])
    """Rules for shell commands that ask or block."""
    limits: Limits = Field(default_factory=Limits.empty)
    """Limits for every worker."""
    provenance: ProvenanceSection | None = None
    """The rule about effects that cannot be undone; it can only tighten."""

    @property
    def file(self) -> str:
        """The path of the file."""
        where = self.where()
        if where is None:
            return str(POLICY)
        return where.file

    def forbids(self, what: Literal["approve_all", "unconfined"]) -> Mark | None:
        """Return the place of a prohibition; None without one."""
        if what not in self.forbid:
            return None
        return self.where("forbid", self.forbid.index(what))

    def settings(self) -> MarkedDict:
        """Return rules, limits and provenance in the form of a user's settings."""
        data: dict[str, Any] = {}
        marks: dict[str, Mark] = {}
        if limits := self.section("limits"):
            data["limits"] = limits
            marks["limits"] = self.where("limits") or Mark(self.file)
        if provenance := self.section("provenance"):
            data["provenance"] = provenance
            marks["provenance"] = self.where("provenance") or Mark(self.file)
        if self.rules:
            mark = marks["policy"] = self.where("rules") or Mark(self.file)
            shell = _marked("rules", self.section("rules"), mark)
            data["policy"] = _marked("shell", shell, mark)
        return MarkedDict(data.items(), mark=Mark(self.file), keys=marks, values=marks)

    def allows_model(self, name: str) -> bool:
        """Return True if a model is allowed."""
        return self.allow.models is None or any(
            fnmatchcase(name, pattern) for pattern in self.allow.models
        )

    def allows_address(self, url: str) -> bool:
        """Return True if the address of a model is allowed."""
        return self.allow.base_urls is None or any(
            _covers(pattern, url) for pattern in self.allow.base_urls
        )

    def allows_server(self, server: McpServer) -> bool:
        """Return True if a server is allowed, and cannot be another program.

        A command with ``..``, or with a blank in a program found on PATH, could start anything.
        """
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
        """Return True if a worker is allowed; one of a program, which has no file, always is."""
        if self.allow.workers is None or not worker.digest:
            return True
        path = Path(os.path.realpath(worker.path))
        if path.is_relative_to(SHIPPED.resolve()):
            return worker.name in self.allow.workers
        return any(_is_below(path, pattern) for pattern in self.allow.workers)

    def about_model(self, name: str, where: Mark | None, said: str = "") -> Iterator[WorkerError]:
        """Yield the conflicts of a model; ``said`` is its origin if no file names it."""
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
                where, f"the address of {name} is unknown before a request", allowed, says
            )
        elif not self.allows_address(address):
            problem = f"{name} is requested at {address}"
            if os.environ.get(variable, "").strip():
                problem = f"{variable} is {address}"
            yield policy_conflict(where, problem, allowed, says)

    def check_plugin(self, distribution: str) -> None:
        """Raise WorkerError if plugins of a distribution may not be loaded."""
        allowed = self.allow.plugins
        if allowed is not None and canonical(distribution) not in map(canonical, allowed):
            raise self.about_plugin(distribution, None)

    def check_executables(self) -> None:
        """Raise WorkerError if the user's own executables may not be used."""
        if not self.allow.executables:
            raise policy_conflict(
                None,
                "executables are not allowed",
                self.allow.where("executables"),
                "executables: false",
            )

    def about_plugin(self, distribution: str, where: Mark | None) -> WorkerError:
        """Return the conflict of a distribution that is not allowed."""
        says = list_patterns(self.allow.plugins)
        problem = f"the package {distribution} is not allowed"
        return policy_conflict(where, problem, self.allow.where("plugins"), says)

    def about_server(
        self, name: str, server: McpServer, where: Mark | None
    ) -> Iterator[WorkerError]:
        """Yield the conflicts of an MCP server."""
        command = ""
        if server.command:
            command = " ".join([server.command, *server.args])
        problems: list[str] = []
        if not self.allows_server(server):
            problems.append(f"the MCP server {name} ({server.url or command}) is not allowed")
        for variable in server.env:
            if self.allow.mcp is not None and _LOADS.fullmatch(variable):
                reason = "which determines the program that starts"
                problems.append(f"the MCP server {name} sets {variable}, {reason}")
        for problem in problems:
            yield policy_conflict(
                where, problem, self.allow.where("mcp"), list_patterns(self.allow.mcp)
            )
        if (forbidden := self.forbids("unconfined")) and server.command and not server.confined:
            yield policy_conflict(
                where, f"the MCP server {name} is not confined", forbidden, "forbid: unconfined"
            )


def _marked(key: str, value: Any, mark: Mark) -> MarkedDict:
    return MarkedDict([(key, value)], mark=mark, keys={key: mark}, values={key: mark})


def _covers(pattern: str, url: str) -> bool:
    """Return True if a pattern matches a URL; without a path it matches all paths."""
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
    if not slash:
        return True
    # A server may resolve "..", even an encoded one, to a path that is not allowed.
    if ".." in unquote(parts.path).split("/"):
        return False
    return fnmatchcase(parts.path.lstrip("/"), path)


def _climbs(word: str) -> bool:
    """Return True if a word contains ``..`` as a folder, as in ``--root=/a/../b``, even encoded."""
    return any(_UP.search(spelling) for spelling in (word, unquote(word)))


def _names(pattern: str, program: str, args: Sequence[str]) -> bool:
    """Return True if a pattern matches a command, word by word; a final ``**`` matches the rest.

    A pattern of the program alone allows any arguments. The path of the program may contain blanks.
    """
    # "*" matches blanks as well, so the pattern must have as many.
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
    if len(args) != len(words):
        return False
    # A blank would let one argument match a pattern of several words.
    pairs = zip(args, words, strict=True)
    return all(" " not in arg and fnmatchcase(arg, word) for arg, word in pairs)


def _is_below(path: Path, pattern: str) -> bool:
    """Return True if a path matches a pattern, in which ``**`` matches any folders."""
    wanted = place_of_user(pattern)
    return wanted is not None and _fit(path.parts, wanted.parts)


def place_of_user(path: str) -> Path | None:
    """Return a path of the policy; ``~`` is the home that the system knows, not ``HOME``.

    None if there is no such home.
    """
    name, _, rest = path.partition("/")
    if not name.startswith("~"):
        return Path(path)
    home: Path | None = Path(os.path.expanduser(name))
    if name == "~":
        home = system_home()
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
    """Return the policy of the organisation, if any; raise WorkerError if it is not trustworthy."""
    file = policy_file()
    if file is None:
        return None
    doubt = next(_doubts(file), None)
    if doubt:
        problem = f"the policy of the organisation cannot be trusted: {doubt}"
        raise WorkerError(Mark(str(file)), problem, hint=_remedy(file))
    return _read(file)


def _remedy(file: Path) -> str:
    if file == POLICY:
        return ASK_ADMIN
    return f"{ASK_ADMIN}, or unset {POLICY_VARIABLE}"


def policy_file() -> Path | None:
    """Return the policy file; ``FORGE_POLICY`` counts only if the machine has none."""
    if machine_has_policy():
        return POLICY
    named = os.environ.get(POLICY_VARIABLE)
    if not named:
        return None
    return Path(os.path.abspath(named))


def _doubts(file: Path) -> Iterator[str]:
    """Yield reasons not to trust a file: parents or owners that others could use to change it."""
    if is_inspecting():  # the parent has checked; this process sees other folders and owners
        return
    # In a user namespace root of the host has another number.
    owners = {0, os.stat("/").st_uid}
    real = Path(os.path.realpath(file))
    try:
        if not stat.S_ISREG(os.stat(real).st_mode):
            yield "it is not a regular file"
        # A user who can write the folder of a link on the path can replace the link.
        for place in (real, *real.parents, *file.parents):
            info = os.stat(place)
            if info.st_uid not in owners:
                yield f"{place} does not belong to root"
            elif info.st_uid == os.geteuid() != 0:
                yield f"{place} belongs to you"
            # In a sticky folder such as /tmp, users cannot replace the files of others.
            sticky = stat.S_ISDIR(info.st_mode) and info.st_mode & stat.S_ISVTX
            if info.st_mode & 0o022 and not sticky:
                yield f"other users than root can write {place}"
    except FileNotFoundError:
        if file == POLICY:
            raise WorkerError(Mark(str(file)), "broken link", hint=_remedy(file)) from None
        problem = f"{POLICY_VARIABLE}: there is no file {file}"
        raise WorkerError(None, problem, hint=_remedy(file)) from None
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
            problem = (
                f"rules[{index}]: a rule of an organisation needs 'approval: ask' "
                "or 'approval: blocked'"
            )
            raise WorkerError(policy.where("rules", index), problem)
    return policy


def required_on_ask(policy: OrganisationPolicy, said: OnAsk) -> OnAsk:
    """Return the stricter meaning of an ask if forge cannot ask; raise WorkerError for ``park``."""
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
    """Return the error for a conflict with the policy, with both places."""
    return WorkerError(where, f"{problem}, and {policy or 'the organisation'} says {says}")


def list_patterns(patterns: list[str] | None) -> str:
    """Return patterns as text for messages."""
    return ", ".join(patterns or ()) or "none"

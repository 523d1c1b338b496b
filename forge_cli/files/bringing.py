"""Everything in a folder that needs trust: its effects and its files."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

from msgspec import Struct, field

from forge_cli.core.errors import ForgeError, UsageError
from forge_cli.core.locking import files_below, hash_of
from forge_cli.core.text import counted
from forge_cli.files.home import forge_home
from forge_cli.files.lookup import NamedWorker, WorkerOrigin, named_workers
from forge_cli.files.mcp import McpServer
from forge_cli.files.mcp_project import project_servers
from forge_cli.files.project import hook_code, read_project
from forge_cli.files.repository import guidance_files
from forge_cli.files.settings import HookConfig, Settings
from forge_cli.files.settings_files import project_file
from forge_cli.files.trust import TrustStore, file_digests

SKILL = "SKILL.md"
_MAX_NAMED = 10
"""The most files that are listed by name."""
T = TypeVar("T")


class Brought(Struct, frozen=True):
    """A part of a folder that needs trust, with the content of its files."""

    kind: str
    path: Path
    files: Mapping[Path, bytes] = field(default_factory=dict)
    worker: NamedWorker | None = None
    digests: Mapping[str, str] = field(default_factory=dict)
    """The hashes of a worker's files, instead of ``files``."""
    servers: Mapping[str, McpServer] = field(default_factory=dict)
    settings: Settings | None = None
    hooks: Sequence[HookConfig] = ()
    """The hooks that it contains, or that run it."""
    instructions: int = 0
    """The number of lines that a model would read."""

    @property
    def title(self) -> str:
        """Its path and kind, for people."""
        if self.kind != "servers":
            return f"{self.path} ({self.kind})"
        code = [os.path.relpath(path, self.path.parent) for path in self.files if path != self.path]
        started = ""
        if code:
            started = f", started from {', '.join(code[:_MAX_NAMED])}"
        if len(code) > _MAX_NAMED:
            started += f" and {len(code) - _MAX_NAMED} more"
        return f"{self.path} (MCP servers: {', '.join(self.servers) or 'none'}{started})"

    def is_trusted(self, store: TrustStore) -> bool:
        """Return True if the person trusts its current content."""
        if self.worker:
            return store.holds(self.worker)
        return not store.differing(self.files)

    def was_trusted(self, store: TrustStore) -> bool:
        """Return True if the person trusted other content at this place."""
        return any(store.kept_text(path) is not None for path in self.files)

    def trust(self, store: TrustStore) -> None:
        """Record that the person trusts it in the state that was read."""
        if self.worker:
            store.add(self.worker, self.digests)
        for path, content in self.files.items():
            store.add_file(path, content)


def find_brought(place: Path, *, strict: bool = True) -> list[Brought]:
    """Return the parts of a folder, or of a path in it, that need trust.

    If ``strict``, an invalid file is an error; otherwise it is left out.
    """
    folder = place if os.path.isdir(place) else place.parent
    if os.path.isdir(folder) and not os.access(folder, os.X_OK):
        raise UsageError(f"{folder}: permission denied", hint="check its owner and mode")
    if strict and not os.path.exists(place):
        raise UsageError(
            f"{place}: no such file or folder",
            hint="check the path; forge trust --list shows trusted files",
        )
    found: list[Brought] = []
    if os.path.isdir(folder):
        found = list(_find(folder, strict))
    settings = next((each for each in found if each.kind == "settings"), None)
    at_place: list[Brought] = []
    for each in found:
        # The program of a hook may be anywhere; it comes with the settings that name it.
        owner = settings if each.kind == "hook" and settings else each
        if _is_at(owner, place, folder):
            at_place.append(each)
    return at_place


def _is_at(each: Brought, place: Path, folder: Path) -> bool:
    """Return True if it is at a place; guidance also comes from parent folders."""
    if each.kind in ("guidance", "servers"):
        return place in (folder, each.path)
    return Path(os.path.abspath(each.path)).is_relative_to(place)


def _find(folder: Path, strict: bool) -> Iterator[Brought]:
    root = _root(folder)
    for servers in _read(lambda: project_servers(folder), strict) or ():
        files = {servers.file: servers.content, **servers.code()}
        yield Brought("servers", servers.file, files, servers=servers.servers)
    # Guidance is outside of .forge, so a path inside of it has none.
    guidance_paths = guidance_files(folder) if root == folder else []
    for guidance in guidance_paths:
        if guidance.is_file():
            text = guidance.read_bytes()
            yield Brought(
                "guidance", guidance, {guidance: text}, instructions=len(text.splitlines())
            )
    for skill in _skills(root):
        files = {}
        for path in sorted(map(skill.joinpath, files_below(skill))):
            if path.is_file():
                files[path] = path.read_bytes()
        lines = len(files.get(skill / SKILL, b"").splitlines())
        yield Brought("skill", skill, files, instructions=lines)
    settings = project_file(root)
    if settings.is_file():
        read = _read(lambda: read_project(settings), strict)
        hooks = read.hooks if read else []
        yield Brought(
            "settings", settings, {settings: settings.read_bytes()}, settings=read, hooks=hooks
        )
        code = [(hook, hook_code(hook, root)) for hook in hooks]
        programs: dict[Path, bytes] = {}  # several hooks can run the same file
        for _, files in code:
            programs |= files
        for program, text in programs.items():
            users = [hook for hook, files in code if program in files]
            yield Brought("hook", program, {program: text}, hooks=users)
    for worker in named_workers(root, forge_home()):
        if worker.origin is WorkerOrigin.PROJECT:
            yield Brought("worker", worker.path, worker=worker, digests=file_digests(worker))


def _read(read: Callable[[], T], strict: bool) -> T | None:
    """Call ``read``; return None for an invalid file unless ``strict``."""
    try:
        return read()
    except ForgeError:
        if strict:
            raise
        return None


def _skills(folder: Path) -> list[Path]:
    found: list[Path] = []
    for name in (".forge", ".claude"):
        found += sorted((folder / name / "skills").glob(f"*/{SKILL}"))
    return [file.parent for file in found]


def _root(folder: Path) -> Path:
    """Return the project of a path inside ``.forge``; for other folders the folder itself."""
    for above in (folder, *folder.parents):
        if above.name == ".forge":
            return above.parent
    return folder


def hash_brought(found: Sequence[Brought], folder: Path) -> str:
    """Return a hash of everything found that does not depend on the place of the folder."""
    digests: dict[str, str] = {}
    for each in found:
        near = os.path.relpath(each.path, folder)
        for name, digest in each.digests.items():
            digests[f"{near}:{name}"] = digest
        for path, content in each.files.items():
            digests[os.path.relpath(path, folder)] = sha256(content).hexdigest()
    return hash_of(digests)


def describe_capabilities(found: Sequence[Brought]) -> str:
    """Describe the effects of trusting the folder."""
    settings = [each.settings for each in found if each.settings]
    hooks: dict[int, HookConfig] = {}
    servers: list[McpServer] = []
    for each in found:
        # A hook of the settings comes again with each program that it runs, and counts once.
        hooks.update((id(hook), hook) for hook in each.hooks)
        servers += each.servers.values()
    rules = 0
    for read in settings:
        servers += read.mcp.servers.values()
        for toolset in read.policy.values():
            rules += sum(map(len, (toolset or {}).values()))
    lines = sum(each.instructions for each in found)
    workers = sum(each.worker is not None for each in found)
    effects = [
        *_hooks(hooks.values()),
        *_counted("start", sum(server.command is not None for server in servers), "server"),
        *_counted("connect to", sum(server.url is not None for server in servers), "server"),
        *_counted("add", lines, "line", " of instructions"),
        *_counted("bring", workers, "worker"),
        *_counted("add", rules, "rule", " to ask or block"),
        *(f"use the model {each.model}" for each in settings if each.model),
        "loosen nothing",
    ]
    return ", ".join(effects)


def _hooks(hooks: Collection[HookConfig]) -> Iterator[str]:
    moments = {
        "session_start": "at session start",
        "session_end": "at session end",
        "record": "on every event",
    }
    for when in dict.fromkeys(moments.get(hook.on, "around calls") for hook in hooks):
        count = sum(moments.get(hook.on, "around calls") == when for hook in hooks)
        noun = "observer" if when == moments["record"] else "command"
        yield f"run {counted(count, noun)} {when}"


def _counted(verb: str, count: int, what: str, more: str = "") -> list[str]:
    if not count:
        return []
    return [f"{verb} {counted(count, what)}{more}"]

"""The checks of ``forge doctor``: prerequisites and optional parts, each with a remedy."""

from __future__ import annotations

import os
import platform
import sys
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile

from msgspec import Struct

from forge_cli.core.errors import ForgeError
from forge_cli.core.text import counted
from forge_cli.engine.lock.checking import lock_file, stale_parts
from forge_cli.engine.plugins.host import PluginError, PluginHost
from forge_cli.files.home import ASK_ADMIN, forge_home
from forge_cli.files.lookup import SUFFIXES, named_workers
from forge_cli.files.settings_files import load_settings, organisation_policy
from forge_cli.files.worker import load_worker
from forge_cli.inspection.inspector import Inspector
from forge_cli.inspection.model_names import check_settings
from forge_cli.inspection.providers import provider_rows
from forge_cli.record.leftovers import find_leftovers
from forge_cli.sandbox.drafts.draft import all_drafts
from forge_cli.sandbox.isolation.bubblewrap import Bubblewrap
from forge_cli.sandbox.isolation.isolation import best_mechanism, describe_confinement
from forge_cli.sandbox.trial.copies import overlay_problem
from forge_cli.toolsets.executables.manage import ExecutableManager

OLDEST = (3, 11)
DRAFT_DAYS = 30
"""Days after which a draft that waits for a review is listed."""
MAX_DRAFTS = 5
"""Old drafts that are named."""
_SOCKETS = (
    "/var/run/docker.sock",
    "/run/podman/podman.sock",
    "/run/postgresql/.s.PGSQL.5432",
    "/run/mysqld/mysqld.sock",
)
_SOCKET_VARIABLES = ("DOCKER_HOST", "SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS")
"""Variables with the sockets of daemons, as ``unix:PATH``, ``unix:path=PATH`` or ``PATH``."""


class DoctorCheck(Struct, frozen=True):
    """The result of one check; only ``essential`` ones make the command fail."""

    id: str
    ok: bool
    detail: str
    remedy: str | None = None
    essential: bool = True


async def check_health(*, interactive: bool) -> list[DoctorCheck]:
    """Return all checks; third-party code is loaded in child processes only."""
    own = [_python(), _home(forge_home())]
    # the other checks load settings, which would only repeat the error of the policy
    if unsound := _policy():
        return [*own, unsound]
    own += [
        _config(),
        _terminal(interactive),
        _confinement(),
        _trial(),
        *_leftovers(forge_home()),
        *_drafts(),
    ]
    own += [*_sockets(), *_servers(), *_locks(Path.cwd())]
    return [
        *own,
        *await _models(),
        *await _plugins(),
        *_executables(ExecutableManager(forge_home())),
    ]


def _python() -> DoctorCheck:
    found = f"Python {platform.python_version()} on {platform.system()}"
    return DoctorCheck("python", sys.version_info >= OLDEST, found, "install Python 3.11 or newer")


def _home(home: Path) -> DoctorCheck:
    """Check that forge can write to its home, or to the nearest folder above it that exists."""
    # lexists, because a broken symbolic link also prevents forge from making the folder
    existing = next(place for place in (home, *home.parents) if os.path.lexists(place))
    if problem := _write_problem(existing):
        remedy = f"make {existing} a folder that you can write to, or set FORGE_HOME"
        return DoctorCheck("home", False, f"{home}: {existing} {problem}", remedy)
    if home.exists():
        return DoctorCheck("home", True, str(home))
    return DoctorCheck("home", True, f"{home} (created when needed)")


def _leftovers(home: Path) -> list[DoctorCheck]:
    """Report files that killed commands left in ~/.forge; ``--clean`` also looks in the folder."""
    found = [each for each in find_leftovers(home) if not each.kept]
    if not found:
        return []
    size = sum(each.size for each in found)
    left = counted(len(found), "item")
    detail = f"killed commands left {left} ({size} bytes); forge doctor --clean removes them"
    return [DoctorCheck("leftovers", True, detail, essential=False)]


def _drafts() -> list[DoctorCheck]:
    """Report drafts that nobody has reviewed for long; forge never deletes them by itself."""
    oldest = time.time_ns() - DRAFT_DAYS * 24 * 3600 * 10**9
    old = [draft for draft in all_drafts() if draft.state == "ready" and draft.began < oldest]
    if not old:
        return []
    named = ", ".join(draft.id for draft in old[:MAX_DRAFTS])
    more = f" and {len(old) - MAX_DRAFTS} more" if len(old) > MAX_DRAFTS else ""
    count = counted(len(old), "draft")
    detail = (
        f"{count} older than {DRAFT_DAYS} days: {named}{more}; forge drafts review ID looks at "
        "one, forge drafts drop ID forgets it"
    )
    return [DoctorCheck("drafts", True, detail, essential=False)]


def _write_problem(folder: Path) -> str | None:
    """Return why a folder cannot be used, or None; an unnamed file is written to find out."""
    try:
        with TemporaryFile(dir=folder) as file:
            file.write(bytes(1))
    except OSError as error:
        return f"is not writable: {error.strerror}"
    return None if os.access(folder, os.R_OK) else "is not readable"


def _policy() -> DoctorCheck | None:
    """Return a failed check if the policy of the organisation is invalid, else None."""
    try:
        organisation_policy()
    except ForgeError as error:
        remedy = error.hint or ASK_ADMIN
        return DoctorCheck("policy", False, " ".join(str(error).partition("\n")[0].split()), remedy)
    return None


def _config() -> DoctorCheck:
    try:
        check_settings(load_settings(forge_home()))
    except ForgeError as error:
        return DoctorCheck(
            "config", False, " ".join(str(error).split()), "correct the file, or move it away"
        )
    file = forge_home() / "config.yaml"
    if file.exists():
        return DoctorCheck("config", True, str(file))
    return DoctorCheck("config", True, f"{file} (optional; not created yet)")


def _terminal(interactive: bool) -> DoctorCheck:
    if interactive:
        return DoctorCheck("terminal", True, "calls that ask can be answered here")
    detail = "no terminal here (or CI is set): calls that ask follow --on-ask"
    return DoctorCheck(
        "terminal", False, detail, "run forge in a terminal to be asked", essential=False
    )


def isolation_level() -> dict[str, str | None]:
    """Return how strictly commands are confined on this machine, and by which mechanism."""
    found = best_mechanism()
    if found is None:
        return {"level": "none", "mechanism": None}
    return {"level": "weaker" if found.weakness else "full", "mechanism": found.name}


def _confinement() -> DoctorCheck:
    found = best_mechanism()
    remedy = "install bubblewrap (bwrap) 0.8 or newer, and let it make user namespaces"
    return DoctorCheck(
        "isolation", found is not None, describe_confinement(found), remedy, essential=False
    )


def _trial() -> DoctorCheck:
    """Check whether commands can be tried on a copy before forge asks."""
    found = best_mechanism()
    if isinstance(found, Bubblewrap):
        problem = overlay_problem(forge_home())
    else:
        problem = "it needs bwrap"
    if problem is None:
        return DoctorCheck("trial", True, "commands that would ask are tried on a copy first")
    remedy = "use Linux 5.11 or newer with bubblewrap, where users may mount overlays in namespaces"
    return DoctorCheck(
        "trial", False, f"commands are not tried on a copy: {problem}", remedy, essential=False
    )


def _sockets() -> list[DoctorCheck]:
    """Report the sockets of daemons on this machine that confined commands may not use."""
    paths = list(map(Path, _SOCKETS))
    for name in _SOCKET_VARIABLES:
        # D-Bus adds ',guid=...' to the path
        address = os.environ.get(name, "").partition(",")[0]
        if path := address.removeprefix("unix:"):
            paths.append(Path(path.removeprefix("path=")))
    # an address such as tcp://HOST is no absolute path
    found = [str(path) for path in dict.fromkeys(paths) if path.is_absolute() and path.is_socket()]
    if not found or best_mechanism() is None:
        return []
    told = f"commands cannot use {', '.join(found)}; approve a socket for one command at its trial"
    return [
        DoctorCheck(
            "sockets", True, f"{told}, or list it in sandbox.read of a worker for all commands"
        )
    ]


def _servers() -> list[DoctorCheck]:
    """Count the user's MCP servers and name the unconfined ones; none is started."""
    with suppress(ForgeError):  # the check of config.yaml reports it
        servers = load_settings(forge_home()).mcp.servers
        free = [name for name, server in servers.items() if server.command and not server.confined]
        if servers:
            told = f"; not confined: {', '.join(free)}" if free else ""
            return [
                DoctorCheck("mcp", True, f"{counted(len(servers), 'server')} in config.yaml{told}")
            ]
    return []


def _locks(folder: Path) -> list[DoctorCheck]:
    """Check the locks of the workers in a folder as far as files show, without opening a worker."""
    beside = [
        path
        for path in sorted(folder.iterdir())
        if path.suffix in SUFFIXES and lock_file(path).is_file()
    ]
    named = [
        each.path for each in named_workers(folder, forge_home()) if lock_file(each.path).is_file()
    ]
    checks: list[DoctorCheck] = []
    for path in dict.fromkeys([*beside, *named]):
        name = f"lock.{lock_file(path).stem}"
        remedy = f"review the changes, then run: forge lock {path} --update"
        try:
            found = stale_parts(load_worker(path), folder, forge_home())
        except ForgeError as error:
            checks.append(
                DoctorCheck(name, False, str(error).replace("\n", " "), remedy, essential=False)
            )
        else:
            told = "; ".join(map(str, found)) or f"{lock_file(path)} matches the files"
            checks.append(DoctorCheck(name, not found, told, remedy, essential=False))
    return checks


async def _models() -> list[DoctorCheck]:
    checks: list[DoctorCheck] = []
    for row in await provider_rows():
        name = f"model.{row['provider']}"
        if "error" in row:
            checks.append(DoctorCheck(name, False, row["error"], row["remedy"]))
        else:
            found = row["key"] or f"needs {row['needs']}"
            # one provider is enough, so a missing key of another is no failure
            checks.append(DoctorCheck(name, row["ready"], found, row["missing"], essential=False))
    return checks


async def _plugins() -> list[DoctorCheck]:
    """Load each installed toolset in a child process."""
    checks: list[DoctorCheck] = []
    for plugin in PluginHost().toolset_plugins():
        try:
            async with Inspector() as inspector:
                await inspector(load_toolset, plugin.name, plugin.distribution)
        except ForgeError as error:
            remedy = (
                error.hint
                or f"ask its author, or run: forge plugins uninstall {plugin.distribution}"
            )
            checks.append(DoctorCheck(f"toolset.{plugin.name}", False, error.message, remedy))
        else:
            checks.append(DoctorCheck(f"toolset.{plugin.name}", True, str(plugin)))
    return checks


async def load_toolset(name: str, distribution: str) -> None:
    """Load a toolset; raise a ForgeError if that fails or its name clashes."""
    host = PluginHost()
    if clash := host.clash(host.named(name, distribution)):
        raise PluginError(clash)
    host.toolset(name)


def _executables(tools: ExecutableManager) -> list[DoctorCheck]:
    """Check ~/.forge/tools: invalid tools, and valid ones that need something to be installed."""
    try:
        programs, problems = tools.scan()
    except ForgeError as error:
        return [DoctorCheck("executables", False, str(error), "make it a readable folder")]
    checks = [DoctorCheck("executables", True, f"{len(programs)} in {tools.root}")]
    for name, problem in problems.items():
        remedy = f"correct it, or remove {tools.root / name}"
        detail = problem.replace("\n", " ")
        checks.append(DoctorCheck(f"executable.{name}", False, detail, remedy))
    for program in programs:
        if missing := tools.lacks(program):
            problem, _, remedy = missing.partition("; ")
            check = f"executable.{program.name}"
            checks.append(DoctorCheck(check, False, problem, remedy, essential=False))
    return checks

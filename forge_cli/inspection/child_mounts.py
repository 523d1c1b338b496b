"""The files and variables that the child for third-party code can see."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path

from forge_cli.core.bounds import is_of_forge
from forge_cli.core.errors import ForgeError
from forge_cli.core.zones import Zone, ZoneMode
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.engine.plugins.scan import package_places
from forge_cli.engine.runtime.prepared import PreparedWorker
from forge_cli.files.home import forge_home, user_home, user_homes
from forge_cli.files.keys import stored_keys
from forge_cli.files.settings_files import import_timeout, organisation_policy
from forge_cli.files.sources import imported_beside
from forge_cli.files.trust import with_children
from forge_cli.files.worker import Worker, load_worker
from forge_cli.inspection.worker_zones import declared_zones, sandbox_section
from forge_cli.sandbox.isolation.confinement import HIDDEN, confinement_for
from forge_cli.sandbox.isolation.isolation import Confined, best_mechanism
from forge_cli.sandbox.processes.command import UNCONFINED, Unconfined, clean_environment
from forge_cli.sandbox.secrets import KEY_NAME, own_redactor
from forge_cli.sandbox.zones.declared import declared_zones as zones_of_file
from forge_cli.sandbox.zones.declared import open_zone

READABLE_PARTS = ("config.yaml", "trust.json", "tools", "skills", "cache", "workers")
"""The parts of ~/.forge that the child reads: settings, tools and the plugin cache, but no keys."""
HIDDEN_VALUE = "hidden"
MAX_SPACE = 2**28


def confined(
    worker: str | Path | None, folder: Path | None, zones: Sequence[Path] = ()
) -> Confined | Unconfined:
    """Return the confinement of the child: no network, few readable files, only temporary writes.

    ``zones`` are shown in addition to the zones that the worker declares. Raises a ForgeError if a
    declared zone cannot be opened, because the child could not make it.
    """
    looked_at = _read(worker) if worker else None
    if looked_at:
        # here and not in the child, which may not make folders
        declared_zones(looked_at, folder or Path.cwd())
    found = best_mechanism()
    if found is None:
        _warn_once()
        return UNCONFINED
    # $HOME may differ from the home in the user database; programs look in both
    homes = user_homes()
    named = [Path(worker).absolute()] if worker else []
    real_homes = [Path(os.path.realpath(home)) for home in homes]
    wanted = {*_libraries(), *named, *_files(looked_at, folder), *zones, *_policy()}
    # resolved, because a symbolic link must not reveal a secret file
    secret = frozenset(
        Path(os.path.realpath(home / name)) for home, name in product(real_homes, HIDDEN)
    )
    confinement = confinement_for(
        (),
        workspace=Path.cwd(),
        user_homes=homes,
        forge_home=forge_home(),
        read=sorted(path for path in wanted if _may_be_seen(path, real_homes, secret)),
        network=False,
        room=MAX_SPACE,
    )
    # ~/.forge is hidden as a whole, then these parts of it are shown again
    own = Path(os.path.realpath(forge_home()))
    kept_here = (*zones, *_own_workers(looked_at))
    readable = (
        *(own / name for name in READABLE_PARTS),
        *(path for path in kept_here if own in path.parents),
    )
    return Confined(
        found, replace(confinement, private=(*confinement.homes, own)), readable=readable
    )


async def unseen_zones(worker: str, workspace: str) -> list[tuple[str, str, str]]:
    """Return name, folder and mode of each zone that the child cannot see.

    Runs in the child. Only third-party toolsets may need a zone when they are opened.
    """
    prepared = PreparedWorker(load_worker(worker), PluginHost())
    place = Path(workspace)
    if all(is_of_forge(each.cls) for each in prepared.toolsets):
        return []  # forge's own toolsets do not use their zones while they are opened
    section = sandbox_section(prepared.worker)
    file = str(prepared.worker.path)
    zones = zones_of_file(section, workspace=place, user_home=user_home(), file=file) or ()
    found = (*zones, *prepared.brought_zones(place))
    return [
        (each.name, str(each.path), each.mode.value) for each in found if not each.path.is_dir()
    ]


def make_zones(unseen: Iterable[tuple[str, str, str]]) -> list[Path]:
    """Make the folders of the zones as a run would; skip those that cannot be made."""
    found: list[Path] = []
    for name, path, mode in unseen:
        zone = Zone(name, Path(path), ZoneMode(mode))
        with suppress(ForgeError):
            found.append(open_zone(zone, user_home=user_home()).path)
    return found


def child_environment() -> dict[str, str]:
    """Return the environment of the child, with secrets replaced.

    Variables of keys stay set, because a plugin may check whether its key is there.
    """
    redact = own_redactor().redact_text
    kept: dict[str, str] = {}
    for name, value in os.environ.items():
        if KEY_NAME.search(name) and value:
            kept[name] = HIDDEN_VALUE
        else:
            kept[name] = redact(value)
    limit = {"FORGE_IMPORT_TIMEOUT": f"{import_timeout():g}"}
    return {**clean_environment(), **dict.fromkeys(stored_keys(), HIDDEN_VALUE), **kept, **limit}


def _policy() -> list[Path]:
    """Return the file of the organisation's policy, which the child cannot look up."""
    if organisation_policy() is None:
        return []
    from forge_cli.files.organisation import policy_file

    file = policy_file()
    return [file] if file else []


@cache
def _warn_once() -> None:
    sys.stderr.write(
        "warning: third-party code is loaded in a separate process, "
        "which this machine cannot confine: install bubblewrap (bwrap)\n"
    )


def _libraries() -> Iterator[Path]:
    """Yield the folders of the interpreter, of forge and of all packages that can be imported."""
    yield from map(Path, (sys.prefix, sys.base_prefix, os.path.realpath(sys.executable), *sys.path))
    yield Path(__file__).parent.parent
    modules = {plugin.value.partition(":")[0] for plugin in PluginHost().plugins}
    for package in {module.partition(".")[0] for module in modules}:
        yield from map(Path, package_places(package))


def _files(worker: Worker | None, folder: Path | None) -> Iterator[Path]:
    """Yield the folder, and the files and zones of a worker and of its children."""
    if folder is not None:
        yield folder
    for each in with_children(worker) if worker else ():
        yield from _files_of_worker(each, folder or Path.cwd())


def _files_of_worker(worker: Worker, workspace: Path) -> Iterator[Path]:
    yield worker.path
    yield worker.folder
    for entry in worker.config.plugins:
        place = worker.folder / entry
        # a module may import the files beside it
        yield place.parent if entry.endswith(".py") else place
    for module in worker.modules:
        yield module.parent
        yield from imported_beside(module)
    with suppress(ForgeError):
        yield from (zone.path for zone in declared_zones(worker, workspace))


def _read(worker: str | Path) -> Worker | None:
    with suppress(ForgeError, OSError):  # the child says what is wrong with it
        return load_worker(worker)
    return None


def _own_workers(worker: Worker | None) -> Iterator[Path]:
    """Yield the files of a worker and its children, which may be in ~/.forge."""
    if worker:
        for each in with_children(worker):
            yield Path(os.path.realpath(each.path))


def _may_be_seen(path: Path, homes: Iterable[Path], secret: frozenset[Path]) -> bool:
    """Return True if a path may be shown: never a whole home, and no secret file in it."""
    real = Path(os.path.realpath(path))
    whole = any(home.is_relative_to(real) for home in homes)
    return real.exists() and not whole and secret.isdisjoint((real, *real.parents))

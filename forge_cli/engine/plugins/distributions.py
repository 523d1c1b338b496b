"""Installed packages with plugins, and packages that pip or uv install beside forge."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Iterable, Iterator
from importlib import invalidate_caches
from importlib.util import find_spec
from pathlib import Path

from forge_cli.core.errors import ForgeError, UsageError
from forge_cli.core.source import OWN, canonical
from forge_cli.core.text import did_you_mean, visible
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.engine.plugins.scan import Plugin, installed, kind_and_name
from forge_cli.files.home import forge_home

MAX_NAMED = 20
"""The most plugins of a kind that are listed by name."""
NO_PLUGINS = "no third-party plugins are installed; forge plugins new NAME makes one"


def installed_plugins() -> tuple[Plugin, ...]:
    """Return the plugins that are installed right now."""
    return installed(forge_home() / "cache")


def distributions(plugins: Iterable[Plugin]) -> dict[str, list[Plugin]]:
    """Return the plugins by their distribution, in order."""
    found: dict[str, list[Plugin]] = {}
    for plugin in plugins:
        found.setdefault(plugin.distribution, []).append(plugin)
    return found


def installed_distribution(name: str) -> str:
    """Return the exact name of a distribution with plugins; raise UsageError if there is none."""
    if canonical(name) == OWN:
        raise UsageError(f"{OWN} is forge itself, and not a plugin")
    host = PluginHost()
    found = distributions((*host.plugins, *host.left_out))
    found.pop(OWN, None)
    known = list(found)
    for each in known:
        if canonical(each) == canonical(name):
            return each
    offering: list[str] = []
    for each in known:
        if name in {kind_and_name(plugin.name)[1] for plugin in found[each]}:
            offering.append(each)
    if offering:
        hint = f"did you mean '{offering[0]}', which offers it?"
        raise UsageError(f"no plugin is installed from '{visible(name)}'", hint=hint)
    there = f"installed are: {', '.join(known)}" if known else NO_PLUGINS
    hint = did_you_mean(name, known, there)
    raise UsageError(f"no plugin is installed from '{visible(name)}'", hint=hint)


def describe_offers(plugins: Iterable[Plugin]) -> str:
    """Return the names of plugins by kind, as ``toolsets a, b; renderer c``, or their number."""
    names: dict[str, list[str]] = {}
    for plugin in plugins:
        kind, name = kind_and_name(plugin.name)
        names.setdefault(kind, []).append(name)
    return "; ".join(_describe_kind(kind, each) for kind, each in names.items())


def _describe_kind(kind: str, names: list[str]) -> str:
    if len(names) > MAX_NAMED:
        return f"{len(names)} {kind}s"
    return f"{kind}{'s' if len(names) > 1 else ''} {', '.join(names)}"


def shared_names(plugin: Plugin, host: PluginHost) -> Iterator[str]:
    """Yield why a plugin's name conflicts with one of forge or of another package."""
    kind, name = kind_and_name(plugin.name)
    if clash := host.clash(plugin):
        yield clash
    elif kind != "renderer":
        others = [each for each in host.plugins if each.name == plugin.name and each != plugin]
        if others:
            both = " and ".join(map(str, others))
            yield f"the {kind} '{name}' is also offered by {both}; uninstall one of them"


_NAMED = re.compile(r"([A-Za-z0-9][\w.-]*)\s*(\[[^\]]*\]\s*)?($|[=<>!~;@,(\s].*)", re.DOTALL)


_KEEPERS = {
    "uv-receipt.toml": ("uv tool", "uv tool install forge-workers --with {package}"),
    "pipx_metadata.json": ("pipx", "pipx inject forge-workers {package}"),
}
"""Programs that manage an environment for one tool, by the file they leave in it.

Each comes with its name, and the command by which it keeps an additional package.
"""


def read_package(text: str) -> tuple[str, str]:
    """Return a package as pip accepts it, and its name if known; refuse forge itself."""
    if text.startswith("-") or not text.strip():
        raise UsageError(f"'{visible(text)}' is not a package", hint="give a name or a path")
    path = Path(text).expanduser()
    is_path = text.startswith((".", "/", "~"))
    if "/" in text and "://" not in text:
        is_path = is_path or os.path.exists(path)
    if is_path:
        package = str(path.resolve())
        name = _local_name(path, visible(text))
    else:
        named = _NAMED.fullmatch(text)
        if named and os.path.isdir(path):
            hint = f"./{text} is the folder; for the package of that name, type this elsewhere"
            raise UsageError(f"there is also a folder {visible(text)} here", hint=hint)
        package = text
        name = named[1] if named else ""
    if canonical(name) == OWN:
        raise UsageError(f"{OWN} is forge itself, which forge plugins leaves as it is")
    return package, name


def _local_name(path: Path, shown: str) -> str:
    """Return the name of a project or a wheel."""
    if os.path.isfile(path):
        if path.suffix == ".whl":
            return path.name.partition("-")[0]
        return ""
    if not os.path.exists(path):
        raise UsageError(f"there is no file or folder {shown}")
    try:
        project = tomllib.loads((path / "pyproject.toml").read_text("utf-8")).get("project", {})
    except FileNotFoundError:
        raise UsageError(f"{shown} is not a project: it has no pyproject.toml") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{shown}/pyproject.toml cannot be read: {error}") from None
    if isinstance(project, dict):
        return str(project.get("name", ""))
    return ""


def run_pip(
    command: str, package: str, *, pip: list[str], uv: list[str], interactive: bool
) -> None:
    """Run a command of pip, or of uv, for a package with the options for that program."""
    argv = [*installer_command(command), *(pip if find_spec("pip") else uv), package]
    sys.stderr.write(visible(shlex.join(argv)) + "\n")
    sys.stderr.flush()
    stdin = None if interactive else subprocess.DEVNULL
    try:
        code = subprocess.run(argv, stdin=stdin, stdout=sys.stderr.fileno(), check=False).returncode
    except OSError as error:
        raise ForgeError(f"{argv[0]} cannot be started: {error.strerror}") from None
    if code:
        raise ForgeError(f"{command}ing failed with exit code {code}; the reason is above")
    for receipt, (keeper, keep) in _KEEPERS.items():
        if (Path(sys.prefix) / receipt).is_file():
            lasting = (
                f"note: {keeper} manages this environment, and undoes this when it rebuilds it"
            )
            if command == "install":
                lasting = f"{lasting}: {keep.format(package=shlex.quote(package))}"
            sys.stderr.write(visible(lasting) + "\n")
    invalidate_caches()


def installer_command(command: str) -> list[str]:
    """Return how pip or uv is called; raise ForgeError if neither may change this environment."""
    # The mark of PEP 668: packages come from the system, and pip refuses to change them.
    managed = Path(sysconfig.get_path("stdlib")) / "EXTERNALLY-MANAGED"
    if sys.prefix == sys.base_prefix and managed.is_file():
        raise ForgeError(
            f"this Python ({sys.prefix}) belongs to the operating system",
            hint="install forge with 'uv tool install forge-workers' or "
            "'pipx install forge-workers', or in a venv",
        )
    # uv has no environment of its own, and has to be told which one is meant.
    more = ["--python", sys.executable]
    if find_spec("pip"):
        more = ["--disable-pip-version-check"]
    return [*package_manager(), command, *more]


def package_manager() -> list[str]:
    """Return the command that manages the packages beside forge: its pip, else uv."""
    if find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    if uv := shutil.which("uv"):
        return [uv, "pip"]
    raise ForgeError(
        f"there is neither pip nor uv for {sys.prefix}", hint=f"try '{sys.executable} -m ensurepip'"
    )

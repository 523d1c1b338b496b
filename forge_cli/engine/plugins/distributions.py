"""Installed packages: which ones offer plugins and by what name, what they require, and whether this forge is it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from forge_cli import __version__
from forge_cli.core.errors import UsageError
from forge_cli.core.source import OWN, canonical
from forge_cli.core.text import did_you_mean, visible
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.engine.plugins.scan import Plugin, installed, kind_and_name
from forge_cli.files.home import forge_home

if TYPE_CHECKING:
    from importlib.metadata import Distribution

    from packaging.requirements import Requirement

MOST_NAMED = 20
NO_PLUGINS = "no plugins are installed beside those of forge itself; forge plugins new NAME makes one"


def installed_plugins() -> tuple[Plugin, ...]:
    """As they are right now."""
    return installed(forge_home() / "cache")


def distributions(plugins: Iterable[Plugin]) -> dict[str, list[Plugin]]:
    """Plugins by the distribution that they come from, in their order."""
    found: dict[str, list[Plugin]] = {}
    for plugin in plugins:
        found.setdefault(plugin.distribution, []).append(plugin)
    return found


def installed_distribution(name: str) -> str:
    """A third-party distribution with plugins, as it spells itself; UsageError where there is none."""
    if canonical(name) == OWN:
        raise UsageError(f"{OWN} is forge itself, and not a plugin")
    host = PluginHost()
    found = {each: offers for each, offers in distributions((*host.plugins, *host.left_out)).items() if each != OWN}
    known = list(found)
    for each in known:
        if canonical(each) == canonical(name):
            return each
    offering = [each for each in known if name in {kind_and_name(plugin.name)[1] for plugin in found[each]}]
    if offering:
        hint = f"did you mean '{offering[0]}', which offers it?"
        raise UsageError(f"no plugin is installed from '{visible(name)}'", hint=hint)
    there = f"there are: {', '.join(known)}" if known else NO_PLUGINS
    raise UsageError(f"no plugin is installed from '{visible(name)}'", hint=did_you_mean(name, known, there))


def describe_offers(plugins: Iterable[Plugin]) -> str:
    """``toolset words, renderer words``; of several of a kind, all after one word, and of very many how many."""
    names: dict[str, list[str]] = {}
    for plugin in plugins:
        kind, name = kind_and_name(plugin.name)
        names.setdefault(kind, []).append(name)
    return "; ".join(_told(kind, each) for kind, each in names.items())


def _told(kind: str, names: list[str]) -> str:
    if len(names) > MOST_NAMED:
        return f"{len(names)} {kind}s"
    return f"{kind}{'s' if len(names) > 1 else ''} {', '.join(names)}"


def shared_names(plugin: Plugin, host: PluginHost) -> Iterator[str]:
    """Why its name may not be its own: forge has it, or another package does."""
    kind, name = kind_and_name(plugin.name)
    if clash := host.clash(plugin):
        yield clash
    elif kind != "renderer":
        others = [each for each in host.plugins if each.name == plugin.name and each != plugin]
        if others:
            yield f"the {kind} '{name}' is offered by {' and '.join(map(str, others))}, too; uninstall one of them"


def unfit(distribution: str) -> str | None:
    """``is built for forge >= 9, this is 0.2.0``, where its metadata says so."""
    for required in requirements_of(distribution):
        if canonical(required.name) == OWN and not required.specifier.contains(__version__, prereleases=True):
            clauses = sorted(required.specifier, key=lambda each: (each.operator.startswith("<"), str(each)))
            built = ", ".join(f"{each.operator} {each.version}" for each in clauses)
            return f"is built for forge {built}, this is {__version__}"
    return None


def missing(distribution: str) -> list[str]:
    """Its requirements that are not installed here, by name."""
    names = (canonical(required.name) for required in requirements_of(distribution))
    return [name for name in names if find_distribution(name) is None]


def find_distribution(name: str) -> Distribution | None:
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def requirements_of(distribution: str) -> Iterator[Requirement]:
    """Its requirements on this machine, without extras; metadata that cannot be read requires nothing."""
    from importlib.metadata import requires

    from packaging.requirements import InvalidRequirement, Requirement

    try:
        stated = requires(distribution) or []
    except Exception:  # third-party files, which importlib.metadata reads without a check
        stated = []
    for text in stated:
        try:
            required = Requirement(text)
        except InvalidRequirement:
            continue
        if required.marker is None or required.marker.evaluate({"extra": ""}):
            yield required

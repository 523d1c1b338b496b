"""Requirements of installed packages, read from their metadata; nothing is imported."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from forge_cli import __version__
from forge_cli.core.source import OWN, canonical

if TYPE_CHECKING:
    from importlib.metadata import Distribution

    from packaging.requirements import Requirement


def unfit(distribution: str) -> str | None:
    """``is built for forge >= 9, this is 0.2.0``, where its metadata says so."""
    for required in requirements_of(distribution):
        if canonical(required.name) == OWN and not required.specifier.contains(
            __version__, prereleases=True
        ):
            clauses = sorted(
                required.specifier, key=lambda each: (each.operator.startswith("<"), str(each))
            )
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

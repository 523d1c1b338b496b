"""Requirements of installed packages, read from their metadata without imports."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from forge_cli import __version__
from forge_cli.core.source import OWN, canonical

if TYPE_CHECKING:
    from importlib.metadata import Distribution

    from packaging.requirements import Requirement


def unfit(distribution: str) -> str | None:
    """Return ``is built for forge >= 9, this is 0.2.0`` if the metadata requires another forge."""
    for required in requirements_of(distribution):
        if canonical(required.name) != OWN:
            continue
        if not required.specifier.contains(__version__, prereleases=True):
            # Lower bounds first, as people write them.
            clauses = sorted(
                required.specifier, key=lambda each: (each.operator.startswith("<"), str(each))
            )
            built = ", ".join(f"{each.operator} {each.version}" for each in clauses)
            return f"is built for forge {built}, this is {__version__}"
    return None


def missing(distribution: str) -> list[str]:
    """Return the names of a distribution's requirements that are not installed."""
    names = (canonical(required.name) for required in requirements_of(distribution))
    return [name for name in names if find_distribution(name) is None]


def find_distribution(name: str) -> Distribution | None:
    """Return the metadata of a distribution, or None if it is not installed."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def requirements_of(distribution: str) -> Iterator[Requirement]:
    """Yield a distribution's requirements on this machine, without extras and invalid ones."""
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

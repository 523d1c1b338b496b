"""What a distribution requires: whether this forge is one that it is built for, and what else is missing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from forge_cli import __version__

OWN = "forge-workers"
"""The distribution of forge itself."""

_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][\w.-]*)\s*(?:\[[^\]]*\])?\s*\(?([^;()@]*)\)?\s*(;.*)?")
_CLAUSE = re.compile(r"(===|~=|==|!=|<=|>=|<|>)\s*([^\s,]+)")
_VERSION = re.compile(
    r"v?(?:(\d+)!)?(\d+(?:\.\d+)*)"
    r"(?:[-_.]?(alpha|a|beta|b|preview|pre|c|rc)[-_.]?(\d*))?"
    r"(-\d+|[-_.]?(?:post|rev|r)[-_.]?\d*)?"
    r"(?:[-_.]?dev[-_.]?(\d*))?(?:\+.*)?",
    re.IGNORECASE,
)
_STAGES = {"a": 0, "alpha": 0, "b": 1, "beta": 1, "c": 2, "rc": 2, "pre": 2, "preview": 2}
_IN_DEVELOPMENT, _FINAL, _NO_DEV = -1, 3, 10**9

VersionKey = tuple[Any, ...]


def canonical(distribution: str) -> str:
    """The name as package indexes compare it: ``Forge_Tools.Web`` is ``forge-tools-web``."""
    return re.sub(r"[-_.]+", "-", distribution.strip()).lower()


def unfit(distribution: str) -> str | None:
    """``is built for forge >= 9, this is 0.1.0``, where its metadata says so."""
    for name, clauses in _requirements(distribution):
        if name == OWN and not fits(__version__, clauses):
            built = ", ".join(f"{operator} {version}" for operator, version in _CLAUSE.findall(clauses))
            return f"is built for forge {built}, this is {__version__}"
    return None


def missing(distribution: str) -> list[str]:
    """What it always requires and is not installed, by name."""
    return [name for name, _ in _requirements(distribution) if not _is_installed(name)]


def _is_installed(distribution: str) -> bool:
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import distribution as find

    try:
        find(distribution)
    except PackageNotFoundError:
        return False
    return True


def _requirements(distribution: str) -> Iterator[tuple[str, str]]:
    """Name and version clauses of what it requires in any case; metadata that cannot be read requires nothing."""
    from importlib.metadata import requires

    try:
        stated = requires(distribution) or []
    except Exception:  # third-party files, which importlib.metadata reads without a check
        stated = []
    for text in stated:
        found = _REQUIREMENT.match(text)
        if found and not found[3]:
            yield canonical(found[1]), found[2]


def fits(version: str, clauses: str) -> bool:
    """Whether a version is one of ``>=1,<2``; what cannot be understood excludes none."""
    return all(_holds(version, *clause) for clause in _CLAUSE.findall(clauses))


def _holds(version: str, operator: str, wanted: str) -> bool:
    have, want = _key(version), _key(wanted.removesuffix(".*"))
    if have is None or want is None:
        return True
    match operator:
        case "==" | "===" | "!=":
            same = _begins(version, wanted.removesuffix(".*")) if wanted.endswith(".*") else have == want
            return same is (operator != "!=")
        case "~=":
            return have >= want and _begins(version, wanted.rpartition(".")[0])
        case ">=":
            return have >= want
        case "<=":
            return have <= want
        case ">":
            return have > want
        case _:
            return have < want


def _key(version: str) -> VersionKey | None:
    """What versions are ordered by, as packaging does: 1.0.dev1 < 1.0a1 < 1.0 < 1.0.post1."""
    found = _VERSION.fullmatch(version)
    if found is None:
        return None
    epoch, release, stage, number, post, dev = found.groups()
    numbers = tuple(map(int, release.split(".")))
    while numbers and numbers[-1] == 0:
        numbers = numbers[:-1]
    before = (_STAGES[stage.lower()], int(number or 0)) if stage else (_FINAL, 0)
    if dev is not None and not stage and not post:
        before = (_IN_DEVELOPMENT, 0)
    after = int(re.sub(r"\D", "", post) or 0) if post else -1
    return int(epoch or 0), numbers, before, after, _NO_DEV if dev is None else int(dev or 0)


def _begins(version: str, with_release: str) -> bool:
    have, want = (re.findall(r"\d+", text.partition("+")[0]) for text in (version, with_release))
    have += ["0"] * (len(want) - len(have))
    return [int(part) for part in have[: len(want)]] == [int(part) for part in want]

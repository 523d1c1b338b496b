"""A package on an index: who published it, when, and the plugins in it, before it is installed."""

from __future__ import annotations

import io
import os
import platform
import subprocess
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from configparser import ConfigParser
from configparser import Error as ConfigError
from email.parser import Parser
from hashlib import sha256
from typing import Any
from urllib.parse import urljoin, urlsplit, urlunsplit

from msgspec import Struct
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from forge_cli.core.errors import ForgeError, UsageError
from forge_cli.core.source import GROUP
from forge_cli.engine.plugins.distributions import package_manager

DEFAULT_INDEX = "https://pypi.org/simple/"
_INDEX_VARIABLES = ("PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL")
_JSON = "application/vnd.pypi.simple.v1+json"
_TIMEOUT = 20.0
_MAX_WHEEL = 64 * 2**20
"""The largest wheel that is read before it is installed."""


class PublishedPackage(Struct, frozen=True):
    """The version of a package that would be installed."""

    requirement: str
    """The package with exactly this version, as pip accepts it."""
    name: str
    version: str
    index: str
    publisher: str | None
    """What the package says of its author; nobody has checked it."""
    is_attested: bool
    released: str | None
    """The date of this version."""
    first_released: str | None
    versions: int
    plugins: Mapping[str, str] | None
    """The entry points for forge, or None if only building the package shows them."""

    def lines(self) -> Iterator[str]:
        """Yield what there is to know before it is installed."""
        yield f"{self.name} {self.version} on {self.index}"
        said = "attested by the index" if self.is_attested else "the package's own words, unchecked"
        yield f"  publisher      {self.publisher or 'not named'} ({said})"
        yield f"  released       {self.released or 'unknown'}"
        count = "1 version" if self.versions == 1 else f"{self.versions} versions"
        yield f"  first release  {self.first_released or 'unknown'} ({count})"
        if self.plugins is None:
            yield "  entry points   unknown: there is no wheel, so building it runs its code"
        else:
            names = ", ".join(f"{name} = {target}" for name, target in self.plugins.items())
            yield f"  entry points   {names or 'none for forge'}"


def look_up(package: str) -> PublishedPackage:
    """Return what the index of pip or uv knows about the newest version of a package."""
    try:
        wanted = Requirement(package)
    except InvalidRequirement as error:
        raise UsageError(f"'{package}' is not the name of a package: {error}") from None
    index = _index()
    project = canonicalize_name(wanted.name)
    page = urljoin(index, f"{project}/")
    listed = _read_json(page, wanted.name)
    files = [each for each in listed.get("files", ()) if not each.get("yanked")]
    versions = {_version_of(each["filename"], project) for each in files} - {None}
    version = _newest(versions, files, wanted, project)
    if version is None:
        raise ForgeError(f"{_without_password(index)} has no version of {package} for this Python")
    own = [each for each in files if _version_of(each["filename"], project) == version]
    wheel = next((each for each in own if each["filename"].endswith(".whl")), None)
    content = None if wheel is None else _read_wheel(urljoin(page, wheel["url"]), wheel)
    publisher, plugins = (None, None) if content is None else _inside(content)
    extras = f"[{','.join(sorted(wanted.extras))}]" if wanted.extras else ""
    return PublishedPackage(
        requirement=f"{wanted.name}{extras}=={version}",
        name=wanted.name,
        version=str(version),
        index=_without_password(index),
        publisher=publisher,
        is_attested=any(each.get("provenance") for each in own),
        released=_first_date(own),
        first_released=_first_date(listed.get("files", ())),
        versions=len(versions),
        plugins=plugins,
    )


def _index() -> str:
    """Return the index that pip or uv would ask."""
    found = next((os.environ[name] for name in _INDEX_VARIABLES if os.environ.get(name)), None)
    if found is None and "pip" in (manager := package_manager()):
        asked = subprocess.run(
            [*manager, "config", "get", "global.index-url"],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            check=False,
        )
        found = asked.stdout.strip() if asked.returncode == 0 else None
    return f"{(found or DEFAULT_INDEX).rstrip('/')}/"


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _read_json(page: str, name: str) -> Mapping[str, Any]:
    import httpx2

    shown = _without_password(page)
    try:
        answer = httpx2.get(
            page, headers={"Accept": _JSON}, timeout=_TIMEOUT, follow_redirects=True
        )
        if answer.status_code == 404:
            raise ForgeError(f"there is no package {name} on {shown}")
        answer.raise_for_status()
        found = answer.json()
    except (httpx2.HTTPError, ValueError) as error:
        raise ForgeError(
            f"{shown} cannot be read: {error}",
            hint="download the package and install its file: forge plugins install ./FILE.whl",
        ) from None
    return found if isinstance(found, dict) else {}


def _read_wheel(url: str, listed: Mapping[str, Any]) -> bytes | None:
    """Return a wheel if it is small enough and is what the index lists."""
    import httpx2

    content = bytearray()
    try:
        with httpx2.stream("GET", url, timeout=_TIMEOUT, follow_redirects=True) as answer:
            answer.raise_for_status()
            for piece in answer.iter_bytes():
                content += piece
                if len(content) > _MAX_WHEEL:
                    return None
    except httpx2.HTTPError as error:
        raise ForgeError(f"{_without_password(url)} cannot be read: {error}") from None
    expected = listed.get("hashes", {}).get("sha256")
    if expected and sha256(content).hexdigest() != expected:
        raise ForgeError(f"{listed['filename']} is not the file that the index lists")
    return bytes(content)


def _inside(wheel: bytes) -> tuple[str | None, Mapping[str, str]]:
    """Return who a wheel says made it, and its entry points for forge."""
    publisher = None
    plugins: dict[str, str] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
            for name in archive.namelist():
                if name.count("/") != 1 or ".dist-info/" not in name:
                    continue
                if name.endswith("/METADATA"):
                    publisher = _publisher(archive.read(name).decode("utf-8", "replace"))
                elif name.endswith("/entry_points.txt"):
                    read = ConfigParser(delimiters="=", interpolation=None, strict=False)
                    read.optionxform = str  # type: ignore[assignment,method-assign]
                    read.read_string(archive.read(name).decode("utf-8", "replace"))
                    if read.has_section(GROUP):
                        plugins = dict(read[GROUP])
    except (zipfile.BadZipFile, ConfigError) as error:
        raise ForgeError(f"the wheel cannot be read: {error}") from None
    return publisher, plugins


def _publisher(metadata: str) -> str | None:
    read = Parser().parsestr(metadata, headersonly=True)
    for field in ("Author", "Author-email", "Maintainer", "Maintainer-email"):
        if said := read.get(field):
            return str(said)
    return None


def _newest(
    versions: Iterable[Version | None],
    files: Iterable[Mapping[str, Any]],
    wanted: Requirement,
    project: str,
) -> Version | None:
    """Return the newest version that pip would take."""
    fitting: set[Version] = set()
    for each in files:
        version = _version_of(each["filename"], project)
        if version is not None and _fits_python(each.get("requires-python")):
            fitting.add(version)
    allowed = list(wanted.specifier.filter(fitting.intersection(versions)))
    return max(allowed, default=None)


def _fits_python(requires: str | None) -> bool:
    try:
        return not requires or SpecifierSet(requires).contains(platform.python_version())
    except InvalidSpecifier:
        return True


def _version_of(filename: str, project: str) -> Version | None:
    """Return the version of a wheel or an sdist; other files have none."""
    try:
        if filename.endswith(".whl"):
            return parse_wheel_filename(filename)[1]
        stem = filename.removesuffix(".tar.gz").removesuffix(".zip")
        if stem == filename:
            return None
        return Version(stem[len(project) + 1 :])
    except (InvalidWheelFilename, ValueError):
        return None


def _first_date(files: Iterable[Mapping[str, Any]]) -> str | None:
    dates = [str(each["upload-time"])[:10] for each in files if each.get("upload-time")]
    return min(dates, default=None)

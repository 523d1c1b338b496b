"""Git repositories that contain tools: fetched with depth 1, and never checked out."""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

from forge_cli.core.errors import ToolError
from forge_cli.core.processes import Finished
from forge_cli.core.text import cut
from forge_cli.sandbox.processes.command import clean_environment, with_git_settings
from forge_cli.sandbox.processes.limits import ProcessLimits
from forge_cli.sandbox.processes.process import ChildProcesses
from forge_cli.toolsets.executables.building import NETWORK
from forge_cli.toolsets.executables.contents import MAX_BYTES
from forge_cli.toolsets.executables.incoming import (
    LINK,
    MAX_ENTRIES,
    Listing,
    OfferedFile,
    SourceError,
    ToolSource,
)

FETCH_LIMIT = 120.0
"""Seconds for git to fetch a repository."""
MAX_FETCHED = 64 * 1024 * 1024
"""Bytes of the fetched pack."""
SUBMODULE = "is a submodule, which is not fetched; import the tool from its own repository"
_OWN_SETTINGS = {
    "core.hooksPath": os.devnull,
    "core.attributesFile": os.devnull,
    "init.templateDir": "",
    "fetch.unpackLimit": "1",  # keep one pack, whose size is limited, not single objects
    "transfer.unpackLimit": "1",
    "transfer.bundleURI": "false",  # the server could name other addresses to download from
    "submodule.recurse": "false",
    "fetch.recurseSubmodules": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "http.followRedirects": "initial",
    "advice.detachedHead": "false",
}
"""Settings that override all files: fetch one pack of bounded size, start no other program."""
_ENVIRONMENT = ("SSH_AUTH_SOCK", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSL_CAINFO", "XDG_CONFIG_HOME")
_AT_HOST = re.compile(r"[\w.+-]+@[\w.-]+:(?!//).+")
_ADDRESS = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://.+|(?P<other>[A-Za-z][A-Za-z0-9+-]*)::.*"
)
_SCHEMES = {"https": "https:ssh", "ssh": "https:ssh", "file": "file"}
"""Protocols that git may use for an address, even if the user's settings rewrite it."""
_CUT_OFF = ("index-pack", "signal 25", "File too large", "File size limit")
"""Parts of git's messages about a pack that exceeded the size limit."""
_DOWNLOADS = re.compile(r"(?i)\.(zip|tgz|tar(\.\w+)?|txz|tbz2?)$")


def is_address(text: str) -> bool:
    """Return True for the address of a repository, False for a path."""
    return _AT_HOST.fullmatch(text) is not None or _ADDRESS.fullmatch(text) is not None


def is_bare_repository(folder: Path) -> bool:
    """Return True for a folder with the layout of a bare git repository."""
    return (
        (folder / "HEAD").is_file() and (folder / "objects").is_dir() and (folder / "refs").is_dir()
    )


def without_password(address: str) -> str:
    """Return an address as it is shown and recorded, without a password."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return address
    if not parts.scheme or "@" not in parts.netloc:
        return address
    user, _, host = parts.netloc.rpartition("@")
    kept = f"{user.partition(':')[0]}@" if parts.scheme == "ssh" else ""
    return urlunsplit(parts._replace(netloc=f"{kept}{host}"))


class RepositorySource(ToolSource):
    """A repository, of which the commit at HEAD is read."""

    kind = "git"

    def __init__(self, address: str, folder: Path, processes: ChildProcesses) -> None:
        """Check the address; ``folder`` is used by this source only, and the caller deletes it."""
        super().__init__(without_password(address))
        self._address, self._protocols = _checked(address)
        self._folder = folder
        self._processes = processes
        self._commit = ""

    @classmethod
    def at(cls, path: Path, folder: Path, processes: ChildProcesses) -> RepositorySource:
        """Return the source for a bare repository on this machine."""
        source = cls(f"file://{quote(str(path))}", folder, processes)
        source.title = str(path)
        return source

    def facts(self) -> dict[str, str]:
        return {"commit": self._commit}

    async def listing(self) -> Listing:
        await self._fetch()
        self._commit = (
            await self._git("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        ).stdout.strip()
        if not self._commit:
            raise SourceError(f"{self.title} has no commit at its HEAD; push one")
        done = await self._git("ls-tree", "-r", "-l", "-z", "--full-tree", self._commit)
        if done.truncated:
            raise SourceError(f"{self.title} contains more than {MAX_ENTRIES:,} files and folders")
        listing = Listing(self.title)
        for line in filter(None, done.stdout.split("\0")):
            about, _, path = line.partition("\t")
            mode, kind, name, size = about.split()
            listing.add(path, _described(int(mode, 8), kind, name, size))
        listing.check_folders()
        return listing

    async def read(self, files: Mapping[str, OfferedFile]) -> dict[str, bytes]:
        names = list(files)
        feed = "".join(f"{files[name].key}\n" for name in names).encode()
        # The output has a header line before each file. Its bytes survive the decoding.
        done = await self._git("cat-file", "--batch", feed=feed, limit=2 * MAX_BYTES)
        data = done.stdout.encode(errors="surrogateescape")
        found: dict[str, bytes] = {}
        start = 0
        for name in names:
            begin = data.index(b"\n", start) + 1
            size = int(data[start:begin].split()[2])
            found[name] = data[begin : begin + size]
            start = begin + size + 1
        return found

    async def _fetch(self) -> None:
        options = [
            "--depth=1",
            "--single-branch",
            "--no-tags",
            "--no-checkout",
            "--no-local",  # otherwise git links the objects of a local repository, unchecked
            "--quiet",
        ]
        # A template may contain hooks.
        options += ["--no-recurse-submodules", "--template=", "--origin=origin"]
        done = await self._run(
            ["clone", *options, "--", self._address, str(self._folder)], self._folder.parent
        )
        if done.exit_code == 0:
            return
        said = cut(
            done.stderr.replace(self._address, self.title).replace("\r", "").strip(), 2000, "middle"
        )
        if done.timed_out:
            raise SourceError(
                f"{self.title} was not fetched within {FETCH_LIMIT:g} seconds", hint=said or None
            )
        if any(sign in said for sign in _CUT_OFF):
            problem = f"{self.title} is larger than {MAX_FETCHED // 1024**2} MiB, or damaged"
            raise SourceError(problem, hint="clone it yourself, and import the folder of the tool")
        raise SourceError(
            f"git cannot fetch {self.title}:\n{said}",
            hint="try the address with git ls-remote",
        )

    async def _git(self, *args: str, feed: bytes | None = None, limit: int = MAX_BYTES) -> Finished:
        """Run git on the fetched repository."""
        return await self._run(
            ["--git-dir", str(self._folder / ".git"), *args], self._folder, feed=feed, limit=limit
        )

    async def _run(
        self, args: Sequence[str], cwd: Path, *, feed: bytes | None = None, limit: int = MAX_BYTES
    ) -> Finished:
        git = shutil.which("git")
        if git is None:
            raise SourceError(
                "git is needed to fetch repositories, but it is not on the PATH",
                hint="install it, or clone the repository elsewhere",
            )
        try:
            return await self._processes.run(
                [git, *args],
                cwd=cwd,
                env=self._environment(),
                timeout=FETCH_LIMIT,
                feed=feed,
                limit=limit,
                errors="surrogateescape",
                limits=ProcessLimits(file_size=MAX_FETCHED),
            )
        except ToolError as error:
            raise SourceError(str(error)) from None

    def _environment(self) -> dict[str, str]:
        names = (*_ENVIRONMENT, *NETWORK, *map(str.lower, NETWORK))
        own = {
            "GIT_ALLOW_PROTOCOL": self._protocols,
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ASKPASS": "",
            "SSH_ASKPASS": "",
            "GIT_LFS_SKIP_SMUDGE": "1",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",  # a replacement has other contents than the commit
            "GIT_ALLOC_LIMIT": "256m",  # an object may declare a false size
            "GIT_ATTR_NOSYSTEM": "1",
            "LC_ALL": "C",  # ``_CUT_OFF`` matches messages in English
        }
        return {**with_git_settings(clean_environment(names), _OWN_SETTINGS), **own}


def _checked(address: str) -> tuple[str, str]:
    """Return the address and its allowed protocols; raise SourceError for any other protocol."""
    if _AT_HOST.fullmatch(address):
        return address, _SCHEMES["ssh"]
    found = _ADDRESS.fullmatch(address)
    scheme = ""
    if found and found["scheme"]:
        scheme = found["scheme"].lower()
    shown = without_password(address)
    if scheme not in _SCHEMES:
        known = "https://, ssh://, git@HOST:PATH or file://"
        raise SourceError(f"{shown}: forge does not fetch with this protocol", hint=f"use {known}")
    if scheme == "https" and _DOWNLOADS.search(urlsplit(address).path):
        problem = f"{shown} is an archive, but forge downloads repositories only"
        raise SourceError(problem, hint="download it yourself, and run: forge tools import FILE")
    return address, _SCHEMES[scheme]


def _described(mode: int, kind: str, name: str, size: str) -> OfferedFile:
    if kind != "blob":
        return OfferedFile(0, problem=SUBMODULE, key=name)
    problem = LINK if stat.S_ISLNK(mode) else None
    return OfferedFile(int(size), mode & 0o111 != 0, problem, name)

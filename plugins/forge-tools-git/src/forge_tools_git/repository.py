"""A repository for the tools; reading it starts no program that the repository names."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from forge_cli import ToolError
from forge_cli.hooks import Finished, Processes
from forge_tools_git.environment import environment, key_files, settings_files
from forge_tools_git.status import Status, parse_status

ALWAYS = {
    "core.fsmonitor": "false",  # the setting may name a program
    "core.quotePath": "false",
    "color.ui": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "safe.bareRepository": "explicit",  # files of a project could look like a repository
}
READING = {
    "core.hooksPath": "/dev/null",
    "log.showSignature": "false",  # it would start the program for signatures
    "i18n.logOutputEncoding": "UTF-8",
}
OFFLINE = {"GIT_ALLOW_PROTOCOL": "", "GIT_NO_LAZY_FETCH": "1", "GIT_OPTIONAL_LOCKS": "0"}
FILTER_KEYS = {"clean": "", "smudge": "", "process": "", "required": "false"}
PLAIN_DIFF = ("--no-ext-diff", "--no-textconv", "--no-color", "--src-prefix=a/", "--dst-prefix=b/")
WITHOUT_SECRETS = (":(exclude,icase,glob)**/.env*", ":(exclude,icase,glob)**/.env*/**")
WRITES = "it writes only to zones with 'mode: rw'"
CONFINED = {
    "Read-only file system": f"{WRITES}, so the repository has to be in such a zone",
    "remote unpack failed": f"{WRITES}, so a local remote has to be in such a zone",
    "failed to sign": "it cannot read your keys; commit yourself, or set 'commit.gpgSign' to false",
    "Could not read from remote": "it has the network only with 'sandbox: {network: true}'",
    "unable to access": "it has the network only with 'sandbox: {network: true}'",
}
"""Hints by parts of git's errors that confinement may cause."""
INDEX_MAX = 1 << 29
"""Bytes of an index, ten times those of the largest repositories."""
# Otherwise git would start another git in each submodule, with the settings found there.
SUBMODULES = ("--ignore-submodules=dirty",)


@dataclass(frozen=True)
class Commit:
    """A commit in the history."""

    commit: str
    author: str
    date: str
    subject: str


@dataclass(frozen=True)
class Repository:
    """The repository of a folder; ``prefix`` is the path of the folder in the repository."""

    folder: Path
    processes: Processes
    prefix: str = ""
    places: tuple[Path, ...] = ()
    """The folders of git's own files, such as ``.git``."""
    filters: dict[str, str] = field(default_factory=dict)
    """Settings that disable the filters of the repository, but not those of the user."""

    @classmethod
    async def around(cls, folder: Path, processes: Processes) -> Repository:
        bare = cls(folder, processes)
        places = ("--path-format=absolute", "--git-dir", "--git-common-dir")
        found = await bare.read(
            "rev-parse", "--is-inside-work-tree", "--show-prefix", *places, check=False
        )
        inside, *prefix = found.stdout.split("\n")
        if found.exit_code and "not a git repository" in found.stderr:
            raise ToolError(
                "the working directory is not a git repository; run git init to make it one"
            )
        if found.exit_code or inside != "true":
            raise ToolError(f"the working directory is not a work tree of git: {complaint(found)}")
        *prefix, own, common, _ = prefix
        return cls(
            folder,
            processes,
            "\n".join(prefix),
            (Path(own), Path(common)),
            await bare._own_filters(),
        )

    async def _own_filters(self) -> dict[str, str]:
        listed = await self.read(
            "config", "--list", "--name-only", "--show-scope", "-z", errors="surrogateescape"
        )
        fields = listed.stdout.split("\0")
        names = list(zip(fields[::2], fields[1::2], strict=False))
        # ``command`` is the scope of settings in the environment.
        if listed.truncated or ("command", "core.fsmonitor") not in names:
            raise ToolError(
                "git ignores settings in the environment; version 2.31 or later is required"
            )
        own = [name for scope, name in names if scope in ("local", "worktree")]
        drivers = {name.rpartition(".")[0] for name in own if name.startswith("filter.")}
        settings: dict[str, str] = {}
        for driver in drivers:
            for key, value in FILTER_KEYS.items():
                settings[f"{driver}.{key}"] = value
        return settings

    async def read(
        self, *argv: str, check: bool = True, index: Path | None = None, errors: str = "replace"
    ) -> Finished:
        """Run a command that changes nothing and starts no other program."""
        env, readable = dict(OFFLINE), list[Path]()
        if index:
            env["GIT_INDEX_FILE"] = str(index)
            readable.append(index.parent)
        settings = ALWAYS | READING | self.filters
        done = await self._git(argv, settings, env, readable=readable, errors=errors)
        return _checked(done) if check else done

    async def change(self, *argv: str, input: str | None = None, keys: bool = False) -> Finished:
        """Run a command with hooks and filters; ``keys`` gives it the credentials for remotes."""
        readable = key_files() if keys else []
        return _checked(
            await self._git(argv, ALWAYS, readable=readable, writable=self.places, input=input)
        )

    async def _git(
        self,
        argv: Sequence[str],
        settings: Mapping[str, str],
        env: Mapping[str, str] | None = None,
        **options: Any,
    ) -> Finished:
        if shutil.which("git") is None:
            raise ToolError("git is not installed on this machine")
        readable = [*settings_files(), *options.pop("readable")]
        env = environment(settings) | dict(env or {})
        return await self.processes.run(
            ["git", "--no-pager", *argv], cwd=self.folder, env=env, readable=readable, **options
        )

    async def status(self, paths: Sequence[str] = (".",)) -> Status:
        argv = (
            "status",
            "--porcelain=v2",
            "--branch",
            "-z",
            "--untracked-files=normal",
            *SUBMODULES,
        )
        found = await self.read(*argv, "--", *map(literal, paths))
        return parse_status(found.stdout, self.prefix)

    async def log(self, limit: int, path: str) -> list[Commit]:
        if await self.head() is None:
            return []
        form = "--format=%h%x00%an%x00%aI%x00%s"
        # Any path, even that of the top, would leave out commits without changes.
        everything = path == "." and not self.prefix
        pathspecs = [] if everything else [literal(path)]
        found = await self.read("log", f"--max-count={limit}", "-z", form, "HEAD", "--", *pathspecs)
        fields = found.stdout.split("\0")
        return [Commit(*fields[start : start + 4]) for start in range(0, len(fields) - 3, 4)]

    async def changed(self, *, staged: bool, path: str) -> list[str]:
        """Return the files that ``diff`` would show, relative to the folder."""
        names = await self._diff(
            "--name-only", "-z", "--relative", staged=staged, pathspecs=[literal(path)]
        )
        return [name for name in names.split("\0") if name]

    async def diff(self, *, staged: bool, path: str, secrets: bool) -> tuple[str, str]:
        """Return the patch, and git's summary of its size."""
        pathspecs = [literal(path)]
        if not secrets:
            pathspecs += WITHOUT_SECRETS
        patch = await self._diff("--patch", "--relative", staged=staged, pathspecs=pathspecs)
        return patch, (
            await self._diff("--shortstat", "--relative", staged=staged, pathspecs=pathspecs)
        ).strip()

    async def staged(self) -> tuple[str, str]:
        """Return the staged patch of the whole repository, and git's summary of its size."""
        patch = await self._diff("--patch", staged=True, pathspecs=[":/"])
        return patch, (await self._diff("--shortstat", staged=True, pathspecs=[":/"])).strip()

    async def staged_digest(self) -> str:
        """Return a digest of the staged content and its parent commit."""
        entries = await self._diff(
            "--raw", "-z", "--no-abbrev", "--no-renames", staged=True, pathspecs=[":/"]
        )
        return hashlib.sha256(f"{await self.head()}\0{entries}".encode()).hexdigest()

    async def head(self) -> str | None:
        return await self.resolve("HEAD")

    async def resolve(self, name: str) -> str | None:
        found = await self.read(
            "rev-parse", "--verify", "--quiet", "--end-of-options", name, check=False
        )
        return found.stdout.strip() if found.exit_code == 0 else None

    async def _diff(self, *argv: str, staged: bool, pathspecs: Sequence[str]) -> str:
        """Compare with a copy of the index, because git would refresh the original."""
        place = self.folder / (
            await self.read("rev-parse", "--git-path", "index")
        ).stdout.removesuffix("\n")
        cached = ("--cached",) if staged else ()
        with tempfile.TemporaryDirectory(prefix="forge-git-") as scratch:
            copy = Path(scratch) / "index"
            if place.exists() and not place.is_file():
                raise ToolError(f"{place} is not a regular file, so the index cannot be compared")
            if place.exists():
                if (size := place.stat().st_size) > INDEX_MAX:
                    raise ToolError(
                        f"{place} has {size} bytes; git_diff supports an index of {INDEX_MAX} bytes"
                    )
                # copy2 keeps the time, which git compares with the times of files.
                shutil.copy2(place, copy)
            found = await self.read(
                "diff", *cached, *PLAIN_DIFF, *SUBMODULES, *argv, "--", *pathspecs, index=copy
            )
        return found.stdout


def literal(path: str) -> str:
    """Return a pathspec that git takes literally, without patterns and options."""
    return f":(literal){path}"


def complaint(done: Finished) -> str:
    """Return git's error message, and a hint if confinement may be the cause."""
    said = (done.stderr.strip() or done.stdout.strip())[-2000:].replace(":(literal)", "")
    hint = next((hint for sign, hint in CONFINED.items() if done.confined and sign in said), None)
    why = said.removeprefix("fatal: ").removeprefix("error: ")
    why = why or f"git ended with exit code {done.exit_code}"
    if hint:
        why += f"\n(git is confined here: {hint})"
    return why


def _checked(done: Finished) -> Finished:
    if done.exit_code != 0:
        raise ToolError(f"git: {complaint(done)}")
    return done

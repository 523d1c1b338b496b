"""A repository as the tools use it: reading it starts no program that the repository itself names."""

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
    "core.fsmonitor": "false",
    "core.quotePath": "false",
    "color.ui": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "safe.bareRepository": "explicit",
}
READING = {
    "core.hooksPath": "/dev/null",
    "log.showSignature": "false",
    "i18n.logOutputEncoding": "UTF-8",
}
OFFLINE = {"GIT_ALLOW_PROTOCOL": "", "GIT_NO_LAZY_FETCH": "1", "GIT_OPTIONAL_LOCKS": "0"}
FILTER_KEYS = {"clean": "", "smudge": "", "process": "", "required": "false"}
PLAIN_DIFF = ("--no-ext-diff", "--no-textconv", "--no-color", "--src-prefix=a/", "--dst-prefix=b/")
WITHOUT_SECRETS = (":(exclude,icase,glob)**/.env*", ":(exclude,icase,glob)**/.env*/**")
WRITES = "it writes only to zones with 'mode: rw'"
CONFINED = {
    "Read-only file system": f"{WRITES}, so the folder of the repository has to lie in one",
    "remote unpack failed": f"{WRITES}, so a remote on this machine has to lie in one",
    "failed to sign": "it does not see your keys; commit by hand, or with 'commit.gpgSign' false",
    "Could not read from remote": "it has the network only with 'sandbox: {network: true}'",
    "unable to access": "it has the network only with 'sandbox: {network: true}'",
}
"""A hint that confinement may be the cause of an error of git."""
INDEX_MAX = 1 << 29
"""Bytes of an index; those of the largest repositories have a tenth of that."""
SUBMODULES = (
    "--ignore-submodules=dirty",
)  # else git starts a second git in each, under settings of its own


@dataclass(frozen=True)
class Commit:
    """One line of the history."""

    commit: str
    author: str
    date: str
    subject: str


@dataclass(frozen=True)
class Repository:
    """The repository around a folder; ``prefix`` is the way from its top to the folder."""

    folder: Path
    processes: Processes
    prefix: str = ""
    places: tuple[Path, ...] = ()
    """The folders in which git keeps what it knows, such as ``.git``."""
    filters: dict[str, str] = field(default_factory=dict)
    """Settings that take away the filters which the repository, not the user, configures."""

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
                "the working directory is not a git repository; 'git init' would make it one"
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
        if listed.truncated or ("command", "core.fsmonitor") not in names:
            raise ToolError(
                "git does not take its settings from us: version 2.31 or later is needed"
            )
        own = [name for scope, name in names if scope in ("local", "worktree")]
        drivers = {name.rpartition(".")[0] for name in own if name.startswith("filter.")}
        return {
            f"{driver}.{key}": value for driver in drivers for key, value in FILTER_KEYS.items()
        }

    async def read(
        self, *argv: str, check: bool = True, index: Path | None = None, errors: str = "replace"
    ) -> Finished:
        """Ask something that changes nothing and starts nothing."""
        env = OFFLINE | ({"GIT_INDEX_FILE": str(index)} if index else {})
        settings = ALWAYS | READING | self.filters
        done = await self._git(
            argv, settings, env, readable=[index.parent] if index else [], errors=errors
        )
        return _checked(done) if check else done

    async def change(self, *argv: str, input: str | None = None, keys: bool = False) -> Finished:
        """Do something, with the hooks and filters that belong to it; ``keys`` are those that a remote asks for."""
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
        everything = (
            path == "." and not self.prefix
        )  # naming even the top would leave out commits without changes
        pathspecs = [] if everything else [literal(path)]
        found = await self.read("log", f"--max-count={limit}", "-z", form, "HEAD", "--", *pathspecs)
        fields = found.stdout.split("\0")
        return [Commit(*fields[start : start + 4]) for start in range(0, len(fields) - 3, 4)]

    async def changed(self, *, staged: bool, path: str) -> list[str]:
        """The files that ``diff`` would show, as the folder names them."""
        names = await self._diff(
            "--name-only", "-z", "--relative", staged=staged, pathspecs=[literal(path)]
        )
        return [name for name in names.split("\0") if name]

    async def diff(self, *, staged: bool, path: str, secrets: bool) -> tuple[str, str]:
        """The patch, and git's own line on how much it changes."""
        pathspecs = [literal(path), *([] if secrets else WITHOUT_SECRETS)]
        patch = await self._diff("--patch", "--relative", staged=staged, pathspecs=pathspecs)
        return patch, (
            await self._diff("--shortstat", "--relative", staged=staged, pathspecs=pathspecs)
        ).strip()

    async def staged(self) -> tuple[str, str]:
        """The content of a commit, from the whole repository."""
        patch = await self._diff("--patch", staged=True, pathspecs=[":/"])
        return patch, (await self._diff("--shortstat", staged=True, pathspecs=[":/"])).strip()

    async def staged_digest(self) -> str:
        """The identity of what is staged upon the commit that it would follow."""
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
        """A diff of a copy of the index, which git would otherwise refresh in place."""
        place = self.folder / (
            await self.read("rev-parse", "--git-path", "index")
        ).stdout.removesuffix("\n")
        cached = ("--cached",) if staged else ()
        with tempfile.TemporaryDirectory(prefix="forge-git-") as scratch:
            copy = Path(scratch) / "index"
            if place.exists() and not place.is_file():
                raise ToolError(
                    f"{place} is not a regular file, so there is no index to compare with"
                )
            if place.exists():
                if (size := place.stat().st_size) > INDEX_MAX:
                    raise ToolError(
                        f"{place} has {size} bytes, and git_diff copies an index of at most {INDEX_MAX}"
                    )
                shutil.copy2(
                    place, copy
                )  # with its time, by which git knows what may have changed since
            found = await self.read(
                "diff", *cached, *PLAIN_DIFF, *SUBMODULES, *argv, "--", *pathspecs, index=copy
            )
        return found.stdout


def literal(path: str) -> str:
    """A path as git takes it by the letter: no patterns, no magic, no options."""
    return f":(literal){path}"


def complaint(done: Finished) -> str:
    """Why git failed, in its own message, and what confinement may have to do with it."""
    said = (done.stderr.strip() or done.stdout.strip())[-2000:].replace(":(literal)", "")
    hint = next((hint for sign, hint in CONFINED.items() if done.confined and sign in said), None)
    why = (
        said.removeprefix("fatal: ").removeprefix("error: ")
        or f"git ended with exit code {done.exit_code}"
    )
    return f"{why}\n(git is confined here: {hint})" if hint else why


def _checked(done: Finished) -> Finished:
    if done.exit_code != 0:
        raise ToolError(f"git: {complaint(done)}")
    return done

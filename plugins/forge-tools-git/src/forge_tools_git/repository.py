"""A repository as the tools use it: reading it starts no program that the repository itself names."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from forge_cli import ToolError
from forge_tools_git.process import Output, git
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
SUBMODULES = ("--ignore-submodules=dirty",)  # else git starts a second git in each, under settings of its own


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
    prefix: str = ""
    filters: dict[str, str] = field(default_factory=dict)
    """Settings that take away the filters which the repository, not the user, configures."""

    @classmethod
    async def around(cls, folder: Path) -> Repository:
        bare = cls(folder)
        found = await bare.read("rev-parse", "--is-inside-work-tree", "--show-prefix", check=False)
        inside, _, prefix = found.out.partition("\n")
        if found.code and "not a git repository" in found.err:
            raise ToolError("the working directory is no git repository; 'git init' would make it one")
        if found.code or inside != "true":
            raise ToolError(f"the working directory is no work tree of git: {found.complaint}")
        return cls(folder, prefix.removesuffix("\n"), await bare._own_filters())

    async def _own_filters(self) -> dict[str, str]:
        listed = await self.read("config", "--list", "--name-only", "--show-scope", "-z")
        fields = os.fsdecode(listed.raw).split("\0")
        names = list(zip(fields[::2], fields[1::2], strict=False))
        if listed.cut or ("command", "core.fsmonitor") not in names:
            raise ToolError("git does not take its settings from us: version 2.31 or later is needed")
        own = [name for scope, name in names if scope in ("local", "worktree")]
        drivers = {name.rpartition(".")[0] for name in own if name.startswith("filter.")}
        return {f"{driver}.{key}": value for driver in drivers for key, value in FILTER_KEYS.items()}

    async def read(self, *words: str, check: bool = True, index: Path | None = None) -> Output:
        """Ask something that changes nothing and starts nothing."""
        environment = OFFLINE | ({"GIT_INDEX_FILE": str(index)} if index else {})
        done = await git(self.folder, words, config=ALWAYS | READING | self.filters, environment=environment)
        return _checked(done) if check else done

    async def change(self, *words: str, stdin: str | None = None) -> Output:
        """Do something, with the hooks and filters that belong to it."""
        return _checked(await git(self.folder, words, config=ALWAYS, stdin=stdin))

    async def status(self, paths: Sequence[str] = (".",)) -> Status:
        words = ("status", "--porcelain=v2", "--branch", "-z", "--untracked-files=normal", *SUBMODULES)
        found = await self.read(*words, "--", *map(literal, paths))
        return parse_status(found.out, self.prefix)

    async def log(self, limit: int, path: str) -> list[Commit]:
        if await self.head() is None:
            return []
        form = "--format=%h%x00%an%x00%aI%x00%s"
        everything = path == "." and not self.prefix  # naming even the top would leave out commits without changes
        pathspecs = [] if everything else [literal(path)]
        found = await self.read("log", f"--max-count={limit}", "-z", form, "HEAD", "--", *pathspecs)
        fields = found.out.split("\0")
        return [Commit(*fields[start : start + 4]) for start in range(0, len(fields) - 3, 4)]

    async def changed(self, *, staged: bool, path: str) -> list[str]:
        """The files that ``diff`` would show, as the folder names them."""
        names = await self._diff("--name-only", "-z", "--relative", staged=staged, pathspecs=[literal(path)])
        return [name for name in names.split("\0") if name]

    async def diff(self, *, staged: bool, path: str, secrets: bool) -> tuple[str, str]:
        """The patch, and git's own line on how much it changes."""
        pathspecs = [literal(path), *([] if secrets else WITHOUT_SECRETS)]
        patch = await self._diff("--patch", "--relative", staged=staged, pathspecs=pathspecs)
        return patch, (await self._diff("--shortstat", "--relative", staged=staged, pathspecs=pathspecs)).strip()

    async def staged(self) -> tuple[str, str]:
        """What a commit would hold, wherever in the repository it lies."""
        patch = await self._diff("--patch", staged=True, pathspecs=[":/"])
        return patch, (await self._diff("--shortstat", staged=True, pathspecs=[":/"])).strip()

    async def staged_digest(self) -> str:
        """The identity of what is staged upon the commit that it would follow."""
        entries = await self._diff("--raw", "-z", "--no-abbrev", "--no-renames", staged=True, pathspecs=[":/"])
        return hashlib.sha256(f"{await self.head()}\0{entries}".encode()).hexdigest()

    async def head(self) -> str | None:
        return await self.resolve("HEAD")

    async def resolve(self, name: str) -> str | None:
        found = await self.read("rev-parse", "--verify", "--quiet", "--end-of-options", name, check=False)
        return found.out.strip() if found.code == 0 else None

    async def _diff(self, *words: str, staged: bool, pathspecs: Sequence[str]) -> str:
        """A diff of a copy of the index, which git would otherwise refresh in place."""
        place = self.folder / (await self.read("rev-parse", "--git-path", "index")).out.removesuffix("\n")
        cached = ("--cached",) if staged else ()
        with tempfile.TemporaryDirectory(prefix="forge-git-") as scratch:
            copy = Path(scratch) / "index"
            if place.exists():
                shutil.copy2(place, copy)  # with its time, by which git knows what may have changed since
            found = await self.read("diff", *cached, *PLAIN_DIFF, *SUBMODULES, *words, "--", *pathspecs, index=copy)
        return f"{found.out}\n[... {found.cut} more bytes ...]\n" if found.cut else found.out


def literal(path: str) -> str:
    """A path as git takes it by the letter: no patterns, no magic, no options."""
    return f":(literal){path}"


def _checked(done: Output) -> Output:
    if done.code:
        raise ToolError(f"git: {done.complaint}")
    return done

"""The toolset ``git``: a worker reads, stages and commits; only a person pushes."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Self

from pydantic import Field

from forge_cli import Custom, Preview, Text, ToolContext, ToolError, Toolset, hookimpl, tool
from forge_cli.errors import Stale, WorkerError
from forge_cli.results import DisplayHints
from forge_tools_git.repository import Repository, literal
from forge_tools_git.status import Status

Args = dict[str, Any]
Limit = Annotated[int, Field(ge=1, le=200, description="How many commits at most")]
PathArgument = Annotated[
    str, Field(min_length=1, description="A file or folder, relative to the working directory")
]
PathList = Annotated[
    list[PathArgument], Field(min_length=1, description="Files or folders; '.' is everything")
]


def is_secret(path: str) -> bool:
    """Return True if a path is one of the files that usually contain secrets."""
    return any(part.casefold().startswith(".env") for part in PurePosixPath(path).parts)


class GitToolset(Toolset):
    """Tools that run git in the working directory."""

    name = "git"
    needs_zone = True

    async def __aenter__(self) -> Self:
        self._check_zones()
        self.env.processes.check()
        return await super().__aenter__()

    def _check_zones(self) -> None:
        """Raise WorkerError if no zone contains the working directory, which git would show."""
        folder = Path(os.path.realpath(self.env.workspace))
        if not any(folder.is_relative_to(zone.path) for zone in self.env.sandbox.zones):
            problem = f"toolsets.git: no zone of this worker contains {folder}, where git runs"
            declared = "declare a zone under sandbox.zones, such as {name: code, path: ., mode: rw}"
            hint = f"use -C DIR to work in another folder, {declared}, or remove the toolset"
            raise WorkerError(self.config.where(), problem, hint=hint)

    async def _repository(self) -> Repository:
        return await Repository.around(self.env.workspace, self.env.processes)

    @tool(needs_approval=False, read_only=True, timeout=30)
    async def git_status(self, *, context: ToolContext) -> Custom:
        """Show the branch and which files are staged, modified, untracked or in conflict."""
        return _status(await (await self._repository()).status())

    @tool(needs_approval=lambda args: is_secret(args["path"]), read_only=True, timeout=30)
    async def git_diff(
        self,
        staged: Annotated[
            bool, Field(description="What is staged, instead of what is not yet")
        ] = False,
        path: PathArgument = ".",
        *,
        context: ToolContext,
    ) -> Custom:
        """Show changes as a patch; new files count once they are staged."""
        repository = await self._repository()
        place = inside(path, context)
        changed = await repository.changed(staged=staged, path=place)
        secrets = is_secret(place)
        hidden: list[str] = []
        if not secrets:
            hidden = [name for name in changed if is_secret(name)]
        patch, size = await repository.diff(staged=staged, path=place, secrets=secrets)
        left_out = ""
        if hidden:
            left_out = f"; omitted unless named by path: {', '.join(hidden)}"
        return _diff(patch, size, staged=staged, note=left_out)

    @tool(needs_approval=False, read_only=True, timeout=30)
    async def git_log(
        self, limit: Limit = 20, path: PathArgument = ".", *, context: ToolContext
    ) -> Custom:
        """List commits of the current branch, newest first."""
        repository = await self._repository()
        commits = await repository.log(limit, inside(path, context))
        summary = "no commits"
        if commits:
            summary = f"{len(commits)} commit{'' if len(commits) == 1 else 's'}"
        return Custom(
            "git.log",
            [asdict(commit) for commit in commits],
            summary,
            display=DisplayHints("table"),
        )

    @tool(preview="_preview_stage", effects=["read", "write", "execute"], timeout=120)
    async def git_stage(self, paths: PathList, *, context: ToolContext) -> Custom:
        """Stage files for the next commit: changed, new and deleted ones."""
        repository = await self._repository()
        await repository.change(
            "add", "--all", "--", *(literal(inside(path, context)) for path in paths)
        )
        return _status(await repository.status())

    async def _preview_stage(self, args: Args, context: ToolContext) -> Preview:
        repository = await self._repository()
        return Preview(
            _status(await repository.status([inside(path, context) for path in args["paths"]]))
        )

    @tool(
        needs_approval=True,
        preview="_preview_commit",
        effects=["read", "write", "execute"],
        timeout=300,
    )
    async def git_commit(
        self,
        message: Annotated[
            str,
            Field(min_length=1, description="The message: a subject line, then a body if needed"),
        ],
        *,
        context: ToolContext,
    ) -> Text:
        """Commit what is staged."""
        repository = await self._repository()
        if context.stamp is not None and context.stamp != await repository.staged_digest():
            raise Stale("what is staged has changed since it was shown")
        done = await repository.change("commit", "--file=-", "--no-edit", input=message)
        return Text(done.stdout.strip() or f"Committed {await repository.head()}.")

    async def _preview_commit(self, args: Args, context: ToolContext) -> Preview:
        repository = await self._repository()
        stamp = await repository.staged_digest()
        patch, size = await repository.staged()
        if not patch:
            raise ToolError("nothing is staged; stage files with git_stage before git_commit")
        return Preview(_diff(patch, size, staged=True), stamp, once=True)

    @tool(
        needs_approval=lambda args: args["force"],
        preview="_preview_push",
        manual="manual",
        label="Push to Remote",
        category="Git",
        effects=["read", "write", "execute", "network"],
        timeout=300,
    )
    async def git_push(
        self,
        branch: Annotated[str, Field(min_length=1, description="Target branch")],
        remote: Annotated[str, Field(min_length=1, description="The name of a remote")] = "origin",
        force: Annotated[bool, Field(description="Force push")] = False,
        *,
        context: ToolContext,
    ) -> Text:
        """Push commits to a remote repository."""
        repository = await self._repository()
        ref = await _local_branch(repository, branch)
        await _check_remote(repository, remote)
        options = ["--force"] if force else []
        # The full name on both sides, because a short one may also be a tag.
        done = await repository.change("push", *options, "--", remote, f"{ref}:{ref}", keys=True)
        return Text("\n".join(filter(None, (done.stderr.strip(), done.stdout.strip()))))

    async def _preview_push(self, args: Args, context: ToolContext) -> Preview:
        repository = await self._repository()
        remote = args["remote"]
        branch = args["branch"]
        ref = await _local_branch(repository, branch)
        known = f"refs/remotes/{remote}/{branch}"
        if await repository.resolve(known) is None:
            return Preview(
                Text(f"pushes {branch} to {remote}, whose current state is unknown"), once=True
            )
        counted = await repository.read("rev-list", "--left-right", "--count", f"{known}...{ref}")
        dropped, added = counted.stdout.split()
        return Preview(
            Text(f"pushes {branch} to {remote}: drops {dropped} commits from it, adds {added}"),
            once=True,
        )


def inside(path: str, context: ToolContext) -> str:
    """Return a path relative to the working directory; accept virtual paths of its zone."""
    place = PurePosixPath(path)
    if place.parts[:1] == ("~",) and not path.startswith("."):
        place = PurePosixPath(context.sandbox.resolve(path))
    if place.is_absolute():
        try:
            place = place.relative_to(context.sandbox.resolve("."))
        except (ToolError, ValueError):
            raise ToolError(f"{path!r} is not relative to the working directory") from None
    if ".." in place.parts or "\0" in path:
        raise ToolError(f"{path!r} leads out of the working directory")
    return str(place)


async def _local_branch(repository: Repository, branch: str) -> str:
    ref = f"refs/heads/{branch}"
    valid = await repository.read("check-ref-format", ref, check=False)
    if valid.exit_code or await repository.resolve(ref) is None:
        raise ToolError(f"there is no local branch {branch!r}")
    return ref


async def _check_remote(repository: Repository, remote: str) -> None:
    known = (await repository.read("remote")).stdout.splitlines()
    if remote not in known:
        raise ToolError(
            f"there is no remote {remote!r}; known remotes: {', '.join(known) or 'none'}"
        )


def _status(status: Status) -> Custom:
    return Custom(
        "git.status",
        status.data(),
        status.summary,
        display=DisplayHints("tree", collapsed=status.clean),
    )


def _diff(patch: str, size: str, *, staged: bool, note: str = "") -> Custom:
    """Return the result of a diff; the patch itself is the data, as the model reads it."""
    summary = f"{size or 'no changes'}{' (staged)' if staged else ''}{note}"
    return Custom(
        "git.diff", patch, summary, mime_type="text/x-diff", display=DisplayHints("code", "diff")
    )


@hookimpl
def forge_toolsets() -> list[type[Toolset]]:
    """Offer the toolset."""
    return [GitToolset]

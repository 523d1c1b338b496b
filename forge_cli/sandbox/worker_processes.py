"""The child processes of one worker, confined if the worker wants it and the machine can."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from msgspec import Struct
from msgspec.structs import replace

from forge_cli.core.errors import StatusLevel, ToolError, WorkerError
from forge_cli.core.notify import UNCONFINED_RULES, StatusNotice
from forge_cli.core.processes import CommandOptions, Finished, Processes
from forge_cli.core.zones import Zone
from forge_cli.files.home import user_homes
from forge_cli.sandbox.files.sandbox import Sandbox
from forge_cli.sandbox.isolation.confinement import Confinement, KeptHooks, confinement_for
from forge_cli.sandbox.isolation.isolation import Confined, describe_confinement, find_isolation
from forge_cli.sandbox.isolation.kept_files import FileKeeper
from forge_cli.sandbox.isolation.protected_scan import with_folders
from forge_cli.sandbox.isolation.temporary import TemporaryFolder
from forge_cli.sandbox.loaded import existing_files
from forge_cli.sandbox.names import shown
from forge_cli.sandbox.network.access import INTERNET, NEVER_ASKS, NetworkGate, Outside
from forge_cli.sandbox.processes.child import Child
from forge_cli.sandbox.processes.command import UNCONFINED, Unconfined, Wrap, clean_environment
from forge_cli.sandbox.processes.inherited import inherited_confinement
from forge_cli.sandbox.processes.limits import NO_LIMITS
from forge_cli.sandbox.processes.process import ChildProcesses, CommandStream, StartOptions
from forge_cli.sandbox.processes.requests import RequestPipes
from forge_cli.sandbox.zones.zones import IsolationLevel

if TYPE_CHECKING:
    from forge_cli.sandbox.changes.apply import ChangeSet
    from forge_cli.sandbox.network.proxy import NetworkProxy
    from forge_cli.sandbox.trial.reading import ReadingRuns
    from forge_cli.sandbox.trial.trials import Trials
    from forge_cli.sandbox.trial.view import TrialView

NOT_CONFINED = f"{describe_confinement(None)}; install bubblewrap (bwrap), or use 'isolation: off'"
NAMES_NOT_KEPT = "sandbox.network lists names, but this machine cannot keep commands from others"
NOT_RENAMED = (
    "a folder cannot be renamed on a copy; from now on, commands change the files themselves, "
    "and cannot be undone"
)

MAX_NAMED = 10
"""Protected names that are listed in a warning."""


class Undoable(Struct, frozen=True):
    """How a command works on copies, so that it can be undone or judged."""

    folder: Path
    """The folder for the copies."""
    keep: Callable[[ChangeSet], None] | None = None
    """Callback that saves the originals before they are changed."""
    judge: Callable[[ChangeSet], None] | None = None
    """Raises a ToolError to refuse the changes; such a command never works without a copy."""


class WorkerProcesses(Processes):
    """The implementation of ``env.processes``, with more methods for forge's own toolsets.

    The confinement is determined on first use. A worker that starts no process does not wait for
    it, and prints no notice about it.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        *,
        workspace: Path,
        home: Path,
        notify: Callable[[StatusLevel, str], None],
        gate: NetworkGate = NEVER_ASKS,
        outside: Outside = INTERNET,
        tasks: asyncio.TaskGroup | None = None,
    ) -> None:
        """Prepare the processes; ``tasks`` is left by its owner after ``children`` are closed."""
        self.children = ChildProcesses(tasks=tasks)
        """Commands of forge itself, such as compilers, which are never confined."""
        self._sandbox = sandbox
        self._workspace = workspace
        self._home = home
        self._notify = notify
        self._keeper = FileKeeper()
        self._copies = True
        """False once commands have turned out not to work on copies."""
        self._found_wrap: Confined | Unconfined | None = None
        self._temporary: TemporaryFolder | None = None
        self._reading_runs: ReadingRuns | None = None
        network = sandbox.isolation.network
        self._proxy: NetworkProxy | None = None
        if not isinstance(network, bool):
            from forge_cli.sandbox.network.proxy import NetworkProxy

            self._proxy = NetworkProxy(network, gate, outside)

    async def aclose(self) -> None:
        """Stop all commands, and remove their shared folder."""
        try:
            await self.children.aclose()
        finally:
            if self._temporary:
                self._temporary.close()

    def _open_temporary(self) -> TemporaryFolder:
        """Return the shared ``/tmp`` of the worker's commands, made for the first of them."""
        if self._temporary is None:
            self._temporary = TemporaryFolder(self._sandbox.isolation.limits.file_size)
        return self._temporary

    @property
    def confined(self) -> bool:
        return self._find_wrap().confined

    def check(self) -> None:
        self._find_wrap()

    async def run(
        self,
        argv: Sequence[str],
        *,
        together: int | None = None,
        pipes: RequestPipes | None = None,
        names: bool = False,
        watch: Callable[[str], None] | None = None,
        interrupted: Callable[[Finished], Exception] | None = None,
        undoable: Undoable | None = None,
        seen: bool = False,
        **options: Unpack[CommandOptions],
    ) -> Finished:
        """Run a command; with ``names``, it may make protected names.

        ``pipes`` answer its requests. ``watch`` and ``interrupted`` are those of
        ``ChildProcesses.run``. An ``undoable`` command works on copies if possible. The result of a
        ``seen`` or ``undoable`` command lists refused unix sockets.
        """
        from forge_cli.sandbox.trial.trials import copies_problem

        run = partial(
            self.children.run, argv, together=together, watch=watch, interrupted=interrupted
        )
        wrap = self.wrap(options.get("readable", ()), options.get("writable", ()), names=names)
        has_copies = self._copies or (undoable is not None and undoable.judge is not None)
        if undoable and isinstance(wrap, Confined) and has_copies and copies_problem(wrap) is None:
            from forge_cli.sandbox.trial.copies import AppliedCopies, drop_copies
            from forge_cli.sandbox.trial.deletions import UnappliedDeletion

            copies = AppliedCopies(undoable.folder, wrap, keep=undoable.keep, judge=undoable.judge)
            try:
                ran = await run(**self._options(argv, copies, options))
            except BaseException:
                drop_copies(undoable.folder)
                raise
            if copies.refused:
                refused = copies.refused[0]
                if isinstance(refused, UnappliedDeletion):
                    refused.done = ran
                raise refused
            if copies.problems:
                raise ToolError(f"its changes could not be applied: {copies.problems[0]}")
            if undoable.judge and not copies.started(ran):
                why = ran.stderr.strip()
                raise ToolError(f"nothing was done: it needs a copy, and there is none: {why}")
            from forge_cli.sandbox.trial.trials import may_lack_rename

            if copies.started(ran) and may_lack_rename(ran) and not undoable.judge:
                self._copies = False
                self._say("warning", NOT_RENAMED)
                said = f"{ran.stderr.rstrip()}\nforge: {NOT_RENAMED}; run the line again\n"
                return replace(ran, stderr=said.lstrip())
            if copies.started(ran):
                return replace(ran, sockets=tuple(copies.sockets))
            self._copies = False
        if (seen or undoable) and isinstance(wrap, Confined) and wrap.mechanism.name == "bwrap":
            return await self._run_seen(partial(run, **self._options(argv, wrap, options)), wrap)
        # The pipes are outside all zones.
        if pipes and isinstance(wrap, Confined):
            wrap = replace(wrap, shared=pipes.paths)
        started = self._options(argv, wrap, options)
        started["companions"] = (pipes,) if pipes else ()
        return await run(**started)

    async def _run_seen(self, run: Callable[..., Awaitable[Finished]], wrap: Confined) -> Finished:
        with tempfile.TemporaryDirectory(prefix="forge-") as folder:
            from forge_cli.sandbox.trial.copies import InPlace

            seen = InPlace(Path(folder, "seen"), wrap)
            return replace(await run(wrap=seen), sockets=tuple(seen.sockets))

    async def run_as_person(self, argv: Sequence[str], *, input: str, timeout: float) -> Finished:
        """Run a program from the person's own config, with the full environment and unconfined."""
        options = self._options(argv, UNCONFINED, {"input": input, "timeout": timeout})
        options["env"] = {**os.environ, "FORGE_WORKSPACE": str(self._workspace)}
        options["limits"] = NO_LIMITS
        return await self.children.run(argv, **options)

    def stream(self, argv: Sequence[str], **options: Unpack[CommandOptions]) -> CommandStream:
        wrap = self.wrap(options.get("readable", ()), options.get("writable", ()))
        start = partial(self.children.start, argv, **self._options(argv, wrap, options))
        return CommandStream(start, options.get("errors", "replace"))

    def start(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str] | None = None,
        writable: Iterable[Path] = (),
        names: bool = False,
        encoding: str = "utf-8",
    ) -> Child:
        """Start a command that takes input and has a single output."""
        options = self._options(
            argv, self.wrap((), writable, names=names), {"cwd": cwd, "env": env}
        )
        return self.children.start(argv, **options, takes_input=True, merge=True, encoding=encoding)

    def serve(
        self, argv: Sequence[str], *, env: Mapping[str, str], confined: bool, kept: int
    ) -> Child:
        """Start a server that communicates by its standard streams.

        ``kept`` bytes of them are buffered.
        """
        wrap: Wrap = self.wrap() if confined else UNCONFINED
        options = self._options(argv, wrap, {"env": env})
        if not confined:
            options["limits"] = NO_LIMITS
        options["limit"] = kept
        return self.children.start(argv, **options, takes_input=True)

    def _options(self, argv: Sequence[str], wrap: Wrap, wanted: CommandOptions) -> StartOptions:
        """Return the options of a command, after checking that its program exists.

        ``bwrap`` would report a missing program badly.
        """
        known = CommandOptions.__annotations__
        for name in wanted.keys() - known.keys():
            raise TypeError(f"unknown command option {name!r}; the options are {', '.join(known)}")
        folder = self._workspace / (wanted.get("cwd") or ".")
        environment = self._environment(wanted.get("env"))
        program = str(folder / argv[0]) if os.path.dirname(argv[0]) else argv[0]
        if shutil.which(program, path=environment.get("PATH")) is None:
            raise ToolError(f"{shown(argv[0])} cannot be started: no such executable program")
        if wrap.confined and self._cache_folder:
            # A variable of the worker wins.
            environment.setdefault("XDG_CACHE_HOME", self._cache_folder)
        given = wanted.get("input")
        return {
            "cwd": folder,
            "env": environment,
            "wrap": wrap,
            "feed": given.encode(errors="surrogateescape") if isinstance(given, str) else given,
            "limits": self._sandbox.isolation.limits,
            "timeout": wanted.get("timeout"),
            "errors": wanted.get("errors", "replace"),
        }

    @cached_property
    def _cache_folder(self) -> str | None:
        """The folder for caches of confined commands, in their ``/tmp``; compilers need one.

        None if a part of the home's cache is visible, which programs would no longer find.
        """
        wrap = self._find_wrap()
        if isinstance(wrap, Unconfined) or wrap.mechanism.name != "bwrap":
            return None
        usual = Path(os.path.realpath(os.path.expanduser("~/.cache")))
        confinement = wrap.confinement
        seen = (
            *confinement.shown,
            confinement.workspace,
            *(zone.path for zone in confinement.zones),
        )
        if any(path.is_relative_to(usual) or usual.is_relative_to(path) for path in seen):
            return None
        return "/tmp/.cache"  # noqa: S108

    def _environment(self, more: Mapping[str, str] | None) -> dict[str, str]:
        own = {**clean_environment(), "FORGE_WORKSPACE": str(self._workspace), **(more or {})}
        if self._proxy is None:
            return own
        return {**own, **self._proxy.variables()}

    def wrap(
        self, readable: Iterable[Path] = (), writable: Iterable[Path] = (), *, names: bool = False
    ) -> Confined | Unconfined:
        """Return how to start a command that may use these paths and protected ``names``."""
        try:
            wrap = self._find_wrap()
        except WorkerError as error:
            raise ToolError(f"nothing was started: {error}") from None
        if isinstance(wrap, Unconfined):
            return wrap
        confinement = wrap.confinement.protecting(self._sandbox.own.loaded())
        opened = confinement.opened(writable)
        found = confinement.names()
        not_held = confinement.not_held(weaker=bool(wrap.mechanism.weakness))
        accepts: Callable[[str], bool] = self._is_kept
        if names or opened:
            accepts = partial(self._keep, confinement)
        return replace(
            wrap,
            confinement=confinement,
            readable=tuple(readable),
            writable=tuple(opened),
            hooks=KeptHooks(opened) if opened else None,
            names=found,
            seen=with_folders(found),
            accepts=accepts,
            kept=self._keeper.look((*not_held, *confinement.shared(found, opened))),
            writes=partial(self._is_written, frozenset(self._sandbox.written)),
        )

    def _keep(self, confinement: Confinement, name: str) -> bool:
        """Let a protected name stay, also for concurrent commands; own files are not accepted."""
        if name in confinement.made():
            return self._is_kept(name)
        self._sandbox.written.add(name)
        return True

    def _is_kept(self, name: str) -> bool:
        """Return True if an approved call, and not the command, made this name."""
        return any(path == name or path.startswith(f"{name}/") for path in self._sandbox.written)

    def _is_written(self, before: frozenset[str], name: str) -> bool:
        """Return True if an approved call has written this file in the meantime."""
        return name not in before and self._is_kept(name)

    def _find_wrap(self) -> Confined | Unconfined:
        """Return how commands are started.

        The first call looks at the machine and reports the result.
        """
        if self._found_wrap is None:
            self._found_wrap = self._look_for_confinement()
        return self._found_wrap

    def _look_for_confinement(self) -> Confined | Unconfined:
        wanted = self._sandbox.isolation
        found = find_isolation(wanted.level, where=wanted.where)
        if self._proxy is not None and (found is None or not found.own_network):
            raise WorkerError(
                wanted.network_where,
                NAMES_NOT_KEPT,
                hint="install bubblewrap (bwrap), or use 'network: true'",
            )
        if found is None:
            if wanted.level is IsolationLevel.AUTO:
                self._say("warning", NOT_CONFINED)
            return UNCONFINED
        self._say(
            "warning" if found.weakness else "debug",
            StatusNotice(describe_confinement(found), "confinement"),
        )
        return Confined(
            found,
            self._confinement(wanted.read),
            tell=self._tell,
            proxy=self._proxy,
            temporary=self._open_temporary(),
        )

    def _confinement(self, read: Iterable[Path]) -> Confinement:
        wanted = self._sandbox.isolation
        found = confinement_for(
            self._sandbox.zones,
            workspace=self._workspace,
            user_homes=user_homes(),
            forge_home=self._home,
            read=read,
            protected=existing_files(self._sandbox.protected),
            network=wanted.network is True,
            room=wanted.limits.file_size,
        )
        return dataclasses.replace(found, temporary=self._open_temporary().path)

    @property
    def no_copies(self) -> str | None:
        """The reason why commands cannot work on copies of the zones here, or None."""
        wrap = self._find_wrap()
        if isinstance(wrap, Unconfined):
            return "commands are not confined"
        from forge_cli.sandbox.trial.copies import overlay_problem
        from forge_cli.sandbox.trial.trials import copies_problem

        # A confined process, such as one that only checks a worker, cannot try to mount.
        if inherited_confinement():
            return copies_problem(wrap)
        return copies_problem(wrap) or overlay_problem(self._home)

    @property
    def zones(self) -> Sequence[Zone]:
        """The zones of the worker, whose rules apply to deletions by commands."""
        return self._sandbox.zones

    @property
    def can_try(self) -> bool:
        """True if the confinement of commands allows trials."""
        wrap = self._find_wrap()
        return isinstance(wrap, Confined) and wrap.mechanism.name == "bwrap"

    @cached_property
    def trials(self) -> Trials | None:
        """The trials on copies; None if commands are not confined."""
        from forge_cli.sandbox.trial.view import TrialView

        return self._trials_with(
            TrialView(self._confinement(()), tuple(self._sandbox.isolation.read))
        )

    @cached_property
    def approved_trials(self) -> Trials | None:
        """Trials of lines that rules approve; they see ``sandbox.read`` except its sockets."""
        return self._trials_with(self._approved_view)

    def close_reading_runs(self) -> None:
        """Remove what is kept between commands that only read."""
        if self._reading_runs:
            self._reading_runs.close()

    @property
    def reading_runs(self) -> ReadingRuns | None:
        """The runs of commands that should only read; None if they cannot be confined."""
        if self._reading_runs is None and self.can_try:
            self._reading_runs = self._open_reading_runs()
        return self._reading_runs

    def _open_reading_runs(self) -> ReadingRuns | None:
        wrap = self.wrap()
        if isinstance(wrap, Unconfined):
            return None
        from forge_cli.sandbox.trial.reading import ReadingRuns

        view = self._approved_view
        return ReadingRuns(
            Confined(wrap.mechanism, view.confinement(), temporary=wrap.temporary), view
        )

    @cached_property
    def _approved_view(self) -> TrialView:
        from forge_cli.sandbox.trial.view import TrialView

        named = (path for path in self._sandbox.isolation.read if not path.is_socket())
        return TrialView(self._confinement(named))

    def _trials_with(self, view: TrialView) -> Trials | None:
        wrap = self.wrap()
        if isinstance(wrap, Unconfined):
            return None
        confined = Confined(wrap.mechanism, view.confinement(), temporary=wrap.temporary)
        room = self._sandbox.isolation.limits.file_size
        from forge_cli.sandbox.trial.trials import Trials

        return Trials(confined, view, own=self._sandbox.own, room=room)

    async def run_wrapped(
        self,
        argv: Sequence[str],
        wrap: Wrap,
        *,
        together: int,
        watch: Callable[[str], None],
        interrupted: Callable[[Finished], Exception] | None = None,
        **options: Unpack[CommandOptions],
    ) -> Finished:
        """Run a command with a prepared confinement."""
        started = self._options(argv, wrap, options)
        # The proxy is not there, and its address would hide the destinations that are wanted.
        if self._proxy:
            hidden = self._proxy.variables().keys() - (options.get("env") or {}).keys()
            started["env"] = {
                name: value for name, value in started["env"].items() if name not in hidden
            }
        return await self.children.run(
            argv, together=together, watch=watch, interrupted=interrupted, **started
        )

    def warn_of_rules(self) -> None:
        """Warn once that pre-approved lines are not confined, instead of the general warning."""
        wanted = self._sandbox.isolation
        if (
            wanted.level is IsolationLevel.AUTO
            and find_isolation(wanted.level, where=wanted.where) is None
        ):
            self._say("warning", StatusNotice(UNCONFINED_RULES, "confinement", urgent=True))
            self._sandbox.notified.add(NOT_CONFINED)

    def _say(self, level: StatusLevel, sentence: str) -> None:
        if sentence not in self._sandbox.notified:
            self._sandbox.notified.add(sentence)
            self._notify(level, sentence)

    def _tell(self, did: str, names: Sequence[str]) -> None:
        """Report the files that the file tools would have asked for."""
        more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
        listed = ", ".join(map(shown, names[:MAX_NAMED]))
        self._notify("warning", f"a command has {did}: {listed}{more}")

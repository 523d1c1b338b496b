"""The toolset ``shell``: command lines judged by rules, confined where possible."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property, partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self, cast

import anyio
from msgspec.structs import replace
from pydantic import Field

from forge_cli.bashrules.face import read
from forge_cli.bashrules.sets.rows import DATA
from forge_cli.bashrules.stdin import may_read_itself
from forge_cli.core.approval import Approval, CommandRun, Effect, GrantRule, Verdict
from forge_cli.core.context import ToolContext
from forge_cli.core.errors import NotAsJudged, ToolError, WorkerError
from forge_cli.core.hookspecs import Renderer, hookimpl
from forge_cli.core.locking import LockEntry, hash_files
from forge_cli.core.phrases import COMPILED_BY_FORGE
from forge_cli.core.results import OUTPUT_LIMIT, Custom, Text
from forge_cli.core.tool import LONGEST, Args, Preview
from forge_cli.core.zones import Access
from forge_cli.sandbox.files.sandbox import worker_sandbox
from forge_cli.sandbox.processes import outcome
from forge_cli.sandbox.processes.command import bash_argv, clean_environment
from forge_cli.sandbox.processes.streams import locale_encoding
from forge_cli.sandbox.secrets import KEY_NAME
from forge_cli.sandbox.worker_processes import Undoable, WorkerProcesses
from forge_cli.schema.paths import ReadPath
from forge_cli.schema.tool import Tool, tool
from forge_cli.schema.toolset import Toolset, ToolsetPlaces
from forge_cli.toolsets.shell.config import ShellConfig, UserRules
from forge_cli.toolsets.shell.environment import doubt_elsewhere
from forge_cli.toolsets.shell.judged import JudgedLine
from forge_cli.toolsets.shell.line_text import compiles_a_tool, named_variable
from forge_cli.toolsets.shell.opt_in import container_sockets
from forge_cli.toolsets.shell.policy import ShellPolicy
from forge_cli.toolsets.shell.sessions import INTERRUPT, SESSION, ProcessSession, Sessions

if TYPE_CHECKING:
    from forge_cli.core.calls import OutcomeStatus
    from forge_cli.core.processes import Finished
    from forge_cli.sandbox.files.held import ChangeKeeper
    from forge_cli.sandbox.trial.deletions import DeletionRules
    from forge_cli.sandbox.trial.trials import TriedLine
    from forge_cli.toolsets.shell.shown import ShownEffect
    from forge_cli.toolsets.shell.trying import Keep, KeptTrials

MAX_LINES = 64
"""Judged lines that are kept for open calls."""
DOES = (Effect.READ, Effect.WRITE, Effect.EXECUTE, Effect.NETWORK)
BYTES_A_TOKEN = 4
"""An estimate, to limit output by tokens."""
RESULT = "shell.result"
RULED = "ruled"
"""The basis of a line that rules pre-approve, so that no person has approved its deletions."""
COVERED = "covered"
"""The basis of a line that only rule sets without effect allow."""
_MAY_BE_BLOCKED = "not tried on a copy: the line may use a blocked builtin, which no trial detects"
_MAY_HAVE_BEEN_BLOCKED = "it may have started a blocked command, which cannot be detected here"
_NO_COPY = "builds are allowed on a copy only, and this one would not run on one"
_ELSEWHERE = "the rules are for the working directory, but this is another folder"
_OTHER_SHELL = "the rules know bash only, and another shell may read the line differently"
_READS_ON = (
    "a command in it may read the lines after it; "
    "write them one by one, or start the command with < /dev/null"
)

CommandArgument = Annotated[str, Field(min_length=1, description="A command line for bash")]
FolderArgument = Annotated[ReadPath | None, Field(description="The folder to run in")]
Yield = Annotated[
    int, Field(ge=0, le=300_000, description="Milliseconds to wait for the end before giving back")
]


class ShellToolset(Toolset):
    """Tools that run commands, judged by rules for simple commands."""

    name = "shell"
    Config = ShellConfig
    needs_zone = True
    Policy = UserRules

    @classmethod
    def parts_for(cls, config: Any, places: ToolsetPlaces) -> Iterable[LockEntry]:
        """Return the rule sets of forge that the worker uses."""
        for name in sorted({rule.use for rule in config.rules if rule.use}):
            content = (DATA / f"{name}.yaml").read_bytes()
            yield LockEntry("policy", name, "rule sets of forge", hash_files({name: content}))

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        user, sandbox = self.env.policy or UserRules(), worker_sandbox(self.env.sandbox)
        self._policy = ShellPolicy(self.config, user, sandbox, self.env.workspace)
        self._processes = cast(WorkerProcesses, self.env.processes)
        if any(rule.approval is Approval.PRE_APPROVED for rule in self._policy.stated()):
            self._processes.warn_of_rules()
        self._processes.check()
        self._policy = self._policy.held_to_sets(self._can_try)
        self._lines: dict[str, JudgedLine] = {}
        """The judged lines of open calls."""
        for problem in self._policy.check():
            self.env.notify("warning", problem)
        if self._deletions.stated and (why := self._processes.no_copies):
            self.env.notify("warning", self._deletions.unbound(why))
        self._sessions = Sessions(self.env.notify)
        self.stack.callback(self._sessions.end)
        self.stack.callback(self._close_trials)
        self.stack.callback(self._processes.close_reading_runs)
        self._check_trials()
        return self

    @property
    def _can_try(self) -> bool:
        """True if lines can run on copies, and if forge runs them at all."""
        return not self.env.run_elsewhere and self._processes.can_try

    def rule_kept(self, rule: GrantRule) -> None:
        """Use the rule sets that the person has just chosen for the working directory."""
        self._policy = self._policy.with_folder(rule.says)
        self._lines.clear()  # they were judged by the rules before

    def _check_trials(self) -> None:
        """Raise WorkerError if the worker requires trials, but commands cannot be tried."""
        from forge_cli.sandbox.trial.copies import overlay_problem

        if self._policy.try_first == "required" and (
            problem := self._no_trials or overlay_problem(self.env.home)
        ):
            raise WorkerError(
                self.config.where("try"),
                f"try: required, but commands cannot be tried: {problem}",
                hint="use 'try: auto', or run: forge doctor",
            )

    @property
    def _no_trials(self) -> str | None:
        """Why nothing is tried; None if commands are tried."""
        if self._policy.try_first == "off":
            return "try is off"
        trials = self._processes.trials
        return "commands are not confined" if trials is None else trials.problem

    @cached_property
    def _keeper(self) -> ChangeKeeper | None:
        """The keeper of changed files; None if the session is not kept."""
        open_changes = worker_sandbox(self.env.sandbox).open_changes
        return open_changes() if open_changes else None

    @cached_property
    def _trials(self) -> KeptTrials:
        from forge_cli.toolsets.shell.trying import KeptTrials

        base = self._keeper.trials if self._keeper else None
        return KeptTrials(
            self.env.workspace, self.config.timeout, base, self._is_edit, self._may_lend_sockets
        )

    def _undoable(self, command: str, call_id: str, judge: Keep | None) -> Undoable | None:
        """Return how to undo a line and judge its deletions; None if neither is needed."""
        keeper = self._keeper
        if keeper and not keeper.commands:
            keeper = None
        # A line of low risk only reads, so there is nothing to undo.
        if (keeper is None and judge is None) or self._line(command).verdict.risk == "low":
            return None
        around = keeper.trials if keeper else self._trials.folder
        folder = around / sha256(call_id.encode()).hexdigest()[:32]
        return Undoable(folder, keeper.keep if keeper else None, judge)

    @cached_property
    def _deletions(self) -> DeletionRules:
        """The rules about deletions of the zones, including those of parent workers."""
        from forge_cli.sandbox.trial.deletions import DeletionRules

        above = self._parent._deletions.sets if self._parent else ()
        return DeletionRules((self._processes.zones, *above))

    def _close_trials(self) -> None:
        # A cached property is in vars() only after its first use.
        if "_trials" in vars(self):
            self._trials.close()
        if "_keeper" in vars(self) and self._keeper:
            with suppress(OSError):
                self._keeper.trials.rmdir()

    async def tools(self) -> Sequence[Tool]:
        """Return the tools; the trial of a line is dropped when its call has an outcome."""
        kept = {"shell": self._forget_trial}
        return [
            dataclasses.replace(each, on_outcome=kept.get(each.name))
            for each in await super().tools()
        ]

    def _judge_anew(self, command: str) -> JudgedLine:
        """Judge the line of a new call, and keep the result for the rest of the call."""
        line = JudgedLine(self._policy, read(command))
        self._lines.pop(command, None)  # puts a known line at the end again
        self._lines[command] = line
        if len(self._lines) > MAX_LINES:
            del self._lines[next(iter(self._lines))]
        return line

    def _line(self, command: str) -> JudgedLine:
        """Return the line of an open call, as it was judged when the call asked."""
        return self._lines.get(command) or self._judge_anew(command)

    def _forget_trial(self, args: Args, status: OutcomeStatus) -> None:
        self._lines.pop(args["command"], None)
        if kept := self._kept_trials:
            kept.forget(self._tried_args(args))

    @property
    def _kept_trials(self) -> KeptTrials | None:
        """The trials of this session; None, without making a folder, if there have been none."""
        keeper = self._keeper
        if "_trials" in vars(self) or (keeper and keeper.trials.is_dir()):
            return self._trials
        return None

    @staticmethod
    def _tried_args(args: Args) -> Args:
        return {"command": args["command"], "timeout": args.get("timeout")}

    def _shell_approval(self, args: Args) -> Verdict:
        """Return the verdict of the rules; if they ask, a trial may still decide."""
        on_copy = self._can_try and self._policy.try_first != "off"
        line = self._judge_anew(args["command"])
        verdict = self._line_approval(args, line, on_copy=on_copy)
        if verdict.approval is Approval.PRE_APPROVED:
            held = self._can_try and self._as_covered(verdict, line, on_copy=on_copy)
            # A line that no confinement limits to its rule sets is judged by plain forms only.
            verdict = held or self._line_approval(args, line.plain, on_copy=on_copy)
        if verdict.approval is Approval.PRE_APPROVED and verdict.basis != COVERED:
            verdict = replace(verdict, basis=RULED)
        if self._policy.try_first == "off" or not self._can_try:
            return replace(verdict, unruled=False)
        # A trial does not detect a blocked builtin, so such a line asks without one.
        tried = verdict.approval is not Approval.ASK or not self._may_block_unseen(line)
        return replace(verdict, tried_first=tried, unruled=verdict.unruled and tried)

    def _as_covered(self, verdict: Verdict, line: JudgedLine, *, on_copy: bool) -> Verdict | None:
        """Return the verdict on a pre-approved line that only sets allow, so that it is limited.

        Return None for any other line, and for one that would have to run on a copy, but cannot.
        """
        if line.builds:
            return replace(verdict, basis=COVERED)
        needed = line.sets_needed
        if not needed or not (on_copy or line.is_run_as_reading):
            return None
        named = None
        if "reading" in needed:
            named = named_variable(line.line.text, self.config.env)
        if named:
            reason = f"it uses ${named}, which is not set for lines that only read"
            return replace(verdict, approval=self._unsure, reason=reason, rule=None, where=None)
        return replace(verdict, basis=COVERED)

    def _line_approval(self, args: Args, line: JudgedLine, *, on_copy: bool = False) -> Verdict:
        verdict = self._verdict(line)
        if (
            verdict.approval is Approval.PRE_APPROVED
            and not on_copy
            and self._line(args["command"]).builds
        ):
            verdict = replace(
                verdict, approval=self._unsure, reason=_NO_COPY, rule=None, where=None
            )
        if not self._elsewhere(args.get("workdir")):
            return verdict
        if verdict.approval is Approval.PRE_APPROVED:
            return replace(verdict, approval=self._unsure, reason=_ELSEWHERE, rule=None, where=None)
        # Rules are for the working directory, so that a new one would not help here.
        return replace(verdict, grants=())

    def _verdict(self, line: JudgedLine) -> Verdict:
        """Return the verdict on a line; a line that a parent worker blocks is blocked."""
        verdict = line.verdict
        doubt = None
        if self.env.run_elsewhere and verdict.approval is Approval.PRE_APPROVED:
            doubt = doubt_elsewhere(line.line.text, self.env.workspace)
        if doubt:
            verdict = replace(verdict, approval=self._unsure, reason=doubt, rule=None, where=None)
        parent = self.env.parent
        if isinstance(parent, ShellToolset) and verdict.approval is not Approval.BLOCKED:
            blocked = parent._verdict(line.under(parent._policy.plain))
            if blocked.approval is Approval.BLOCKED:
                return replace(
                    blocked,
                    reason=f"the parent worker '{parent.env.worker}' blocks it: {blocked.reason}",
                )
        return verdict

    def rules(self) -> Iterator[Verdict]:
        """Yield the policy on commands, and the rules of parent workers that block."""
        yield from self._policy.stated()
        if isinstance(self.env.parent, ShellToolset):
            for rule in self.env.parent.rules():
                if rule.approval is Approval.BLOCKED:
                    yield replace(rule, rule=f"{rule.rule} of '{self.env.parent.env.worker}'")

    def _start_approval(self, args: Args) -> Verdict:
        self._sessions.check_room()
        line = self._judge_anew(args["command"])
        return self._in_session(replace(self._line_approval(args, line.plain), unruled=False))

    def _in_session(self, verdict: Verdict) -> Verdict:
        """Make a line of a session ask if deletions are restricted, as they are unknown."""
        if (
            not self._deletions.stated
            or verdict.approval is not Approval.PRE_APPROVED
            or verdict.risk == "low"
        ):
            return verdict
        reason = self._deletions.in_session
        return replace(
            verdict, approval=self._unsure, reason=reason, rule=None, where=None, grants=()
        )

    def _input_approval(self, args: Args) -> Verdict:
        """Judge input as lines of a shell; pre-approve it only if nothing but a shell reads it."""
        session, chars = self._sessions.get(args["session_id"]), args["chars"]
        if chars == INTERRUPT:
            return Verdict(Approval.PRE_APPROVED, "it only interrupts the command", by="rule")
        if not chars:
            return Verdict(Approval.PRE_APPROVED, "it writes nothing", by="rule")
        verdict = self._line_verdict(session, chars)
        if verdict.approval is Approval.BLOCKED or (session.shell and not session.doubt):
            return verdict
        if session.other_shell:
            return Verdict(self._unsure, _OTHER_SHELL, by="rule")
        if not session.shell:
            return Verdict(
                self._unsure, "the effect of input on this program is unknown", by="rule"
            )
        return Verdict(
            self._unsure,
            str(session.doubt),
            by="rule",
            details=verdict.details,
            parts=verdict.parts,
        )

    def _line_verdict(self, session: ProcessSession, chars: str) -> Verdict:
        text = session.judged_text(chars)
        moved = read(session.moved) if session.moved else None
        line = JudgedLine(self._policy.plain, read(text), moved, any_grammar=session.other_shell)
        verdict = self._verdict(line)
        if verdict.approval is Approval.PRE_APPROVED and JudgedLine(self._policy, line.line).builds:
            return replace(verdict, approval=self._unsure, reason=_NO_COPY, rule=None, where=None)
        if (
            session.shell
            and verdict.approval is Approval.PRE_APPROVED
            and may_read_itself(line.line)
        ):
            return replace(verdict, approval=self._unsure, reason=_READS_ON, rule=None, where=None)
        return self._in_session(replace(verdict, grants=()))

    @property
    def _unsure(self) -> Approval:
        return Approval.strictest(Approval.ASK, self.config.default)

    @tool(
        needs_approval="_shell_approval",
        preview="_try",
        effects=DOES,
        timeout=LONGEST,
        manual="both",
    )
    async def shell(
        self,
        command: CommandArgument,
        timeout: Annotated[
            float | None, Field(gt=0, le=3600, description="Seconds until it is stopped")
        ] = None,
        *,
        context: ToolContext,
    ) -> Custom:
        """Run a command line with bash in the working directory, and wait until it ends."""
        seconds = timeout or self.config.timeout
        judge = self._deletions.judge(asked=context.basis not in (RULED, COVERED))
        done: Finished | None = None
        if context.basis == COVERED:
            done = await self._run_covered(command, seconds, context)
        line = self._line(command)
        sockets = container_sockets() if line.looks_at_containers else []
        tried = self._tried_args({"command": command, "timeout": timeout})
        if context.stamp is not None:
            keeper = self._keeper
            done = self._trials.take(tried, context.stamp, keeper.keep if keeper else None)
            sockets += self._trials.sockets(tried, context.stamp)
        elif done is None and (kept := self._kept_trials):
            done = kept.take_unshown(tried, self._keeper.keep if self._keeper else None)
        if done is None:
            try:
                done = await self._processes.run(
                    bash_argv(command),
                    env=self._environment,
                    timeout=seconds,
                    writable=self._repository(line, self.env.workspace),
                    names=line.names_git,
                    together=OUTPUT_LIMIT - len(command),
                    watch=context.show,
                    interrupted=partial(outcome.interrupted, RESULT, command),
                    readable=sockets,
                    # a daemon sees the files themselves, and no copies
                    undoable=None if sockets else self._undoable(command, context.call_id, judge),
                    seen=line.verdict.risk != "low",
                )
            except NotAsJudged as error:
                self._keep_unapplied(tried, error)
                raise
        return self._result(command, done, seconds)

    def _keep_unapplied(self, args: Args, error: NotAsJudged) -> None:
        """Keep the changes of a line, so that a yes to its deletions does not run it again."""
        from forge_cli.sandbox.trial.deletions import UnappliedDeletion
        from forge_cli.sandbox.trial.trials import TriedLine

        trials = self._processes.trials
        if isinstance(error, UnappliedDeletion) and error.done and trials:
            changes = trials.marked(error.changes)
            self._trials.keep(args, TriedLine(error.done, changes, has_run=True))

    def _result(self, command: str, done: Finished, seconds: float) -> Custom:
        state = outcome.describe_end(done, seconds)
        if refused := done.refused_sockets():
            state = f"{state}; {refused}"
        told = outcome.with_hint(state, done, done.stderr)
        if done.exit_code != 0 and compiles_a_tool(command, self.env.workspace, self.env.home):
            told = f"{told}\n{COMPILED_BY_FORGE}"
        value = outcome.value_of(RESULT, command, done, state, told)
        if self._line(command).is_of_sets:
            value = replace(value, data={**value.data, "ofSets": True})
        return outcome.result(value, done, state)

    async def _run_covered(
        self, command: str, seconds: float, context: ToolContext
    ) -> Finished | None:
        """Run a line that only rule sets allow; return None if it has to run like any other."""
        from forge_cli.toolsets.shell.covered import CoveredLines
        from forge_cli.toolsets.shell.trying import told

        def report_applied(tried: TriedLine, shown: ShownEffect) -> None:
            context.applied(replace(told(tried, shown, context.call_id), applied=True))

        covered = CoveredLines(self._processes, self._policy, RESULT, self._is_edit, report_applied)
        keep = self._keeper.keep if self._keeper else None
        name = sha256(context.call_id.encode()).hexdigest()[:32]
        return await covered.run(
            self._line(command), seconds, context.show, keep, lambda: self._trials.folder / name
        )

    @tool(needs_approval="_start_approval", preview="_show_place", effects=DOES, timeout=LONGEST)
    async def exec_command(
        self,
        command: CommandArgument,
        workdir: FolderArgument = None,
        yield_time_ms: Yield = 10_000,
        max_output_tokens: Annotated[
            int, Field(ge=1, le=100_000, description="How much output at most")
        ] = 10_000,
        *,
        context: ToolContext,
    ) -> Custom:
        """Start a command that may take long or needs input; write_stdin reads its later output."""
        folder = self._folder(workdir)
        encoding = locale_encoding()
        line = self._line(command)
        child = self._processes.start(
            bash_argv(command),
            cwd=folder,
            env=self._environment,
            writable=self._repository(line, folder),
            names=line.names_git,
            encoding=encoding,
        )
        doubt = _ELSEWHERE if self._elsewhere(workdir) else None
        session = self._sessions.add(command, child, encoding=encoding, doubt=doubt)
        try:
            return await self._sessions.news(
                session, yield_time_ms, context.show, max_output_tokens * BYTES_A_TOKEN
            )
        except anyio.get_cancelled_exc_class():
            # The model never learns the number of this session, so nothing could end it.
            self._sessions.close(session)
            await child.stop()
            raise session.interrupted() from None

    @tool(needs_approval="_input_approval", preview="_show_session", effects=DOES, timeout=LONGEST)
    async def write_stdin(
        self,
        session_id: Annotated[int, Field(ge=1, description="The number that exec_command gave")],
        chars: Annotated[
            str, Field(description="Text; none only reads, \\x03 interrupts, \\x04 ends the input")
        ] = "",
        yield_time_ms: Yield = 1_000,
        *,
        context: ToolContext,
    ) -> Custom:
        """Write to a running command, and read its new output."""
        session = self._sessions.get(session_id)
        if chars == INTERRUPT:
            session.interrupt()
        elif chars:
            data = session.encode(chars)  # first, because refused input must not count as written
            approval = self._line_verdict(session, chars).approval
            session.wrote(chars, pre_approved=approval is Approval.PRE_APPROVED)
            await session.write(data)
        return await self._sessions.news(session, yield_time_ms, context.show)

    async def _try(self, args: Args, context: ToolContext) -> Preview:
        """Show the effect of the line on a copy; if it cannot be tried, where it would run."""
        place, command = await self._show_place(args, context), args["command"]
        if place.runs is None:
            return place
        kept = self._kept_trials
        has_run = kept is not None and kept.has_run(self._tried_args(args))
        if not has_run and (problem := self._no_trials):
            from forge_cli.sandbox.trial.trials import UNTRIED

            return self._untried(place, f"{UNTRIED}: {problem}")
        if not has_run and (why := self._may_block_unseen(self._line(command))):
            return dataclasses.replace(place, value=Text(f"{_MAY_BE_BLOCKED} ({why})"))
        seconds = args.get("timeout") or self.config.timeout
        attempt = partial(self._attempt, command, seconds, context.show)
        from forge_cli.sandbox.trial.trials import NotTried

        try:
            preview = await self._trials.preview(
                self._tried_args(args), context.call_id, place.runs, attempt, self._verdict_on_tried
            )
        except NotTried as error:
            from forge_cli.sandbox.trial.trials import LINE_UNTRIED

            return self._untried(place, f"{LINE_UNTRIED}: {error}")
        return preview

    @property
    def _parent(self) -> ShellToolset | None:
        parent = self.env.parent
        return parent if isinstance(parent, ShellToolset) else None

    def _may_block_unseen(self, line: JudgedLine) -> str | None:
        """Return why a line may do something blocked that no trial detects, here or in a parent."""
        above = None
        if self._parent:
            above = self._parent._may_block_unseen(line.under(self._parent._policy))
        return above or line.may_block_unseen

    @property
    def _blocked_programs(self) -> frozenset[str]:
        above = self._parent._blocked_programs if self._parent else frozenset()
        return self._policy.blocked_programs | above

    def _verdict_on_tried(self, tried: TriedLine) -> Verdict | None:
        """Return the verdict on a trial that did something blocked; None for any other."""
        deleted = self._deletions.blocked(tried.changes.changes) if tried.complete else None
        return self._verdict_on_started(tried.commands or ()) or deleted

    def _verdict_on_started(self, commands: Sequence[Sequence[str]]) -> Verdict | None:
        """Return the verdict on started programs if this worker or a parent blocks one."""
        blocked = self._policy.verdict_on_started(commands)
        if blocked is None and self._parent is not None:
            blocked = self._parent._verdict_on_started(commands)
        return blocked

    def _is_edit(self, tried: TriedLine, shown: ShownEffect) -> bool:
        """Return True if the mode "accept edits" allows the changes of a trial."""
        from forge_cli.toolsets.shell.edits import only_edits

        made = self._keeper.made if self._keeper else None
        return only_edits(tried, shown, worker_sandbox(self.env.sandbox), made)

    def _may_lend_sockets(self, args: Args, tried: TriedLine) -> bool:
        """Return True if lines like a tried one may be granted sockets of daemons for a session."""
        from forge_cli.toolsets.shell.daemon_clients import asks_only_daemons, may_lend_sockets

        parts = self._line(args["command"]).verdict.parts
        return asks_only_daemons(parts) and may_lend_sockets(
            tried, worker_sandbox(self.env.sandbox).zones
        )

    def _may_hide_blocked(self, line: JudgedLine) -> str | None:
        """Return why a line may run something blocked, here or in a parent; None if it does not."""
        above = None
        if self._parent:
            above = self._parent._may_hide_blocked(line.under(self._parent._policy))
        return above or line.may_hide_blocked

    async def _attempt(
        self, command: str, seconds: float, watch: Callable[[str], None], folder: Path
    ) -> TriedLine:
        trials = self._processes.trials
        if trials is None:
            from forge_cli.sandbox.trial.trials import NotTried

            raise NotTried("commands are not confined")
        # A trial gets no keys, because the line is not approved yet.
        secret = [name for name in self.config.env if KEY_NAME.search(name)]
        argv, cwd = bash_argv(command), self.env.workspace
        run = partial(
            self._processes.run_wrapped,
            argv,
            cwd=cwd,
            env=clean_environment([name for name in self.config.env if name not in secret]),
            timeout=seconds,
            together=OUTPUT_LIMIT - len(command),
            watch=watch,
        )
        line = self._line(command)
        writable = self._repository(line, cwd)
        names = self._blocked_programs
        tried = await trials.run(
            argv,
            folder,
            run,
            cwd=cwd,
            writable=writable,
            withheld=secret,
            programs=names,
            seconds=seconds,
        )
        if tried.commands is None and tried.unsure is None and self._may_hide_blocked(line):
            tried = replace(tried, unsure=_MAY_HAVE_BEEN_BLOCKED)
        return tried

    def _untried(self, place: Preview, sentence: str) -> Preview:
        """Show only where the line would run; report once why it was not tried."""
        notified = worker_sandbox(self.env.sandbox).notified
        if (
            self._policy.try_first != "off"
            and self._processes.confined
            and sentence not in notified
        ):
            notified.add(sentence)
            self.env.notify("info", sentence)
        return place

    async def _show_place(self, args: Args, context: ToolContext) -> Preview:
        """Show the folder in which the line would run."""
        folder = self._folder(args.get("workdir"))
        return Preview(None, runs=CommandRun(str(folder), self._processes.confined, "command"))

    async def _show_session(self, args: Args, context: ToolContext) -> Preview:
        """Show the command that gets the input; a yes counts once, as the next time may differ."""
        session = self._sessions.get(args["session_id"])
        return Preview(Text(f"session {session.number} is: {session.command}"), once=True)

    @cached_property
    def _environment(self) -> dict[str, str]:
        return clean_environment(self.config.env)

    def _repository(self, line: JudgedLine, folder: Path) -> list[Path]:
        """Return the ``.git`` folder that a line with git may write to."""
        if not line.names_git:
            return []
        for around in (folder, *folder.parents):
            place = around / ".git"
            if place.is_dir():
                return [place]
        return []

    def _folder(self, workdir: str | None) -> Path:
        if workdir is None:
            return self.env.workspace
        folder: Path = self.env.sandbox.real(workdir, Access.LIST)
        if not self.env.sandbox.exists(workdir):
            raise ToolError(f"{workdir} does not exist, so nothing can run there")
        return folder

    def _elsewhere(self, workdir: str | None) -> bool:
        return self._folder(workdir) != self.env.workspace


@hookimpl
def forge_toolsets() -> list[type[Toolset]]:
    """Offer the toolset."""
    return [ShellToolset]


@hookimpl
def forge_renderers() -> dict[str, Renderer]:
    """Offer the renderers for results of commands."""
    return {RESULT: outcome.render, SESSION: outcome.render}

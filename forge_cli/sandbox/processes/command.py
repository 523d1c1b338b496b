"""A command to start, plain or wrapped, with its helpers and a clean environment."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from subprocess import Popen
from typing import ClassVar, Protocol

from msgspec import Struct

from forge_cli.sandbox.secrets import KEY_NAME

CALLS = "FORGE_CALL"
"""The variable that tells an executable tool where to request calls; other children never get
it."""

QUIET = {
    "NO_UPDATE_NOTIFIER": "1",
    "GH_NO_UPDATE_NOTIFIER": "1",
    "DENO_NO_UPDATE_CHECK": "1",
    "DO_NOT_TRACK": "1",
    "npm_config_update_notifier": "false",
    "npm_config_fund": "false",
    "NG_CLI_ANALYTICS": "false",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "CHECKPOINT_DISABLE": "1",
    "VAGRANT_CHECKPOINT_DISABLE": "1",
    "YARN_DISABLE_SELF_UPDATE_CHECK": "true",
    "PULUMI_SKIP_UPDATE_CHECK": "true",
    "YARN_ENABLE_TELEMETRY": "0",
    "SAM_CLI_TELEMETRY": "0",
    "HOMEBREW_NO_AUTO_UPDATE": "1",
    "HOMEBREW_NO_ANALYTICS": "1",
    "FASTLANE_SKIP_UPDATE_CHECK": "1",
    "DOTNET_CLI_TELEMETRY_OPTOUT": "1",
    "NEXT_TELEMETRY_DISABLED": "1",
    "TURBO_TELEMETRY_DISABLED": "1",
    "ASTRO_TELEMETRY_DISABLED": "1",
    "NUXT_TELEMETRY_DISABLED": "1",
    "GATSBY_TELEMETRY_DISABLED": "1",
    "STORYBOOK_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
}
"""Variables that turn off update checks and telemetry, which would make a command want the
network."""
GIT_SETTINGS = {"safe.bareRepository": "explicit", "core.fsmonitor": "false"}


class Companion(Protocol):
    """A helper of a command while it runs, such as its proxy."""

    async def serve(self, stop_clock: Callable[[], AbstractContextManager[None]]) -> None:
        """Work until cancelled; inside ``stop_clock``, the command's time limit is paused."""
        ...

    def close(self) -> None: ...

    @property
    def refused(self) -> tuple[str, ...]:
        """What the command wanted and was refused."""
        ...


class Command(Struct, frozen=True):
    """A program to start: an argv, and descriptors that stay open for it."""

    argv: Sequence[str]
    descriptors: Sequence[int] = ()
    contained: bool = False
    """True if namespaces end everything that it starts."""
    folder: Path | None = None
    """A folder to remove once the command has ended."""
    companions: Sequence[Companion] = ()
    start: Callable[[Callable[[], Popen[bytes]]], Popen[bytes]] | None = None
    """Wraps the start of the process, in a thread of its own."""


class Wrap(Protocol):
    """Makes a command from an argv and a working directory.

    What it opens is closed once the command has started.
    """

    @property
    def confined(self) -> bool: ...

    def __call__(self, argv: Sequence[str], cwd: Path) -> AbstractContextManager[Command]: ...

    def appeared(self) -> Sequence[str]:
        """Return the protected names that a command has made."""
        ...

    def exceeded(self) -> str | None:
        """Return why commands have written too much to shared folders; called in another thread."""
        ...

    def end_excess(self) -> None:
        """Remove what was too much, after the command was stopped."""
        ...


class Unconfined(Struct, frozen=True):
    """Starts an argv as it is."""

    confined: ClassVar[bool] = False

    def __call__(self, argv: Sequence[str], cwd: Path) -> AbstractContextManager[Command]:
        return nullcontext(Command((*_starter, *argv)))

    def appeared(self) -> Sequence[str]:
        return ()

    def exceeded(self) -> str | None:
        return None

    def end_excess(self) -> None:
        """Do nothing."""


UNCONFINED = Unconfined()
_starter: list[str] = []
"""The words that begin every unconfined command, if it must first give up something."""


def start_unconfined_by(argv: Sequence[str]) -> None:
    """Start every unconfined program of this process by these words from now on."""
    _starter[:] = argv


def bash_argv(line: str) -> list[str]:
    """Return the argv with which bash runs a line, without the user's startup files."""
    return ["bash", "--noprofile", "--norc", "-c", "--", line]


def clean_environment(names: Sequence[str] = ()) -> dict[str, str]:
    """Return the environment of a child: harmless variables, and those in ``names``."""
    allowed = {"PATH", "HOME", "LANG", "TERM", "TMPDIR", "USER", "TZ", *names}
    kept = {
        name: value for name, value in os.environ.items() if name in allowed or _is_harmless(name)
    }
    return {**QUIET, **_git_settings(), **kept}


def _git_settings() -> dict[str, str]:
    """Return git settings that override all files.

    With these, ordinary files in a zone cannot pose as a repository or start a program.
    """
    return with_git_settings({}, GIT_SETTINGS)


def with_git_settings(
    environment: Mapping[str, str], settings: Mapping[str, str]
) -> dict[str, str]:
    """Return an environment with additional git settings."""
    begin = int(environment.get("GIT_CONFIG_COUNT", 0))
    found = {**environment, "GIT_CONFIG_COUNT": str(begin + len(settings))}
    for number, (key, value) in enumerate(settings.items(), begin):
        found |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return found


def _is_harmless(name: str) -> bool:
    return name.startswith(("LC_", "FORGE_")) and name != CALLS and not KEY_NAME.search(name)

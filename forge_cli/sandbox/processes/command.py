"""A command to start, with its helpers, as it is or wrapped, and its clean environment."""

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
"""Names to a program that is a tool where it can ask for calls; never handed on to other children."""

QUIET = {
    **dict.fromkeys(
        ("NO_UPDATE_NOTIFIER", "GH_NO_UPDATE_NOTIFIER", "DENO_NO_UPDATE_CHECK", "DO_NOT_TRACK"), "1"
    ),
    **dict.fromkeys(("npm_config_update_notifier", "npm_config_fund", "NG_CLI_ANALYTICS"), "false"),
    **dict.fromkeys(
        ("PIP_DISABLE_PIP_VERSION_CHECK", "CHECKPOINT_DISABLE", "VAGRANT_CHECKPOINT_DISABLE"), "1"
    ),
    **dict.fromkeys(("YARN_DISABLE_SELF_UPDATE_CHECK", "PULUMI_SKIP_UPDATE_CHECK"), "true"),
    **dict.fromkeys(("YARN_ENABLE_TELEMETRY", "SAM_CLI_TELEMETRY"), "0"),
    **dict.fromkeys(
        ("HOMEBREW_NO_AUTO_UPDATE", "HOMEBREW_NO_ANALYTICS", "FASTLANE_SKIP_UPDATE_CHECK"), "1"
    ),
    **dict.fromkeys(
        ("DOTNET_CLI_TELEMETRY_OPTOUT", "NEXT_TELEMETRY_DISABLED", "TURBO_TELEMETRY_DISABLED"), "1"
    ),
    **dict.fromkeys(
        ("ASTRO_TELEMETRY_DISABLED", "NUXT_TELEMETRY_DISABLED", "GATSBY_TELEMETRY_DISABLED"), "1"
    ),
    **dict.fromkeys(("STORYBOOK_DISABLE_TELEMETRY", "HF_HUB_DISABLE_TELEMETRY"), "1"),
}
"""Variables by which programs do not look for newer versions of themselves, and report nothing: without them a command
that needs no network would want one."""
GIT_SETTINGS = {"safe.bareRepository": "explicit", "core.fsmonitor": "false"}


class Companion(Protocol):
    """The helpers of a command while it runs, such as its proxy."""

    async def serve(self, stop_clock: Callable[[], AbstractContextManager[None]]) -> None:
        """Work until this is cancelled; the time limit of the command stands still inside of ``stop_clock``."""
        ...

    def close(self) -> None: ...

    @property
    def refused(self) -> tuple[str, ...]:
        """Things that the command wanted in vain."""
        ...


class Command(Struct, frozen=True):
    """A program to start: an argv, and descriptors that stay open for it."""

    argv: Sequence[str]
    descriptors: Sequence[int] = ()
    contained: bool = False
    """Whether namespaces end everything it starts with it."""
    folder: Path | None = None
    """Removed with all that is in it once the command has ended."""
    companions: Sequence[Companion] = ()
    start: Callable[[Callable[[], Popen[bytes]]], Popen[bytes]] | None = None
    """Starts its process by what makes that, in a thread of its own."""


class Wrap(Protocol):
    """Makes a command of an argv and a working directory; what it opens is closed once the command has started."""

    @property
    def confined(self) -> bool: ...

    def __call__(self, argv: Sequence[str], cwd: Path) -> AbstractContextManager[Command]: ...

    def appeared(self) -> Sequence[str]:
        """The protected names that a command has made."""
        ...

    def exceeded(self) -> str | None:
        """Why commands have written more than they may to what they share; asked in another thread."""
        ...

    def end_excess(self) -> None:
        """Remove what was too much, once the command was stopped."""
        ...


class Unconfined(Struct, frozen=True):
    """Starts an argv as it is."""

    confined: ClassVar[bool] = False

    def __call__(self, argv: Sequence[str], cwd: Path) -> AbstractContextManager[Command]:
        return nullcontext(Command(argv))

    def appeared(self) -> Sequence[str]:
        return ()

    def exceeded(self) -> str | None:
        return None

    def end_excess(self) -> None:
        """Remove nothing."""


UNCONFINED = Unconfined()


def bash_argv(line: str) -> list[str]:
    """The argv by which bash runs a line, without any of the user's own files."""
    return ["bash", "--noprofile", "--norc", "-c", "--", line]


def clean_environment(names: Sequence[str] = ()) -> dict[str, str]:
    """The environment of a child: an allow-list, what forge itself sets but for keys, and what is named."""
    allowed = {"PATH", "HOME", "LANG", "TERM", "TMPDIR", "USER", "TZ", *names}
    kept = {
        name: value for name, value in os.environ.items() if name in allowed or _is_harmless(name)
    }
    return {**QUIET, **_git_settings(), **kept}


def _git_settings() -> dict[str, str]:
    """Settings of git above those of every file: plain files in a zone make no repository, and start no program."""
    return with_git_settings({}, GIT_SETTINGS)


def with_git_settings(
    environment: Mapping[str, str], settings: Mapping[str, str]
) -> dict[str, str]:
    """An environment with more settings of git than it has."""
    begin = int(environment.get("GIT_CONFIG_COUNT", 0))
    found = {**environment, "GIT_CONFIG_COUNT": str(begin + len(settings))}
    for number, (key, value) in enumerate(settings.items(), begin):
        found |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return found


def _is_harmless(name: str) -> bool:
    return name.startswith(("LC_", "FORGE_")) and name != CALLS and not KEY_NAME.search(name)

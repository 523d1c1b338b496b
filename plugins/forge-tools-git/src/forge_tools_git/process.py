"""Starting git: by a list of words, in an environment of its own, with its output bounded and no child left behind."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import DEVNULL, PIPE

import anyio
from anyio.abc import ByteReceiveStream, Process

from forge_cli import ToolError

OUTPUT_LIMIT = 1024 * 1024
GRACE_SECONDS = 1.0
PROXIES = ("http_proxy", "https_proxy", "no_proxy", "all_proxy")
KEPT = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_CTYPE", "TMPDIR", "TZ", "XDG_CONFIG_HOME"),
        *("SSH_AUTH_SOCK", "GNUPGHOME", "SSL_CERT_FILE", "SSL_CERT_DIR"),
        *PROXIES,
        *(name.upper() for name in PROXIES),
    }
)
QUIET = {
    "LC_MESSAGES": "C",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": ":",
    "GIT_PAGER": "cat",
}


@dataclass(frozen=True)
class Output:
    """What git said before it ended; ``cut`` is how many bytes of it were too many."""

    code: int
    raw: bytes
    err: str
    cut: int = 0

    @property
    def out(self) -> str:
        return self.raw.decode(errors="replace")

    @property
    def complaint(self) -> str:
        """Why it failed, in its own words."""
        said = (self.err.strip() or self.out.strip())[-2000:].replace(":(literal)", "")
        return said.removeprefix("fatal: ").removeprefix("error: ") or f"git ended with exit code {self.code}"


@dataclass
class _Kept:
    """The first bytes of a stream; the rest is read and dropped, so that git never waits for a reader."""

    data: bytearray = field(default_factory=bytearray)
    dropped: int = 0

    async def collect(self, stream: ByteReceiveStream) -> None:
        async for chunk in stream:
            room = OUTPUT_LIMIT - len(self.data)
            self.data += chunk[:room]
            self.dropped += max(0, len(chunk) - room)


async def git(
    folder: Path,
    words: Sequence[str],
    *,
    config: Mapping[str, str],
    environment: Mapping[str, str] | None = None,
    stdin: str | None = None,
) -> Output:
    """Run git in a folder to its end; cancelling the caller kills it with its whole process group."""
    program = shutil.which("git")
    if program is None:
        raise ToolError("git is not installed on this machine")
    env = {**_environment(), **_settings(config), **(environment or {})}
    out, err = _Kept(), _Kept()
    started = _started([program, "--no-pager", *words], folder, env, piped=stdin is not None)
    async with started as process, anyio.create_task_group() as tasks:
        read = anyio.Event()
        tasks.start_soon(_read, process, out, err, read)
        if process.stdin and stdin is not None:
            with suppress(anyio.BrokenResourceError):
                await process.stdin.send(stdin.encode())
            await process.stdin.aclose()
        code = await process.wait()
        with anyio.move_on_after(GRACE_SECONDS):  # a program left behind by a hook may hold the pipes open
            await read.wait()
        tasks.cancel_scope.cancel()
    return Output(code, bytes(out.data), err.data.decode(errors="replace"), out.dropped)


async def _read(process: Process, out: _Kept, err: _Kept, done: anyio.Event) -> None:
    async with anyio.create_task_group() as readers:
        for kept, stream in ((out, process.stdout), (err, process.stderr)):
            if stream:
                readers.start_soon(kept.collect, stream)
    done.set()


@asynccontextmanager
async def _started(words: list[str], folder: Path, env: dict[str, str], *, piped: bool) -> AsyncIterator[Process]:
    process = await anyio.open_process(
        words,
        stdin=PIPE if piped else DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
        cwd=folder,
        env=env,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with anyio.CancelScope(shield=True):
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
            await process.aclose()


def _environment() -> dict[str, str]:
    """What git and the programs that it starts may know: no keys of others, and nothing that redirects git itself."""
    return {name: value for name, value in os.environ.items() if name in KEPT} | QUIET


def _settings(config: Mapping[str, str]) -> dict[str, str]:
    """Settings above those of every file; unlike ``-c`` this can carry any name."""
    found = {"GIT_CONFIG_COUNT": str(len(config))}
    for number, (key, value) in enumerate(config.items()):
        found |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return found

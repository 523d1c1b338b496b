"""Commands that fetch a package when they start: which of them say no version, and how to say one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

_EXACT = r"\d[\w.!+-]*"
_COMMIT = re.compile(r".*@[0-9a-f]{40}(#.*)?")
_NPM = re.compile(rf"(@[^/@]+/)?[^/@]+@v?{_EXACT}")
_PYTHON = re.compile(rf"[A-Za-z0-9][\w.-]*(\[[^\]]*\])?(==={_EXACT}|=={_EXACT}|@{_EXACT})")
_IMAGE = re.compile(r".+@sha256:[0-9a-f]{64}")
_GO = re.compile(r".+@v\d+\.\d+\.\d+\S*")
_DENO = re.compile(rf"(npm|jsr):/?(@[^/@]+/)?[^/@]+@v?{_EXACT}(/.*)?")


@dataclass(frozen=True)
class Launcher:
    """A program that fetches what it starts."""

    words: tuple[str, ...]
    """How its command line begins."""
    pinned: re.Pattern[str]
    """What a package looks like whose version is fixed."""
    spelling: str
    packages: tuple[str, ...] = ()
    """Options whose value is a package; where one is given, the first operand is not."""
    also: tuple[str, ...] = ()
    """Options whose value is a package, besides the operand."""
    values: tuple[str, ...] = ()
    """Other options that take the next word."""
    fetched: re.Pattern[str] = re.compile("")
    """What an operand looks like that is fetched; others are files."""


_WITH = ("--with", "-w")
_UV_VALUES = ("-p", "--python", "--index-url", "--default-index", "--index", "--extra-index-url", "--cache-dir", "-i")
_NPX_VALUES = ("-c", "--call", "-w", "--workspace", "--registry", "--prefix")
_DOCKER_VALUES = (
    *("-e", "--env", "-v", "--volume", "-p", "--publish", "--name", "--network", "--net", "--mount", "-u", "--user"),
    *("-w", "--workdir", "--env-file", "-h", "--hostname", "--entrypoint", "-m", "--memory", "--cpus", "--platform"),
    *("-l", "--label", "--add-host", "--dns", "--cap-add", "--cap-drop", "--security-opt", "--ulimit", "--tmpfs"),
    *("--gpus", "--device", "--ip", "--log-driver", "--log-opt", "--pids-limit", "--pull", "--restart", "--runtime"),
    *("--shm-size", "--stop-signal", "--stop-timeout", "--userns", "--group-add", "-a", "--attach", "-c"),
)

LAUNCHERS = (
    Launcher(("npx",), _NPM, "@VERSION", ("-p", "--package"), values=_NPX_VALUES),
    Launcher(("npm", "exec"), _NPM, "@VERSION", ("--package",), values=_NPX_VALUES),
    Launcher(("npm", "x"), _NPM, "@VERSION", ("--package",), values=_NPX_VALUES),
    Launcher(("bunx",), _NPM, "@VERSION", ("-p", "--package")),
    Launcher(("bun", "x"), _NPM, "@VERSION", ("-p", "--package")),
    Launcher(("pnpx",), _NPM, "@VERSION", ("--package",)),
    Launcher(("pnpm", "dlx"), _NPM, "@VERSION", ("--package",)),
    Launcher(("pnpm", "exec"), _NPM, "@VERSION"),
    Launcher(("yarn", "dlx"), _NPM, "@VERSION", ("-p", "--package")),
    Launcher(("uvx",), _PYTHON, "==VERSION", ("--from",), _WITH, _UV_VALUES),
    Launcher(("uv", "tool", "run"), _PYTHON, "==VERSION", ("--from",), _WITH, _UV_VALUES),
    Launcher(("pipx", "run"), _PYTHON, "==VERSION", ("--spec",), values=("--python", "--index-url", "--pip-args")),
    Launcher(("docker", "run"), _IMAGE, "@sha256:DIGEST", values=_DOCKER_VALUES),
    Launcher(("podman", "run"), _IMAGE, "@sha256:DIGEST", values=_DOCKER_VALUES),
    Launcher(("nerdctl", "run"), _IMAGE, "@sha256:DIGEST", values=_DOCKER_VALUES),
    Launcher(("go", "run"), _GO, "@vVERSION", fetched=re.compile(r"[^./][^/]*\.[^/]+/.*")),
    Launcher(("deno", "run"), _DENO, "@VERSION", fetched=re.compile("(npm|jsr|https?):"), values=("-c", "--config")),
)
_WRAPPERS = ("env", "nice", "nohup", "exec", "command", "time", "sudo")


def pinned_spelling(command: str, args: Sequence[str]) -> str:
    """How to write a command so that it says which version it starts; empty where it does, or fetches nothing."""
    words = [command, *args]
    for at, package, launcher in _packages(words):
        if not launcher.pinned.fullmatch(package) and not _COMMIT.fullmatch(package):
            fixed = f"{_bare(package, launcher)}{launcher.spelling}"
            return " ".join([*words[:at], words[at].replace(package, fixed), *words[at + 1 :]])
    return ""


def _packages(words: Sequence[str]) -> Iterator[tuple[int, str, Launcher]]:
    """Each package that a command line fetches, and the place of its word."""
    begin = _behind_wrappers(words)
    named = [PurePath(words[begin]).name.lower().removesuffix(".cmd").removesuffix(".exe"), *words[begin + 1 :]]
    for launcher in LAUNCHERS:
        behind = _behind(named, launcher)
        if behind:
            yield from ((begin + at, package, launcher) for at, package in _named(named, behind, launcher))
            return


def _behind_wrappers(words: Sequence[str]) -> int:
    """Where the command proper begins: behind ``env A=b`` and the like."""
    at = 0
    while at + 1 < len(words) and PurePath(words[at]).name in _WRAPPERS:
        at += 1
        while at + 1 < len(words) and (words[at].startswith("-") or "=" in words[at]):
            at += 1
    return at


def _behind(words: Sequence[str], launcher: Launcher) -> int:
    """How many words it takes to name the launcher, options between them included; 0 where another is named."""
    at, wanted = 0, list(launcher.words)
    while wanted and at < len(words):
        if words[at] == wanted[0]:
            wanted.pop(0)
        elif at == 0 or not words[at].startswith("-"):
            return 0
        at += 1
    return 0 if wanted else at


def _named(words: Sequence[str], at: int, launcher: Launcher) -> Iterator[tuple[int, str]]:
    given = False
    while at < len(words):
        word, option, value = words[at], *_option(words[at])
        if word == "--":
            at += 1
            break
        if not word.startswith("-"):
            break
        takes = option in (*launcher.packages, *launcher.also, *launcher.values)
        place = at if value or not takes else at + 1
        if option in (*launcher.packages, *launcher.also) and place < len(words):
            given = given or option in launcher.packages
            for package in (value or words[place]).split(","):
                yield place, package
        at = place + 1
    if (
        not given
        and at < len(words)
        and launcher.fetched.match(words[at])
        and not words[at].startswith((".", "/", "~"))
    ):
        yield at, words[at]


def _option(word: str) -> tuple[str, str]:
    option, _, value = word.partition("=")
    return option, value


def _bare(package: str, launcher: Launcher) -> str:
    """A package without what is said of its version."""
    if launcher.pinned is _PYTHON:
        return re.split(r"[=<>!~@ ;]", package, maxsplit=1)[0]
    if launcher.pinned is _IMAGE:
        return package.partition("@")[0]
    head, sep, _ = package[1:].partition("@")
    return package[0] + head if sep else package

"""Variables before a command, by which a program loads code or starts another program."""

from __future__ import annotations

import re
from collections.abc import Sequence

from forge_cli.bashrules.allow.lexer import ShellWord
from forge_cli.bashrules.programs.table import word_set

_LOADING = word_set(
    """
    path home ifs env shell pwd oldpwd cdpath globignore execignore ps4 prompt_command shellopts
    bashopts inputrc editor visual pager browser lessopen lessclose classpath
    pythonhome pythonstartup pythonbreakpoint pythonuserbase pythonwarnings pytest_addopts
    perl5lib perl5opt perl5db perllib rubylib rubyopt node_options luainit lua_init lua_path
    lua_cpath phprc makeflags gnumakeflags mflags makefiles rustc rustdoc rustflags goflags goroot
    gotooldir cc cxx ld ar gconv_path gcc_exec_prefix compiler_path kubeconfig hgrcpath viminit
    exinit emacsloadpath gem_home gem_path bundle_gemfile openssl_modules
    """
)
_LOADING_PREFIXES = (
    "ld_",
    "dyld_",
    "git_",
    "bash_",
    "ssh_",
    "sudo_",
    "npm_",
    "pip_",
    "coreclr_",
    "cor_",
    "ansible_",
)
_LOADING_PART = re.compile(
    r"(?:^|_)(?:config|conf|cfg|rc|init|preload|hooks?|plugins?|wrapper|launcher|runner|linker"
    r"|command|cmd|editor|pager|browser|shell|askpass|options|opts|opt|addopts|args|startup|exec"
    r"|executable|rsh|ssh|profile|profiler|proxy)(?:_|\d|$)"
)


_HARMLESS = word_set(
    "CI NO_COLOR FORCE_COLOR CLICOLOR TERM COLUMNS LINES LC_ALL LC_CTYPE LC_COLLATE LANG TZ "
    "CGO_ENABLED NODE_ENV PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE PYTHONPATH GO111MODULE "
    "RUST_BACKTRACE CARGO_TERM_COLOR"
)
"""Names by which programs load and start only files of the project."""
# relative, and never up: PYTHONPATH=src is of the project, PYTHONPATH=../x and =/x are not
_PLAIN_VALUE = re.compile(r"(?![/:~])(?!(?:.*[/:])?\.\.(?:[/:]|$))(?!.*:[/~])[A-Za-z0-9_.,:+/-]*")


def are_harmless(assigned: Sequence[ShellWord]) -> bool:
    """Return True if a rule set covers a command with these variables as without them."""
    return all(map(_is_harmless, assigned))


def _is_harmless(word: ShellWord) -> bool:
    name, _, value = word.text.partition("=")
    known = not (word.pieces or word.unknown or word.glob)
    return known and name in _HARMLESS and _PLAIN_VALUE.fullmatch(value) is not None


def loading_name(assigned: Sequence[ShellWord]) -> str | None:
    """Return the first name that may make a program load code or start another program."""
    return next(filter(_loads, (word.text.partition("=")[0] for word in assigned)), None)


def _loads(name: str) -> bool:
    name = name.casefold()
    if name in _LOADING or name.startswith(_LOADING_PREFIXES):
        return True
    return _LOADING_PART.search(name) is not None

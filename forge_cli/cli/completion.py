"""Shell completion: the script for each shell, and the candidates that it asks for."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from typer.main import get_command

from forge_cli.cli.commands import app, lazy_commands
from forge_cli.core.errors import UsageError
from forge_cli.files.home import forge_home, user_home
from forge_cli.files.lookup import SUFFIXES, named_workers, worker_of_folder
from forge_cli.files.replace import append_durably, replace_file

SCRIPTS = {
    shell: Path(__file__).with_name(f"completion.{shell}") for shell in ("bash", "zsh", "fish")
}


def install(shell: str | None) -> str:
    """Install the completion script of a shell and return what was done."""
    shell = shell or Path(os.environ.get("SHELL", "")).name
    if shell not in SCRIPTS:
        if shell:
            told = f"the shell '{shell}' is not one of {', '.join(SCRIPTS)}"
        else:
            told = "SHELL is not set to a known shell"
        raise UsageError(told, hint="name one: forge --install-completion bash")
    if shell == "fish":
        config = Path(os.environ.get("XDG_CONFIG_HOME") or user_home() / ".config")
        script = config / "fish" / "completions" / "forge.fish"
        added = ""
    else:
        script = forge_home() / f"completion.{shell}"
        if shell == "zsh":
            start = Path(os.environ.get("ZDOTDIR") or user_home(), ".zshrc")
        else:
            start = user_home() / ".bashrc"
        added = ""
        if _add_line(start, f'. "{script}"'):
            added = f", and a line in {start} that reads it"
    replace_file(script, SCRIPTS[shell].read_text("utf-8"))
    return (
        f"Wrote {script}{added}.\n"
        f"A new {shell} completes commands, options, workers and sessions of forge.\n"
    )


def _add_line(file: Path, line: str) -> bool:
    """Append a line to a file of the user unless it is there; return True if it was added."""
    before = file.read_text() if file.exists() else ""
    if line in before.splitlines():
        return False
    # a last line without an end would swallow the new one
    end = "\n" if before and not before.endswith("\n") else ""
    append_durably(file, f"{end}{line}\n")
    return True


def answer(words: Sequence[str]) -> int:
    """Print the candidates for the last word, one a line.

    If there are none, the shell completes file names.
    """
    sys.stdout.writelines(f"{found}\n" for found in complete(words))
    return 0


def complete(words: Sequence[str]) -> list[str]:
    """Return the sorted candidates for the last of ``words``."""
    *before, begun = words or [""]
    return sorted({found for found in _candidates(before, begun) if found.startswith(begun)})


def _candidates(before: list[str], begun: str) -> Iterable[str]:
    helps = before[:1] == ["help"]
    before = before[1:] if helps else before
    if not before and begun.startswith("-"):
        return _options(get_command(app))
    known = lazy_commands()
    if not before:
        return {name.split()[0] for name in known}
    if before[0] not in known and len(before) == 1:
        return [name.split()[1] for name in known if name.startswith(f"{before[0]} ")]
    words = 1 if before[0] in known else 2  # a command, or a command of a group
    command = known.get(" ".join(before[:words]))
    if helps or command is None:
        return ()
    return _of_command(command.load(), before[words:], begun)


def _of_command(command: Any, before: Sequence[str], begun: str) -> Iterable[str]:
    options: dict[str, Any] = {}
    for parameter in command.params:
        for option in parameter.opts:
            if option.startswith("-"):
                options[option] = parameter
    arguments = [
        parameter for parameter in command.params if parameter.param_type_name == "argument"
    ]
    place = 0
    value_of = None
    # click cannot parse an incomplete command line, so options and arguments are counted here
    for word in before:
        if value_of is not None:
            value_of = None
        elif word.startswith("-"):
            named = options.get(word)
            if named is not None and not getattr(named, "is_flag", False):
                value_of = named
        else:
            place += 1
    if value_of is not None:
        return _values(value_of)
    if begun.startswith("-"):
        return _options(command)
    if arguments:
        return _values(arguments[min(place, len(arguments) - 1)])
    return ()


def _options(command: Any) -> Iterator[str]:
    yield "--help"
    for parameter in command.params:
        if parameter.param_type_name == "option" and not parameter.hidden:
            yield from parameter.opts


def _values(parameter: Any) -> Iterable[str]:
    kind = parameter.type_descriptor
    if kind.is_choice:
        return [str(getattr(choice, "value", choice)) for choice in kind.choices or ()]
    match (parameter.metavar or "").partition("|")[0]:  # such as SESSION|FILE
        case "WORKER":
            names = [worker.name for worker in named_workers(Path.cwd(), forge_home())]
            return [*names, *_worker_files()]
        case "ID" | "SESSION":
            return ["last", *(path.stem for path in (forge_home() / "sessions").glob("*.jsonl"))]
        case _:
            return ()


def _worker_files() -> Iterator[str]:
    """Yield files and folders of this folder that may be workers."""
    for name in os.listdir():
        if name.endswith(SUFFIXES) or worker_of_folder(Path(name)):
            yield name

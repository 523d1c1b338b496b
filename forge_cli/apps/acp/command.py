"""``forge serve acp``: the command, and the settings of editors that start it."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from forge_cli.cli.find_worker import find_trusted_worker
from forge_cli.cli.options import new_app
from forge_cli.cli.output import data_output
from forge_cli.cli.run_options import SharedOptions
from forge_cli.core.wire import JsonObject
from forge_cli.engine.runtime.options import RunOptions
from forge_cli.files.lookup import is_path
from forge_cli.files.worker import load_worker
from forge_cli.process.signals import in_loop

app = new_app()
DEFAULT = "coder"
PROGRAMS = ("forge", "forge-workers")
_KEY = "forge"


class Editor(StrEnum):
    """Editors whose settings forge can print."""

    ZED = "zed"
    JETBRAINS = "jetbrains"
    NEOVIM = "neovim"
    EMACS = "emacs"


@app.command()
def acp(
    options: SharedOptions,
    worker: Annotated[
        str,
        typer.Argument(
            metavar="WORKER",
            help="A name (forge worker list), a worker file, or a folder with one.",
        ),
    ] = DEFAULT,
    print_config: Annotated[
        Editor | None,
        typer.Option("--print-config", help="Print the settings for this editor."),
    ] = None,
) -> None:
    """Use a worker in editors that support the Agent Client Protocol.

    The editor starts this command and names the folder of each session. Calls that ask are answered
    in the editor.
    """
    path = str(Path(find_trusted_worker(worker, interactive=False)).absolute())
    load_worker(path)
    asked = replace(options.chosen(path, worker), workspace=Path.cwd().resolve())
    with data_output() as out:
        if print_config is not None:
            out.write(config_for(print_config, asked))
            return
        # slow to import, and not needed for --print-config
        serve = import_module("forge_cli.apps.acp.requests").serve
        code = in_loop(serve, asked, out)
    raise typer.Exit(code)


def config_for(editor: Editor, asked: RunOptions) -> str:
    """Return the settings that start this command with the same flags."""
    if is_path(asked.named):
        worker = Path(asked.worker).stem
    else:
        worker = asked.named
    name = f"forge {worker}"
    command = [*_program(), *_arguments(asked)]
    match editor:
        case Editor.ZED:
            return _servers(
                name, {"type": "custom", "command": command[0], "args": command[1:], "env": {}}
            )
        case Editor.JETBRAINS:
            return _servers(name, {"command": command[0], "args": command[1:], "env": {}})
        case Editor.NEOVIM:
            given = {"key": _KEY, "name": _text(name), "command": ", ".join(map(_text, command))}
            return _template("neovim.lua") % given
        case Editor.EMACS:
            program, *arguments = map(_text, command)
            given = {
                "key": _KEY,
                "name": _text(name),
                "program": program,
                "arguments": " ".join(arguments),
            }
            return _template("emacs.el") % given


def _template(name: str) -> str:
    return Path(__file__).with_name(name).read_text("utf-8")


def _servers(name: str, entry: JsonObject) -> str:
    return json.dumps({"agent_servers": {name: entry}}, indent=2, ensure_ascii=False) + "\n"


def _text(text: str) -> str:
    """Return a JSON string without Unicode escapes, which Lua and Lisp can read, too."""
    return json.dumps(text, ensure_ascii=False)


def _program() -> list[str]:
    """Return the full path of forge, because an editor may have a shorter PATH."""
    started = Path(sys.argv[0]).absolute()
    if started.name in PROGRAMS and started.is_file():
        return [str(started)]
    return [sys.executable, "-m", "forge_cli"]


def _arguments(asked: RunOptions) -> list[str]:
    # the editor starts forge in another folder, so a path has to be absolute
    worker = asked.worker if is_path(asked.named) else asked.named
    arguments = ["serve", "acp", worker]
    if asked.model is not None:
        arguments += ["-m", asked.model]
    if asked.mode is not None:
        arguments += ["--approval-mode", asked.mode.value]
    if not asked.plugins:
        arguments.append("--no-plugins")
    if asked.read_only:
        arguments.append("--read-only")
    return arguments

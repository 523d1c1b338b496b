"""``forge worker show``: a worker's tools, policy, children and prompt."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from forge_cli.cli.find_worker import WorkerArgument, find_worker
from forge_cli.cli.options import DirectoryOption, JsonOption, new_app, work_folder
from forge_cli.cli.output import data_output
from forge_cli.core.errors import UsageError
from forge_cli.core.text import visible
from forge_cli.files.guidance import guidance_for
from forge_cli.files.home import forge_home
from forge_cli.files.repository import git_branch
from forge_cli.files.worker import load_worker
from forge_cli.inspection.facts import Facts, worker_view
from forge_cli.inspection.facts_in_words import limits_in_words, lines_of_tree, lines_of_zones
from forge_cli.inspection.inspector import inspect
from forge_cli.process.signals import in_loop
from forge_cli.ui.table import Column, print_json, print_table
from forge_cli.ui.wrap import wrap_for

app = new_app()


@app.command()
def show(
    worker: WorkerArgument,
    policy: Annotated[
        bool, typer.Option("--policy", help="Show the verdict on every tool, and every rule.")
    ] = False,
    tree: Annotated[
        bool, typer.Option("--tree", help="Show the workers that it may call, and their tools.")
    ] = False,
    prompt: Annotated[bool, typer.Option("--prompt", help="Show the system prompt.")] = False,
    as_json: JsonOption = False,
    directory: DirectoryOption = None,
) -> None:
    """Show a worker: its tools, policy, child workers or prompt.

    No server or model is started, and no folder is created.
    """
    if policy + tree + prompt > 1:
        raise UsageError("--policy, --tree and --prompt contradict each other; keep one")
    wanted = {"policy": policy, "tree": tree, "prompt": prompt, "facts": True}
    view = next(name for name, is_wanted in wanted.items() if is_wanted)
    path = find_worker(worker)
    folder = work_folder(directory)
    with data_output():
        guidance = _guidance(path, folder) if prompt else ""
        asked = (path, str(folder), view, git_branch(folder), guidance)
        found = in_loop(partial(inspect, worker_view, *asked, worker=path, folder=folder))
    if as_json:
        print_json(found)
    else:
        _PRINTERS[view](found)


def _guidance(worker: str, folder: Path) -> str:
    """Return the text of AGENTS.md files; a confined child cannot see those in parent folders."""
    return guidance_for(load_worker(worker).config.agents_md, folder, forge_home()).text


def _print_facts(found: Facts) -> None:
    _line(f"{found['name']} ({found['file']})")
    if found["description"]:
        _line(f"  {found['description']}")
    _line(f"  model:     {found['model'] or 'none is named'}")
    _line(f"  approval:  {found['approvalMode']}")
    _line(f"  limits:    {limits_in_words(found)}")
    _line(
        f"  isolation: {found['isolation']['level']}, "
        f"{_describe_network(found['isolation']['network'])}"
    )
    _line("zones:")
    for line in lines_of_zones(found["zones"]):
        _line(f"  {line}")
    _line("toolsets:")
    for toolset, tools in found["toolsets"].items():
        _line(f"  {toolset}: {', '.join(tools)}")
    if found["manual"]:
        _line("for people:")
    for tool in found["manual"]:
        menu = [f"{key} {tool[key]}" for key in ("label", "category") if tool[key]]
        _line(f"  {tool['name']}: {', '.join([tool['mode'], *menu])}")


def _describe_network(network: bool | list[str]) -> str:
    if isinstance(network, bool):
        return "with the network" if network else "without the network"
    if network:
        return f"network: {', '.join(network)}; other hosts ask"
    return "network: every host asks"


def _print_policy(found: Facts) -> None:
    toolset = Column("toolset", drop=1)
    where = Column("where", drop=2, is_path=True)
    reason = Column("reason", room=30)
    print_table(["tool", toolset, "verdict", where, reason], found["tools"])
    if found["rules"]:
        sys.stdout.write("\n")
        print_table([Column("rule", drop=1), "verdict", where, reason], found["rules"])
    if found["zones"]:
        sys.stdout.write("\n")
        zones = [{**zone, "zone": f"/{zone['name']}"} for zone in found["zones"]]
        print_table(["zone", "mode", "write", "delete", where, Column("path", is_path=True)], zones)
    if found["hooks"]:
        sys.stdout.write("\n")
        print_table(["hook", "on", "match", where], found["hooks"])


def _print_tree(found: Facts) -> None:
    for line in lines_of_tree(found):
        _line(line)


def _print_prompt(found: Facts) -> None:
    text = str(found["prompt"])
    if sys.stdout.isatty():
        text = visible(text, keep="\n\t")
    sys.stdout.write(f"{text}\n")


def _line(text: str) -> None:
    sys.stdout.write(f"{wrap_for(sys.stdout, visible(text))}\n")


_PRINTERS = {
    "facts": _print_facts,
    "policy": _print_policy,
    "tree": _print_tree,
    "prompt": _print_prompt,
}

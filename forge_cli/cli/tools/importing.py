"""``forge tools import``: tools from a folder, an archive or a git repository."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from functools import partial
from typing import Annotated, Any

import typer
from msgspec.structs import asdict

from forge_cli.cli.notices import ask, warn
from forge_cli.cli.options import JsonOption, new_app
from forge_cli.cli.tools.choose import allowed_tools, parameter_lines
from forge_cli.core.errors import ExitCode
from forge_cli.core.text import cut, readable, visible
from forge_cli.process.signals import in_loop
from forge_cli.process.stdin import is_interactive
from forge_cli.toolsets.executables.importing import FoundTool, Importer, Offered
from forge_cli.toolsets.executables.registry import GO, PYTHON, SHELL
from forge_cli.ui.table import print_json

app = new_app()

MAX_SHOWN = 20_000
"""Characters of one file that are shown before the question."""
MAX_USAGE = 2000
_STARTED = {
    GO: "compiled by go, without the network, on first use",
    PYTHON: "python",
    SHELL: "bash",
}
_EVERY_CALL = (
    "A call starts this program, confined to the zones and the network of the worker, without keys "
    "in the environment. Each call asks, unless a worker pre-approves the tool. It was not run yet."
)


@app.command("import")
def import_tools(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE", help="A folder, an archive, or the URL of a git repository."
        ),
    ],
    tools: Annotated[
        list[str] | None,
        typer.Argument(metavar="TOOL", help="Import only these, by name or folder."),
    ] = None,
    rename: Annotated[
        str | None, typer.Option("--as", metavar="NAME", help="Give the tool another name.")
    ] = None,
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Import without asking.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Import tools into ~/.forge/tools from a folder, an archive or a git repository.

    Each tool is shown first, with its files, their hashes and what it would do. An existing tool is
    never changed.
    """
    importer = Importer(allowed_tools().home)
    offered = in_loop(partial(importer.look, source, tools or (), rename))
    if not as_json:
        sys.stdout.writelines(f"{line}\n" for line in _lines(offered))
        sys.stdout.flush()
    agreed = yes or _ask(offered)
    places = importer.install(offered) if agreed else []
    if as_json:
        print_json(_wire(offered, [place.name for place in places]))
    # ``places`` is empty if nothing was imported
    for tool, place in zip(offered.tools, places, strict=False):
        if tool.warning:
            warn(tool.warning.removeprefix("WARNING: "))
        if not as_json:
            sys.stdout.write(visible(f"imported {place}") + "\n")
    if not agreed:
        raise typer.Exit(ExitCode.DENIED)


def _ask(offered: Offered) -> bool:
    if not is_interactive():
        warn("nothing was imported: there is no terminal to ask; --yes imports without asking")
        return False
    if len(offered.tools) == 1:
        what = "it"
    else:
        what = f"these {len(offered.tools)} tools"
    while True:
        answer = ask(
            f"Import {what} into ~/.forge/tools? [y]es, [n]o, [s]how the files > ", at_end="n"
        ).lower()
        if answer not in ("s", "show"):
            break
        for tool in offered.tools:
            _show_files(tool)
    if answer in ("y", "yes"):
        return True
    warn("nothing was imported")
    return False


def _show_files(tool: FoundTool) -> None:
    for path, content in sorted(tool.contents.items()):
        sys.stderr.write(visible(f"\n{tool.name}/{path}") + "\n")
        if b"\0" in content.data:
            sys.stderr.write("  (not text)\n")
            continue
        text = readable(cut(content.data.decode(errors="replace"), MAX_SHOWN))
        sys.stderr.writelines(f"  {line}\n" for line in text.split("\n"))
    sys.stderr.write("\n")


def _lines(offered: Offered) -> Iterator[str]:
    version = next((f", {key} {value}" for key, value in offered.facts.items() if value), "")
    yield visible(f"{offered.source}{version}")
    for tool in offered.tools:
        yield ""
        yield from (visible(line) for line in _tool_lines(tool))
    yield ""
    yield _EVERY_CALL


def _tool_lines(tool: FoundTool) -> Iterator[str]:
    manifest = tool.program.manifest
    renamed = ""
    if tool.declared != tool.name:
        renamed = f" (called {tool.declared} there)"
    yield f"{tool.name} {manifest.version}{renamed}: {' '.join(manifest.description.split())}"
    for key, value in _facts(tool).items():
        yield f"  {key + ':':<12} {value}"
    usage = cut(manifest.usage.strip(), MAX_USAGE)
    if usage:
        yield "  usage:"
        yield from (f"    {line}" for line in usage.split("\n"))
    parameters = parameter_lines(manifest.input_schema())
    yield "  parameters:" if parameters else "  parameters:  none"
    yield from (f"  {line}" for line in parameters)
    yield "  files:"
    rows = _files(tool)
    width = max(len(row["path"]) for row in rows)
    for row in rows:
        executable = ", can be executed" if row["executable"] else ""
        yield f"    {row['path']:<{width}}  {row['size']} bytes, sha256 {row['sha256']}{executable}"


def _facts(tool: FoundTool) -> dict[str, str]:
    """Return what a call of the tool would do, according to its tool.yaml."""
    manifest = tool.program.manifest
    script = tool.program.script
    callers = manifest.callers
    starts = str(tool.entrypoint)
    if how := _STARTED.get(tool.program.entrypoint.suffix):
        starts += f" ({how})"
    called_by = ""
    if callers:
        called_by = {"manual": "people only", "both": "people and the model"}.get(callers.mode, "")
    approvals = {"ask": "always asks", "blocked": "is blocked"}
    paths = [f"{each.access}s --{each.name}" for each in manifest.parameters if each.type == "path"]
    facts = {
        "folder": tool.folder,
        "starts": starts,
        "packages": ", ".join(script.dependencies) if script else "",
        "paths": ", ".join(paths),
        "called by": called_by,
        "approval": approvals.get(manifest.needs_approval or "", ""),
        "time limit": f"{manifest.timeout:g} s",
        "lacks": tool.lacks or "",
        "warning": tool.warning.removeprefix("WARNING: "),
    }
    return {key: value for key, value in facts.items() if value}


def _files(tool: FoundTool) -> list[dict[str, Any]]:
    return [
        {
            "path": path,
            "size": len(content.data),
            "sha256": hashlib.sha256(content.data).hexdigest(),
            "executable": content.executable,
        }
        for path, content in sorted(tool.contents.items())
    ]


def _wire(offered: Offered, imported: list[str]) -> dict[str, Any]:
    tools = [_tool_wire(tool) for tool in offered.tools]
    facts = {"source": offered.source, "kind": offered.kind, **offered.facts}
    return {**facts, "tools": tools, "imported": imported}


def _tool_wire(tool: FoundTool) -> dict[str, Any]:
    manifest = tool.program.manifest
    script = tool.program.script
    return {
        "name": tool.name,
        "declared": tool.declared,
        "folder": tool.folder,
        "description": manifest.description,
        "version": manifest.version,
        "usage": manifest.usage,
        "entrypoint": tool.entrypoint,
        "packages": list(script.dependencies) if script else [],
        "timeout": manifest.timeout,
        "needsApproval": manifest.needs_approval,
        "manualExecution": asdict(manifest.callers) if manifest.callers else None,
        "lacks": tool.lacks,
        "inputSchema": manifest.input_schema(),
        "files": _files(tool),
    }

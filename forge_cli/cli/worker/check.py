"""``forge worker check``: validation of a worker file."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from msgspec.structs import asdict

from forge_cli.cli.find_worker import WorkerArgument, find_worker
from forge_cli.cli.options import DirectoryOption, JsonOption, new_app, work_folder
from forge_cli.cli.output import data_output
from forge_cli.core.errors import ForgeError, WorkerError
from forge_cli.core.text import visible
from forge_cli.core.wire import JsonObject
from forge_cli.files.home import forge_home
from forge_cli.files.settings_files import load_settings, organisation_policy
from forge_cli.files.trust import with_children
from forge_cli.files.worker import load_worker
from forge_cli.inspection.inspector import inspect
from forge_cli.inspection.model_names import check_script
from forge_cli.inspection.soundness import open_all
from forge_cli.inspection.worker_grants import Grant, grants_of, hooks_beside, lines_of_grants
from forge_cli.process.signals import in_loop
from forge_cli.ui.table import print_json

app = new_app()


@app.command()
def check(
    worker: WorkerArgument,
    directory: DirectoryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check whether a worker file is valid.

    Checks keys, zones, toolsets, tools, approvals, imports of its code, and the name of the model.
    Also lists what the worker starts, and what it allows in advance.
    """
    path = worker
    folder = work_folder(directory)
    try:
        path = find_worker(worker)
        if len(forbidden := _forbidden(path, folder)) > 1:
            told = "".join(f"\n  {each}" for each in forbidden)
            raise WorkerError(
                None, f"{worker}: the organisation forbids {len(forbidden)} things of it{told}"
            )
        facts, grants = check_worker(path, folder)
    except ForgeError as error:
        if as_json:
            where = str(error.where) if error.where else None
            print_json(
                {
                    "path": path,
                    "ok": False,
                    "error": error.message,
                    "where": where,
                    "hint": error.hint,
                }
            )
        raise
    hooks = hooks_beside(folder)
    if as_json:
        lists = {
            "grants": [asdict(each) for each in grants],
            "hooks": [asdict(each) for each in hooks],
        }
        print_json({"path": path, "ok": True, **facts, **lists})
        return
    unseen = ""
    if "unseen" in facts:
        unseen = f", and the unknown tools of {', '.join(facts['unseen'])}"
    told = (
        f"{worker}: ok (worker '{facts['worker']}', "
        f"toolsets: {facts['toolsets']}, tools: {facts['tools']}{unseen})"
    )
    lines = [told, *lines_of_grants(grants)]
    if hooks:
        lines += lines_of_grants(hooks, "hooks that run with it")
    with data_output() as out:
        out.writelines(f"{visible(line)}\n" for line in lines)


def _forbidden(path: str, folder: Path) -> list[WorkerError]:
    """Return the errors for everything that the organisation does not allow."""
    policy = organisation_policy()
    if policy is None:
        return []
    from forge_cli.engine.organisation import Organisation

    return list(
        Organisation(policy).objections(load_worker(path), load_settings(forge_home(), folder))
    )


def check_worker(path: str, folder: Path) -> tuple[JsonObject, list[Grant]]:
    """Return the parts of a valid worker and its grants; print warnings to standard error."""
    found = load_worker(path)
    look = partial(
        inspect,
        open_all,
        path,
        str(folder),
        worker=path,
        folder=folder,
        names_code=found.names_code,
    )
    counts, odd = in_loop(look)
    toolsets, tools, unseen = counts
    for sentence in odd:
        sys.stderr.write(f"warning: {visible(sentence)}\n")
    for each in with_children(found):
        check_script(each, folder)
        if each.config.output_schema is not None:
            from forge_cli.engine.turns.environment import wanted_output

            wanted_output(each)
    facts: JsonObject = {"worker": found.name, "toolsets": toolsets, "tools": tools}
    if unseen:
        facts["unseen"] = unseen
    return facts, grants_of(found, folder)

"""``forge doctor``: is everything there that forge needs, and if not, what to do."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from msgspec.structs import asdict

from forge_cli import __version__
from forge_cli.cli.options import JsonOption, new_app
from forge_cli.cli.output import data_output
from forge_cli.core.errors import ExitCode
from forge_cli.core.text import counted, visible
from forge_cli.files.home import forge_home
from forge_cli.inspection.health import DoctorCheck, check_health, isolation_level
from forge_cli.process.signals import in_loop
from forge_cli.process.stdin import is_interactive
from forge_cli.record.leftovers import find_leftovers, remove_leftover
from forge_cli.ui.table import BOLD, GREEN, RED, paint, print_json
from forge_cli.ui.wrap import terminal_width, wrap, wrap_for

app = new_app()

OPTIONAL = "Optional: forge works without these."


@app.command()
def doctor(
    clean: Annotated[
        bool,
        typer.Option(
            "--clean",
            help="Remove what killed commands left behind, in ~/.forge and below this folder.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check that everything is there that forge needs.

    Python, home, terminal, models, plugins and tools of your own, each with a remedy. With --clean it only lists what
    commands that were killed left behind, and removes it; exit code 1 when something could not be removed.
    """
    if clean:
        _clean(as_json=as_json)
        return
    with data_output():
        checks = in_loop(partial(check_health, interactive=is_interactive()))
    if as_json:
        shown = [
            {key: value for key, value in asdict(check).items() if key != "essential"}
            for check in checks
        ]
        print_json({"version": __version__, "checks": shown, "isolation": isolation_level()})
    else:
        optional = [check for check in checks if not check.ok and not check.essential]
        for check in checks:
            if check not in optional:
                _print(check)
        if optional:
            sys.stdout.write(f"\n{paint(OPTIONAL, BOLD)}\n")
        for check in optional:
            _print(check)
        sys.stdout.write("\n" * bool(optional))
        sys.stdout.write(_conclude(checks) + "\n")
    raise typer.Exit(
        ExitCode.DONE if all(check.ok for check in checks if check.essential) else ExitCode.FAILED
    )


def _clean(*, as_json: bool) -> None:
    """Remove what was left behind; what a living process works with, or an undo needs, stays and is named."""
    rows: list[dict[str, object]] = []
    for each in find_leftovers(forge_home(), Path.cwd()):
        removed = remove_leftover(each)
        why = None if removed else each.kept or "it could not be removed"
        rows.append(
            {
                "kind": each.kind,
                "path": str(each.path),
                "bytes": each.size,
                "removed": removed,
                "kept": why,
            }
        )
    if as_json:
        print_json(rows)
    else:
        for row in rows:
            word, why = ("removed", "") if row["removed"] else ("kept", f": {row['kept']}")
            size = f"{row['bytes']} bytes"
            sys.stdout.write(
                visible(f"{word:<8} {row['kind']:<10} {row['path']} ({size}){why}") + "\n"
            )
        if not rows:
            sys.stdout.write("nothing was left behind\n")
    failed = any(row["kept"] == "it could not be removed" for row in rows)
    raise typer.Exit(ExitCode.FAILED if failed else ExitCode.DONE)


def _print(check: DoctorCheck) -> None:
    """Print what was found, and below it what to do about it."""
    detail = check.detail
    remedy = "" if check.ok else check.remedy or ""
    if (
        check.id.startswith("model.") and not check.essential
    ):  # a provider's own sentence says the same and more
        problem, separator, rest = remedy.partition("; ")
        if separator:
            detail = problem
            remedy = rest
    mark = "FAILED " if check.essential else "missing"
    if check.ok:
        mark = "ok     "
    lines = [f"{check.id}: {detail}", *([remedy] if remedy else [])]
    width = terminal_width(sys.stdout)
    margin = " " * len(f"{mark} ")
    shown = [
        wrap(visible(line), width - len(margin), 2) if width else visible(line) for line in lines
    ]
    sys.stdout.write(f"{paint(mark)} " + "\n".join(shown).replace("\n", f"\n{margin}") + "\n")


def _conclude(checks: Sequence[DoctorCheck]) -> str:
    """One sentence on all of it."""
    failed = sum(check.essential for check in checks if not check.ok)
    missing = sum(not check.essential for check in checks if not check.ok)
    more = f"; {counted(missing, 'optional thing')} missing" if missing else ""
    verdict = f"{counted(failed, 'check')} failed" if failed else "all that forge needs is there"
    ready = [
        check.id
        for check in checks
        if check.ok and check.id.startswith("model.") and check.id != "model.script"
    ]
    if not ready:
        to_do = (
            "set up a model, by forge keys set anthropic, forge keys set openai, or OPENAI_BASE_URL"
        )
        more += f"\nalso to do: {to_do}" if failed else f"\none thing to do: {to_do}"
    return paint(wrap_for(sys.stdout, verdict + more), RED if failed else GREEN)

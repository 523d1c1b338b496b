"""``forge doctor``: checks of this machine, each problem with its remedy."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
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
SET_UP_A_MODEL = (
    "set up a model, by forge keys set anthropic, forge keys set openai, or OPENAI_BASE_URL"
)
NOT_REMOVED = "it could not be removed"


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
    """Check that forge can work here, and show what to do if not.

    Checks Python, home, terminal, models, plugins and your own tools; each problem is printed with
    its remedy. --clean checks nothing: it removes what killed commands
    left behind, and exits with 1 if something could not be removed.
    """
    if clean:
        _clean(as_json=as_json)
        return
    with data_output():
        checks = in_loop(partial(check_health, interactive=is_interactive()))
    if as_json:
        _print_as_json(checks)
    else:
        _print_report(checks)
    if any(check.essential and not check.ok for check in checks):
        raise typer.Exit(ExitCode.FAILED)


def _print_as_json(checks: Sequence[DoctorCheck]) -> None:
    rows: list[dict[str, object]] = []
    for check in checks:
        row = asdict(check)
        del row["essential"]
        rows.append(row)
    print_json({"version": __version__, "checks": rows, "isolation": isolation_level()})


def _print_report(checks: Sequence[DoctorCheck]) -> None:
    """Print what matters first, then the missing optional things, then what to do."""
    optional = [check for check in checks if not check.ok and not check.essential]
    for check in checks:
        if check not in optional:
            _print(check)
    if optional:
        sys.stdout.write(f"\n{paint(OPTIONAL, BOLD)}\n")
        for check in optional:
            _print(check)
        sys.stdout.write("\n")
    sys.stdout.write(_conclude(checks) + "\n")


def _clean(*, as_json: bool) -> None:
    """Remove leftovers, except for those that a running process or an undo needs."""
    rows: list[dict[str, object]] = []
    for each in find_leftovers(forge_home(), Path.cwd()):
        removed = remove_leftover(each)
        row: dict[str, object] = {"kind": each.kind, "path": str(each.path), "bytes": each.size}
        row["removed"] = removed
        row["kept"] = None if removed else each.kept or NOT_REMOVED
        rows.append(row)
    if as_json:
        print_json(rows)
    else:
        _print_leftovers(rows)
    if any(row["kept"] == NOT_REMOVED for row in rows):
        raise typer.Exit(ExitCode.FAILED)


def _print_leftovers(rows: Sequence[Mapping[str, object]]) -> None:
    if not rows:
        sys.stdout.write("nothing was left behind\n")
    for row in rows:
        word = "removed"
        reason = ""
        if not row["removed"]:
            word = "kept"
            reason = f": {row['kept']}"
        line = f"{word:<8} {row['kind']:<10} {row['path']} ({row['bytes']} bytes){reason}"
        sys.stdout.write(visible(line) + "\n")


def _print(check: DoctorCheck) -> None:
    """Print what was found, and its remedy on the lines below."""
    detail = check.detail
    remedy = "" if check.ok else check.remedy or ""
    if not check.essential and check.id.startswith("model."):
        # the remedy of a provider begins with the problem, more precisely than the detail does
        problem, separator, rest = remedy.partition("; ")
        if separator:
            detail = problem
            remedy = rest
    mark = "FAILED " if check.essential else "missing"
    if check.ok:
        mark = "ok     "
    lines = [f"{check.id}: {detail}"]
    if remedy:
        lines.append(remedy)
    margin = " " * len(f"{mark} ")
    width = terminal_width(sys.stdout)
    shown = []
    for line in map(visible, lines):
        shown.append(wrap(line, width - len(margin), 2) if width else line)
    sys.stdout.write(f"{paint(mark)} " + "\n".join(shown).replace("\n", f"\n{margin}") + "\n")


def _is_real_model(check: DoctorCheck) -> bool:
    """Return True for a provider that asks a language model; scripts are always ready."""
    return check.id.startswith("model.") and check.id != "model.script"


def _conclude(checks: Sequence[DoctorCheck]) -> str:
    """Return the last lines of the report: the counts, and each step that is left to do."""
    failed = [check for check in checks if not check.ok and check.essential]
    missing = sum(not check.ok and not check.essential for check in checks)
    verdict = "all that forge needs is there"
    if failed:
        verdict = f"{counted(len(failed), 'check')} failed"
    if missing:
        verdict += f"; {counted(missing, 'optional thing')} missing"
    steps = [f"{check.id}: {check.remedy or check.detail}" for check in failed]
    steps = list(dict.fromkeys(steps))  # two packages that clash fail with the same sentence
    if not any(check.ok and _is_real_model(check) for check in checks):
        steps.append(SET_UP_A_MODEL)
    lines = [verdict]
    if len(steps) == 1:
        lines.append(f"one thing to do: {steps[0]}")
    elif steps:
        lines += [f"{len(steps)} things to do:", *(f"  {step}" for step in steps)]
    shown = "\n".join(wrap_for(sys.stdout, visible(line)) for line in lines)
    return paint(shown, RED if failed else GREEN)

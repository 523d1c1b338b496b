"""``forge doctor``: is everything there that forge needs, and if not, what to do."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial

import typer
from msgspec.structs import asdict

from forge_cli import __version__
from forge_cli.cli.options import JsonOption, new_app
from forge_cli.cli.output import data_output
from forge_cli.core.errors import ExitCode
from forge_cli.core.text import counted, visible
from forge_cli.inspection.health import DoctorCheck, check_health, isolation_level
from forge_cli.process.signals import in_loop
from forge_cli.process.stdin import is_interactive
from forge_cli.ui.table import BOLD, GREEN, RED, paint, print_json
from forge_cli.ui.wrap import terminal_width, wrap, wrap_for

app = new_app()

OPTIONAL = "Optional: forge works without these."


@app.command()
def doctor(as_json: JsonOption = False) -> None:
    """Check that everything is there that forge needs.

    Python, home, terminal, models, plugins and tools of your own, each with a remedy.
    """
    with data_output():
        checks = in_loop(partial(check_health, interactive=is_interactive()))
    if as_json:
        shown = [{key: value for key, value in asdict(check).items() if key != "essential"} for check in checks]
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
    raise typer.Exit(ExitCode.DONE if all(check.ok for check in checks if check.essential) else ExitCode.FAILED)


def _print(check: DoctorCheck) -> None:
    """Print what was found, and below it what to do about it."""
    detail, remedy = check.detail, "" if check.ok else check.remedy or ""
    if detail.startswith("needs ") and "; " in remedy:  # a provider's own sentence says the same and more
        detail, remedy = remedy.split("; ", 1)
    mark = "ok     " if check.ok else "FAILED " if check.essential else "missing"
    lines = [f"{check.id}: {detail}", *([remedy] if remedy else [])]
    width = terminal_width(sys.stdout)
    margin = " " * len(f"{mark} ")
    shown = [wrap(visible(line), width - len(margin), 2) if width else visible(line) for line in lines]
    sys.stdout.write(f"{paint(mark)} " + "\n".join(shown).replace("\n", f"\n{margin}") + "\n")


def _conclude(checks: Sequence[DoctorCheck]) -> str:
    """One sentence on all of it."""
    failed = sum(check.essential for check in checks if not check.ok)
    missing = sum(not check.essential for check in checks if not check.ok)
    more = f"; {counted(missing, 'optional thing')} missing" if missing else ""
    verdict = f"{counted(failed, 'check')} failed" if failed else "all that forge needs is there"
    ready = [check.id for check in checks if check.ok and check.id.startswith("model.") and check.id != "model.script"]
    if not ready:
        more += (
            "\none thing to do: set up a model, by forge keys set anthropic, forge keys set openai, or OPENAI_BASE_URL"
        )
    return paint(wrap_for(sys.stdout, verdict + more), RED if failed else GREEN)

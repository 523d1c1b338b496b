"""``forge plugins check``: validation of installed plugins."""

from __future__ import annotations

import sys
from itertools import chain
from typing import Annotated

import typer

from forge_cli.cli.options import JsonOption, new_app
from forge_cli.cli.output import data_output
from forge_cli.core.errors import ExitCode
from forge_cli.core.source import OWN
from forge_cli.core.text import visible
from forge_cli.core.wire import JsonObject
from forge_cli.engine.plugins.distributions import NO_PLUGINS, distributions, installed_distribution
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.inspection.conformance import ConformanceCheck, lines_of_checks
from forge_cli.inspection.plugin_checks import check_distribution
from forge_cli.process.signals import in_loop
from forge_cli.ui.table import print_json

app = new_app()


@app.command()
def check(
    distribution: Annotated[
        str | None,
        typer.Argument(metavar="DIST", help="An installed package. Default: all."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Load a plugin in a separate process, and report its problems.

    Checks its entry points, hooks, names, settings and tools, and whether it supports this version
    of forge.
    """
    host = PluginHost()
    known = distributions((*host.plugins, *host.left_out))
    if distribution is not None:
        named = [installed_distribution(distribution)]
    else:
        named = [n for n in known if n != OWN]
    with data_output():
        found = {name: in_loop(check_distribution, known[name]) for name in named}
    if as_json:
        rows = []
        for name, checks in found.items():
            rows += [_row(name, each) for each in checks]
        print_json(rows)
    else:
        for name, checks in found.items():
            sys.stdout.write(visible(str(known[name][0])) + "\n")
            sys.stdout.writelines(f"{line}\n" for line in lines_of_checks(checks, "  ", notes=True))
    sys.stdout.flush()
    done = list(chain.from_iterable(found.values()))
    failed = [each for each in done if not each.ok]
    if failed:
        sys.stderr.write(f"forge: {len(failed)} of {len(done)} checks failed\n")
    elif not done:
        sys.stderr.write(f"{NO_PLUGINS}\n")
    raise typer.Exit(ExitCode.FAILED if failed else ExitCode.DONE)


def _row(distribution: str, check: ConformanceCheck) -> JsonObject:
    subject = {"distribution": distribution, "subject": check.tool}
    return {**subject, "check": check.check, "ok": check.ok, "detail": check.detail}

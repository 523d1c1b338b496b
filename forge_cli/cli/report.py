"""``forge report``: a file with what the maintainers of forge need to know about a problem."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from forge_cli import __version__
from forge_cli.cli.notices import warn
from forge_cli.cli.options import new_app
from forge_cli.cli.output import data_output
from forge_cli.cli.sessions.common import NAMED
from forge_cli.core.errors import ForgeError
from forge_cli.core.text import visible
from forge_cli.engine.plugins.distributions import installed_plugins
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.files.home import user_home
from forge_cli.inspection.health import DoctorCheck, check_health, isolation_level
from forge_cli.process.signals import in_loop
from forge_cli.record.log import find_session
from forge_cli.record.reading import read_log
from forge_cli.record.target import check_target, write_target
from forge_cli.ui.transcript.entries import read_transcript
from forge_cli.ui.transcript.markdown import markdown

app = new_app()


@app.command()
def report(
    session: Annotated[
        str | None,
        typer.Option("-r", "--session", metavar="ID", help=f"Add a session, {NAMED}."),
    ] = None,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="The file to write.")
    ] = Path("forge-report.md"),
) -> None:
    """Write a report of a problem into a file, for an issue.

    It has versions, what forge doctor finds and, with -r, a session. Secrets that forge knows are
    redacted; nothing is sent. Read the file before you share it.
    """
    log = None if session is None else read_log(find_session(session), warn)
    check_target("-o", output)
    with data_output():
        checks = in_loop(partial(check_health, interactive=False))
        lines = [*_versions(), *_found(checks)]
        if log is not None:
            shown = markdown(read_transcript(log.lines), PluginHost().renderer)
            lines += ["", "## The session", "", shown]
    text = "\n".join(lines).replace(str(user_home()), "~") + "\n"
    try:
        write_target(output, text)
    except OSError as error:
        raise ForgeError(f"-o {output}: it cannot be written: {error.strerror}") from None
    sys.stdout.write(visible(f"wrote {output}; read it before you share it") + "\n")


def _versions() -> Iterator[str]:
    plugins = sorted({str(plugin.distribution) for plugin in installed_plugins()})
    yield from ("## What happened", "", "(Your words: what you did, and what forge did.)", "")
    yield from ("## What you expected", "", "(Your words.)", "")
    yield from ("## Versions", "")
    yield f"- forge {__version__}, isolation {isolation_level()}"
    yield f"- Python {platform.python_version()} on {platform.platform()}"
    yield f"- packages: {', '.join(plugins)}"


def _found(checks: Sequence[DoctorCheck]) -> Iterator[str]:
    yield from ("", "## Checks", "", "| check | ok | finding |", "|---|---|---|")
    for check in checks:
        detail = check.detail.replace("|", "\\|").replace("\n", " ")
        yield f"| {check.id} | {'yes' if check.ok else 'no'} | {visible(detail)} |"

"""A request that waits, on a terminal: what would be called, why it asks, and what was answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console

from forge_cli.core.result_forms import read_result
from forge_cli.core.text import local_time, visible
from forge_cli.record.log import random_end
from forge_cli.ui.terminal.render import Indented, plain, render
from forge_cli.ui.transcript.arguments import split_args
from forge_cli.ui.views import FindRenderer, no_renderers

LOST = "its input held a secret, which the session does not keep: it will be denied"


def draw_request(row: Mapping[str, Any], console: Console, find: FindRenderer = no_renderers) -> None:
    """A row of ``forge approvals list``, with the command that answers it; the preview is cut, all else is whole."""

    def line(text: str, style: str = "") -> None:
        console.print(Indented(plain(visible(text), style=style), 0, hang=4), end="")

    line(f"{row['session']} {row['request']} {local_time(row['time'])}", "bold")
    line(f"  {row['worker']} wants to call {row['tool']} (risk: {row['risk']})", "yellow")
    preview = read_result(row["preview"]) if row["preview"] is not None else None
    short, blocks = split_args(row["args"], preview)
    for name, value in short.items():
        line(f"    {name}: {value}")
    for block in blocks:
        line(f"    {block.name}:")
        console.print(Indented(plain(block.text.rstrip("\n")), 6, hang=2), end="")
    if preview is not None:
        console.print(Indented(render(preview, find, row["distribution"], exact=True), 4, bar=True), end="")
    if recap := row.get("recap"):
        line(f"  {recap}")
    place = f" ({row['where']})" if row["where"] else ""
    line(f"  why: {row['reason']}{place}", "dim")
    if row["held_secret"] and row["pid"] is None:
        line(f"  {LOST}", "red")
    if row["pid"] is not None:
        line(f"  asked at a prompt right now, by the process {row['pid']}: the first answer counts", "dim")
    if answer := row["answer"]:
        note = f": {answer['note']}" if answer["note"] else ""
        line(f"  answered: {'yes' if answer['approved'] else 'no'}{note}", "green")
    else:
        request = row["request"].removeprefix("approval_")
        line(f"  answer with: forge approvals answer {random_end(row['session'])} {request} yes")

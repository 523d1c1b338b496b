"""Changes as results: short for the model, in full for whoever watches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from forge_cli.core.hints import DisplayHints
from forge_cli.core.results import Custom, ResultValue, Text
from forge_cli.core.text import counted, cut
from forge_cli.sandbox.patches import Change
from forge_cli.sandbox.protected import is_secret

KIND = "patch.result"
LETTERS = {"created": "A", "changed": "M", "deleted": "D"}
MODEL_DIFF_MAX = 3000
"""Characters of a diff that the model reads: it wrote the change itself."""
DIFF_MAX = 100_000


def for_model(summary: str, lines: Iterable[str]) -> str:
    """One line, and what changed below it, up to a bound."""
    diff = cut("\n".join(lines), MODEL_DIFF_MAX)
    return f"{summary}\n{diff}" if diff else summary


def holds_secrets(*paths: str) -> bool:
    return any(is_secret(name) for path in paths for name in path.split("/"))


def patch_result(changes: Sequence[Change]) -> Custom:
    """The files of a patch; the model reads again what was changed in them, not what was added or deleted."""
    room = DIFF_MAX // len(changes)
    files = [{"path": each.path, "change": each.kind, "diff": cut(each.unified(), room)} for each in changes]
    read = [each.unified() for each in changes if each.kind == "changed" and not holds_secrets(each.path, each.real)]
    return Custom(
        KIND,
        files,
        summary=f"Patched {counted(len(files), 'file')}.",
        model_text=for_model(_letters(files), "".join(read).splitlines()),
    )


def draw_patch(value: Custom) -> ResultValue:
    """The files of a patch as people read them."""
    lines = [_letters(value.data), *(each["diff"].removesuffix("\n") for each in value.data)]
    return Text("\n".join(lines), DisplayHints(language="diff"))


def _letters(files: Sequence[dict[str, str]]) -> str:
    return "  ".join(f"{LETTERS[each['change']]} {each['path']}" for each in files)

"""Paths that an option of the command line names: what is wrong with one, and what to do about it."""

from __future__ import annotations

from pathlib import Path

from forge_cli.core.errors import UsageError


def require_folder(option: str, path: Path, named: str | None = None) -> None:
    """Refuse what is not a folder; ``named`` is how the option has it, where that is not the path itself."""
    if not path.is_dir():
        raise wrong_path(option, path, "folder", named)


def wrong_path(option: str, path: Path, wanted: str, named: str | None = None) -> UsageError:
    """The error for an option whose path is missing, or is not the file or folder that it wants."""
    shown = str(path) if named is None else named
    if path.exists():
        return UsageError(f"{option} {shown}: that is not a {wanted}", hint=f"name a {wanted}")
    hint = f"check the path; it is looked for in {path.absolute().parent}"
    return UsageError(f"{option} {shown}: there is no such {wanted}", hint=hint)

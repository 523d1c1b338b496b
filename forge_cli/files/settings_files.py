"""Loading and merging settings of the user, a trusted project and the organisation."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from forge_cli.core.bounds import LOAD_LIMIT
from forge_cli.core.errors import WorkerError
from forge_cli.files.document import parse_document
from forge_cli.files.home import forge_home, has_policy
from forge_cli.files.places import cannot_read
from forge_cli.files.settings import Seconds, Settings, read_settings
from forge_cli.schema.config import parse_config

if TYPE_CHECKING:
    from forge_cli.files.organisation import OrganisationPolicy


def project_file(workspace: Path) -> Path:
    """Return the settings file of a project."""
    return workspace / ".forge" / "config.yaml"


def untrusted_project(home: Path, workspace: Path) -> Path | None:
    """Return the project's file if it exists but is not trusted in its current state."""
    file = project_file(workspace)
    if not _is_project(file, home):
        return None
    from forge_cli.files.trust import TrustStore

    if TrustStore(home).holds_file(file):
        return None
    return file


def load_settings(
    home: Path, workspace: Path | None = None, *, user_text: str | None = None
) -> Settings:
    """Return the user's settings, merged with those of a trusted project and the organisation.

    ``user_text`` replaces the user's file, to show the effect of a change.
    """
    if user_text is None:
        user = load_user_settings(home)
    else:
        file = str(home / "config.yaml")
        user = parse_config(Settings, parse_document(user_text, file), file=file)
    project: Settings | None = None
    if workspace:
        project = load_project_settings(home, workspace)
    policy = organisation_policy()
    settings = user
    if project is None and policy is None:
        return settings
    from forge_cli.files.project import merge_settings

    if project:
        settings = merge_settings(settings, project)
    if policy:
        settings = merge_settings(settings, settings_of(policy), "the organisation")
    return settings


def organisation_policy() -> OrganisationPolicy | None:
    """Return the policy of the organisation on this machine, if any."""
    if not has_policy():
        return None
    from forge_cli.files.organisation import load_policy

    return load_policy()


def settings_of(policy: OrganisationPolicy) -> Settings:
    """Return rules and limits of an organisation as settings."""
    return parse_config(Settings, policy.settings(), file=policy.file)


def load_user_settings(home: Path) -> Settings:
    """Return the user's settings; a missing or empty file is no error."""
    file = home / "config.yaml"
    if not _is_there(file, hint="make it readable, or set FORGE_HOME to another folder"):
        return Settings.empty()
    return read_settings(file)


def import_timeout() -> float:
    """Return the seconds for importing and opening third-party code."""
    stated = os.environ.get("FORGE_IMPORT_TIMEOUT")
    if not stated:
        return _stated_import_timeout(forge_home()) or LOAD_LIMIT
    try:
        return TypeAdapter(Seconds).validate_python(stated)
    except ValidationError:
        raise WorkerError(
            None, f"FORGE_IMPORT_TIMEOUT is '{stated}', not a number of seconds"
        ) from None


@cache
def _stated_import_timeout(home: Path) -> float | None:
    try:
        return load_user_settings(home).import_timeout
    except WorkerError:  # reported where the settings themselves are read
        return None


def load_project_settings(home: Path, workspace: Path) -> Settings | None:
    """Return the settings of the project if it is trusted; they never loosen consent."""
    file = project_file(workspace)
    if not _is_project(file, home):
        return None
    from forge_cli.files.trust import TrustStore

    if not TrustStore(home).holds_file(file):
        return None
    from forge_cli.files.project import read_project

    return read_project(file)


def _is_there(file: Path, hint: str = "make it readable for you") -> bool:
    try:
        return file.exists()
    except OSError as error:
        raise cannot_read(file, error, hint=hint) from None


def _is_project(file: Path, home: Path) -> bool:
    """Return True if the file exists and is not the user's own, as in the user's home."""
    own = home / "config.yaml"
    return _is_there(file) and not (_is_there(own) and file.samefile(own))

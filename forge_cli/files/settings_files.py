"""Loading of settings: those of the user, of a project that is trusted, and of the organisation, merged."""

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
    """The file of a project with its wishes for every worker."""
    return workspace / ".forge" / "config.yaml"


def untrusted_project(home: Path, workspace: Path) -> Path | None:
    """The project's file, if there is one that is not used because the user has not agreed to it as it is now."""
    file = project_file(workspace)
    if not _is_project(file, home):
        return None
    from forge_cli.files.trust import TrustStore

    return None if TrustStore(home).holds_file(file) else file


def load_settings(
    home: Path, workspace: Path | None = None, *, user_text: str | None = None
) -> Settings:
    """The settings of the user, and those of the project in ``workspace`` once it is trusted.

    ``user_text`` takes the place of the user's file, to see what it would change.
    """
    file = str(home / "config.yaml")
    tried = (
        None
        if user_text is None
        else parse_config(Settings, parse_document(user_text, file), file=file)
    )
    user = tried or load_user_settings(home)
    project = load_project_settings(home, workspace) if workspace else None
    policy = organisation_policy()
    settings = user
    if project is None and policy is None:
        return settings
    from forge_cli.files.project import merge_settings

    if project:
        settings = merge_settings(settings, project)
    if policy:
        settings = merge_settings(settings, settings_of(policy))
    return settings


def organisation_policy() -> OrganisationPolicy | None:
    """The policy of the organisation on this machine, where there is one."""
    if not has_policy():
        return None
    from forge_cli.files.organisation import load_policy

    return load_policy()


def settings_of(policy: OrganisationPolicy) -> Settings:
    """Rules and limits of an organisation, to be merged with the settings of user and project."""
    return parse_config(Settings, policy.settings(), file=policy.file)


def load_user_settings(home: Path) -> Settings:
    """The settings of the user; a file that is missing, or holds only comments, is empty."""
    file = home / "config.yaml"
    if not _is_there(file, hint="make it readable for you, or let FORGE_HOME name another folder"):
        return Settings.empty()
    return read_settings(file)


def import_timeout() -> float:
    """Seconds for importing and opening third-party code, as the environment or the user's file says."""
    stated = os.environ.get("FORGE_IMPORT_TIMEOUT")
    if not stated:
        return _stated_import_timeout(forge_home()) or LOAD_LIMIT
    try:
        return TypeAdapter(Seconds).validate_python(stated)
    except ValidationError:
        raise WorkerError(
            None, f"FORGE_IMPORT_TIMEOUT is '{stated}', which is not a number of seconds"
        ) from None


@cache
def _stated_import_timeout(home: Path) -> float | None:
    try:
        return load_user_settings(home).import_timeout
    except WorkerError:  # reported where the settings themselves are read
        return None


def load_project_settings(home: Path, workspace: Path) -> Settings | None:
    """The settings of the project, if they may be used: they can tighten consent, never loosen it."""
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
    """Is it there, and not the user's own, as in a working directory that is the user's home?"""
    own = home / "config.yaml"
    return _is_there(file) and not (_is_there(own) and file.samefile(own))

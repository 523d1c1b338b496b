"""Addresses of databases: variables, passwords, and which database an address names."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from forge_tools_sql.database import Database
from forge_tools_sql.duckdb import DuckDb
from forge_tools_sql.postgres import Postgres
from forge_tools_sql.sqlite import Sqlite

_VARIABLE = re.compile(r"\$\{(\w+)\}")


def expand(dsn: str, environment: Mapping[str, str] = os.environ) -> str:
    """Replace each ``${VAR}``; raise KeyError with the name of a variable that is not set."""
    return _VARIABLE.sub(lambda found: environment[found[1]], dsn)


def has_literal_password(dsn: str) -> bool:
    """Return True if an address contains a password, which belongs into the environment."""
    bare = _VARIABLE.sub("", dsn)
    try:
        in_url = bool(urlsplit(bare).password)
    except ValueError:
        in_url = True
    return in_url or re.search(r"\bpassword\s*=\s*[^\s&]", bare) is not None


def open_database(dsn: str, folder: Path, timeout: float, max_changes: int) -> Database:
    """Return the database of an address; raise ValueError if it is of none that is supported."""
    scheme, _, rest = dsn.partition(":")
    match scheme:
        case "sqlite" if rest:
            return Sqlite(folder / _path(rest), timeout, max_changes)
        case "postgres" | "postgresql":
            return Postgres(dsn, timeout, max_changes)
        case "duckdb" if rest:
            return DuckDb(folder / _path(rest), timeout, max_changes)
    raise ValueError("use sqlite:PATH, duckdb:PATH or postgresql://USER@HOST/NAME")


def _path(rest: str) -> Path:
    # sqlite:///shop.db is a common way to write a relative path.
    return Path(rest.removeprefix("///") if not rest.startswith("////") else rest[3:]).expanduser()

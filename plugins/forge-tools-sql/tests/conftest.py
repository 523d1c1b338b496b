"""Databases for tests: a file of SQLite or DuckDB, and a PostgreSQL that listens on a socket of its own."""

from __future__ import annotations

import os
import pwd
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from forge_cli.testing import Project, call, calls

SCHEMA = """
create table orders (id integer primary key, status text not null, total int);
create table items (id integer primary key, order_id int references orders on delete cascade, name text);
create table log (what text, made timestamp default current_timestamp);
create table users (id integer primary key, name text, password text);
create view logins as select name, password from users;
insert into orders values (1, 'open', 10), (2, 'open', 20), (3, 'paid', 5);
insert into items values (1, 1, 'apple'), (2, 1, 'pear'), (3, 2, 'plum');
insert into users values (1, 'ada', 's3cret'), (2, 'grace', 'h1dden');
"""
SQLITE_TRIGGER = """
create trigger logged after update on orders begin insert into log (what) values ('order ' || new.id); end;
"""
POSTGRES_TRIGGER = """
create function logged() returns trigger language plpgsql as
  $$ begin insert into log (what) values ('order ' || new.id); return new; end $$;
create trigger logged after update on orders for each row execute function logged();
create table notes (id serial primary key, body text, made timestamptz default now());
"""
WORKER = """
name: clerk
toolsets:
  sql:
    connections: {{main: {{dsn: "{dsn}"}}}}
{more}
"""


@dataclass
class Shop:
    """A database with orders, and a worker that may use it."""

    project: Project
    dsn: str
    ask: Callable[[str], list[tuple[Any, ...]]]
    """Executes a statement without forge."""
    dialect: str

    def configure(self, more: str = "") -> None:
        lines = "".join(f"    {line}\n" for line in more.strip("\n").splitlines())
        self.project.write("worker.yaml", WORKER.format(dsn=self.dsn, more=lines))

    def try_out(self, sql: str, *answers: bool, **options: Any) -> Any:
        """Let a model execute a statement, with these answers of a person; return what was seen."""
        return self.project.run(
            calls(call("execute", sql=sql)), "done", answers=list(answers), timeout=60, **options
        )


@pytest.fixture
def project(tmp_path: Path) -> Project:
    folder = tmp_path / "project"
    folder.mkdir()
    return Project(folder)


@pytest.fixture
def sqlite_shop(project: Project) -> Shop:
    path = project.folder / "shop.db"
    with closing(sqlite3.connect(path)) as db:
        db.executescript(SCHEMA + SQLITE_TRIGGER)

    def ask(sql: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            return db.execute(sql).fetchall()

    shop = Shop(project, "sqlite:shop.db", ask, "sqlite")
    shop.configure()
    return shop


@pytest.fixture
def duckdb_shop(project: Project) -> Shop:
    duckdb = pytest.importorskip("duckdb")
    path = str(project.folder / "shop.duckdb")

    def ask(sql: str) -> list[tuple[Any, ...]]:
        with duckdb.connect(path) as db:
            found = db.execute(sql)
            return found.fetchall() if found.description else []

    ask(SCHEMA.replace(" references orders on delete cascade", ""))
    shop = Shop(project, "duckdb:shop.duckdb", ask, "duckdb")
    shop.configure()
    return shop


def as_somebody(*argv: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a program of PostgreSQL, which refuses root, as another user."""
    words = list(argv)
    if os.geteuid() == 0:
        words = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", *words]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=check, cwd="/")


@pytest.fixture(scope="session")
def postgres_server(postgres_programs: Path) -> Iterator[str]:
    """The folder of the socket of a server, which runs until the tests end."""
    pytest.importorskip("psycopg")
    programs = postgres_programs
    # A short path, because the path of a socket has at most 107 characters.
    folder = Path(tempfile.mkdtemp(prefix="forge-pg-"))
    folder.chmod(0o755)
    if os.geteuid() == 0:
        try:
            owner = pwd.getpwnam("postgres")
        except KeyError:
            pytest.skip("needs the user postgres, because PostgreSQL refuses root")
        os.chown(folder, owner.pw_uid, owner.pw_gid)
    data = folder / "data"
    as_somebody(
        str(programs / "initdb"), "-D", str(data), "-A", "trust", "-U", "tester", "--no-sync"
    )
    options = f"-k {folder} -c listen_addresses='' -c fsync=off -c shared_buffers=16MB"
    control = str(programs / "pg_ctl")
    log = str(folder / "log")
    as_somebody(control, "-D", str(data), "-o", options, "-l", log, "-w", "-t", "30", "start")
    try:
        yield str(folder)
    finally:
        as_somebody(control, "-D", str(data), "-m", "immediate", "stop", check=False)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def postgres_shop(project: Project, postgres_server: str) -> Iterator[Shop]:
    import psycopg

    name = f"shop_{os.getpid()}_{abs(hash(project.folder)) % 10**8}"
    admin = f"host={postgres_server} user=tester"
    with psycopg.connect(f"{admin} dbname=postgres", autocommit=True) as db:
        db.execute(f"create database {name}")  # type: ignore[arg-type]
    dsn = f"postgresql:///{name}?host={postgres_server}&user=tester"

    def ask(sql: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(dsn, autocommit=True) as db:
            found = db.execute(sql)  # type: ignore[arg-type]
            return found.fetchall() if found.description else []

    ask(SCHEMA + POSTGRES_TRIGGER)
    shop = Shop(project, dsn, ask, "postgres")
    shop.configure()
    yield shop
    with psycopg.connect(f"{admin} dbname=postgres", autocommit=True) as db:
        db.execute(f"drop database {name} with (force)")  # type: ignore[arg-type]


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.long), "duckdb"])
def shop(request: pytest.FixtureRequest) -> Shop:
    """The same shop in each database."""
    found: Shop = request.getfixturevalue(f"{request.param}_shop")
    return found

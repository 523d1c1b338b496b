"""Make the database of the example: a small shop in shop.db."""

import sqlite3
from contextlib import closing
from pathlib import Path

SCHEMA = """
create table orders (id integer primary key, customer text, status text, total int);
create table items (
  id integer primary key, order_id int references orders on delete cascade, what text
);
create table log (what text);
create table users (id integer primary key, name text, password text);
create trigger logged after update on orders begin
  insert into log values ('order ' || new.id || ' is ' || new.status);
end;
insert into orders values (1, 'Ada', 'paid', 30), (2, 'Grace', 'open', 12), (3, 'Alan', 'open', 99);
insert into items values (1, 1, 'apples'), (2, 2, 'pears'), (3, 3, 'plums');
insert into users values (1, 'ada', 's3cret');
"""

Path("shop.db").unlink(missing_ok=True)
with closing(sqlite3.connect("shop.db")) as db:
    db.executescript(SCHEMA)

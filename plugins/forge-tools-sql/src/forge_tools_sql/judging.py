"""Verdicts on statements: by kind, and by the rules of the worker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

from forge_cli import Approval, Verdict
from forge_cli.events import JudgedPart
from forge_tools_sql.config import Rule, SqlConfig
from forge_tools_sql.statements import Statement

MAX_TEXT = 300
"""The most characters of a statement in the list of parts."""
_DOES = {
    "read": "it reads",
    "write": "it changes rows of",
    "ddl": "it changes",
}


def judge(statements: Sequence[Statement], config: SqlConfig, connection: str) -> Verdict:
    """Return the strictest verdict of statements."""
    is_alone = len(statements) == 1
    parts = [_part(each, config, connection, is_alone=is_alone) for each in statements]
    is_read = is_alone and statements[0].kind == "read" and not statements[0].doubts
    return Verdict.of_parts(parts, risk="low" if is_read else None)


def _part(
    statement: Statement, config: SqlConfig, connection: str, *, is_alone: bool
) -> JudgedPart:
    text = statement.text
    if len(text) > MAX_TEXT:
        text = f"{text[:MAX_TEXT]}..."
    does = _describe(statement)
    matching = [
        (number, rule)
        for number, rule in enumerate(config.rules)
        if _matches(rule, statement, connection)
    ]
    if matching:
        number, rule = max(matching, key=lambda each: each[1].approval.strictness)
        approval = rule.approval
        name: str | None = f"toolsets.sql.rules[{number}]"
        where = config.where("rules", number)
    elif statement.kind == "other":
        approval, name, where = Approval.ASK, None, None
    else:
        approval = getattr(config, statement.kind)
        is_said = statement.kind in config.model_fields_set or approval is not Approval.ASK
        name = f"toolsets.sql.{statement.kind}" if is_said else None
        where = config.where(statement.kind) if is_said else None
    if approval is Approval.PRE_APPROVED and (doubt := _doubt(statement, is_alone=is_alone)):
        # Not even a rule allows what the parser did not understand.
        return JudgedPart(text, Approval.ASK.value, doubt)
    return JudgedPart(text, approval.value, does, name, where)


def _describe(statement: Statement) -> str:
    if statement.kind == "other":
        return statement.doubts[0] if statement.doubts else "it is not understood"
    tables = statement.writes if statement.kind != "read" else statement.reads
    named = ", ".join(tables)
    if not named:
        return _DOES[statement.kind].removesuffix(" of")
    return f"{_DOES[statement.kind]} {named}"


def _doubt(statement: Statement, *, is_alone: bool) -> str:
    if statement.doubts:
        return statement.doubts[0]
    if statement.kind == "read" and not is_alone:
        return "it is one of several statements"
    return ""


def _matches(rule: Rule, statement: Statement, connection: str) -> bool:
    """Return True if a rule is about a statement.

    A rule that pre-approves has to match every table that is written, or read if none is.
    """
    if rule.connection is not None and not fnmatchcase(connection, rule.connection):
        return False
    if rule.statement is not None and rule.statement != statement.word:
        return False
    if rule.table is None:
        return True
    if rule.approval is Approval.PRE_APPROVED:
        concerned = statement.writes or statement.reads
        return bool(concerned) and all(_is_named(rule.table, table) for table in concerned)
    return any(_is_named(rule.table, table) for table in statement.tables)


def _is_named(pattern: str, table: str) -> bool:
    return any(fnmatchcase(name, pattern.lower()) for name in (table, table.rpartition(".")[2]))


def met_by_trial(
    changed: Iterable[tuple[str, str]], config: SqlConfig, connection: str
) -> Verdict | None:
    """Return the verdict if a trial did something that a rule blocks, such as by a trigger.

    ``changed`` has the word of each change, such as ``delete``, and its table.
    """
    found = list(changed)
    for number, rule in enumerate(config.rules):
        if rule.approval is not Approval.BLOCKED or rule.table is None:
            continue
        if rule.connection is not None and not fnmatchcase(connection, rule.connection):
            continue
        for word, table in found:
            if rule.statement in (None, word) and _is_named(rule.table, table.lower()):
                return Verdict(
                    Approval.BLOCKED,
                    f"it would also {word} rows of {table}",
                    f"toolsets.sql.rules[{number}]",
                    config.where("rules", number),
                    by="rule",
                )
    return None


def words_of(statements: Sequence[Statement]) -> Iterator[str]:
    """Yield why statements are not tried."""
    for statement in statements:
        if not statement.can_be_tried:
            yield statement.doubts[0] if statement.doubts else "it is not understood"

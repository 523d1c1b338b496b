"""The schema of a worker's final answer: loading it, describing it to the model, checking it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from forge_cli.core import phrases
from forge_cli.core.errors import PROBLEMS, Mark, WorkerError
from forge_cli.core.wire import JsonObject, plain_json
from forge_cli.files.document import parse_document
from forge_cli.files.places import decode_utf8
from forge_cli.schema.json.validation import (
    best_error,
    in_short,
    metaschema_problem,
    reference_problems,
    validator,
)
from forge_cli.schema.marks import Loc, where_in

if TYPE_CHECKING:
    from jsonschema import ValidationError

_FENCED = re.compile(r"```(?:json\b)?(.*)```", re.DOTALL | re.IGNORECASE)


class Misfit(Exception):
    """Raised if the final answer does not match; its text is for the model and for people."""


class _Unsound(Exception):
    """Raised for an invalid schema, with the place of the problem in it."""

    def __init__(self, problem: str, loc: Loc = ()) -> None:
        super().__init__(problem)
        self.loc = loc


class OutputSchema(Struct, frozen=True, eq=False):
    """The schema of the final answer."""

    json_schema: JsonObject

    @staticmethod
    def load(given: str | Mapping[str, Any], *, where: Mark | None, folder: Path) -> OutputSchema:
        """Load a schema, or the file whose path from ``folder`` is given.

        ``where`` is the place in the worker's file.
        """
        text: str | None = None
        schema: Any = given
        file = ""
        if isinstance(given, str):
            file = str(folder / given)
            text = _read(folder / given, where)
            schema = _parse(text, file)
        try:
            return OutputSchema(_check_schema(schema))
        except _Unsound as unsound:
            if text is None:
                mark = where_in(schema, unsound.loc) or where
            else:
                mark = _mark_in(text, unsound.loc, file)
            raise WorkerError(mark, f"output schema: {unsound}") from None

    def read(self, answer: str) -> Any:
        """Return the value of an answer in JSON; raise Misfit if it does not match."""
        value = _value(answer)
        try:
            errors = list(islice(validator(self.json_schema).iter_errors(value), PROBLEMS + 1))
            problems = [_problem(error) for error in errors]
        except Exception as error:  # third-party code: a schema can send a validator into a loop
            raise Misfit(f"the answer cannot be checked ({type(error).__name__})") from error
        if problems:
            more = ["and more"] if len(problems) > PROBLEMS else []
            raise Misfit("; ".join([*dict.fromkeys(problems[:PROBLEMS]), *more]))
        return value

    def convert(self, value: Any) -> Any:
        """Return the value for a program, made from the JSON value of an answer."""
        return value

    def instructions(self) -> str:
        """Return the instructions for the model before it starts."""
        return phrases.required_output(json.dumps(self.json_schema, ensure_ascii=False))

    def repair(self, misfit: Misfit) -> str:
        """Return the message to the model if its answer does not match."""
        return phrases.repair_output(misfit)


def _read(path: Path, where: Mark | None) -> str:
    try:
        if not path.is_file():
            raise ValueError("it is not a file" if path.exists() else "there is no such file")
        raw = path.read_bytes()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        hint = "name a file with a JSON Schema, or write the schema inline under 'output_schema'"
        raise WorkerError(where, f"output schema {path} cannot be read: {why}", hint=hint) from None
    return decode_utf8(raw, Mark(str(path)))


def _parse(text: str, file: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise WorkerError(Mark(file, error.lineno, error.colno), f"not JSON: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise WorkerError(Mark(file), f"not JSON: {_why(error)}") from None


def _mark_in(text: str, loc: Loc, file: str) -> Mark:
    # YAML's reader knows the places of keys, and reads most of JSON
    try:
        return where_in(parse_document(text, file), loc) or Mark(file)
    except WorkerError:
        return Mark(file)


def _check_schema(given: Any) -> JsonObject:
    """Return a plain copy of a schema that can be used offline; raise _Unsound for others."""
    if not isinstance(given, Mapping):
        raise _Unsound("it must be a JSON object with a JSON Schema")
    try:
        schema: JsonObject = plain_json(given)
    except ValueError as error:
        raise _Unsound(in_short(str(error))) from None
    if problem := metaschema_problem(schema):
        place = "it"
        if problem.json_path:
            place = f"{problem.json_path} is"
        raise _Unsound(f"{place} {problem.sentence}", problem.loc)
    # One problem is enough, as each may be the cause of the next.
    for sentence in reference_problems(schema):
        raise _Unsound(sentence)
    return schema


def unfenced(answer: str) -> str:
    """Return the answer without a code fence around all of it."""
    fenced = _FENCED.fullmatch(answer.strip())
    return fenced[1].strip() if fenced else answer


def _value(answer: str) -> Any:
    text = unfenced(answer)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        if not text.strip():
            raise Misfit("the answer is empty, and has to be JSON") from None
        around = ""
        if text == answer and re.search(r"[{\[]", text):
            around = "; leave out the text around the JSON"
        raise Misfit(f"the answer is not JSON: {_why(error)}{around}") from None
    try:
        return plain_json(value)
    except ValueError as error:
        raise Misfit(str(error)) from None


def _why(error: Exception) -> str:
    match error:
        case RecursionError():
            return "it is nested too deeply"
        case json.JSONDecodeError():
            return f"{error.msg} at line {error.lineno} column {error.colno}"
        case _:
            return in_short(str(error))


def _problem(error: ValidationError) -> str:
    """Return one sentence with the place of the problem."""
    error = best_error(error)
    return f"{error.json_path}: {in_short(error.message)}"

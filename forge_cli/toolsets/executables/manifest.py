"""A program as ``tool.yaml`` describes it: its name, its parameters, and how to start it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from forge_cli.core.errors import InvalidInput, WorkerError
from forge_cli.core.source import ToolMode
from forge_cli.core.wire import JsonObject
from forge_cli.files.document import read_document
from forge_cli.sandbox.names import shown
from forge_cli.schema.config import Config, parse_config
from forge_cli.schema.json.fields import coerce
from forge_cli.schema.json.input_schema import InputSchema
from forge_cli.schema.marks import MarkedDict
from forge_cli.schema.tool import TOOL_NAME
from forge_cli.schema.tool_fields import ManualExecution

_VERSION = re.compile(r"v?[0-9]+[0-9A-Za-z]*(?:[.!+_-][0-9A-Za-z]+)*")
"""Of SemVer or PEP 440, and a little more than these."""
FILE = "tool.yaml"
TIMEOUT = 30.0
ITEM_LIMIT = 131_071
"""Bytes of one item of a command line, which is what Linux takes."""

ParameterKind = Literal["string", "number", "integer", "boolean", "path"]

_PARAMETER = re.compile(r"[a-zA-Z][a-zA-Z0-9_-]{0,63}")
_PYTHON: Mapping[str, Any] = {
    "string": str,
    "path": str,
    "number": (int, float),
    "integer": int,
    "boolean": bool,
}


class Parameter(Config):
    """One ``--name=value`` of the program."""

    name: str
    type: ParameterKind = "string"
    access: Literal["read", "write", "delete"] = "read"
    """The access of the program to a ``path``: the gate asks its zone."""
    required: bool = False
    description: str = ""
    enum: Annotated[list[Any], Field(min_length=1)] | None = None
    default: Any = None

    @field_validator("name")
    @classmethod
    def _is_a_name(cls, name: str) -> str:
        if not _PARAMETER.fullmatch(name):
            raise ValueError(
                f"{shown(name)} is not a name for a parameter; use letters, digits, '_' and '-'"
            )
        return name

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.required and self.default is not None:
            raise ValueError(f"'{self.name}' is required and has a default; keep one of the two")
        if "access" in self.model_fields_set and self.type != "path":
            raise ValueError(
                f"'{self.name}': access is for parameters of type path, and this is a {self.type}"
            )
        listed = [self._typed(value) for value in self.enum or ()]
        if self.default is not None and self._typed(self.default) not in (
            listed or [self._typed(self.default)]
        ):
            raise ValueError(
                f"'{self.name}': the default {shown(str(self.default))} is none of the values under enum"
            )
        return self

    def field(self) -> JsonObject:
        """The parameter as the model sees it."""
        said: JsonObject = self._type()
        if self.description:
            said["description"] = self.description
        if self.enum is not None:
            said["enum"] = [self._typed(value) for value in self.enum]
        if self.default is not None:
            said["default"] = self._typed(self.default)
        return said

    def _type(self) -> JsonObject:
        path = {"type": "string", "format": "path", "x-forge-access": self.access}
        return path if self.type == "path" else {"type": self.type}

    def _typed(self, value: Any) -> Any:
        """A value of the file as one of the declared type."""
        schema = self._type()
        typed = coerce(
            {"value": _as_text(value, schema)}, {"type": "object", "properties": {"value": schema}}
        )["value"]
        fits = isinstance(typed, _PYTHON[self.type]) and isinstance(typed, bool) == (
            self.type == "boolean"
        )
        if not fits:
            raise ValueError(f"'{self.name}': {shown(str(value))} is not of type {self.type}")
        if problem := _argv_problem(self.name, typed):
            raise ValueError(problem)
        return typed

    def argv_item(self, value: Any) -> str:
        """The item of the command line that carries a valid value."""
        match value:
            case bool():
                text = "true" if value else "false"
            case float() if self.type == "integer":
                text = str(int(value))
            case _:
                text = str(value)
        return f"--{self.name}={text}"


class ExampleExpectation(Config):
    """The expected result of an example."""

    exit: int = 0
    stdout_contains: str | None = None


class Example(Config):
    """A call that shows how the tool is used, and its result."""

    arguments: dict[str, Any] = Field(default_factory=dict)
    expect: ExampleExpectation = ExampleExpectation()


class Menu(Config):
    """The callers of the tool, and its place in menus."""

    mode: ToolMode = "llm"
    label: str | None = None
    category: str | None = None


class Manifest(Config):
    """The content of ``tool.yaml``."""

    name: str
    description: Annotated[str, Field(min_length=1)]
    version: str = "1.0.0"
    entrypoint: Annotated[str, Field(min_length=1)]
    usage: str = ""
    parameters: list[Parameter] = Field(default=[])
    timeout: Annotated[float, Field(gt=0, le=3600)] = TIMEOUT
    needs_approval: Literal["ask", "blocked"] | None = None
    """A verdict that no worker loosens; the file can give no consent."""
    manual_execution: Menu | None = None
    examples: list[Example] = Field(default=[])

    @field_validator("version", mode="before")
    @classmethod
    def _is_text(cls, version: Any) -> Any:
        """``1.0`` without quotes is a number in YAML, and meant as it is written."""
        return (
            str(version)
            if isinstance(version, int | float) and not isinstance(version, bool)
            else version
        )

    @field_validator("needs_approval", mode="before")
    @classmethod
    def _is_no_consent(cls, word: Any) -> Any:
        if word is True:
            return "ask"
        if word in (False, "preApproved"):
            raise ValueError(
                "a tool cannot approve itself; name it under toolsets.executables.approval of the worker"
            )
        return word

    @field_validator("manual_execution", mode="before")
    @classmethod
    def _is_a_menu(cls, given: Any) -> Any:
        return {"mode": given} if isinstance(given, str) else given

    @field_validator("version")
    @classmethod
    def _is_a_version(cls, version: str) -> str:
        if not _VERSION.fullmatch(version):
            raise ValueError(
                f"{shown(version)} is not a version; write one such as 1.0.0 (SemVer or PEP 440)"
            )
        return version

    @field_validator("name")
    @classmethod
    def _is_a_name(cls, name: str) -> str:
        if not TOOL_NAME.fullmatch(name):
            raise ValueError(
                f"{shown(name)} is not a name for a tool; use 1 to 64 letters, digits, '_' and '-'"
            )
        return name

    def input_schema(self) -> JsonObject:
        """The parameters for the model."""
        return {
            "type": "object",
            "properties": {parameter.name: parameter.field() for parameter in self.parameters},
            "required": [parameter.name for parameter in self.parameters if parameter.required],
            "additionalProperties": False,
        }

    @property
    def callers(self) -> ManualExecution | None:
        """The callers of the tool, its label and its category, where the file names one of them."""
        menu = self.manual_execution
        return None if menu is None else ManualExecution(menu.mode, menu.label, menu.category)

    def text(self) -> str:
        """The description of the tool for the model."""
        usage = self.usage.strip()
        return f"{self.description.strip()}\n\n{usage}" if usage else self.description.strip()


def read_manifest(folder: Path) -> Manifest:
    """Read the ``tool.yaml`` of a folder; a mistake in it is a WorkerError with its place."""
    file = folder / FILE
    manifest = parse_manifest(read_document(file).data, str(file))
    if manifest.name != folder.name:
        problem = f"name: must be that of its folder, '{folder.name}', not '{manifest.name}'"
        raise WorkerError(manifest.where("name"), problem)
    return manifest


def parse_manifest(data: MarkedDict, file: str) -> Manifest:
    """The data of a ``tool.yaml``, with parameters that differ and examples that fit them."""
    manifest = parse_config(Manifest, data, file=file)
    seen: set[str] = set()
    for index, parameter in enumerate(manifest.parameters):
        if parameter.name in seen:
            where = manifest.where("parameters", index, "name")
            raise WorkerError(
                where, f"parameters[{index}].name: there is another parameter '{parameter.name}'"
            )
        seen.add(parameter.name)
    schema = Arguments(manifest.input_schema())
    for index, example in enumerate(manifest.examples):
        try:
            schema.validate(example.arguments)
        except InvalidInput as error:
            where = manifest.where("examples", index, "arguments")
            raise WorkerError(where, f"examples[{index}].arguments: {error}") from None
    return manifest


class Arguments(InputSchema):
    """The schema of a command line: a plain value is good for a string, and what no program can be given is not.

    What a manifest says is sound JSON Schema by its making, so it is not looked at again, which would take long.
    """

    def validate(self, args: Any) -> JsonObject:
        if isinstance(args, Mapping):
            properties = self.json_schema["properties"]
            args = {name: _as_text(value, properties.get(name)) for name, value in args.items()}
        valid = super().validate(args)
        problems = [
            problem for name, value in valid.items() if (problem := _argv_problem(name, value))
        ]
        if problems:
            raise InvalidInput(*problems)
        return valid


def _as_text(value: Any, schema: Any) -> Any:
    """A number or a boolean where a string is declared, as that string."""
    if not isinstance(schema, dict) or schema.get("type") != "string":
        return value
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return repr(value)
        case _:
            return value


def _argv_problem(name: str, value: Any) -> str | None:
    if not isinstance(value, str):
        return None
    if "\0" in value:
        return f"{name}: contains a NUL character, which no program can be given; leave it out"
    size = len(f"--{name}={value}".encode())
    if size > ITEM_LIMIT:
        hint = "write it to a file and pass the path"
        return f"{name}: is {size} bytes on the command line, and {ITEM_LIMIT} is the most; {hint}"
    return None

"""The description of a program in ``tool.yaml``: its name, its parameters and its start."""

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
"""Versions of SemVer and PEP 440, and slightly more."""
FILE = "tool.yaml"
TIMEOUT = 30.0
ITEM_LIMIT = 131_071
"""Bytes of one command line argument; the limit of Linux."""

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
    """A parameter, passed to the program as ``--name=value``."""

    name: str
    type: ParameterKind = "string"
    access: Literal["read", "write", "delete"] = "read"
    """How the program accesses a ``path``; the zone of the path decides whether that asks."""
    required: bool = False
    description: str = ""
    enum: Annotated[list[Any], Field(min_length=1)] | None = None
    default: Any = None

    @field_validator("name")
    @classmethod
    def _is_a_name(cls, name: str) -> str:
        if not _PARAMETER.fullmatch(name):
            raise ValueError(
                f"{shown(name)} is not a valid parameter name; use letters, digits, '_' and '-'"
            )
        return name

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.required and self.default is not None:
            raise ValueError(f"'{self.name}' is required and has a default; remove one of the two")
        if "access" in self.model_fields_set and self.type != "path":
            raise ValueError(
                f"'{self.name}': access is for parameters of type path, not {self.type}"
            )
        listed = [self._typed(value) for value in self.enum or ()]
        if self.default is not None:
            typed = self._typed(self.default)
            if listed and typed not in listed:
                default = shown(str(self.default))
                raise ValueError(f"'{self.name}': the default {default} is not listed under enum")
        return self

    def field(self) -> JsonObject:
        """Return the JSON Schema of the parameter."""
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
        """Return a value of the file as the declared type; raise ValueError if it does not fit."""
        schema = self._type()
        typed = coerce(
            {"value": _as_text(value, schema)}, {"type": "object", "properties": {"value": schema}}
        )["value"]
        # In Python, a bool is an int as well.
        fits = isinstance(typed, _PYTHON[self.type]) and isinstance(typed, bool) == (
            self.type == "boolean"
        )
        if not fits:
            raise ValueError(f"'{self.name}': {shown(str(value))} is not of type {self.type}")
        if problem := _argv_problem(self.name, typed):
            raise ValueError(problem)
        return typed

    def argv_item(self, value: Any) -> str:
        """Return the command line argument for a valid value."""
        match value:
            case bool():
                text = "true" if value else "false"
            case float() if self.type == "integer":  # JSON may write 3 as 3.0
                text = str(int(value))
            case _:
                text = str(value)
        return f"--{self.name}={text}"


class ExampleExpectation(Config):
    """The expected result of an example."""

    exit: int = 0
    stdout_contains: str | None = None


class Example(Config):
    """An example call of the tool, with its expected result."""

    arguments: dict[str, Any] = Field(default_factory=dict)
    expect: ExampleExpectation = ExampleExpectation()


class Menu(Config):
    """Who may call the tool, and its place in menus."""

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
    """A verdict that a worker cannot relax; a tool cannot approve itself."""
    manual_execution: Menu | None = None
    examples: list[Example] = Field(default=[])

    @field_validator("version", mode="before")
    @classmethod
    def _is_text(cls, version: Any) -> Any:
        """Turn an unquoted ``1.0``, which YAML reads as a number, back into text."""
        if isinstance(version, int | float) and not isinstance(version, bool):
            return str(version)
        return version

    @field_validator("needs_approval", mode="before")
    @classmethod
    def _is_no_consent(cls, word: Any) -> Any:
        if word is True:
            return "ask"
        if word in (False, "preApproved"):
            raise ValueError(
                "a tool cannot approve itself; "
                "name it under toolsets.executables.approval of the worker"
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
            raise ValueError(f"{shown(version)} is not a valid version; write one such as 1.0.0")
        return version

    @field_validator("name")
    @classmethod
    def _is_a_name(cls, name: str) -> str:
        if not TOOL_NAME.fullmatch(name):
            raise ValueError(
                f"{shown(name)} is not a valid tool name; use 1 to 64 letters, digits, '_' and '-'"
            )
        return name

    def input_schema(self) -> JsonObject:
        """Return the JSON Schema of all parameters, as the model sees it."""
        return {
            "type": "object",
            "properties": {parameter.name: parameter.field() for parameter in self.parameters},
            "required": [parameter.name for parameter in self.parameters if parameter.required],
            "additionalProperties": False,
        }

    @property
    def callers(self) -> ManualExecution | None:
        """The callers, label and category of the tool; None if the file does not declare them."""
        menu = self.manual_execution
        if menu is None:
            return None
        return ManualExecution(menu.mode, menu.label, menu.category)

    def text(self) -> str:
        """Return the description for the model."""
        text = self.description.strip()
        if usage := self.usage.strip():
            text += f"\n\n{usage}"
        return text


def read_manifest(folder: Path) -> Manifest:
    """Read the ``tool.yaml`` of a folder; raise WorkerError with the place of a mistake."""
    file = folder / FILE
    manifest = parse_manifest(read_document(file).data, str(file))
    if manifest.name != folder.name:
        problem = f"name: must be '{folder.name}' like its folder, not '{manifest.name}'"
        raise WorkerError(manifest.where("name"), problem)
    return manifest


def parse_manifest(data: MarkedDict, file: str) -> Manifest:
    """Parse a ``tool.yaml``; check that parameters are distinct and that examples fit them."""
    manifest = parse_config(Manifest, data, file=file)
    seen: set[str] = set()
    for index, parameter in enumerate(manifest.parameters):
        if parameter.name in seen:
            where = manifest.where("parameters", index, "name")
            raise WorkerError(
                where, f"parameters[{index}].name: duplicate parameter '{parameter.name}'"
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
    """The schema of command line arguments.

    A number or boolean is accepted for a string, and values that cannot be passed to a program are
    rejected. The schema is not validated itself, because it is made from a manifest and checking it
    would be slow.
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
    """Convert a number or a boolean to text if a string is declared."""
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
        return f"{name}: contains a NUL character, which no argument can contain; leave it out"
    size = len(f"--{name}={value}".encode())
    if size > ITEM_LIMIT:
        hint = "write it to a file and pass the path"
        return f"{name}: has {size} bytes, but an argument has at most {ITEM_LIMIT}; {hint}"
    return None

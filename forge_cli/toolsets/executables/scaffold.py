"""A new tool: a ``tool.yaml`` and a source that already works, to be filled with what the tool is for."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forge_cli.core.errors import ForgeError, ToolError
from forge_cli.files.document import parse_document
from forge_cli.files.home import make_private
from forge_cli.files.replace import replace_file
from forge_cli.files.sync import sync_folder
from forge_cli.toolsets.executables.languages import LANGUAGES
from forge_cli.toolsets.executables.manifest import FILE, Parameter, parse_manifest
from forge_cli.toolsets.executables.registry import RESERVED
from forge_cli.toolsets.executables.stats import Stats
from forge_cli.toolsets.executables.templates import SOURCES

NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")
EXAMPLE = Parameter(name="example", default="", description="Example parameter")
"""What a tool takes that was made without parameters: it shows how they are declared and read."""
_PACKAGES = {"py": ["   Packages that it needs stand in a '# /// script' comment (PEP 723) at its top."]}
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@dataclass(frozen=True)
class Scaffold:
    """The files of a tool that does not exist yet."""

    name: str
    language: str
    files: dict[str, str]

    @property
    def source(self) -> str:
        return f"{self.name}{LANGUAGES[self.language]}"

    def text(self, root: Path) -> str:
        """Every file with its whole content, for whoever has to decide."""
        return "\n".join(f"{root / self.name / file}\n{_indented(content)}" for file, content in self.files.items())

    def write(self, root: Path) -> None:
        """Make the folder as a whole; one that is already there stays as it is."""
        check_free(root, self.name)
        try:
            make_private(root)
            place = Path(tempfile.mkdtemp(prefix=".new-", dir=root))
            try:
                for file, content in self.files.items():
                    replace_file(place / file, content)
                place.rename(root / self.name)
                sync_folder(root)
            finally:
                shutil.rmtree(place, ignore_errors=True)
        except OSError as error:
            raise ToolError(f"{root / self.name} cannot be made: {error.strerror or error}") from None
        Stats(root).created(self.name)


def check_free(root: Path, name: str) -> None:
    if os.path.lexists(root / name):
        raise ToolError(f"there is something at {root / name} already; change that tool, or choose another name")


def scaffold(name: str, description: str, language: str, parameters: Sequence[Parameter]) -> Scaffold:
    """The files for a new tool; what cannot become a tool is a ToolError."""
    if not NAME.fullmatch(name):
        raise ToolError(f"'{name}' is not a name for a tool; use up to 64 of a-z, 0-9, '_' and '-', a letter first")
    if name in RESERVED:
        raise ToolError(f"'{name}' is one of forge's own tools; choose another name")
    for text in (description, *(parameter.description for parameter in parameters)):
        if found := _CONTROL.search(text):
            raise ToolError(f"a description cannot hold the control character U+{ord(found[0]):04X}; leave it out")
    source = f"{name}{LANGUAGES[language]}"
    manifest = _manifest(name, description, source, parameters or [EXAMPLE])
    try:
        parsed = parse_manifest(parse_document(manifest, FILE), FILE)
    except ForgeError as error:
        raise ToolError(f"this cannot be written as a {FILE}: {error}") from None
    return Scaffold(name, language, {FILE: manifest, source: SOURCES[language](description, parsed.parameters)})


def next_steps(made: Scaffold, root: Path) -> str:
    """What whoever made a tool does with it."""
    files = ", ".join(made.files)
    return "\n".join(
        [
            f"Made {root / made.name} with {files}. It works already: it prints what it is given.",
            f"1. Write what it is for into {made.source} (as /tools/{made.name}/{made.source} where file tools are "
            "offered): arguments come as --name=value, the working directory is the workspace, stdin is closed.",
            "   Print the result to stdout and problems to stderr, and end with a code other than 0 on failure.",
            '   A last line such as {"kind": "json", "data": ...} is taken for the result itself.',
            *_PACKAGES.get(made.language, ()),
            f"2. Keep parameters, usage and examples in /tools/{made.name}/tool.yaml in step with the source.",
            f"3. From the next turn on {made.name} is a tool; a source in Go is compiled when it is first called, and "
            "what the compiler has to say comes back as the error of that call.",
        ]
    )


def _manifest(name: str, description: str, source: str, parameters: Sequence[Parameter]) -> str:
    lines = [
        f"name: {name}",
        f"description: {_quoted(description)}",
        "version: 1.0.0",
        f"entrypoint: {source}",
        "usage: |",
        "  Says what it was given, until it is written for its purpose.",
        "parameters:",
    ]
    for parameter in parameters:
        lines += [f"  - name: {parameter.name}", f"    type: {parameter.type}"]
        lines += [f"    required: {'true' if parameter.required else 'false'}"]
        lines += [f"    description: {_quoted(parameter.description)}"] if parameter.description else []
        lines += [f"    enum: {_quoted(list(parameter.enum))}"] if parameter.enum is not None else []
        lines += [f"    default: {_quoted(parameter.default)}"] if parameter.default is not None else []
    lines += ["timeout: 30", *_example(parameters)]
    return "\n".join(lines) + "\n"


def _example(parameters: Sequence[Parameter]) -> list[str]:
    """An example that passes at once; there is none for a path, since nobody knows which files there will be."""
    needed = [parameter for parameter in parameters if parameter.required]
    if any(parameter.type == "path" for parameter in needed):
        return []
    arguments = {parameter.name: _sample(parameter) for parameter in needed}
    return ["examples:", f"  - arguments: {_quoted(arguments)}", "    expect: {exit: 0}"]


def _sample(parameter: Parameter) -> Any:
    if parameter.enum:
        return parameter.enum[0]
    return {"string": "example", "integer": 1, "number": 1.5, "boolean": True}[parameter.type]


def _quoted(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _indented(content: str) -> str:
    return "".join(f"    {line}" if line.strip() else line for line in content.splitlines(keepends=True))

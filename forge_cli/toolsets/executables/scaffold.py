"""New tools: a ``tool.yaml`` and a source that already works."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from forge_cli.core.errors import ForgeError, ToolError
from forge_cli.files.document import parse_document
from forge_cli.files.home import make_private
from forge_cli.files.regular import sync_folder
from forge_cli.files.replace import replace_file
from forge_cli.toolsets.executables.manifest import FILE, Parameter, parse_manifest
from forge_cli.toolsets.executables.registry import BUILT_IN, LANGUAGES, RESERVED
from forge_cli.toolsets.executables.stats import Stats

NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")
EXAMPLE = Parameter(name="example", default="", description="Example parameter")
"""The parameter of a new tool that was requested without any, as an example."""
_PACKAGES = {
    "py": ["   Declare the packages it needs in a '# /// script' comment (PEP 723) at its top."]
}
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_WORKSPACE = "The working directory of the worker."
_TO_DO = "Replace this by the work of the tool; print the result to stdout."
_GO_KINDS = {
    "string": "String",
    "path": "String",
    "number": "Float64",
    "integer": "Int",
    "boolean": "Bool",
}
_GO_EMPTY = {"string": '""', "path": '""', "number": "0", "integer": "0", "boolean": "false"}
_PY_KINDS = {
    "string": "str",
    "path": "str",
    "number": "float",
    "integer": "int",
    "boolean": "boolean",
}


class Scaffold(Struct, frozen=True):
    """The files of a tool that does not exist yet."""

    name: str
    language: str
    files: dict[str, str]

    @property
    def source(self) -> str:
        return f"{self.name}{LANGUAGES[self.language]}"

    @property
    def warning(self) -> str:
        """Return a warning if a built-in tool has the same name, or an empty string."""
        return replaced_tool(self.name)

    def text(self, root: Path) -> str:
        """Return all files with their contents, for the approval."""
        parts = [
            f"{root / self.name / file}\n{_indented(content)}"
            for file, content in self.files.items()
        ]
        return "\n".join(filter(None, (self.warning, *parts)))

    def write(self, root: Path) -> None:
        """Write the whole folder at once; raise ToolError if it exists."""
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
                shutil.rmtree(place, ignore_errors=True)  # after the rename, nothing is there
        except OSError as error:
            raise ToolError(
                f"{root / self.name} cannot be made: {error.strerror or error}"
            ) from None
        Stats(root).created(self.name)


def replaced_tool(name: str) -> str:
    """Return a warning that a tool of this name replaces a built-in one, or an empty string."""
    if name not in BUILT_IN:
        return ""
    return (
        f"WARNING: forge has a built-in tool named {name}. The new one replaces it in every worker "
        "that uses executables, and asks at each call unless approval.tools names it."
    )


def check_free(root: Path, name: str) -> None:
    """Raise ToolError if there is something of this name in the folder of tools."""
    if os.path.lexists(root / name):
        raise ToolError(f"{root / name} exists already; change that tool, or choose another name")


def scaffold(
    name: str, description: str, language: str, parameters: Sequence[Parameter]
) -> Scaffold:
    """Return the files of a new tool; raise ToolError for an invalid name or description."""
    if not NAME.fullmatch(name):
        raise ToolError(
            f"'{name}' is not a valid tool name; "
            "use up to 64 of a-z, 0-9, '_' and '-', starting with a letter"
        )
    if name in RESERVED:
        raise ToolError(f"forge has a tool named '{name}'; choose another name")
    for text in (description, *(parameter.description for parameter in parameters)):
        if found := _CONTROL.search(text):
            code = f"U+{ord(found[0]):04X}"
            raise ToolError(f"the description contains the control character {code}; leave it out")
    source = f"{name}{LANGUAGES[language]}"
    manifest = _manifest(name, description, source, parameters or [EXAMPLE])
    try:
        parsed = parse_manifest(parse_document(manifest, FILE), FILE)
    except ForgeError as error:
        raise ToolError(f"this does not make a valid {FILE}: {error}") from None
    return Scaffold(
        name, language, {FILE: manifest, source: SOURCES[language](description, parsed.parameters)}
    )


def next_steps(made: Scaffold, root: Path) -> str:
    """Return instructions for the author of a new tool."""
    files = ", ".join(made.files)
    return "\n".join(
        [
            f"Made {root / made.name} with {files}. It works already and prints its arguments.",
            f"1. Write the program in {made.source} (/tools/{made.name}/{made.source} for file "
            "tools): arguments are passed as --name=value, the working directory is the "
            "workspace, stdin is closed.",
            "   Print the result to stdout and problems to stderr, and exit with a code other "
            "than 0 on failure.",
            '   A last line such as {"kind": "json", "data": ...} becomes the result itself.',
            *_PACKAGES.get(made.language, ()),
            f"2. Keep parameters, usage and examples in /tools/{made.name}/tool.yaml in step with "
            "the source.",
            f"3. From the next turn on you can call {made.name}; Go is compiled at the first call, "
            "whose error contains the messages of the compiler.",
            *filter(None, [made.warning]),
        ]
    )


def _manifest(name: str, description: str, source: str, parameters: Sequence[Parameter]) -> str:
    lines = [
        f"name: {name}",
        f"description: {_quoted(description)}",
        "version: 1.0.0",
        f"entrypoint: {source}",
        "usage: |",
        "  Prints its arguments, until it is written for its purpose.",
        "parameters:",
    ]
    for parameter in parameters:
        lines += [f"  - name: {parameter.name}", f"    type: {parameter.type}"]
        lines += [f"    required: {'true' if parameter.required else 'false'}"]
        if parameter.description:
            lines.append(f"    description: {_quoted(parameter.description)}")
        if parameter.enum is not None:
            lines.append(f"    enum: {_quoted(list(parameter.enum))}")
        if parameter.default is not None:
            lines.append(f"    default: {_quoted(parameter.default)}")
    lines += ["timeout: 30", *_example(parameters)]
    return "\n".join(lines) + "\n"


def _example(parameters: Sequence[Parameter]) -> list[str]:
    """Return an example that passes at once, or none if a path is required.

    No file is known to exist that the example could name.
    """
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
    return "".join(
        f"    {line}" if line.strip() else line for line in content.splitlines(keepends=True)
    )


def _line(text: str) -> str:
    """Return a text as one line for a comment."""
    return " ".join(text.split())


def _identifiers(parameters: Sequence[Parameter]) -> list[str]:
    """Return distinct identifiers that no language reserves; ``a-b`` and ``a_b`` would collide."""
    names = [f"arg_{re.sub(r'[^a-zA-Z0-9]', '_', parameter.name)}" for parameter in parameters]
    return [
        f"{name}_{index}" if names.count(name) > 1 else name for index, name in enumerate(names)
    ]


def go_source(description: str, parameters: Sequence[Parameter]) -> str:
    """Return a Go program that prints its arguments."""
    declared: list[str] = []
    printed: list[str] = []
    for name, each in zip(_identifiers(parameters), parameters, strict=True):
        arguments = f'"{each.name}", {_go_default(each)}, {_text(each.description)}'
        declared.append(f"\t{name} := flag.{_GO_KINDS[each.type]}({arguments})")
        printed.append(f'\tfmt.Printf("%s: %v\\n", "{each.name}", *{name})')
    head = [
        f"// {_line(description)}",
        "package main",
        "",
        "import (",
        '\t"flag"',
        '\t"fmt"',
        '\t"os"',
        ")",
        "",
    ]
    workspace = [f"// {_WORKSPACE}", 'var workspace = os.Getenv("FORGE_WORKSPACE")', ""]
    body = [*declared, "\tflag.Parse()", "", f"\t// {_TO_DO}", *printed]
    return "\n".join([*head, *workspace, "func main() {", *body, "}", ""])


def _go_default(parameter: Parameter) -> str:
    default = parameter.field().get("default")
    if default is None:
        return _GO_EMPTY[parameter.type]
    if isinstance(default, bool):
        return "true" if default else "false"
    if isinstance(default, str):
        return _text(default)
    return str(int(default) if parameter.type == "integer" else default)


def _text(text: str) -> str:
    """Return a string literal that is valid in Go and Python.

    JSON without escapes for other scripts: JSON writes some characters as surrogate pairs.
    """
    return json.dumps(text, ensure_ascii=False)


def py_source(description: str, parameters: Sequence[Parameter]) -> str:
    """Return a Python program that prints its arguments."""
    names = _identifiers(parameters)
    needs_boolean = any(each.type == "boolean" for each in parameters)
    lines = [_text(_line(description)), "import argparse", "import os", ""]
    lines += [f"# {_WORKSPACE}", 'WORKSPACE = os.environ.get("FORGE_WORKSPACE", "")', ""]
    if needs_boolean:
        lines += ["", "def boolean(text):", '    return {"true": True, "false": False}[text]', ""]
    lines += ["", "def main():", "    parser = argparse.ArgumentParser(allow_abbrev=False)"]
    for name, each in zip(names, parameters, strict=True):
        default = each.field().get("default")
        options = [f'"--{each.name}"', f'dest="{name}"', f"type={_PY_KINDS[each.type]}"]
        if each.required:
            options.append("required=True")
        if default is not None:
            options.append(f"default={default!r}")
        lines.append(f"    parser.add_argument({', '.join(options)})")
    lines += ["    args = parser.parse_args()", "", f"    # {_TO_DO}"]
    lines += [
        f'    print("{each.name}:", args.{name})'
        for name, each in zip(names, parameters, strict=True)
    ]
    return "\n".join([*lines, "", "", 'if __name__ == "__main__":', "    main()", ""])


def sh_source(description: str, parameters: Sequence[Parameter]) -> str:
    """Return a shell script that prints its arguments."""
    names = _identifiers(parameters)
    lines = [f"# {_line(description)}", "set -eu", ""]
    lines += [f"# {_WORKSPACE}", "workspace=${FORGE_WORKSPACE:-}", ""]
    lines += [
        f"{name}={shlex.quote(_sh_default(each))}"
        for name, each in zip(names, parameters, strict=True)
    ]
    lines += ["", 'for argument in "$@"; do', '    case "$argument" in']
    lines += [
        f"    --{each.name}=*) {name}=${{argument#*=}} ;;"
        for name, each in zip(names, parameters, strict=True)
    ]
    lines += [
        '    *) echo "unknown argument: $argument" >&2; exit 2 ;;',
        "    esac",
        "done",
        "",
        f"# {_TO_DO}",
    ]
    lines += [
        f"printf '%s: %s\\n' {each.name} \"${name}\""
        for name, each in zip(names, parameters, strict=True)
    ]
    return "\n".join([*lines, ""])


def _sh_default(parameter: Parameter) -> str:
    default = parameter.field().get("default")
    return "" if default is None else parameter.argv_item(default).partition("=")[2]


SOURCES: Mapping[str, Callable[[str, Sequence[Parameter]], str]] = {
    "go": go_source,
    "py": py_source,
    "sh": sh_source,
}

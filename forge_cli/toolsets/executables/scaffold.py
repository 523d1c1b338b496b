"""A new tool: a ``tool.yaml`` and a source that already works, to be filled with what the tool is for."""

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
"""The parameter of a tool that was made without any: it shows how they are declared and read."""
_PACKAGES = {
    "py": ["   Packages that it needs stand in a '# /// script' comment (PEP 723) at its top."]
}
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_WORKSPACE = "Where the work is done: the working directory of the worker."
_TO_DO = "To be replaced by what the tool is for; the result goes to stdout."
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
        """A sentence for people and the model where its name is that of a built-in tool; else empty."""
        return replaced_tool(self.name)

    def text(self, root: Path) -> str:
        """Every file with its whole content, for the approval."""
        parts = [
            f"{root / self.name / file}\n{_indented(content)}"
            for file, content in self.files.items()
        ]
        return "\n".join(filter(None, (self.warning, *parts)))

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
            raise ToolError(
                f"{root / self.name} cannot be made: {error.strerror or error}"
            ) from None
        Stats(root).created(self.name)


def replaced_tool(name: str) -> str:
    """A sentence on the built-in tool whose place a tool of this name takes; empty where there is none."""
    if name not in BUILT_IN:
        return ""
    return (
        f"WARNING: forge has a tool called {name}. This one takes its place in every worker that uses "
        "executables, gets what is meant for it, and asks at each call unless approval.tools names it."
    )


def check_free(root: Path, name: str) -> None:
    if os.path.lexists(root / name):
        raise ToolError(
            f"there is something at {root / name} already; change that tool, or choose another name"
        )


def scaffold(
    name: str, description: str, language: str, parameters: Sequence[Parameter]
) -> Scaffold:
    """The files for a new tool; what cannot become a tool is a ToolError."""
    if not NAME.fullmatch(name):
        raise ToolError(
            f"'{name}' is not a name for a tool; use up to 64 of a-z, 0-9, '_' and '-', a letter first"
        )
    if name in RESERVED:
        raise ToolError(f"'{name}' is one of forge's own tools; choose another name")
    for text in (description, *(parameter.description for parameter in parameters)):
        if found := _CONTROL.search(text):
            raise ToolError(
                f"a description cannot hold the control character U+{ord(found[0]):04X}; leave it out"
            )
    source = f"{name}{LANGUAGES[language]}"
    manifest = _manifest(name, description, source, parameters or [EXAMPLE])
    try:
        parsed = parse_manifest(parse_document(manifest, FILE), FILE)
    except ForgeError as error:
        raise ToolError(f"this cannot be written as a {FILE}: {error}") from None
    return Scaffold(
        name, language, {FILE: manifest, source: SOURCES[language](description, parsed.parameters)}
    )


def next_steps(made: Scaffold, root: Path) -> str:
    """The commands for the author of a tool."""
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
        "  Says what it was given, until it is written for its purpose.",
        "parameters:",
    ]
    for parameter in parameters:
        lines += [f"  - name: {parameter.name}", f"    type: {parameter.type}"]
        lines += [f"    required: {'true' if parameter.required else 'false'}"]
        lines += (
            [f"    description: {_quoted(parameter.description)}"] if parameter.description else []
        )
        lines += (
            [f"    enum: {_quoted(list(parameter.enum))}"] if parameter.enum is not None else []
        )
        lines += (
            [f"    default: {_quoted(parameter.default)}"] if parameter.default is not None else []
        )
    lines += ["timeout: 30", *_example(parameters)]
    return "\n".join(lines) + "\n"


def _example(parameters: Sequence[Parameter]) -> list[str]:
    """An example that passes at once; there is none for a path, since it is not known which files there will be."""
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
    """One line for a comment."""
    return " ".join(text.split())


def _identifiers(parameters: Sequence[Parameter]) -> list[str]:
    """Names that no language has reserved, all different, although ``a-b`` and ``a_b`` look the same without signs."""
    names = [f"arg_{re.sub(r'[^a-zA-Z0-9]', '_', parameter.name)}" for parameter in parameters]
    return [
        f"{name}_{index}" if names.count(name) > 1 else name for index, name in enumerate(names)
    ]


def go_source(description: str, parameters: Sequence[Parameter]) -> str:
    names = _identifiers(parameters)
    declared = [
        f'\t{name} := flag.{_GO_KINDS[each.type]}("{each.name}", {_go_default(each)}, {_text(each.description)})'
        for name, each in zip(names, parameters, strict=True)
    ]
    printed = [
        f'\tfmt.Printf("%s: %v\\n", "{each.name}", *{name})'
        for name, each in zip(names, parameters, strict=True)
    ]
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
    """A string that Go and Python read alike: JSON's, but for characters that JSON writes as two halves."""
    return json.dumps(text, ensure_ascii=False)


def py_source(description: str, parameters: Sequence[Parameter]) -> str:
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
        options += ["required=True"] if each.required else []
        options += [f"default={default!r}"] if default is not None else []
        lines.append(f"    parser.add_argument({', '.join(options)})")
    lines += ["    args = parser.parse_args()", "", f"    # {_TO_DO}"]
    lines += [
        f'    print("{each.name}:", args.{name})'
        for name, each in zip(names, parameters, strict=True)
    ]
    return "\n".join([*lines, "", "", 'if __name__ == "__main__":', "    main()", ""])


def sh_source(description: str, parameters: Sequence[Parameter]) -> str:
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

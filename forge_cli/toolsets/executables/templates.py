"""The sources that a new tool begins with: they parse the declared flags, know the workspace, and print the flags."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence

from forge_cli.toolsets.executables.manifest import Parameter

_WORKSPACE = "Where the work is done: the working directory of the worker."
_TO_DO = "To be replaced by what the tool is for; the result goes to stdout."
_GO_KINDS = {"string": "String", "path": "String", "number": "Float64", "integer": "Int", "boolean": "Bool"}
_GO_EMPTY = {"string": '""', "path": '""', "number": "0", "integer": "0", "boolean": "false"}
_PY_KINDS = {"string": "str", "path": "str", "number": "float", "integer": "int", "boolean": "boolean"}


def _line(text: str) -> str:
    """One line for a comment."""
    return " ".join(text.split())


def _identifier(name: str, taken: str = "arg") -> str:
    """A name that no language has reserved."""
    return f"{taken}_{re.sub(r'[^a-zA-Z0-9]', '_', name)}"


def _identifiers(parameters: Sequence[Parameter], prefix: str = "arg") -> list[str]:
    """Names for all of them, all different, although ``a-b`` and ``a_b`` look the same without signs."""
    names = [_identifier(parameter.name, prefix) for parameter in parameters]
    return [f"{name}_{index}" if names.count(name) > 1 else name for index, name in enumerate(names)]


def go_source(description: str, parameters: Sequence[Parameter]) -> str:
    names = _identifiers(parameters)
    declared = [
        f'\t{name} := flag.{_GO_KINDS[each.type]}("{each.name}", {_go_default(each)}, {_text(each.description)})'
        for name, each in zip(names, parameters, strict=True)
    ]
    printed = [
        f'\tfmt.Printf("%s: %v\\n", "{each.name}", *{name})' for name, each in zip(names, parameters, strict=True)
    ]
    head = [f"// {_line(description)}", "package main", "", "import (", '\t"flag"', '\t"fmt"', '\t"os"', ")", ""]
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
    lines += [f'    print("{each.name}:", args.{name})' for name, each in zip(names, parameters, strict=True)]
    return "\n".join([*lines, "", "", 'if __name__ == "__main__":', "    main()", ""])


def sh_source(description: str, parameters: Sequence[Parameter]) -> str:
    names = _identifiers(parameters)
    lines = [f"# {_line(description)}", "set -eu", ""]
    lines += [f"# {_WORKSPACE}", "workspace=${FORGE_WORKSPACE:-}", ""]
    lines += [f"{name}={_sh_text(_sh_default(each))}" for name, each in zip(names, parameters, strict=True)]
    lines += ["", 'for argument in "$@"; do', '    case "$argument" in']
    lines += [f"    --{each.name}=*) {name}=${{argument#*=}} ;;" for name, each in zip(names, parameters, strict=True)]
    lines += ['    *) echo "unknown argument: $argument" >&2; exit 2 ;;', "    esac", "done", "", f"# {_TO_DO}"]
    lines += [f"printf '%s: %s\\n' {each.name} \"${name}\"" for name, each in zip(names, parameters, strict=True)]
    return "\n".join([*lines, ""])


def _sh_default(parameter: Parameter) -> str:
    default = parameter.field().get("default")
    return "" if default is None else parameter.argv_item(default).partition("=")[2]


def _sh_text(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


SOURCES: Mapping[str, Callable[[str, Sequence[Parameter]], str]] = {
    "go": go_source,
    "py": py_source,
    "sh": sh_source,
}

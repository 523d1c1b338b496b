"""Nothing that people can type, write or receive is missing from the documentation."""

import dataclasses
import importlib
import json
import re
import tomllib
import typing
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import EnumType
from pathlib import Path
from types import FunctionType
from typing import Any, get_args

import pytest
from msgspec import Struct
from msgspec.structs import fields as struct_fields
from typer.core import TyperGroup
from typer.main import get_command

import forge_cli
from forge_cli import WorkerResult, testing
from forge_cli import results as results_api
from forge_cli.cli import commands
from forge_cli.core import hookspecs
from forge_cli.core.calls import OutcomeStatus
from forge_cli.core.errors import ExitCode
from forge_cli.core.event_kinds import EVENT_KINDS
from forge_cli.core.events import Event, Origin, StatusEvent
from forge_cli.core.interrupt import ResultStatus
from forge_cli.core.media import DisplayHints
from forge_cli.core.messages import Message
from forge_cli.core.results import WELL_KNOWN_KINDS
from forge_cli.core.wire import camel_case
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.files.settings import Settings
from forge_cli.files.worker import WorkerConfig
from forge_cli.homes import PUBLIC_MODULES
from forge_cli.models.script import ScriptFile
from forge_cli.record.line import Line
from forge_cli.record.recorder import Recorder
from forge_cli.sandbox.secrets import Redactor
from forge_cli.sandbox.zones.config import SandboxConfig
from forge_cli.schema.config import Config
from forge_cli.schema.toolset import ToolsetConfig
from forge_cli.toolsets.executables.manifest import Manifest

ROOT = Path(__file__).parent.parent
OWN = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["name"]
EVENTS: tuple[type[Event], ...] = tuple(EVENT_KINDS.values())

FENCED = re.compile(r"^ *(`{3,}).*?^ *\1`*$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Needed:
    """A word that must be written as code under a heading, or anywhere without one."""

    word: str
    under: str | None = None

    def what_to_do(self) -> str:
        where = (
            "a page of docs/, such as docs/python.md"
            if self.under is None
            else f"the section {self.under!r} of docs/"
        )
        return f"write `{self.word}` into {where}"


class Documentation:
    """Markdown by its headings, and the code in it."""

    def __init__(self, *texts: str) -> None:
        self.sections: dict[str, str] = {}
        for text in texts:
            self._split(text)
        self.everything = "\n".join(texts)
        self._code: dict[str | None, str] = {}

    def _split(self, text: str) -> None:
        bare = FENCED.sub(lambda found: " " * len(found[0]), text)
        headings = list(HEADING.finditer(bare))
        for index, heading in enumerate(headings):
            below = (other for other in headings[index + 1 :] if len(other[1]) <= len(heading[1]))
            end = next((other.start() for other in below), len(text))
            title = heading[2].replace("`", "")
            self.sections[title] = self.sections.get(title, "") + text[heading.end() : end]

    def has(self, needed: Needed) -> bool:
        if needed.under not in self._code:
            text = self.everything if needed.under is None else self.sections.get(needed.under, "")
            code = [
                *(found[0] for found in FENCED.finditer(text)),
                *SPAN.findall(FENCED.sub("", text)),
            ]
            self._code[needed.under] = "\n".join(code)
        word = rf"(?<![\w.\]-]){re.escape(needed.word)}(?![\w\[-]|\.\w)"
        return re.search(word, self._code[needed.under]) is not None


DOCS = Documentation(
    *(path.read_text() for path in [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))])
)


def command_line() -> Iterator[Needed]:
    """Every command has a heading, and under it its usage and every flag with its choices."""
    yield from _options("forge", get_command(commands.app))
    for name, command in commands.lazy_commands().items():
        yield from _command(f"forge {name}", command.load())


def _command(path: str, command: Any) -> Iterator[Needed]:
    if command.hidden:
        return
    if isinstance(command, TyperGroup):
        for name, inner in command.commands.items():
            yield from _command(f"{path} {name}", inner)
    else:
        yield Needed(path, path)
    yield from _options(path, command)


def _options(path: str, command: Any) -> Iterator[Needed]:
    for parameter in command.params:
        if parameter.param_type_name == "option" and not parameter.hidden:
            kind = parameter.bare_type()
            choices = (
                [choice.value for choice in kind] if isinstance(kind, EnumType) else get_args(kind)
            )
            words = [*parameter.opts, *parameter.secondary_opts, *choices]
            yield from (Needed(word, path) for word in words)


def worker_keys() -> Iterator[Needed]:
    """Every key of a worker file, spelled from the top; a list is ``[]``, a free name is NAME."""
    yield from (Needed(key, "worker.yaml") for key in _keys(WorkerConfig))
    yield from (Needed(key, "worker.yaml") for key in _keys(SandboxConfig, "sandbox."))
    common = list(_keys(ToolsetConfig, ""))
    yield from (Needed(f"toolsets.NAME.{key}", "worker.yaml") for key in common)
    host = PluginHost()
    for plugin in host.toolset_plugins():
        if plugin.distribution == OWN:
            own = [key for key in _keys(host.toolset_of(plugin).Config) if key not in common]
            yield from (Needed(f"toolsets.{plugin.name}.{key}") for key in own)


def config_keys() -> Iterator[Needed]:
    yield from (Needed(key, "config.yaml") for key in _keys(Settings) if key != "policy")
    yield Needed("policy.NAME", "config.yaml")
    host = PluginHost()
    toolsets = [
        host.toolset_of(plugin) for plugin in host.toolset_plugins() if plugin.distribution == OWN
    ]
    yield from (Needed(f"policy.{each.name}", "config.yaml") for each in toolsets if each.Policy)


def script_keys() -> Iterator[Needed]:
    yield from (Needed(key, "script.yaml") for key in _keys(ScriptFile))


def manifest_keys() -> Iterator[Needed]:
    yield from (Needed(key, "tool.yaml") for key in _keys(Manifest))


def _keys(config: type[Config], above: str = "") -> Iterator[str]:
    for name, info in config.model_fields.items():
        path = f"{above}{info.alias or name}"
        nested = list(_nested(info.annotation))
        if not nested:
            yield path
        for inner, holder in nested:
            yield from _keys(inner, f"{path}{holder}.")


def _nested(annotation: Any, holder: str = "") -> Iterator[tuple[type[Config], str]]:
    """The sections inside a type, each with how it is held."""
    if isinstance(annotation, type) and issubclass(annotation, Config):
        yield annotation, holder
    origin = typing.get_origin(annotation)
    holder += "[]" if origin is list else ".NAME" if origin is dict else ""
    for argument in typing.get_args(annotation):
        yield from _nested(argument, holder)


def events() -> Iterator[Needed]:
    """Every event has a heading, and under it each key of its payload, nested ones too."""
    for event in EVENTS:
        yield from (
            Needed(word, event.type) for word in [event.type, *_deep(sample(event).payload())]
        )


def _deep(payload: dict[str, Any]) -> Iterator[str]:
    for key, value in payload.items():
        yield key
        if isinstance(value, dict):
            yield from _deep(value)


def _value(hint: Any) -> Any:
    if hint is Message:
        return Message("user", "x")
    if hint == float | None:
        return 0.5
    return sample(hint) if isinstance(hint, type) and issubclass(hint, Struct) else "x"


def sample(cls: type[Any], *, sparse: bool = False) -> Any:
    """An instance with a value in every field; a sparse one omits optional values."""
    hints = typing.get_type_hints(cls)
    values = {}
    for entry in struct_fields(cls):
        absent = sparse and entry.default is None
        hint = hints[entry.name]
        values[entry.name] = None if absent else _value(hint)
    return cls(**values)


def the_record() -> Iterator[Needed]:
    """The keys of every line of the record beside its payload."""
    lines: list[Line] = []
    recorder = Recorder(lines.append, session="s", worker="w", redactor=Redactor({}))
    recorder(StatusEvent("info", "x"))
    recorder(StatusEvent("info", "x", origin=Origin("v", 1, "task", ("w", "v"))))
    yield from (
        Needed(key, "The record")
        for key in {**lines[0].data, **lines[1].data}
        if key not in {"level", "message"}
    )


def the_result() -> Iterator[Needed]:
    result = WorkerResult(
        status="failed",
        exit_code=ExitCode.FAILED,
        text="",
        session_id="s",
        worker="w",
        model="m",
        denials=({},),
        error="e",
    )
    words = [*_deep(result.wire()), *typing.get_args(ResultStatus)]
    yield from (Needed(word, "The result object") for word in words)


def exit_codes() -> Iterator[Needed]:
    yield from (Needed(str(code.value), "Exit codes") for code in ExitCode)


def hooks() -> Iterator[Needed]:
    yield from (
        Needed(name, "Hooks")
        for name, thing in vars(hookspecs).items()
        if hasattr(thing, "forge_spec")
    )


def results() -> Iterator[Needed]:
    """The kinds and their fields, the hints, and how a call can end."""
    kinds = [
        forge_cli.Text,
        forge_cli.Diff,
        results_api.FileContent,
        results_api.FileList,
        forge_cli.Json,
        results_api.Table,
    ]
    kinds += [forge_cli.Image, results_api.Blob]
    assert {kind.kind for kind in kinds} == WELL_KNOWN_KINDS
    for kind in [*kinds, forge_cli.Custom]:
        names = [camel_case(entry.name) for entry in struct_fields(kind)]
        yield from (Needed(word, "Results") for word in [kind.__name__, *names])
    yield from (Needed(kind, "Results") for kind in WELL_KNOWN_KINDS)
    hints = {entry.name: entry.type for entry in struct_fields(DisplayHints)}
    views = [
        view for part in typing.get_args(hints["preferred_view"]) for view in typing.get_args(part)
    ]
    yield from (Needed(word, "Display hints") for word in [*hints, *views])
    yield from (Needed(status, "How a call ends") for status in typing.get_args(OutcomeStatus))


def public_names() -> Iterator[Needed]:
    modules = [forge_cli, *(map(importlib.import_module, PUBLIC_MODULES[1:-1]))]
    yield from (Needed(name) for module in modules for name in module.__all__)


def test_kit() -> Iterator[Needed]:
    for name, thing in vars(testing).items():
        if (
            isinstance(thing, type | FunctionType)
            and thing.__module__ == testing.__name__
            and name[0] != "_"
        ):
            yield Needed(name)


test_kit.__test__ = False  # type: ignore[attr-defined]


def environment() -> Iterator[Needed]:
    """Every variable of ours that the source mentions."""
    source = "\n".join(path.read_text() for path in ROOT.glob("forge_cli/**/*.py"))
    yield from (
        Needed(name, "Environment variables")
        for name in sorted(set(re.findall(r"\bFORGE_[A-Z_]+\b", source)))
    )


Subject = Callable[[], Iterable[Needed]]
SUBJECTS: list[Subject] = [
    *(
        command_line,
        worker_keys,
        config_keys,
        script_keys,
        manifest_keys,
        events,
        the_record,
        the_result,
        exit_codes,
    ),
    *(hooks, results, public_names, test_kit, environment),
]


@pytest.mark.parametrize("subject", SUBJECTS)
def test_every_public_name_is_documented(subject: Subject) -> None:
    missing = [needed.what_to_do() for needed in subject() if not DOCS.has(needed)]
    assert missing == []


@pytest.mark.long
@pytest.mark.parametrize("subject", SUBJECTS)
def test_undocumented_names_are_noticed(subject: Subject) -> None:
    found = list(subject())
    assert found
    assert not any(Documentation().has(needed) for needed in found)
    assert not any(DOCS.has(dataclasses.replace(needed, word="zz_made_up")) for needed in found)
    assert not any(DOCS.has(dataclasses.replace(needed, under="Made up")) for needed in found)


def test_words_count_only_as_complete_code_under_their_heading() -> None:
    docs = Documentation(
        "# A\n--json `--json-input` `a.name`\n## B\n`--json`\n```yaml x\n# C\nkey: 1\n```\n# D\n`x[].y`"
    )
    assert docs.has(Needed("--json", "B"))
    assert docs.has(Needed("--json", "A"))
    assert docs.has(Needed("key", "B"))
    assert docs.has(Needed("x[].y", "D"))
    missing = [
        ("--json", "D"),
        ("--jso", "B"),
        ("name", "A"),
        ("key", "C"),
        ("x", "D"),
        ("y", "D"),
        ("--json-", "A"),
    ]
    assert not any(docs.has(Needed(*each)) for each in missing)


@pytest.mark.parametrize("event", EVENTS)
def test_event_has_an_example_with_exactly_its_keys(event: type[Event]) -> None:
    fenced = [found[0] for found in FENCED.finditer(DOCS.sections.get(event.type, ""))]
    lines = [json.loads("".join(block.splitlines()[1:-1])) for block in fenced if "json" in block]
    examples = [set(line) for line in lines if line.get("type") == event.type]
    envelope = {needed.word for needed in the_record()} - {"delegation"}
    carried = envelope - {"seq", "prev", "hash"} if event.transient else envelope
    most = carried | {"delegation"} | sample(event).payload().keys()
    least = carried | sample(event, sparse=True).payload().keys()
    assert examples
    assert all(least <= example <= most for example in examples)


def test_command_page_has_every_flag_of_its_commands() -> None:
    page = Documentation((ROOT / "docs/cli.md").read_text())
    assert [
        needed
        for needed in command_line()
        if needed.under in page.sections and not page.has(needed)
    ] == []


def test_exit_codes_are_on_the_page_of_commands() -> None:
    docs = Documentation((ROOT / "docs/cli.md").read_text())
    assert [needed for needed in exit_codes() if not docs.has(needed)] == []

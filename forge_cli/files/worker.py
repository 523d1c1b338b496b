"""Worker files: who the worker is, what it may use, and what is allowed; toolset and sandbox sections stay raw here."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, SkipValidation, field_validator
from pydantic_core import PydanticCustomError

from forge_cli.core.approval import ApprovalMode
from forge_cli.core.errors import Mark, WorkerError
from forge_cli.files.document import read_document
from forge_cli.files.lookup import FOLDER_FILES, worker_of_folder
from forge_cli.files.lookup import SUFFIXES as SUFFIXES
from forge_cli.schema.config import Config, parse_config
from forge_cli.schema.offering import GivenTools
from forge_cli.schema.toolset import Toolset, ToolsetConfig

if TYPE_CHECKING:
    from forge_cli.core.sandbox import SandboxView

DEFAULT_MAX_TURNS = 50
DEFAULT_TOOL_SHARE = 0.2

ToolShare = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
"""Of the model's window, for the definitions of tools."""


class Limits(Config):
    """Limits at which the work ends even if the model would continue."""

    max_turns: Annotated[int, Field(ge=1)] | None = None
    """Turns of the model; 50 by default."""
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    """Tokens sent and received, added up."""
    max_cost: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Dollars."""
    max_time: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Seconds."""


class ApprovalSection(Config):
    """The answer to a call that asks: by a person, always yes or always no."""

    mode: ApprovalMode | None = None
    """Whether a person is asked, or the answer is always no, or always yes."""


class WorkerApproval(ApprovalSection):
    @field_validator("mode", mode="before")
    @classmethod
    def _consent_is_personal(cls, mode: Any) -> Any:
        if mode == ApprovalMode.APPROVE_ALL.value:
            raise ValueError(
                "a worker cannot approve its own calls; use -y, or approval.mode in your own config.yaml"
            )
        if mode not in (None, "interactive", "auto_deny"):
            raise PydanticCustomError("mode", "Input should be 'interactive' or 'auto_deny'")
        return mode


class WorkerConfig(Config):
    """A worker file."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,63}$")]
    """The name: a lowercase letter, then a-z, 0-9, '_' and '-'."""
    description: str = ""
    """The purpose, in a line; a parent worker reads this."""
    instructions: str | None = None
    """The system prompt; in .md and .worker files it is the body instead."""
    model: Annotated[str, Field(min_length=1)] | None = None
    """PROVIDER:MODEL, or an alias of one."""
    limits: Limits = Field(default_factory=Limits.empty)
    """Limits at which the work ends even if the model would continue."""
    approval: WorkerApproval = Field(default_factory=WorkerApproval.empty)
    """The answer to a call that asks: by a person, always yes or always no."""
    agents_md: bool | None = None
    """Whether AGENTS.md joins the instructions; by default if it is trusted."""
    environment: bool = True
    """Whether the system prompt tells where the worker is."""
    on_error: Literal["continue", "stop"] = "continue"
    """Whether a call of the model that fails ends the work."""
    undo: Literal["files", "commands"] = "commands"
    """Whether what commands change can be undone as well, where they can work on copies."""
    tool_share: ToolShare | None = None
    """The share of the model's window that the definitions of tools may take before they are loaded on demand."""
    output_schema: Annotated[str | dict[str, Any] | None, SkipValidation] = None
    """The JSON Schema of the final answer, or the path of one from the worker file."""
    sandbox: dict[str, Any] | None = None
    """The files that can be reached, and what confines commands."""
    plugins: list[str] = Field(default=[])
    """Python files, packages or projects beside the worker that bring toolsets, renderers or models."""
    lock: Literal["required"] | None = None
    """Whether it runs only as its lock says."""
    toolsets: dict[str, dict[str, Any] | list[Any] | None] = Field(default_factory=dict)
    """The toolsets of the worker, by name, and no others."""

    @classmethod
    def _inner(cls) -> dict[str, str]:
        return super()._inner() | dict.fromkeys(
            ("isolation", "network", "read", "zones"), "sandbox"
        )

    @field_validator("output_schema", mode="before")
    @classmethod
    def _path_or_schema(cls, given: Any) -> Any:
        """Keep what is written inline as it is, with its marks."""
        if given is not None and not isinstance(given, str | dict):
            raise ValueError("must be the path of a JSON Schema, or the schema itself")
        return given


@dataclass(frozen=True)
class Worker:
    """A worker that was read from a file, or made by a program: its settings, and where they stand."""

    config: WorkerConfig
    path: Path
    instructions: str
    toolsets: tuple[Toolset, ...] = ()
    """Those that a program gives it, besides those that its settings name."""
    sandbox: SandboxView | None = None
    """The zones that a program gives it, in the place of those in its settings."""
    digest: str = ""
    """The hash of the bytes that were read from its file."""

    @classmethod
    def of(
        cls,
        *,
        name: str,
        instructions: str = "",
        tools: Iterable[Any] = (),
        approval: Mapping[str, Any] | None = None,
        sandbox: SandboxView | Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> Worker:
        """A worker without a file: ``Worker.of(name="greeter", tools=[greet], model="anthropic:...")``.

        ``tools`` are typed functions, Tool objects and toolsets, ``approval`` is what the worker says of the functions
        and tools among them (``default`` and ``tools``), and ``settings`` are other keys of a worker file. ``sandbox``
        is a ``Sandbox``, or what a worker file says of it.
        """
        if isinstance(sandbox, Mapping):
            settings = {**settings, "sandbox": dict(sandbox)}
            sandbox = None
        # There is no such file, but relative paths in the settings begin in its folder.
        path = Path.cwd() / f"<{name}>"
        config = parse_config(WorkerConfig, {"name": name, **settings}, file=path.name)
        things = [
            thing() if isinstance(thing, type) and issubclass(thing, Toolset) else thing
            for thing in tools
        ]
        toolsets = [thing for thing in things if isinstance(thing, Toolset)]
        if plain := [thing for thing in things if not isinstance(thing, Toolset)]:
            section = parse_config(
                ToolsetConfig, {"approval": dict(approval or {})}, file=path.name
            )
            toolsets.append(GivenTools(section, plain))
        return cls(
            config, path, instructions.strip(), tuple(toolsets), _one_sandbox(sandbox, toolsets)
        )

    @property
    def name(self) -> str:
        """The name."""
        return self.config.name

    @cached_property
    def folder(self) -> Path:
        """The folder that its file is in."""
        return self.path.parent

    def sections_of(self, toolset: str) -> Iterator[Mapping[str, Any]]:
        """The raw sections of a toolset, which can have several."""
        section = self.config.toolsets.get(toolset)
        yield from (
            part
            for part in (section if isinstance(section, list) else [section])
            if isinstance(part, Mapping)
        )

    @property
    def modules(self) -> Iterator[Path]:
        """The Python files that its toolsets name."""
        for toolset in self.config.toolsets:
            for part in self.sections_of(toolset):
                module = part.get("module")
                if isinstance(module, str):
                    yield self.folder / module

    @property
    def names_code(self) -> bool:
        """Whether it needs code that lies beside it."""
        return bool(self.config.plugins) or any(self.modules)

    def content(self) -> bytes:
        """Equal where its settings are: the bytes of its file, if it has one."""
        if not self.path.is_file():
            sections = [
                (toolset.name, toolset.config.model_dump(mode="json")) for toolset in self.toolsets
            ]
            return repr([self.config.model_dump(mode="json"), sections]).encode()
        return self.path.read_bytes()

    def section(self, *loc: str) -> Any:
        """A raw section of the file, with its marks, for the room that reads it."""
        return self.config.section(*loc)


def load_worker(path: str | Path) -> Worker:
    """Read a worker from a ``.yaml``, ``.yml``, ``.md`` or ``.worker`` file, or the one of a folder."""
    file = _find(Path(path))
    document = read_document(file)
    config = parse_config(WorkerConfig, document.data, file=str(file))
    if document.body is not None and config.instructions is not None:
        problem = "instructions stand both in the front matter and in the body; keep one"
        raise WorkerError(config.where("instructions"), problem)
    instructions = (document.body or config.instructions or "").strip()
    return Worker(config, _whole(file), instructions, digest=document.digest)


def _whole(file: Path) -> Path:
    """The path from the root on, without ``..``: workers that call each other are found by one path each time."""
    if ".." not in file.parts:
        return file.absolute()
    plain = Path(os.path.abspath(file))
    # Behind a link ".." leads elsewhere than the text of the path says.
    return plain if plain.exists() and plain.samefile(file) else Path(os.path.realpath(file))


def _one_sandbox(given: SandboxView | None, toolsets: Iterable[Toolset]) -> SandboxView | None:
    """The zones in which a worker works; its file tools cannot have been made for others."""
    for toolset in toolsets:
        own = toolset.own_sandbox
        if own is not None and given not in (None, own):
            problem = (
                f"the toolset '{toolset.name}' was made with another sandbox than the worker's"
            )
            raise WorkerError(None, problem, hint="give both the same one")
        given = own or given
    return given


def _find(path: Path) -> Path:
    if os.path.isdir(path):
        found = worker_of_folder(path)
        usual = path / FOLDER_FILES[0]
        if found is None and os.access(path, os.X_OK) and not os.path.lexists(usual):
            holds = " and no ".join(FOLDER_FILES)
            raise WorkerError(
                None, f"{path}: this folder holds no {holds}", hint="name a worker file instead"
            )
        return found or usual
    if os.path.exists(path) and path.suffix not in SUFFIXES:
        raise WorkerError(Mark(str(path)), "a worker file ends in .yaml, .yml, .md or .worker")
    return path

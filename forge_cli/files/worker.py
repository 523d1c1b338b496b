"""Worker files; sections of toolsets and the sandbox are parsed elsewhere."""

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
from forge_cli.files.provenance import ProvenanceSection
from forge_cli.schema.config import Config, parse_config
from forge_cli.schema.offering import GivenTools
from forge_cli.schema.toolset import Toolset, ToolsetConfig

if TYPE_CHECKING:
    from forge_cli.core.sandbox import SandboxView

DEFAULT_MAX_TURNS = 50
DEFAULT_TOOL_SHARE = 0.2

ToolShare = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
"""The share of the model's window for tool definitions."""


class Limits(Config):
    """Limits at which the work ends even if the model would continue."""

    max_turns: Annotated[int, Field(ge=1)] | None = None
    """Turns of the model; 50 by default."""
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    """Tokens sent and received in total."""
    max_cost: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Dollars."""
    max_time: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Seconds."""


class ApprovalSection(Config):
    """The answer to a call that asks: by a person, always yes or always no."""

    mode: ApprovalMode | None = None
    """Whether a person is asked, or every such call is approved or denied."""


class WorkerApproval(ApprovalSection):
    """The approval section of a worker, which cannot approve its own calls."""

    @field_validator("mode", mode="before")
    @classmethod
    def _consent_is_personal(cls, mode: Any) -> Any:
        if mode == ApprovalMode.APPROVE_ALL.value:
            raise ValueError(
                "a worker cannot approve its own calls; "
                "use -y, or approval.mode in your own config.yaml"
            )
        if mode not in (None, "interactive", "auto_deny"):
            raise PydanticCustomError("mode", "Input should be 'interactive' or 'auto_deny'")
        return mode


class WorkerConfig(Config):
    """A worker file."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,63}$")]
    """The name: a lowercase letter, then a-z, 0-9, '_' and '-'."""
    description: str = ""
    """The purpose in one line, for parent workers and lists."""
    instructions: str | None = None
    """The system prompt; in .md and .worker files the body replaces it."""
    model: Annotated[str, Field(min_length=1)] | None = None
    """PROVIDER:MODEL, or an alias."""
    limits: Limits = Field(default_factory=Limits.empty)
    """Limits at which the work ends even if the model would continue."""
    approval: WorkerApproval = Field(default_factory=WorkerApproval.empty)
    """The answer to a call that asks: by a person, always yes or always no."""
    agents_md: bool | None = None
    """Whether AGENTS.md is added to the instructions; by default if it is trusted."""
    environment: bool = True
    """Whether the system prompt describes the worker's environment."""
    on_error: Literal["continue", "stop"] = "continue"
    """Whether a failed call of the model ends the work."""
    undo: Literal["files", "commands"] = "commands"
    """Whether changes by commands can be undone as well, if they run on copies."""
    tool_share: ToolShare | None = None
    """The share of the model's window for tool definitions; beyond it they load on demand."""
    output_schema: Annotated[str | dict[str, Any] | None, SkipValidation] = None
    """The JSON Schema of the final answer, or its path relative to the worker file."""
    sandbox: dict[str, Any] | None = None
    """The files that can be reached, and how commands are confined."""
    provenance: ProvenanceSection | None = None
    """The rule about effects that cannot be undone, after untrusted text was read."""
    plugins: list[str] = Field(default=[])
    """Python files, packages or projects next to the worker with toolsets, renderers or models."""
    lock: Literal["required"] | None = None
    """Whether the worker runs only if it matches its lock file."""
    toolsets: dict[str, dict[str, Any] | list[Any] | None] = Field(default_factory=dict)
    """The toolsets of the worker, by name."""

    @classmethod
    def _inner(cls) -> dict[str, str]:
        return super()._inner() | dict.fromkeys(
            ("isolation", "network", "read", "zones"), "sandbox"
        )

    @field_validator("output_schema", mode="before")
    @classmethod
    def _path_or_schema(cls, given: Any) -> Any:
        """Keep an inline schema unchanged, with its marks."""
        if given is not None and not isinstance(given, str | dict):
            raise ValueError("must be the path of a JSON Schema, or the schema itself")
        return given


@dataclass(frozen=True)
class Worker:
    """A worker from a file or a program, with the places of its settings."""

    config: WorkerConfig
    path: Path
    instructions: str
    toolsets: tuple[Toolset, ...] = ()
    """Toolsets from a program, in addition to those in the settings."""
    sandbox: SandboxView | None = None
    """Zones from a program, in place of those in the settings."""
    digest: str = ""
    """The hash of the file's bytes."""

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
        """Create a worker without a file: ``Worker.of(name="greeter", tools=[greet])``.

        ``tools`` are typed functions, Tool objects and toolsets. ``approval`` applies to the
        functions and tools among them, with the keys ``default`` and ``tools``. ``settings`` are
        other keys of a worker file. ``sandbox`` is a ``Sandbox``, or a section as in a worker file.
        """
        if isinstance(sandbox, Mapping):
            settings = {**settings, "sandbox": dict(sandbox)}
            sandbox = None
        # There is no such file, but relative paths in the settings begin in its folder.
        path = Path.cwd() / f"<{name}>"
        config = parse_config(WorkerConfig, {"name": name, **settings}, file=path.name)
        toolsets: list[Toolset] = []
        plain: list[Any] = []
        for thing in tools:
            if isinstance(thing, type) and issubclass(thing, Toolset):
                thing = thing()
            if isinstance(thing, Toolset):
                toolsets.append(thing)
            else:
                plain.append(thing)
        if plain:
            section = parse_config(
                ToolsetConfig, {"approval": dict(approval or {})}, file=path.name
            )
            toolsets.append(GivenTools(section, plain))
        return cls(
            config, path, instructions.strip(), tuple(toolsets), _one_sandbox(sandbox, toolsets)
        )

    @property
    def name(self) -> str:
        """The name of the worker."""
        return self.config.name

    @cached_property
    def folder(self) -> Path:
        """The folder of its file."""
        return self.path.parent

    def sections_of(self, toolset: str) -> Iterator[Mapping[str, Any]]:
        """Yield the raw sections of a toolset, which may have several."""
        section = self.config.toolsets.get(toolset)
        parts = section if isinstance(section, list) else [section]
        for part in parts:
            if isinstance(part, Mapping):
                yield part

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
        """True if it needs local code."""
        return bool(self.config.plugins) or any(self.modules)

    def content(self) -> bytes:
        """Return bytes that are equal for equal settings: its file, if there is one."""
        if not self.path.is_file():
            sections = [
                (toolset.name, toolset.config.model_dump(mode="json")) for toolset in self.toolsets
            ]
            return repr([self.config.model_dump(mode="json"), sections]).encode()
        return self.path.read_bytes()

    def section(self, *loc: str) -> Any:
        """Return a raw section of the file with its marks."""
        return self.config.section(*loc)


def load_worker(path: str | Path) -> Worker:
    """Read a worker from a ``.yaml``, ``.yml``, ``.md`` or ``.worker`` file, or from a folder."""
    file = _find(Path(path))
    document = read_document(file)
    config = parse_config(WorkerConfig, document.data, file=str(file))
    if document.body is not None and config.instructions is not None:
        problem = "instructions are both in the front matter and in the body; keep one"
        raise WorkerError(config.where("instructions"), problem)
    instructions = (document.body or config.instructions or "").strip()
    return Worker(config, _whole(file), instructions, digest=document.digest)


def _whole(file: Path) -> Path:
    """Return an absolute path without ``..``, so that each worker has one path."""
    if ".." not in file.parts:
        return file.absolute()
    plain = Path(os.path.abspath(file))
    # Behind a link ".." leads elsewhere than the text of the path says.
    if plain.exists() and plain.samefile(file):
        return plain
    return Path(os.path.realpath(file))


def _one_sandbox(given: SandboxView | None, toolsets: Iterable[Toolset]) -> SandboxView | None:
    """Return the sandbox of a worker, which its file tools must share."""
    for toolset in toolsets:
        own = toolset.own_sandbox
        if own is not None and given not in (None, own):
            problem = f"the toolset '{toolset.name}' has another sandbox than the worker"
            raise WorkerError(None, problem, hint="pass the same sandbox to both")
        given = own or given
    return given


def _find(path: Path) -> Path:
    if os.path.isdir(path):
        found = worker_of_folder(path)
        usual = path / FOLDER_FILES[0]
        if found is None and os.access(path, os.X_OK) and not os.path.lexists(usual):
            missing = " and no ".join(FOLDER_FILES)
            raise WorkerError(
                None, f"{path}: this folder has no {missing}", hint="name a worker file instead"
            )
        return found or usual
    if os.path.exists(path) and path.suffix not in SUFFIXES:
        raise WorkerError(Mark(str(path)), "a worker file ends in .yaml, .yml, .md or .worker")
    return path

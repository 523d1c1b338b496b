"""Worker files: who the worker is, what it may use, and what is allowed; toolset and sandbox sections stay raw here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, SkipValidation, field_validator

from forge_cli.core.approval import ApprovalMode
from forge_cli.core.config import Config, parse_config
from forge_cli.core.errors import Mark, WorkerError
from forge_cli.core.values import dataclass
from forge_cli.files.document import read_document

SUFFIXES = (".yaml", ".yml", ".md", ".worker")
DEFAULT_MAX_TURNS = 50


class Limits(Config):
    """Where the work ends even if the model would continue."""

    max_turns: Annotated[int, Field(ge=1, strict=True)] | None = None
    max_tokens: Annotated[int, Field(ge=1, strict=True)] | None = None
    max_cost: Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)] | None = None
    max_time: Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)] | None = None


class ApprovalSection(Config):
    """Who answers when a call asks."""

    mode: ApprovalMode | None = None


class WorkerConfig(Config):
    """A worker file."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,63}$")]
    description: str = ""
    instructions: str | None = None
    model: str | None = None
    limits: Limits = Field(default_factory=Limits)
    approval: ApprovalSection = Field(default_factory=ApprovalSection)
    agents_md: bool = False
    on_error: Literal["continue", "stop"] = "continue"
    """Whether a call of the model that fails ends the work."""
    output_schema: Annotated[str | dict[str, Any] | None, SkipValidation] = None
    sandbox: dict[str, Any] | None = None
    plugins: list[str] = Field(default_factory=list)
    toolsets: dict[str, dict[str, Any] | list[Any] | None] = Field(default_factory=dict)

    @field_validator("approval")
    @classmethod
    def _consent_is_personal(cls, section: ApprovalSection) -> ApprovalSection:
        if section.mode is ApprovalMode.APPROVE_ALL:
            raise ValueError("a worker cannot approve its own calls; use -y, or approval.mode in your own config.yaml")
        return section

    @field_validator("output_schema", mode="before")
    @classmethod
    def _path_or_schema(cls, given: Any) -> Any:
        """What is written inline stays as it is, with its marks."""
        if given is not None and not isinstance(given, str | dict):
            raise ValueError("must be the path of a JSON Schema, or the schema itself")
        return given


@dataclass(frozen=True)
class Worker:
    """A worker that was read: its settings, and where they stand."""

    config: WorkerConfig
    path: Path
    instructions: str

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def folder(self) -> Path:
        return self.path.parent

    def section(self, *loc: str) -> Any:
        """A raw section of the file, with its marks, for the room that reads it."""
        return self.config.section(*loc)


def load_worker(path: str | Path) -> Worker:
    """Read a worker from a ``.yaml``, ``.yml``, ``.md`` or ``.worker`` file, or from a folder with a worker.yaml."""
    file = _find(Path(path))
    document = read_document(file)
    config = parse_config(WorkerConfig, document.data, file=str(file))
    if document.body is not None and config.instructions is not None:
        problem = "instructions stand both in the front matter and in the body; keep one"
        raise WorkerError(config.where("instructions"), problem)
    return Worker(config, file.absolute(), (document.body or config.instructions or "").strip())


def _find(path: Path) -> Path:
    if path.is_dir():
        inside = path / "worker.yaml"
        if not inside.is_file():
            raise WorkerError(Mark(str(path)), "this folder holds no worker.yaml", hint="name a worker file instead")
        return inside
    if path.exists() and path.suffix not in SUFFIXES:
        raise WorkerError(Mark(str(path)), "a worker file ends in .yaml, .yml, .md or .worker")
    return path

"""Names of the public API for type checkers; ``__init__.py`` loads each at its first use."""

from forge_cli.core.approval import Approval as Approval
from forge_cli.core.approval import ApprovalDecision as ApprovalDecision
from forge_cli.core.approval import ApprovalRequest as ApprovalRequest
from forge_cli.core.approval import Effect as Effect
from forge_cli.core.approval import Verdict as Verdict
from forge_cli.core.bus import EventBus as EventBus
from forge_cli.core.context import ToolContext as ToolContext
from forge_cli.core.errors import ForgeError as ForgeError
from forge_cli.core.errors import ToolError as ToolError
from forge_cli.core.events import Event as Event
from forge_cli.core.hookspecs import hookimpl as hookimpl
from forge_cli.core.interrupt import InterruptSignal as InterruptSignal
from forge_cli.core.media import Image as Image
from forge_cli.core.results import Custom as Custom
from forge_cli.core.results import Diff as Diff
from forge_cli.core.results import Json as Json
from forge_cli.core.results import Text as Text
from forge_cli.core.tool import Args as Args
from forge_cli.core.tool import Preview as Preview
from forge_cli.core.zones import Zone as Zone
from forge_cli.engine.runtime.result import WorkerResult as WorkerResult
from forge_cli.engine.runtime.runtime import WorkerRuntime as WorkerRuntime
from forge_cli.engine.sync import run_sync as run_sync
from forge_cli.files.worker import Worker as Worker
from forge_cli.files.worker import load_worker as load_worker
from forge_cli.schema.config import Config as Config
from forge_cli.schema.json.forms import derive_fields as derive_fields
from forge_cli.schema.paths import DeletePath as DeletePath
from forge_cli.schema.paths import ReadPath as ReadPath
from forge_cli.schema.paths import WritePath as WritePath
from forge_cli.schema.tool import Tool as Tool
from forge_cli.schema.tool import tool as tool
from forge_cli.schema.toolset import Toolset as Toolset
from forge_cli.schema.toolset import ToolsetConfig as ToolsetConfig
from forge_cli.ui.runtime_ui import RuntimeUI as RuntimeUI
from forge_cli.ui.terminal.prompts import cli_approval_callback as cli_approval_callback
from forge_cli.ui.terminal.slash import classify_command as classify_command
from forge_cli.ui.terminal.slash import parse_command as parse_command
from forge_cli.ui.terminal.trace import trace_formatter as trace_formatter

__version__: str

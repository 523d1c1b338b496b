"""Prompts, resources, completion and log messages of a served worker, for clients of both generations.

Covers forge_cli.apps.serve.offered, forge_cli.apps.serve.logs and forge_cli.core.requests.
"""

from pathlib import Path
from typing import Any

import mcp_types
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client, MCPError

from forge_cli.core.events import StatusEvent
from forge_cli.core.requests import ResourceSpec
from forge_cli.testing import Project

from .test_protocol import OLDER, both, recorded, with_client

HERE = Path(__file__).parent / "conformance"
ITEM = "test://template/{id}/data"


@pytest.fixture
def suite(project: Project) -> Project:
    """The worker that the conformance suite is run against."""
    for file in ("worker.yaml", "tools.py", "extras.py"):
        project.write(file, (HERE / file).read_text())
    return project


@both
def test_prompts_are_listed_filled_in_and_completed(suite: Project, mode: str) -> None:
    async def use(client: Client) -> Any:
        listed = (await client.list_prompts()).prompts
        two = await client.get_prompt("test_prompt_with_arguments", {"arg1": "a=b", "arg2": "c"})
        image = await client.get_prompt("test_prompt_with_image")
        ref = mcp_types.PromptReference(name="test_prompt_with_arguments")
        known = await client.complete(ref, {"name": "arg1", "value": "te"})
        none = await client.complete(
            mcp_types.PromptReference(name="nothing"), {"name": "x", "value": ""}
        )
        return listed, two, image, known.completion, none.completion

    listed, two, image, known, none = with_client(suite, mode, use)
    assert [(each.name, len(each.arguments)) for each in listed][:2] == [
        ("test_simple_prompt", 0),
        ("test_prompt_with_arguments", 2),
    ]
    assert [message.content.text for message in two.messages] == [
        "Prompt with arguments: arg1='a=b', arg2='c'"
    ]
    assert [message.content.type for message in image.messages] == ["text", "image"]
    assert (known.values, none.values) == (["testing"], [])


@both
@pytest.mark.parametrize(
    ("name", "args", "told"),
    [
        ("nothing", {}, "there is no prompt 'nothing'"),
        ("test_prompt_with_arguments", {"arg1": "a"}, "needs arg2="),
        ("test_simple_prompt", {"more": "a"}, "has no argument 'more'"),
    ],
)
def test_invalid_prompt_args_are_reported(
    suite: Project, mode: str, name: str, args: dict[str, str], told: str
) -> None:
    async def use(client: Client) -> None:
        with pytest.raises(MCPError, match=told):
            await client.get_prompt(name, args)

    with_client(suite, mode, use)


@both
def test_resources_are_listed_read_and_logged(suite: Project, mode: str) -> None:
    async def use(client: Client) -> Any:
        listed = (await client.list_resources()).resources
        templates = (await client.list_resource_templates()).resource_templates
        uris = ["test://static-text", "test://static-binary", "test://template/7/data"]
        read = [(await client.read_resource(uri)).contents[0] for uri in uris]
        with pytest.raises(MCPError, match="there is no resource 'test://template/7/8/data'"):
            await client.read_resource("test://template/7/8/data")
        return listed, templates, read

    listed, templates, (text, image, data) = with_client(suite, mode, use)
    assert [each.name for each in listed] == ["text", "image"]
    assert [each.uri_template for each in templates] == [ITEM]
    assert text.text == "This is the content of the static text resource."
    assert (image.mime_type, bool(image.blob)) == ("image/png", True)
    assert (data.mime_type, '"id": "7"' in data.text) == ("application/json", True)
    said = [event.message for event in recorded(suite) if isinstance(event, StatusEvent)]
    assert said.count("a client reads the resource test://static-text") == 1


OF_A_MODULE = """
from forge_cli import Toolset, ToolError, tool
from forge_cli.hooks import PromptArgument, PromptSpec, ResourceSpec

class Notes(Toolset):
    name = kind = "note"
    @tool
    def look_at_notes(self) -> str:
        \"\"\"Look.\"\"\"
        return ""
    async def prompts(self):
        return [PromptSpec(f"sum_{self.kind}", "Sum up.", (PromptArgument("title", "of it", True),))]
    async def get_prompt(self, name, args):
        return f"Sum up the {self.kind} {args['title']}."
    async def complete_prompt(self, name, argument, text):
        return [word for word in (f"{self.kind}s", "plans") if word.startswith(text)]
    async def resources(self):
        return [ResourceSpec(f"{self.kind}://{{name}}", self.kind, "", "text/plain")]
    async def read_resource(self, uri, args):
        if args["name"] == "gone":
            raise ToolError("it is gone")
        return f"{self.kind} {args['name']}"

class Tasks(Notes):
    name = kind = "task"
    look_at_notes = None
    @tool
    def look_at_tasks(self) -> str:
        \"\"\"Look.\"\"\"
        return ""
    def prompts(self):
        return [PromptSpec("sum_task"), PromptSpec("sum_note")]
"""


@both
def test_toolsets_of_a_module_offer_their_prompts_and_resources(
    project: Project, mode: str
) -> None:
    project.write("tools.py", OF_A_MODULE)
    project.write(
        "worker.yaml", "name: w\ntoolsets: {custom: {module: ./tools.py, tools: [Notes, Tasks]}}\n"
    )

    async def use(client: Client) -> Any:
        prompts = (await client.list_prompts()).prompts
        filled = await client.get_prompt("sum_note", {"title": "Plans"})
        ref = mcp_types.PromptReference(name="sum_task")
        known = await client.complete(ref, {"name": "title", "value": "t"})
        templates = (await client.list_resource_templates()).resource_templates
        read = [
            (await client.read_resource(uri)).contents[0].text for uri in ("note://a", "task://b")
        ]
        for uri, why in (
            ("task://gone", "it is gone"),
            ("else://a", "there is no resource 'else://a'"),
        ):
            with pytest.raises(MCPError, match=why):
                await client.read_resource(uri)
        return prompts, filled.messages[0].content.text, known.completion.values, templates, read

    prompts, filled, known, templates, read = with_client(project, mode, use)
    assert [each.name for each in prompts] == ["sum_note", "sum_task"]
    assert (filled, known) == ("Sum up the note Plans.", ["tasks"])
    assert [each.uri_template for each in templates] == ["note://{name}", "task://{name}"]
    assert read == ["note a", "task b"]


@pytest.mark.filterwarnings("ignore:The logging capability is deprecated")
@pytest.mark.parametrize(("level", "heard"), [(None, 0), ("info", 3), ("warning", 0)])
def test_log_messages_reach_a_client_that_set_a_level(
    suite: Project, level: Any, heard: int
) -> None:
    logged = list[str]()

    async def hear(params: mcp_types.LoggingMessageNotificationParams) -> None:
        logged.append(f"{params.level} {params.logger}: {params.data}")

    async def use(client: Client) -> None:
        if level:
            await client.set_logging_level(level)
        await client.call_tool("test_tool_with_logging", {})

    with_client(suite, OLDER, use, logging_callback=hear)
    assert len(logged) == heard
    assert not heard or logged[0] == "info test_tool_with_logging: Tool execution started"


PARTS = st.text(st.characters(exclude_characters="/"), min_size=1)


@given(first=PARTS, rest=PARTS)
def test_template_returns_the_parts_of_a_uri(first: str, rest: str) -> None:
    spec = ResourceSpec("n://{a}/b/{+c}", "n")
    assert spec.match(f"n://{first}/b/{rest}") == {"a": first, "c": rest}
    assert spec.match(f"n://{first}/b/{rest}/{first}") == {"a": first, "c": f"{rest}/{first}"}
    assert spec.match(f"n://{first}/{first}/x/{rest}") is None

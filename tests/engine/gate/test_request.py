"""The args in a request: default values, and args that the preview shows."""

from forge_cli import Text
from forge_cli.testing import Project, call, calls

TOOLS = '''
from forge_cli import Preview, Text, tool


async def look(args, context):
    return Preview(Text(args["text"] * args["times"]), shows=("text",), recap="a few words")


@tool(needs_approval=True, preview=look)
def say(text: str, times: int = 1, loud: bool = True, mood: str | None = "dry", to: str | None = None) -> str:
    """Say something."""
    return text


@tool(needs_approval=True, preview=lambda args, context: None)
def odd() -> str:
    """Do something."""
    return "done"
'''


def asked(project: Project, tool: str = "say", **args):
    project.write("tools.py", TOOLS)
    project.write(
        "worker.yaml", "name: w\ntoolsets: {custom: {module: tools.py, tools: [say, odd]}}\n"
    )
    return project.run(calls(call(tool, **args)), "done", answers=[False]).asked[0]


def test_omitted_args_are_shown_as_defaults(project: Project) -> None:
    assert asked(project, text="hi").defaults == ("times", "loud", "mood", "to")
    assert asked(project, text="hi", times=1, to=None).defaults == ("times", "loud", "mood", "to")


def test_null_instead_of_another_default_is_shown(project: Project) -> None:
    request = asked(project, text="hi", times=2, loud=False, mood=None)
    assert request.defaults == ("to",)


def test_preview_states_its_content_and_size(project: Project) -> None:
    request = asked(project, text="hi", times=2)
    assert (request.preview, request.previewed, request.recap) == (
        Text("hihi"),
        ("text",),
        "a few words",
    )


def test_invalid_preview_counts_as_failed(project: Project) -> None:
    request = asked(project, "odd")
    assert request.preview.text().startswith("no preview: ")
    assert request.once

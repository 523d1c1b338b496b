"""What a request tells the prompt of its args: which are as by default, and which the preview shows."""

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


def test_args_that_nobody_gave_or_that_are_the_same_are_defaults(project: Project) -> None:
    assert asked(project, text="hi").defaults == ("times", "loud", "mood", "to")
    assert asked(project, text="hi", times=1, to=None).defaults == ("times", "loud", "mood", "to")


def test_null_in_the_place_of_another_default_is_shown(project: Project) -> None:
    request = asked(project, text="hi", times=2, loud=False, mood=None)
    assert request.defaults == ("to",)


def test_the_preview_says_what_it_shows_and_how_much(project: Project) -> None:
    request = asked(project, text="hi", times=2)
    assert (request.preview, request.previewed, request.recap) == (
        Text("hihi"),
        ("text",),
        "a few words",
    )


def test_a_preview_that_is_none_is_a_failed_one(project: Project) -> None:
    request = asked(project, "odd")
    assert request.preview.text().startswith("no preview: ")
    assert request.once

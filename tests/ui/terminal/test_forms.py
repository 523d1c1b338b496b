"""``forge tools call -i``: the args that are missing are asked for, checked one by one, and shown before the call."""

import json

import pytest

from forge_cli.testing import Project

CALL = ("tools", "call", "echo", "--worker", "worker.yaml", "-y", "-i")
PUSH = ("tools", "call", "push", "--worker", "pusher.yaml", "-y", "-i", "--json")
CONFIRM = "[n] leaves > "
PUSHER = "name: pusher\ntoolsets: {custom: {module: ./pusher.py, tools: [push]}}\n"
PUSH_TOOL = '''
from typing import Annotated, Any, Literal

from pydantic import Field

from forge_cli import Json


def push(
    branch: Annotated[str, Field(min_length=2)],
    remote: Literal["origin", "upstream"] = "origin",
    depth: Literal[1, 50] = 50,
    force: bool = False,
    labels: dict[str, list[int]] | None = None,
) -> Json:
    """Push a branch."""
    return Json({"branch": branch, "remote": remote, "depth": depth, "force": force, "labels": labels})
'''


@pytest.fixture
def pusher(writer: Project) -> Project:
    writer.write("pusher.yaml", PUSHER)
    writer.write("pusher.py", PUSH_TOOL)
    return writer


@pytest.mark.parametrize(("key", "code"), [("\x04", 2), ("\x03", 130)], ids=["Ctrl+D", "Ctrl+C"])
def test_empty_key_is_an_error(terminal, key: str, code: int) -> None:
    keyboard = terminal("keys", "set", "openai")
    keyboard.expect("OPENAI_API_KEY: ")
    keyboard.type(key)
    assert keyboard.end() == code
    assert keyboard.lines[1:2] == (["forge: no key was given"] if code == 2 else [""])


def answer(keyboard, *pairs: tuple[str, str]) -> None:
    """Type each answer once its question is shown."""
    for question, text in pairs:
        keyboard.expect(question)
        keyboard.type(text)


def called_with(keyboard) -> object:
    assert keyboard.end() == 0
    return json.loads(keyboard.lines[-2])["data"]


def test_each_missing_arg_is_asked_for(terminal) -> None:
    keyboard = terminal(*CALL, "--json", "--times", "2")
    answer(
        keyboard,
        ("text (What to say.): ", "hi ho\n"),
        ("loud true|false [false]: ", "true\n"),
        ("mood [optional]: ", "\n"),
    )
    assert "times (How often.)" not in keyboard.seen
    answer(keyboard, (CONFIRM, "\n"))
    assert keyboard.end() == 0
    assert json.loads(keyboard.lines[-2]) == {"kind": "text", "content": "HI HOHI HO"}


def test_empty_line_takes_the_default_and_the_summary_shows_it(terminal) -> None:
    keyboard = terminal(*CALL, "text=hi")
    answer(
        keyboard,
        ("times (How often.) [1]: ", "\n"),
        ("loud true|false [false]: ", "no\n"),
        ("mood [optional]: ", "\n"),
    )
    keyboard.expect(CONFIRM)
    assert keyboard.lines[-5:-1] == [
        "echo would be called with:",
        "  text   hi",
        "  times  1 (default)",
        "  loud   false",
    ]
    keyboard.type("\n")
    assert keyboard.end() == 0
    assert keyboard.lines[-2] == "hi"


def test_call_with_all_args_asks_nothing(terminal) -> None:
    keyboard = terminal(*CALL, "text=hi", "times=1", "loud=false", "mood=x")
    assert keyboard.end() == 0
    assert "would be called" not in keyboard.seen


@pytest.mark.parametrize("term", ["dumb", "xterm"])
def test_end_of_input_at_a_required_field_cancels_the_call(terminal, term: str) -> None:
    keyboard = terminal(*CALL, TERM=term)
    answer(keyboard, ("text (What to say.):", "\x04"))
    assert keyboard.end() == 130
    assert "times" not in keyboard.seen
    assert "missing field" not in keyboard.seen


@pytest.mark.few(1)
@pytest.mark.parametrize("key", ["n\n", "\x04", "\x03"])
def test_leaving_at_the_summary_cancels_the_call(terminal, key: str) -> None:
    keyboard = terminal(*CALL, "text=hi", "times=1", "loud=false")
    answer(keyboard, ("mood [optional]: ", "\n"), (CONFIRM, key))
    assert keyboard.end() == 130
    assert "hi\n" not in "\n".join(keyboard.lines[-2:])


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("key", "term"), [("\x04", "dumb"), ("\x03", "dumb"), ("\x1b", "xterm"), ("\x03", "xterm")]
)
def test_leaving_before_the_summary_cancels_the_call(terminal, key: str, term: str) -> None:
    keyboard = terminal(*CALL, "text=hi", TERM=term)
    answer(keyboard, ("times (How often.) [1]:", key))
    assert keyboard.end() == 130
    assert "hi" not in keyboard.lines


def test_invalid_value_is_asked_for_again_with_the_reason(terminal) -> None:
    keyboard = terminal(*CALL, "loud=false", "mood=x")
    answer(keyboard, ("text (What to say.): ", "\n"))
    assert '  a value is required, "" is an empty text' in keyboard.expect("text (What to say.): ")
    keyboard.type('""\n')
    answer(keyboard, ("times (How often.) [1]: ", "many\n"))
    assert "  must be an integer, got 'many'" in keyboard.expect("times (How often.) [1]: ")
    keyboard.type("3\n")
    answer(
        keyboard, (CONFIRM, "text\n"), ("text (What to say.): ", "ha\n"), (CONFIRM, "nonsense\n")
    )
    assert "unknown field; the fields are: text, times, loud, mood" in keyboard.expect(CONFIRM)
    keyboard.type("\n")
    assert keyboard.end() == 0
    assert keyboard.lines[-2] == "hahaha"


def test_invalid_arg_can_be_corrected_at_the_summary(terminal) -> None:
    keyboard = terminal(*CALL, "text=hi", "times=many", "loud=false")
    answer(keyboard, ("mood [optional]: ", "\n"))
    assert "  times: must be an integer, got 'many'" in keyboard.expect(CONFIRM)
    keyboard.type("\n")
    answer(keyboard, (CONFIRM, "times\n"), ("times (How often.) [1]: ", "2\n"), (CONFIRM, "\n"))
    assert keyboard.end() == 0
    assert keyboard.lines[-2] == "hihi"


@pytest.mark.parametrize("remote", ["2", "upstream"])
def test_option_is_chosen_by_number_or_name(terminal, pusher, remote: str) -> None:
    keyboard = terminal(*PUSH, "labels=null", "force=true")
    answer(keyboard, ("branch: ", "m\n"))
    assert "  must be a string of at least 2 characters, got 'm'" in keyboard.expect("branch: ")
    keyboard.type("main\n")
    answer(keyboard, ("remote 1 origin, 2 upstream [origin]: ", "3\n"))
    assert "  must be one of 'origin', 'upstream', got '3'" in keyboard.expect("[origin]: ")
    keyboard.type(f"{remote}\n")
    answer(keyboard, ("depth 1|50 [50]: ", "1\n"), (CONFIRM, "\n"))
    expected = {"branch": "main", "remote": "upstream", "depth": 1, "force": True, "labels": None}
    assert called_with(keyboard) == expected


def test_data_is_typed_as_json_over_several_lines(terminal, pusher) -> None:
    keyboard = terminal(*PUSH, "remote=origin", "depth=1", "force=false")
    answer(
        keyboard,
        ("branch: ", '"""ma\n'),
        ("... ", 'in"""\n'),
        ("labels [optional]: ", "{]\n"),
        ("... ", "\n"),
    )
    assert "  must be JSON: Expecting property name" in keyboard.expect("labels [optional]: ")
    keyboard.type('{"a":\n')
    answer(keyboard, ("... ", "[1, 2]}\n"), (CONFIRM, "\n"))
    assert "  branch  ma ⏎ in" in keyboard.lines
    expected = {
        "branch": "ma\nin",
        "remote": "origin",
        "depth": 1,
        "force": False,
        "labels": {"a": [1, 2]},
    }
    assert called_with(keyboard) == expected


def test_lines_can_be_edited_and_typed_ahead(terminal) -> None:
    keyboard = terminal(*CALL, "--json", TERM="xterm", NO_COLOR="1")
    answer(keyboard, ("text (What to say.):", "hx\x7fi\r2\rtrue\r\r\r"))
    assert keyboard.end() == 0
    assert '{"kind": "text", "content": "HIHI"}' in keyboard.seen

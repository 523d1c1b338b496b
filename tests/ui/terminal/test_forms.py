"""``forge tools call -i``: the arguments that are missing are asked for."""

import json

CALL = ("tools", "call", "echo", "--worker", "worker.yaml", "-y", "-i")


def test_each_argument_that_is_not_given_is_asked_for(terminal) -> None:
    keyboard = terminal(*CALL, "--json", "--times", "2")
    keyboard.expect("text (What to say.): ")
    keyboard.type("hi ho\n")
    keyboard.expect("loud true|false [false]: ")
    keyboard.type("true\n")
    keyboard.expect("mood [optional]: ")
    keyboard.type("\n")
    assert keyboard.end() == 0
    assert "times" not in keyboard.seen
    assert json.loads(keyboard.lines[-2]) == {"kind": "text", "content": "HI HOHI HO"}


def test_an_empty_line_takes_the_default(terminal) -> None:
    keyboard = terminal(*CALL, "text=hi")
    keyboard.expect("times (How often.) [1]: ")
    keyboard.type("\n")
    keyboard.expect("loud true|false [false]: ")
    keyboard.type("\n")
    keyboard.expect("mood [optional]: ")
    keyboard.type("\n")
    assert keyboard.end() == 0
    assert keyboard.lines[-2] == "hi"


def test_the_end_of_input_ends_the_form(terminal) -> None:
    keyboard = terminal(*CALL)
    keyboard.expect("text (What to say.): ")
    keyboard.type("\x04")
    assert keyboard.end() == 2
    assert "times" not in keyboard.seen
    assert "forge: invalid input for echo: missing field 'text'" in keyboard.seen


def test_ctrl_c_leaves_the_form(terminal) -> None:
    keyboard = terminal(*CALL)
    keyboard.expect("text (What to say.): ")
    keyboard.type("\x03")
    assert keyboard.end() == 130


def test_wrong_words_are_refused_by_the_gate(terminal) -> None:
    keyboard = terminal(*CALL, "text=hi", "loud=false", "mood=x")
    keyboard.expect("times (How often.) [1]: ")
    keyboard.type("many\n")
    assert keyboard.end() == 2
    assert "times: must be an integer, got 'many'" in keyboard.seen


def test_lines_are_edited_and_may_be_typed_ahead(terminal) -> None:
    keyboard = terminal(*CALL, "--json", TERM="xterm", NO_COLOR="1")
    keyboard.expect("text (What to say.): ")
    keyboard.type("hx\x7fi\r2\rtrue\r\r")
    assert keyboard.end() == 0
    assert '{"kind": "text", "content": "HIHI"}' in keyboard.seen

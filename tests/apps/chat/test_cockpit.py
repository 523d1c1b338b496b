"""Actions in a conversation on a real pseudo-terminal: unfold, mention files, go back, queue messages.

Covers forge_cli.record.undo.
"""

import json
import re

import pytest

LONG = '{calls: [{tool: shell, input: {command: "echo one; echo two; for n in 3 4 5 6 7 8; do echo line$n; done"}}]}'


def test_long_result_is_shown_completely_on_request(chat, script) -> None:
    script(LONG, "{text: Done.}")
    window = chat("-y").ready()
    window.type("\x0f")
    window.see("there is no result yet")
    window.say("go")
    window.see("... 3 lines before", "line8", "Ctrl+O or /show 1 shows all of it", "Done.")
    assert "two" not in window.text.split("... 3 lines")[1]
    window.ready().type("\x0f")
    window.see("1. shell echo one;", "\n  one\n  two\n  line3")
    window.ready().say("/show")
    window.see("> /show\n1. shell echo one;")
    window.ready().say("/show 7")
    window.see("no result has the number 7\n  results: from 1 to 1")


def test_files_are_mentioned_by_part_of_their_name(chat, script, talker) -> None:
    script('{text: "Hello, {task}!"}')
    talker.write("src/shop/cart.py", "x = 1\n")
    window = chat().ready()
    window.type("look at @cart")
    window.see("@src/shop/cart.py")
    window.type("\t")
    window.see("> look at @src/shop/cart.py")
    window.type("\t\t and @nope.txt\r")
    window.see(
        "> look at @src/shop/cart.py and @nope.txt\n@nope.txt is not a file, so it is sent as text only",
        "Hello",
    )
    [session] = (talker.home / "sessions").glob("*.jsonl")
    [said] = [line for line in session.read_text().splitlines() if '"userInput"' in line]
    assert "cart.py" in str(json.loads(said)["attachments"])


@pytest.mark.long
def test_empty_answer_clear_and_resume_are_announced(chat, script, talker) -> None:
    script('{text: ""}', '{text: "Hello."}')
    window = chat().ready()
    window.say("go")
    window.see("warning: the answer of the model is empty")
    window.ready().say("/clear")
    window.see("the model starts over; the session keeps everything")
    window.ready().say("/exit")
    assert window.end() == 0
    [before] = json.loads(talker.forge("sessions", "list", "--json").stdout)
    window = chat("-c").ready()
    window.say("/exit")
    assert window.end() == 0
    [after] = json.loads(talker.forge("sessions", "list", "--json").stdout)
    assert before["status"] == after["status"] == "completed"
    window = chat().ready()
    window.say("/exit")
    assert window.end() == 0
    assert [after] == json.loads(
        talker.forge("sessions", "list", "--json").stdout
    )  # nothing was said


def test_esc_twice_lists_the_messages_to_go_back_to(chat, script, talker) -> None:
    script('{text: "Hello, {task}!"}', '{text: "Again {task}."}')
    window = chat().ready()
    window.say("one")
    window.see("Hello, one!")
    window.ready().say("two")
    window.see("Again two.")
    window.ready().type("\x1b")
    window.see("Esc again goes back to a message")
    window.type("\x1b")
    window.see("1. one\n2. two", "number of the message to go back to (Enter: stay) >")
    window.say("2")
    window.see("back to before message 2: two", "\n> two\n")  # to be changed
    window.type("\x15")
    window.ready().say("/exit")
    assert window.end() == 0
    [session] = (talker.home / "sessions").glob("*.jsonl")
    commands = [
        line
        for line in map(json.loads, session.read_text().splitlines())
        if line["type"] == "command"
    ]
    assert [(line["name"], line["args"]) for line in commands if line["name"] == "rewind"] == [
        ("rewind", ["2"])
    ]


def test_queued_message_can_be_withdrawn_and_a_call_shows_its_end(chat, script, talker) -> None:
    script("{calls: [{tool: hold, input: {}}]}", '{text: "Hello, {task}!"}')
    talker.write("shot.png", "no image")
    window = chat().ready()
    window.say("!echo said; exit 3")
    window.see("✗ shell echo said; exit 3 · exit code 3\n  said\n")
    assert window.text.count("exit code") == 1
    window.ready().say(f"!sleep 60; echo {'long ' * 30}")
    window.wait(
        lambda text: re.search(r"\n. shell sleep .* s · Esc interrupts\n", text) is not None,
        "keys behind a call",
    )
    window.type("\x1b")
    window.wait(
        lambda text: re.search(r"\n✗ shell sleep .*… · interrupted · .* s\n\n>", text) is not None,
        "its end",
    )
    window.ready().say("/help rewind")
    window.see("files are restored as by /undo,\n  and the model")
    window.ready().say("go")
    window.see("holding")
    window.say("second")
    window.see("queued: second")
    window.say("/attach shot.png")
    window.see("attached: shot.png")
    window.say("third")
    window.see("queued: third")
    window.type("\x1b[A")
    window.wait(
        lambda text: "queued: third" not in text and "\n> third\n" in text,
        "the third message to be changed",
    )
    window.see("queued: second", "attached: shot.png")
    window.type("\x15\x1b")
    window.see("· interrupted", "> second")
    window.type("\x15")
    window.ready().type("\x03")
    window.see("attachments removed")
    assert "Ctrl+C again leaves" not in window.text
    assert "Hello" not in window.text

"""The screen of a conversation on a real pseudo-terminal, while keys are pressed.

Also the story of forge_cli.apps.chat.screen, forge_cli.apps.chat.toolkit, forge_cli.apps.chat.drawing and
forge_cli.apps.chat.talk.
"""

import json
import os
import re
import signal

import pytest

HELLO = '{text: "Hello, {task}!"}'
WRITE = '{text: "I write.", calls: [{tool: write_file, input: {path: a.txt, content: "x\\n"}}]}'
BACK_TAB = "\x1b[Z"
HOLD = "{calls: [{tool: hold, input: {}}]}"


def test_message_is_answered_above_the_line_and_the_chat_ends_in_order(
    chat, script, talker
) -> None:
    script(HELLO, '{text: "Again {task}."}')
    window = chat().ready()
    assert "talker: Talks" in window.text
    assert re.search(r"script:script.yaml · .*ask$", window.lines[-1])
    window.say("world")
    window.see("> world", "Hello, world!")
    window.ready().say("you")
    window.see("Again you.")
    window.ready().type("\x04")
    assert window.end() == 0
    assert "resume with: forge chat worker.yaml -r 2" in window.text
    [session] = (talker.home / "sessions").glob("*.jsonl")
    assert json.loads(session.read_text().splitlines()[-1])["type"] == "sessionEnd"


@pytest.mark.long
def test_input_during_an_answer_is_queued_as_the_next_message(chat, words, talker) -> None:
    window = chat("-m", "pipe:words").ready()
    window.say("first")
    words("one ")
    window.see("one", "Esc interrupts")
    window.type("sec")
    window.see("> sec")
    words("two|three ")
    assert "> sec" in window.see("one two\nthree")
    window.say("ond")
    window.see("queued: second")
    window.type("third")
    words.stop()
    window.wait(
        lambda text: "\n> second\n" in text and "queued" not in text, "the second message taken up"
    )
    assert "> third" in window.text
    words("four|")
    window.see("four", "> third")
    words.stop()
    window.miss("Esc interrupts")


@pytest.mark.long
@pytest.mark.few(1)
@pytest.mark.parametrize("key", ["\x1b", "\x03"])
def test_turn_is_interrupted_at_once_and_queued_input_can_be_changed(
    chat, words, talker, key
) -> None:
    window = chat("-m", "pipe:words").ready()
    window.say("first")
    words("beginning|")
    window.see("beginning", "Esc interrupts")
    window.say("second")
    window.say("third")
    window.type("fou")
    window.see("queued: second", "queued: third", "> fou")
    window.type(key)
    window.see("interrupted\n\n> second\n  third\n  fou\n")
    words.stop()
    window.say("rth")
    words("fine|")
    window.see("  fourth\nfine")
    words.stop()
    window.ready().type("\x04")
    assert window.end() == 0
    [session] = (talker.home / "sessions").glob("*.jsonl")
    lines = [
        line
        for line in map(json.loads, session.read_text().splitlines())
        if line["type"] == "userInput"
    ]
    assert [line["content"] for line in lines] == ["first", "second\nthird\nfourth"]


@pytest.mark.long
def test_running_call_is_stopped(chat, script) -> None:
    script(HOLD, HOLD, '{text: "Stopped?"}')
    window = chat().ready()
    for count, key in enumerate("\x03\x1b", 1):
        window.say("go")
        window.wait(lambda text, count=count: text.count(" hold") == count, "the call")
        window.type(key)
        window.wait(
            lambda text, count=count: text.count("✗ hold · interrupted") == count,
            "the end of the call",
        )
        window.ready()
    window.say("again")
    window.see("Stopped?")


@pytest.mark.long
def test_approval_during_typing_keeps_the_input(chat, script, words, talker) -> None:
    script(HOLD, WRITE, '{text: "Done."}')
    window = chat().ready()
    window.say("go")
    window.see("hold ")
    window.type("half a thou")
    window.see("> half a thou")
    (talker.folder / "gate").write_text("open\n")
    window.see("a question is waiting: press Tab", "> half a thou")
    window.type("y")
    window.see("> half a thouy")
    window.type("\t")
    window.see("talker wants to call write_file", "[y]es once")
    assert "half a thou" not in window.text
    window.type("y")
    window.see("Done.", "> half a thouy")
    assert talker.read("a.txt") == "x\n"


def test_early_input_is_not_shown_before_the_worker_name(chat, script, talker) -> None:
    """A plugin writes to the terminal as the terminal itself shows keys until the line is there."""
    script(HELLO)
    echo = "from contextlib import suppress\nwith suppress(OSError):\n    open('/dev/tty', 'w').write('half a thou')\n"
    talker.write("models.py", f"{talker.read('models.py')}\n{echo}")
    window = chat().ready()
    assert "half a thou" in window.seen
    assert "talker: Talks" in window.lines
    window.type("\x04")
    assert window.end() == 0


def test_end_names_the_commands_that_end_with_it(chat, script, talker) -> None:
    talker.write(
        "worker.yaml",
        f"{talker.read('worker.yaml')}".replace("pattern: echo", "pattern: sleep 500"),
    )
    script(
        "{calls: [{tool: exec_command, input: {command: sleep 500, yield_time_ms: 250}}]}",
        '{text: "Started."}',
    )
    window = chat().ready()
    window.say("go")
    window.see("Started.")
    window.ready().type("\x04")
    assert window.end() == 0
    assert "ended 1 background command: sleep 500" in window.text


@pytest.mark.long
def test_ctrl_c_at_the_approval_interrupts_the_turn_and_denies_nothing(
    chat, script, talker
) -> None:
    script(WRITE, '{text: "Later."}')
    window = chat().ready()
    window.say("go")
    window.see("[y]es once")
    window.type("\x03")
    window.see("✗ write_file a.txt")
    window.ready().say("more")
    window.see("Later.")
    window.ready().type("\x04")
    assert window.end() == 0
    [session] = (talker.home / "sessions").glob("*.jsonl")
    results = [
        line
        for line in map(json.loads, session.read_text().splitlines())
        if line["type"] == "toolResult"
    ]
    assert [line["status"] for line in results] == ["interrupted"]


@pytest.mark.long
def test_paste_and_alt_enter_make_one_multiline_message(chat, script) -> None:
    script('{text: "Got <{task}>."}')
    window = chat().ready()
    window.type("\x1b[200~one\ntwo\x1b[201~")
    window.see("> one\n  two")
    window.type("\x1b\rthree\nfour")
    window.see("  three\n  four")
    window.type("\r")
    window.see("Got <one\ntwo\nthree\nfour>.")


@pytest.mark.long
def test_ctrl_c_clears_the_line_and_twice_leaves(chat, script) -> None:
    script(HELLO)
    window = chat().ready()
    window.type("not this")
    window.see("> not this")
    window.type("\x03")
    window.miss("not this")
    window.type("\x03")
    assert window.end() == 130


@pytest.mark.long
def test_history_outlives_a_conversation_and_can_be_searched(chat, script, talker) -> None:
    script(*[HELLO] * 4)
    window = chat(MY_TOKEN="sesame-open-now").ready()
    window.say("alpha beta")
    window.see("Hello, alpha beta!")
    window.ready().say("the secret is sesame-open-now")
    window.see("Hello, the secret")
    window.ready().type("\x04")
    assert window.end() == 0
    [kept] = (talker.home / "history").iterdir()
    assert (kept.read_text(), kept.stat().st_mode & 0o777) == ('"alpha beta"\n', 0o600)
    window = chat().ready()
    window.type("\x12alp")
    window.see("search: alp", "> alpha beta")
    window.type("\r")
    window.miss("search:")
    window.type("\r")
    window.see("Hello, alpha beta!")
    window.ready().type("\x1b[A")
    window.wait(lambda text: text.split("\n")[-2] == "> alpha beta", "the last line again")


@pytest.mark.long
def test_commands_tools_and_files_are_completed(chat, script, talker) -> None:
    script('{text: "I see <{task}>."}')
    talker.write("notes.txt", "what is in it")
    window = chat().ready()
    window.type("/sta")
    window.see("/status")
    window.type("\t")
    window.wait(lambda text: "> /status" in text, "the command completed")
    window.type("\r\r")
    window.see("approvals  interactive")
    window.ready().type("/tool shell --co")
    window.see("--command")
    window.type("\x03")
    window.ready().type("look at @not")
    window.see("@notes.txt")
    window.type("\t\r\r")
    window.see("I see <look at @notes.txt>.")
    [session] = (talker.home / "sessions").glob("*.jsonl")
    assert "what is in it" in session.read_text()


@pytest.mark.long
def test_command_of_the_person_runs_without_asking_and_is_reported(chat, script) -> None:
    script(HELLO)
    window = chat().ready()
    window.say("!touch b.txt && ls b*")
    window.see("✓ shell touch b.txt && ls b*", "  b.txt")
    window.ready().say("you")
    window.see(
        "> you",
        "Hello, you",
        "<command-run-by-user>",
        "$ touch b.txt && ls b*",
        "exit code: 0",
        "b.txt",
    )
    window.ready().say("/shell command='touch c.txt'")
    window.see("you want to call shell", "[y]es once")
    window.type("n")
    window.see("⊘ shell touch c.txt")
    window.ready()


@pytest.mark.long
def test_shift_tab_cycles_through_the_modes(chat, script, talker) -> None:
    script(WRITE, "{text: one}", WRITE, "{text: two}", WRITE)
    window = chat().ready()
    window.type("half a line" + BACK_TAB)
    window.wait(lambda text: text.endswith("· accept edits"), "accept edits in the bar")
    window.see(
        "> half a line", "mode: accept edits; files in writable zones are edited without asking"
    )
    window.type("\x15")
    window.say("go")
    window.see("✓ write_file", "one")
    window.ready().type(BACK_TAB)
    window.wait(lambda text: text.endswith("· read only"), "read only in the bar")
    window.say("go")
    window.see("⊘ write_file", "plan mode", "two")
    window.ready().say("/status")
    window.see("mode       read only", "approvals  interactive")
    window.ready().type(BACK_TAB)
    window.wait(lambda text: text.endswith("· ask"), "ask in the bar")
    window.say("/mode plan")
    window.see("there is no mode 'plan'", "mode ask|accept edits|read only")
    window.ready().say("go")
    window.see("talker wants to call write_file")


@pytest.mark.long
@pytest.mark.parametrize(
    ("flags", "modes"),
    [
        (["-y"], ["approve_all", "read only", "approve_all"]),
        (["--read-only"], ["ask, read-only", "ask, read-only"]),
    ],
)
def test_modes_that_the_flags_forbid_are_omitted(chat, script, flags, modes) -> None:
    script(HELLO)
    window = chat(*flags).ready()
    for mode in modes:
        window.wait(lambda text, mode=mode: text.endswith(f"· {mode}"), f"{mode} in the bar")
        window.type(BACK_TAB)


@pytest.mark.long
def test_narrow_or_resized_terminal_is_drawn_correctly(chat, script) -> None:
    script('{text: "' + "word " * 30 + '"}', HELLO)
    window = chat(columns=40, rows=12).ready()
    assert len(window.lines[-1]) < 40
    window.say("go")
    window.see("word word")
    window.ready()
    window.child.setwinsize(12, 60)
    window.columns = 60
    window.say("wider")
    window.see("Hello, wider!")
    window.ready()


@pytest.mark.long
def test_run_with_i_stays_after_the_first_answer(chat, script) -> None:
    script(HELLO, '{text: "And {task}."}')
    window = chat("-i", "first", command="run")
    window.see("> first", "Hello, first!")
    window.ready().say("second")
    window.see("And second.")
    window.ready().type("\x04")
    assert window.end() == 0


@pytest.mark.long
def test_dumb_terminal_works_line_by_line(chat, script) -> None:
    script(HELLO, WRITE, '{text: "Done."}')
    window = chat(TERM="dumb")
    window.see("Ctrl+D leaves.\n>")
    window.say("you")
    window.see("Hello, you!\n>")
    window.say("write")
    window.see("[y]es once")
    window.say("y")
    window.see("Done.\n>")
    window.type("\x04")
    assert window.end() == 0
    assert "\x1b" not in window.seen


@pytest.mark.long
def test_sigterm_ends_the_chat_in_order(chat, words, talker) -> None:
    window = chat("-m", "pipe:words").ready()
    window.say("first")
    words("beginning|")
    window.see("beginning")
    os.kill(window.child.pid, signal.SIGTERM)
    assert window.end() == 143
    [session] = (talker.home / "sessions").glob("*.jsonl")
    assert json.loads(session.read_text().splitlines()[-1])["type"] == "sessionEnd"


@pytest.mark.long
def test_sigterm_at_a_question_restores_the_terminal(chat, script, talker) -> None:
    script(WRITE)
    window = chat().ready()
    window.say("go")
    window.see("[y]es once")
    os.kill(window.child.pid, signal.SIGTERM)
    assert window.end() == 143
    assert not (talker.folder / "a.txt").exists()

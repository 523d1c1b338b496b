"""``forge inbox``: what waits is listed, opened and answered once.

Covers forge_cli.apps.inbox.command, forge_cli.apps.inbox.screen, forge_cli.record.inbox.
"""

import json
import os
import signal
import subprocess
from typing import Any

from tests.support.background import CLEAR


def inbox(background) -> list[dict[str, Any]]:
    return json.loads(background.forge("inbox", "--json"))


def test_questions_drafts_and_ended_runs_wait_until_they_were_seen(background, terminal) -> None:
    assert background.forge("inbox", "--count") == "0\n"
    done = background.start("{text: one}", task="First.")
    background.until(done, "done")
    asks = background.start(CLEAR, "{text: 'two {result}'}", task="Second.")
    background.until(asks, "asks")
    rows = inbox(background)
    assert [(row["kind"], row["session"]) for row in rows] == [
        *(("question", asks), ("ended", done))
    ]
    assert rows[0]["about"] == "clear old: the tool wants this call approved"
    assert (rows[0]["tool"], rows[1]["state"], rows[1]["about"]) == ("clear", "done", "First.")
    assert background.forge("inbox", "--count") == "2\n"
    keyboard = terminal("inbox", TERM="xterm", NO_COLOR="1", columns=80)
    keyboard.expect("1  asks ")
    keyboard.expect("2  done ")
    keyboard.expect("[q]uit > ")
    keyboard.press("2", until="forge logs ")
    keyboard.expect("1  asks ")
    keyboard.expect("[q]uit > ")
    keyboard.press("\r", until="noter wants to call clear")
    keyboard.asked()
    keyboard.type("y")
    keyboard.expect("yes to clear")
    background.until(asks, "done")
    keyboard.type("q")
    keyboard.child.close(force=True)
    (answer,) = background.answers(asks)
    assert (answer["approved"], answer["via"]) == (True, "forge inbox")
    assert done not in {row["session"] for row in inbox(background)}


def test_question_of_a_parked_session_is_answered_and_starts_it_again(background, terminal) -> None:
    session = background.start(CLEAR, "{text: '{result}'}")
    row = background.until(session, "asks")
    os.kill(row["pid"], signal.SIGKILL)
    background.ended(session)
    done = background.project.forge("run", "worker.yaml", "-r", session, "-p", "--on-ask", "park")
    assert done.returncode == 10
    assert [row["kind"] for row in inbox(background)] == ["question"]
    keyboard = terminal("inbox", TERM="xterm", NO_COLOR="1")
    keyboard.expect("[q]uit > ")
    keyboard.press("1", until="noter wants to call clear")
    keyboard.asked()
    keyboard.type("\x04")  # leaves the question open
    keyboard.expect("[q]uit > ")
    keyboard.press("1", until="noter wants to call clear")
    keyboard.asked()
    keyboard.type("n")
    keyboard.expect("no to clear; the session has started again")
    background.until(session, "done")
    background.ended(session)
    (answer,) = background.answers(session)
    assert answer["approved"] is False


def test_watch_prints_what_comes(background) -> None:
    watch = subprocess.Popen(
        [str(background.project.find().forge), "inbox", "--watch", "--json"],
        cwd=background.project.folder,
        env={**os.environ, "FORGE_HOME": str(background.project.home)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        session = background.start(CLEAR)
        assert watch.stdout
        row = json.loads(watch.stdout.readline())
        assert (row["kind"], row["session"]) == ("question", session)
    finally:
        watch.send_signal(signal.SIGINT)
        watch.wait(60)


def test_json_and_count_contradict_each_other(cli) -> None:
    assert cli("inbox", "--json", "--count").code == 2

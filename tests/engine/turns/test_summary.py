"""A summary: what it is made from, and which words of the user it never replaces."""

from forge_cli.core.messages import CallResult
from forge_cli.core.phrases import RESUME_CUT_OFF, RESUME_INTERRUPTED, repair_output
from forge_cli.engine.turns.summary import transcript, verbatim_parts
from forge_cli.events import Attachment, Message, ToolCall


def test_what_the_user_said_is_kept_from_the_end_on_as_far_as_there_is_room() -> None:
    said = [Message("user", letter * 100) for letter in "abcd"]
    assert verbatim_parts(said, (), room=250).said == ("c" * 100, "d" * 100)
    assert verbatim_parts(said, (), room=0).said == ("d" * 100,)


def test_the_words_of_forge_itself_are_not_the_user_s() -> None:
    own = [Message("user", text) for text in (RESUME_INTERRUPTED, RESUME_CUT_OFF, repair_output("it is empty"))]
    assert verbatim_parts([Message("user", "Look."), *own], (), room=1000).said == ("Look.",)
    assert verbatim_parts(own, (), room=1000).said == ()


def test_a_transcript_has_everything_and_has_an_end() -> None:
    messages = [
        Message("user", "Look", attachments=(Attachment("a.png", "image/png", b""),)),
        Message("assistant", "Hm.", calls=(ToolCall("c", "read", {"n": 1}),)),
        Message("tool", results=(CallResult("c", "read", "x" * 50_000), CallResult("d", "note", "no", is_error=True))),
    ]
    told = transcript(messages, room=100_000)
    assert told.startswith(
        'USER: Look\n\nUSER attached a.png\n\nASSISTANT: Hm.\n\nASSISTANT called read: {"n": 1}\n\nread gave: xx'
    )
    assert "note failed: no" in told
    assert len(told) < 3000
    assert len(transcript([Message("user", "語" * 9000)] * 10, room=3000).encode()) < 3500


def test_what_was_said_is_told_whole_where_a_result_is_cut() -> None:
    said = "word " * 2000
    assert said.strip() in transcript([Message("user", said)], room=100_000)

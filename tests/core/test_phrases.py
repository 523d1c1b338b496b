"""What forge itself says to a model: each text once, and none of them taken for the user's."""

from forge_cli.core import phrases

from ..rows import each_row


@each_row(
    "text",
    [phrases.RESUME_INTERRUPTED, phrases.RESUME_CUT_OFF, phrases.repair_output("$.n: it is missing")],
)
def test_a_message_of_forge_itself_is_known(text: str) -> None:
    assert phrases.is_own(text)


@each_row("text", ["", "Go on from there.", f"{phrases.RESUME_INTERRUPTED} Be quick.", "Your answer"])
def test_a_message_of_the_user_is_not_taken_for_one_of_forge(text: str) -> None:
    assert not phrases.is_own(text)


def test_a_child_reads_its_task_and_what_its_parent_adds() -> None:
    assert phrases.child_task("look", None) == "look"
    assert phrases.child_task("look", "Be quick.") == "look\n\nFurther instructions for this task:\nBe quick."


def test_each_text_is_another() -> None:
    """``tests/test_architecture.py`` looks for them elsewhere."""
    texts = [text for name, text in vars(phrases).items() if name.isupper() and isinstance(text, str)]
    assert len(set(texts)) == len(texts) > 10

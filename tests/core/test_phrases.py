"""What forge itself says to a model: each text once, and none of them taken for the user's."""

import ast
from pathlib import Path

import pytest

import forge_cli
from forge_cli.core import phrases

FORGE = Path(forge_cli.__file__).parent
TEXTS = {name: text for name, text in vars(phrases).items() if name.isupper() and isinstance(text, str)}


@pytest.mark.parametrize(
    "text",
    [phrases.RESUME_INTERRUPTED, phrases.RESUME_CUT_OFF, phrases.repair_output("$.n: it is missing")],
)
def test_a_message_of_forge_itself_is_known(text: str) -> None:
    assert phrases.is_own(text)


@pytest.mark.parametrize("text", ["", "Go on from there.", f"{phrases.RESUME_INTERRUPTED} Be quick.", "Your answer"])
def test_a_message_of_the_user_is_not_taken_for_one_of_forge(text: str) -> None:
    assert not phrases.is_own(text)


def test_a_child_reads_its_task_and_what_its_parent_adds() -> None:
    assert phrases.child_task("look", None) == "look"
    assert phrases.child_task("look", "Be quick.") == "look\n\nFurther instructions for this task:\nBe quick."


def test_each_text_stands_in_one_place() -> None:
    assert len(set(TEXTS.values())) == len(TEXTS) > 10
    modules = [path for path in FORGE.rglob("*.py") if path.name != "phrases.py"]
    found = [
        (path.name, node.value)
        for path in modules
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and node.value in TEXTS.values()
    ]
    assert found == []

"""What forge itself says to a model: each text once, and none of them taken for the user's."""

from forge_cli.core import phrases


def test_phrases_are_all_different() -> None:
    """``tests/test_architecture.py`` looks for them elsewhere."""
    texts = [
        text for name, text in vars(phrases).items() if name.isupper() and isinstance(text, str)
    ]
    assert len(set(texts)) == len(texts) > 10

"""Texts from forge to a model: all different, and never mistaken for text of the user."""

from forge_cli.core import phrases


def test_phrases_are_all_different() -> None:
    """``tests/test_architecture.py`` looks for them elsewhere."""
    texts = [
        text for name, text in vars(phrases).items() if name.isupper() and isinstance(text, str)
    ]
    assert len(set(texts)) == len(texts) > 10

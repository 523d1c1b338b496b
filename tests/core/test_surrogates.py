"""Text that came in UTF-16, or in pieces of it."""

from forge_cli.core.text import TextJoiner, mend

from ..rows import each_row


@each_row(
    ("text", "mended"),
    [("plain", "plain"), ("\ud83d\ude00", "😀"), ("a\ud800b", "a\ufffdb"), ("\ude00\ud83d", "\ufffd\ufffd")],
)
def test_mending(text: str, mended: str) -> None:
    assert mend(text) == mended


def test_halves_in_two_pieces_are_joined() -> None:
    joiner = TextJoiner()
    assert [joiner.add("a\ud83d"), joiner.add("\ude00b"), joiner.add("c\ud83d"), joiner.close()] == [
        "a",
        "😀b",
        "c",
        "\ufffd",
    ]

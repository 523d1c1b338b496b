"""How the tables of programs and options are written down: names with blanks between them."""


def names(text: str) -> frozenset[str]:
    return frozenset(text.split())

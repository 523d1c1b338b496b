"""Names as the tables of programs write them down, with blanks between them, and names of files as text."""


def names(text: str) -> frozenset[str]:
    return frozenset(text.split())


def below(path: str) -> bool:
    """Whether a path stays below the working directory."""
    return path != "" and not path.startswith(("/", "-", "~")) and ".." not in path.split("/")

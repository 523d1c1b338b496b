"""A line of bash, read once and then judged by any rules."""

from __future__ import annotations

from functools import lru_cache

from msgspec import Struct

from forge_cli.bashrules.allow.find_exec import with_found_names
from forge_cli.bashrules.allow.lexer import UnreadableLine
from forge_cli.bashrules.allow.parser import read_line
from forge_cli.bashrules.allow.values import Simple


class ReadLine(Struct, frozen=True):
    """A line with its simple commands, or the reason why it is not plain."""

    text: str
    commands: tuple[Simple, ...] = ()
    parted: tuple[Simple, ...] = ()
    """The commands, each ``find -exec READER`` as a listing with ``xargs`` after it."""
    unreadable: str | None = None
    """Why the line is not plain, or None."""
    at: int = 0
    """The place of the character at which it stops being plain."""

    def require_commands(self) -> tuple[Simple, ...]:
        """Return the commands; raise ``UnreadableLine`` if the line is not plain."""
        if self.unreadable is not None:
            raise UnreadableLine(self.unreadable, self.at)
        return self.commands


@lru_cache(maxsize=64)
def read(line: str) -> ReadLine:
    """Read a line as bash would. Nothing is run, and no file is looked at."""
    try:
        commands = read_line(line)
        return ReadLine(line, commands, tuple(with_found_names(commands)))
    except UnreadableLine as error:
        return ReadLine(line, unreadable=error.why, at=error.at)
    except Exception as error:  # a line that crashes the reader has to ask
        return ReadLine(line, unreadable=f"it cannot be analysed ({type(error).__name__})")

"""A small terminal: what somebody sees after all the escape sequences that forge writes."""

import re

from forge_cli.ui.terminal.cells import cell_width

TOKEN = re.compile(
    r"\x1b\[(?P<args>[\d;?]*)(?P<csi>[A-Za-z])|\x1b(?P<esc>[78D])|(?P<control>[\r\n\x07\x08])"
    r"|\x1b\](?P<osc>[^\x07]*)\x07|(?P<char>.)",
    re.S,
)


class Screen:
    """Rows of characters, a cursor, and what has scrolled away above."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self.grid: list[list[str]] = [[] for _ in range(rows)]
        self.above: list[str] = []
        self.row = self.column = 0
        self.saved = 0, 0

    def feed(self, text: str) -> "Screen":
        for found in TOKEN.finditer(text):
            match found.lastgroup:
                case "csi":
                    self.command(found["csi"], int(found["args"].strip("?").split(";")[0] or 0))
                case "esc":
                    self.escape(found["esc"])
                case "osc":
                    pass
                case "control":
                    self.control(found["control"])
                case _:
                    self.put(found["char"])
        return self

    def put(self, char: str) -> None:
        width = cell_width(char)
        if self.column + width > self.columns:
            self.column = 0
            self.down()
        line = self.grid[self.row]
        line.extend(" " * (self.column - len(line)))
        line[self.column : self.column + width] = [char, *[""] * (width - 1)]
        self.column += width

    def control(self, char: str) -> None:
        if char == "\r":
            self.column = 0
        elif char == "\n":
            self.down()
        elif char == "\x08":
            self.column = max(0, self.column - 1)

    def down(self) -> None:
        if self.row + 1 < self.rows:
            self.row += 1
        else:
            self.above.append("".join(self.grid.pop(0)))
            self.grid.append([])

    def escape(self, kind: str) -> None:
        match kind:
            case "7":
                self.saved = self.row, self.column
            case "8":
                self.row, self.column = self.saved
            case _:
                self.down()

    def command(self, kind: str, number: int) -> None:
        match kind, number:
            case "A", _:
                self.row = max(0, self.row - (number or 1))
            case "B", _:
                self.row = min(self.rows - 1, self.row + (number or 1))
            case "C", _:
                self.column = min(self.columns - 1, self.column + (number or 1))
            case "D", _:
                self.column = max(0, self.column - (number or 1))
            case "J", 0:
                del self.grid[self.row][self.column :]
                for line in self.grid[self.row + 1 :]:
                    line.clear()
            case "K", 0:
                del self.grid[self.row][self.column :]
            case "m" | "h" | "l", _:
                pass
            case other:
                raise AssertionError(f"nobody told this terminal about {other}")

    @property
    def lines(self) -> list[str]:
        """Everything that can be seen or scrolled to, without empty lines at the end."""
        shown = [*self.above, *("".join(line) for line in self.grid)]
        return "\n".join(line.rstrip() for line in shown).rstrip("\n").split("\n")

"""A small terminal emulator: the visible text after all escape sequences."""

import re

from forge_cli.ui.wrap import cell_len

TOKEN = re.compile(
    r"\x1b\[(?P<args>[\d;?]*)(?P<csi>[A-Za-z])|\x1b(?P<esc>[78D])|(?P<control>[\r\n\x07\x08])"
    r"|\x1b\](?P<osc>[^\x07]*)\x07|(?P<char>.)",
    re.S,
)


class Cell(str):
    """A letter in its style, which is the parameters of an SGR sequence."""

    style = ""


class Screen:
    """Rows of cells and a cursor; a wide letter has an empty cell behind it.

    With a ``height``, what has no room scrolls away and is ``above``; without one the rows grow downwards.
    """

    def __init__(self, columns: int = 80, height: int | None = None) -> None:
        self.columns, self.height = columns, height
        self.rows: list[list[str]] = [[] for _ in range(height or 1)]
        self.above: list[list[str]] = []
        self.row = self.column = 0
        self.saved = 0, 0
        self.style = ""
        self.bells = 0
        self.modes: dict[str, bool] = {}

    def feed(self, text: str) -> "Screen":
        for found in TOKEN.finditer(text):
            match found.lastgroup:
                case "csi":
                    self.command(found["csi"], found["args"])
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
        cell, width = Cell(char), cell_len(char)
        cell.style = self.style
        row = self.rows[self.row]
        row.extend(" " * (self.column - len(row)))
        if width == 0:
            row[-1] += char
            return
        if self.column + width > self.columns:
            self.column = 0
            self.down()
            row = self.rows[self.row]
        row[self.column : self.column + width] = [cell, *[""] * (width - 1)]
        self.column += width

    def control(self, char: str) -> None:
        match char:
            case "\r":
                self.column = 0
            case "\n":
                self.down()
            case "\x08":
                self.column = max(0, self.column - 1)
            case _:
                self.bells += 1

    def down(self) -> None:
        if self.row + 1 < len(self.rows):
            self.row += 1
        elif self.height is None:
            self.row += 1
            self.rows.append([])
        else:
            self.above.append(self.rows.pop(0))
            self.rows.append([])

    def escape(self, kind: str) -> None:
        match kind:
            case "7":
                self.saved = self.row, self.column
            case "8":
                self.row, self.column = self.saved
            case _:
                self.down()

    def command(self, kind: str, args: str) -> None:
        number = int(args.strip("?").split(";")[0] or 0)
        match kind, number:
            case (("h" | "l"), _):
                self.modes[args.strip("?")] = kind == "h"
            case "m", _:
                self.style = (
                    args if self.style == "" or args[:1] in ("", "0") else f"{self.style};{args}"
                )
            case "A", _:
                self.row = max(0, self.row - (number or 1))
            case "B", _:
                self.row = min(len(self.rows) - 1, self.row + (number or 1))
            case "C", _:
                self.column = min(self.columns - 1, self.column + (number or 1))
            case "D", _:
                self.column = max(0, self.column - (number or 1))
            case "J", 0:
                del self.rows[self.row][self.column :]
                for line in self.rows[self.row + 1 :]:
                    line.clear()
                if self.height is None:
                    del self.rows[self.row + 1 :]
            case "K", 0:
                del self.rows[self.row][self.column :]
            case other:
                raise AssertionError(f"nobody told this terminal about {other}")

    @property
    def lines(self) -> list[str]:
        """Everything that can be seen or scrolled to; of a screen with a height without empty lines at the end."""
        shown = ["".join(row).rstrip() for row in (*self.above, *self.rows)]
        while self.height is not None and len(shown) > 1 and not shown[-1]:
            shown.pop()
        return shown

    @property
    def styled_lines(self) -> list[str]:
        """The same with their styles, each letter in an SGR sequence of its own."""
        rows = [*self.above, *self.rows][: len(self.lines)]
        return [
            "".join(f"\x1b[0;{getattr(cell, 'style', '')}m{cell}" for cell in row if cell)
            for row in rows
        ]

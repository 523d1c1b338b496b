"""The rows that a line editor draws on a terminal, without an end downwards: what somebody sees after these bytes."""

import re

from rich.cells import cell_len

_PIECE = re.compile(r"\x1b\[(\??)([\d;]*)([A-Za-z])|(.)", re.DOTALL)


class DrawnRows:
    """Rows of cells that grow downwards; a wide letter has an empty cell behind it."""

    def __init__(self, columns: int = 80) -> None:
        self.columns = columns
        self.rows: list[list[str]] = [[]]
        self.row = self.column = 0
        self.bells = 0
        self.modes: dict[str, bool] = {}

    @property
    def lines(self) -> list[str]:
        return ["".join(row).rstrip() for row in self.rows]

    def feed(self, text: str) -> None:
        for private, number, letter, char in _PIECE.findall(text):
            if private:
                self.modes[number] = letter == "h"
            elif letter and letter != "m":
                self._control(letter, int(number or 1))
            elif char:
                self._write(char)

    def _control(self, letter: str, number: int) -> None:
        match letter:
            case "A":
                self.row = max(0, self.row - number)
            case "B":
                self.row = min(len(self.rows) - 1, self.row + number)
            case "C":
                self.column = min(self.columns - 1, self.column + number)
            case "J":
                del self.rows[self.row + 1 :]
                del self.rows[self.row][self.column :]
            case _:
                raise AssertionError(f"nobody draws with {letter!r}")

    def _write(self, char: str) -> None:
        match char:
            case "\r":
                self.column = 0
            case "\n":
                self.row += 1
                self.rows += [[]] * 0 if self.row < len(self.rows) else [[]]
            case "\a":
                self.bells += 1
            case _:
                self._put(char, cell_len(char))

    def _put(self, char: str, cells: int) -> None:
        row = self.rows[self.row]
        row += [" "] * (self.column - len(row))
        if cells == 0:
            row[-1] += char
            return
        if self.column + cells > self.columns:
            self._write("\r")
            self._write("\n")
            row = self.rows[self.row]
        row[self.column : self.column + cells] = [char, *[""] * (cells - 1)]
        self.column += cells

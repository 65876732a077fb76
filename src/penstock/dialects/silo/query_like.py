"""LIKE: `%` stands for any text, `_` for one character, a backslash makes the next character plain.

In time that grows with the text and the pattern at most, whatever they are: the longest way to match is never tried.
"""

import re
from collections.abc import Callable
from typing import Final

from penstock.errors import InvalidError

MAX_PATTERN: Final = 1_000
_ONE: Final = None  # stands for `_`


def matcher(pattern: str, field: str, *, fold: bool) -> Callable[[str], bool]:
    """Return what tells whether a text is like *pattern*; with *fold*, whatever the case."""
    if len(pattern) > MAX_PATTERN:
        raise InvalidError(field, f"has {len(pattern)} characters as a pattern, and may have {MAX_PATTERN}")
    pieces = [_Piece(piece) for piece in _pieces(pattern.lower() if fold else pattern)]
    if fold:
        return lambda text: _is_like(text.lower(), pieces)
    return lambda text: _is_like(text, pieces)


def _pieces(pattern: str) -> list[list[str | None]]:
    """Return what stands between the signs for any text."""
    pieces: list[list[str | None]] = [[]]
    plain = False
    for character in pattern:
        if not plain and character == "\\":
            plain = True
            continue
        if not plain and character == "%":
            pieces.append([])
        else:
            pieces[-1].append(_ONE if not plain and character == "_" else character)
        plain = False
    if plain:
        pieces[-1].append("\\")
    return pieces


class _Piece:
    """Characters that follow each other, some of which may be any."""

    def __init__(self, characters: list[str | None]) -> None:
        self.size = len(characters)
        self._plain = None if _ONE in characters else "".join(filter(None, characters))
        signs = ["." if character is _ONE else re.escape(character) for character in characters]
        self._pattern = re.compile("".join(signs), re.DOTALL)

    def stands_at(self, text: str, at: int) -> bool:
        if self._plain is not None:
            return text.startswith(self._plain, at)
        return self._pattern.match(text, at) is not None

    def find(self, text: str, begin: int, end: int) -> int:
        """Return where it stands first; -1 if nowhere."""
        if self._plain is not None:
            return text.find(self._plain, begin, end)
        found = self._pattern.search(text, begin, end)
        return -1 if found is None else found.start()


def _is_like(text: str, pieces: list[_Piece]) -> bool:
    first, last = pieces[0], pieces[-1]
    if len(pieces) == 1:
        return len(text) == first.size and first.stands_at(text, 0)
    begin, end = first.size, len(text) - last.size
    if begin > end or not first.stands_at(text, 0) or not last.stands_at(text, end):
        return False
    for piece in pieces[1:-1]:
        found = piece.find(text, begin, end)
        if found < 0:
            return False
        begin = found + piece.size
    return True

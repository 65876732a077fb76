"""LIKE: `%` stands for any text, `_` for one character, a backslash makes the next character plain.

In time that grows with the text times the pattern at most, whatever they are: no way to match is tried twice.
"""

import re
from collections.abc import Callable
from typing import Final, TypeAlias

from penstock.errors import InvalidError

MAX_PATTERN: Final = 1_000
_ONE: Final = None  # stands for `_`
_AT_ONCE: Final = 500_000  # characters that are compared before the clock may be looked at

Spend: TypeAlias = Callable[[int], None]


def matcher(pattern: str, field: str, spend: Spend, *, fold: bool) -> Callable[[str], bool]:
    """Return what tells whether a text is like *pattern*; with *fold*, whatever the case.

    It calls *spend* with the number of characters that it will compare next.
    """
    if len(pattern) > MAX_PATTERN:
        raise InvalidError(field, f"has {len(pattern)} characters as a pattern, and may have {MAX_PATTERN}")
    pieces = [_Piece(piece, spend) for piece in _pieces(_folded(pattern) if fold else pattern)]

    def is_like(text: str) -> bool:
        spend(len(text))
        return _is_like(_folded(text) if fold else text, pieces)

    return is_like


def _folded(text: str) -> str:
    """Return a text in small letters, each as it is alone: none is longer, none depends on the next."""
    return text.replace("İ", "i").lower().replace("ς", "Σ".lower())


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

    def __init__(self, characters: list[str | None], spend: Spend) -> None:
        self.size = len(characters)
        self._spend = spend
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
        most = _AT_ONCE // self.size
        for first in range(begin, end - self.size + 1, most):
            last = min(first + most + self.size - 1, end)
            self._spend((last - first) * self.size)
            found = self._pattern.search(text, first, last)
            if found is not None:
                return found.start()
        return -1


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

"""Go through the words of a query."""

from typing import Final, NoReturn

from penstock.dialects.silo.query_words import Kind, Word
from penstock.errors import InvalidError

JOINS: Final = frozenset({"join", "inner", "left", "right", "full", "cross", "natural", "lateral"})
REFUSED: Final = frozenset(
    {"union", "intersect", "except", "window", "over", "qualify", "fetch", "for", "into", "using", "on"}
)
# Words that are no name without quotes.
RESERVED: Final = (
    JOINS
    | REFUSED
    | {"from", "where", "group", "having", "order", "limit", "offset", "by", "asc", "desc", "with"}
    | {"select", "distinct", "all", "as", "and", "or", "not", "is", "in", "between", "like", "ilike"}
    | {"case", "when", "then", "else", "end", "cast", "null", "true", "false"}
)


class Cursor:
    """A place among *words*, the last of which is the end."""

    def __init__(self, words: list[Word]) -> None:
        self._words = words
        self._next = 0

    @property
    def _word(self) -> Word:
        return self._words[self._next]

    def _step(self) -> Word:
        word = self._words[self._next]
        if word.kind is not Kind.END:
            self._next += 1
        return word

    def _take(self, *names: str) -> bool:
        """Go on behind these words if they come next; a first word alone is refused."""
        if not self._is_name(names[0]):
            return False
        for name in names:
            if not self._is_name(name):
                self._refuse(f"expected {name.upper()}")
            self._next += 1
        return True

    def _is_name(self, name: str) -> bool:
        return self._word.kind is Kind.NAME and self._word.text == name

    def _is_sign(self, sign: str) -> bool:
        return self._word.kind is Kind.SIGN and self._word.text == sign

    def _ahead(self, sign: str) -> bool:
        word = self._words[min(self._next + 1, len(self._words) - 1)]
        return word.kind is Kind.SIGN and word.text == sign

    def _sign(self, sign: str) -> bool:
        if self._is_sign(sign):
            self._next += 1
            return True
        return False

    def _expect(self, sign: str) -> None:
        if not self._sign(sign):
            self._refuse(f"expected {sign!r}")

    def _name(self, what: str) -> str:
        word = self._word
        if word.kind is Kind.QUOTED or (word.kind is Kind.NAME and word.text not in RESERVED):
            return self._step().text
        return self._refuse(f"expected {what}")

    def _refuse(self, problem: str, found: Word | None = None) -> NoReturn:
        raise InvalidError("sql", f"{problem}; found {(found or self._word).shown}")

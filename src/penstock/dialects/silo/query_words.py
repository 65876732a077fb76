"""Take the text of a query apart into words."""

import re
from enum import Enum, auto
from typing import Final, NamedTuple

from penstock.errors import InvalidError

MAX_SQL: Final = 100_000  # characters
_SHOWN: Final = 40  # characters of a text in an error


class Kind(Enum):
    """What a word is."""

    NAME = auto()  # in small letters, unless it was quoted
    QUOTED = auto()
    TEXT = auto()
    NUMBER = auto()
    BIND = auto()
    SIGN = auto()
    END = auto()


class Word(NamedTuple):
    """A word, and where it stands."""

    kind: Kind
    text: str
    at: int

    @property
    def shown(self) -> str:
        """The word as an error shows it."""
        return "the end" if self.kind is Kind.END else f"{self.text[:_SHOWN]!r} at {self.at + 1}"


_WORD: Final = re.compile(
    r"""
    (?P<SPACE>[ \t\r\n\f]+ | --[^\n]* | /\*.*?\*/)
    | (?P<NAME>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<QUOTED>"(?:[^"]|"")*")
    | (?P<TEXT>'(?:[^']|'')*')
    | (?P<NUMBER>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    | (?P<BIND>\$[0-9]+)
    | (?P<SIGN><=|>=|<>|!=|\|\||::|/(?!\*)|[-+*%=<>(),.;\[\]])
    """,
    re.VERBOSE | re.DOTALL,
)


def words_of(sql: str) -> list[Word]:
    """Return the words of a query, with an end; comments are left out."""
    if len(sql) > MAX_SQL:
        raise InvalidError("sql", f"has {len(sql)} characters, and may have {MAX_SQL}")
    found, at = [], 0
    while at < len(sql):
        match = _WORD.match(sql, at)
        if match is None:
            raise InvalidError(
                "sql", f"cannot be read from {sql[at : at + 1]!r} at {at + 1} on{_hint(sql[at])}"
            )
        if match.lastgroup != "SPACE":
            found.append(_word(Kind[str(match.lastgroup)], match[0], at))
        at = match.end()
    return [*found, Word(Kind.END, "", at)]


def _word(kind: Kind, text: str, at: int) -> Word:
    if kind is Kind.NAME:
        return Word(kind, text.lower(), at)
    if kind in {Kind.QUOTED, Kind.TEXT}:
        quote = text[0]
        return Word(kind, text[1:-1].replace(quote * 2, quote), at)
    return Word(kind, text, at)


def _hint(sign: str) -> str:
    return {
        "?": "; a parameter is written $1",
        "$": "; a parameter is written $1",
        "'": ": a text that is not closed",
        '"': ": a name that is not closed",
        "/": ": a comment that is not closed",
    }.get(sign, "")

"""JSON values: as text, as true or false, by the way into them, and how large they may become.  Pure."""

from typing import Final

import msgspec

MOST_STEPS: Final = 100_000  # of the templates and expressions of one block
LARGEST: Final = 4 * 1024 * 1024  # characters of a text that a template or an expression makes
_EXACT: Final = 2**63  # numbers beyond are no longer whole in other readers of JSON

_SHORT: Final = 64  # characters that take as long as one value
_STORED: Final = 1024  # characters of JSON that take as long to read as one value

_encode: Final = msgspec.json.Encoder().encode


class BlockError(Exception):
    """What fails a block before any job is made for it; the name of its class is the *kind* of the error."""


class TemplateError(BlockError):
    """A template that cannot be filled in."""


class ExpressionError(BlockError):
    """An expression that has no value."""


class Effort:
    """The steps that templates and expressions have taken; more than a block may take is an error."""

    def __init__(self) -> None:
        self.total = 0
        self._most = MOST_STEPS

    def begin(self) -> None:
        """Let the next block take its steps, whatever was taken before."""
        self._most = self.total + MOST_STEPS

    def take(self, steps: int, error: type[BlockError]) -> None:
        """Take so many *steps*, or raise *error* if they are too many."""
        self.total += steps
        if self.total > self._most:
            raise error(f"it takes more than {MOST_STEPS:,} steps; at most that many are allowed")


def reading_steps(text: str | None) -> int:
    """Return how many steps it takes to read JSON *text*."""
    return len(text) // _STORED if text else 0


def weight(value: object) -> int:
    """Return how many steps it takes to go through all of *value*; what is far too much is not counted to its end."""
    steps, level = 0, [value]
    while level and steps <= MOST_STEPS:
        steps += sum(len(each) // _SHORT if isinstance(each, str) else 1 for each in level)
        parts = (
            each.values() if isinstance(each, dict) else each
            for each in level
            if isinstance(each, list | dict)
        )
        level = [part for each in parts for part in each]
    return steps


def to_json(value: object) -> str:
    """Return *value* as JSON text."""
    return _encode(value).decode()


def from_json(text: str | None) -> object:
    """Return the value of JSON *text*; no text is null."""
    return None if text is None else msgspec.json.decode(text)


def to_text(value: object) -> str:
    """Return *value* as it stands inside a longer text: texts as they are, all else as JSON."""
    return value if isinstance(value, str) else to_json(value)


def is_number(value: object) -> bool:
    """Tell whether *value* is a number of JSON; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_true(value: object) -> bool:
    """Tell whether a condition with this *value* holds; objects always do, empty lists and texts do not."""
    return isinstance(value, dict) or bool(value)


def is_same(one: object, other: object) -> bool:
    """Tell whether two values of JSON are equal; unlike in Python, true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_same(one[key], other[key]) for key in one)
    return one == other


def bounded(value: object, error: type[BlockError]) -> object:
    """Return *value*, or raise *error* if it is too large a text or number to be handed on."""
    if isinstance(value, str) and len(value) > LARGEST:
        raise error(f"the text has {len(value):,} characters; at most {LARGEST:,} are allowed")
    if is_number(value) and not -_EXACT <= value < _EXACT:  # type: ignore[operator]
        raise error("the number is too large, or is none")
    return value

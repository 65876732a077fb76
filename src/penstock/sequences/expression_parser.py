"""Read an expression: `data.plan == "pro" && len(steps.lookup.items) > 0`.  Pure.

Precedence climbing over tokens.  Text and tree are bounded, so that neither reading nor evaluating one can take long
or run out of stack.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from penstock.errors import InvalidError
from penstock.sequences.functions import FUNCTIONS
from penstock.sequences.paths import Path, read_path
from penstock.sequences.templates import Chain, Literal, read_chain

LONGEST: Final = 8_192
DEEPEST: Final = 32  # brackets in brackets; reading one takes about ten calls
TALLEST: Final = 128  # levels of the tree; evaluating one takes about three calls
_STEPS: Final = r"""(?:\.\w+|\[\d{1,9}\]|\["[^"]*"\]|\['[^']*'\])"""
_TOKEN: Final = re.compile(
    rf"""\s*(?:
      (?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)(?![\w.])
    | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    | (?P<chain>\{{\{{.*?\}}\}})
    # A block's id may have hyphens; elsewhere a hyphen is a minus.
    | (?P<path>(?:(?:outputs|steps)\.[\w-]+|[^\W\d]\w*){_STEPS}*)
    | (?P<mark>==|!=|<=|>=|&&|\|\||[-+*/<>!?:(),\[\]])
    | (?P<end>\Z)
    )""",
    re.VERBOSE | re.DOTALL,
)
_MEMBERS: Final = re.compile(rf"{_STEPS}+")
_BINDING: Final = {
    "||": 1,
    "&&": 2,
    "==": 3,
    "!=": 3,
    **dict.fromkeys(("<", ">", "<=", ">=", "in"), 4),
    **dict.fromkeys("+-", 5),
    **dict.fromkeys("*/", 6),
}
_WORDS: Final[dict[str, object]] = {"true": True, "false": False, "null": None}
_LARGEST: Final = 2**63
_DIGITS: Final = 20  # of a number that is certainly too large
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Unary:
    sign: str
    operand: "Node"


@dataclass(frozen=True, slots=True)
class Binary:
    sign: str
    left: "Node"
    right: "Node"


@dataclass(frozen=True, slots=True)
class Choice:
    """`condition ? yes : no`."""

    condition: "Node"
    yes: "Node"
    no: "Node"


@dataclass(frozen=True, slots=True)
class Items:
    """A list of what each item comes to."""

    items: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Called:
    """A function, and *members* to take from what it returns."""

    name: str
    arguments: tuple["Node", ...]
    members: tuple[str, ...] = ()


Node = Literal | Path | Chain | Unary | Binary | Choice | Items | Called


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression, read; *text* is how it is written."""

    text: str
    node: Node


class _Token(NamedTuple):
    kind: str
    text: str


def read_expression(text: str, field: str) -> Expression:
    """Read *text*, or raise `InvalidError` for *field*."""
    if len(text) > LONGEST:
        raise InvalidError(
            field, f"the expression has {len(text):,} characters; at most {LONGEST:,} are allowed"
        )
    node = _Parser(text, field).whole()
    if _is_tall(node):
        raise InvalidError(field, f"the expression {text[:80]!r} has more than {TALLEST} operators in a row")
    return Expression(text, node)


def _is_tall(node: Node) -> bool:
    """Tell whether the tree has too many levels, without calling itself."""
    level, height = [node], 0
    while level and height <= TALLEST:
        level = [child for parent in level for child in _children(parent)]
        height += 1
    return height > TALLEST


def _children(node: Node) -> tuple[Node, ...]:
    match node:
        case Unary():
            return (node.operand,)
        case Binary():
            return (node.left, node.right)
        case Choice():
            return (node.condition, node.yes, node.no)
        case Items():
            return node.items
        case Called():
            return node.arguments
        case _:
            return ()


class _Parser:
    def __init__(self, text: str, field: str) -> None:
        self._text = text
        self._field = field
        self._tokens = list(self._read())
        self._next = 0
        self._depth = 0

    def whole(self) -> Node:
        node = self._choice()
        if self._peek().kind != "end":
            raise self._unexpected()
        return node

    def _read(self) -> Iterator[_Token]:
        place = 0
        while True:
            match = _TOKEN.match(self._text, place)
            if match is None or match.lastgroup is None:
                raise self._invalid(f"{self._text[place : place + 20].strip()!r} cannot be read")
            yield _Token(match.lastgroup, match[match.lastgroup])
            if match.lastgroup == "end":
                return
            place = match.end()
            if match["mark"] == ")" and (members := _MEMBERS.match(self._text, place)):
                yield _Token("members", members[0])
                place = members.end()

    def _choice(self) -> Node:
        self._depth += 1
        if self._depth > DEEPEST:
            raise self._invalid(f"is nested deeper than {DEEPEST} levels")
        node = self._binary(1)
        if self._take("?"):
            yes = self._choice()
            self._expect(":")
            node = Choice(node, yes, self._choice())
        self._depth -= 1
        return node

    def _binary(self, least: int) -> Node:
        left = self._unary()
        while (binding := _BINDING.get(self._peek().text, 0)) >= least and self._peek().kind in {
            "mark",
            "path",
        }:
            sign = self._advance().text
            left = Binary(sign, left, self._binary(binding + 1))
        return left

    def _unary(self) -> Node:
        signs = []
        while self._peek() in {("mark", "!"), ("mark", "-")}:
            signs.append(self._advance().text)
        node = self._primary()
        for sign in reversed(signs):
            node = Unary(sign, node)
        return node

    def _primary(self) -> Node:  # noqa: PLR0911 - one for each kind of token
        token = self._advance()
        match token.kind, token.text:
            case "number", text:
                return Literal(self._number(text))
            case "text", text:
                return Literal(_ESCAPED.sub(r"\1", text[1:-1]))
            case "chain", text:
                return read_chain(text[2:-2], self._field)
            case "mark", "(":
                node = self._choice()
                self._expect(")")
                return node
            case "mark", "[":
                return Items(self._listed("]"))
            case "path", word if word in _WORDS:
                return Literal(_WORDS[word])
            case "path", word if self._take("("):
                return self._call(word)
            case "path", word if word != "in":
                # What the token matched is a path.
                return read_path(word) or Path(word)
            case _:
                self._next -= 1
                raise self._unexpected()

    def _number(self, text: str) -> int | float:
        value = float(text) if set(text) & set(".eE") or len(text) > _DIGITS else int(text)
        if abs(value) >= _LARGEST:
            raise self._invalid(f"{text[:40]} is too large")
        return value

    def _call(self, name: str) -> Called:
        known = FUNCTIONS.get(name)
        if known is None:
            raise self._invalid(f"there is no function {name!r}")
        arguments = self._listed(")")
        if not known.least <= len(arguments) <= known.most:
            raise self._invalid(f"{name}() does not take {len(arguments)} arguments")
        members: tuple[str, ...] = ()
        if self._peek().kind == "members":
            path = read_path(f"it{self._advance().text}")
            members = path.steps if path else ()
        return Called(name, arguments, members)

    def _listed(self, closing: str) -> tuple[Node, ...]:
        nodes: list[Node] = []
        while not self._take(closing):
            if nodes:
                self._expect(",")
            nodes.append(self._choice())
        return tuple(nodes)

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _advance(self) -> _Token:
        token = self._peek()
        self._next += 1
        return token

    def _take(self, mark: str) -> bool:
        taken = self._peek() == ("mark", mark)
        self._next += taken
        return taken

    def _expect(self, mark: str) -> None:
        if not self._take(mark):
            raise self._unexpected(f"; {mark!r} is missing")

    def _unexpected(self, more: str = "") -> InvalidError:
        token = self._peek()
        what = f"{token.text!r} was not expected" if token.text else "it ends too early"
        return self._invalid(f"{what}{more}")

    def _invalid(self, problem: str) -> InvalidError:
        return InvalidError(self._field, f"the expression {self._text[:80]!r} cannot be used: {problem}")

"""What an expression comes to.  Pure.

Every node that is looked at and all that an operator or a function goes through takes steps, which are bounded.
"""

from typing import Final, assert_never

from penstock.sequences.expression_parser import Binary, Called, Choice, Expression, Items, Node, Unary
from penstock.sequences.functions import FUNCTIONS, digest, has, number, ordered
from penstock.sequences.paths import Lookup, Path, dig
from penstock.sequences.templates import Chain, Literal, evaluate_chain
from penstock.sequences.values import Effort, ExpressionError, bounded, is_same, is_true, to_text, weight

# Functions that look at all that is inside their arguments.
_THOROUGH: Final = frozenset({"json", "unique", "count", "contains", "starts_with", "ends_with"})


def evaluate(
    expression: Expression, lookup: Lookup, now: int = 0, seed: str = "", effort: Effort | None = None
) -> object:
    """Return what *expression* comes to *now*, or raise; *seed* stands for chance."""
    return _Evaluation(lookup, now, seed, effort or Effort()).value(expression.node)


class _Evaluation:
    def __init__(self, lookup: Lookup, now: int, seed: str, effort: Effort) -> None:
        self.now = now
        self._lookup = lookup
        self._seed = seed
        self._drawn = 0
        self._effort = effort

    def draw(self) -> bytes:
        self._drawn += 1
        return digest(self._seed, str(self._drawn))

    def value(self, node: Node) -> object:  # noqa: PLR0911 - one for each kind of node
        self._step(1)
        match node:
            case Path():
                return self._lookup(node)
            case Literal():
                return node.value
            case Binary():
                return bounded(self._binary(node), ExpressionError)
            case Called():
                return self._called(node)
            case Unary("!", operand):
                return not is_true(self.value(operand))
            case Unary():
                return -number(self.value(node.operand))
            case Choice():
                return self.value(node.yes if is_true(self.value(node.condition)) else node.no)
            case Items():
                return [self.value(item) for item in node.items]
            case Chain():
                return evaluate_chain(node, self._lookup, self._effort)
            case _:
                assert_never(node)

    def _binary(self, node: Binary) -> object:
        left = self.value(node.left)
        match node.sign:
            case "&&":
                return self.value(node.right) if is_true(left) else left
            case "||":
                return left if is_true(left) else self.value(node.right)
            case sign:
                return self._joined(sign, left, self.value(node.right))

    def _joined(self, sign: str, left: object, right: object) -> object:  # noqa: PLR0911 - one for each sign
        self._step(weight(left) + weight(right))
        match sign:
            case "==":
                return is_same(left, right)
            case "!=":
                return not is_same(left, right)
            case "<":
                return ordered(left, right)
            case ">":
                return ordered(right, left)
            case "<=":
                return is_same(left, right) or ordered(left, right)
            case ">=":
                return is_same(left, right) or ordered(right, left)
            case "in":
                return has(right, left)
            case _:
                return _computed(sign, left, right)

    def _called(self, node: Called) -> object:
        arguments = [self.value(argument) for argument in node.arguments]
        self._step(sum(map(weight if node.name in _THOROUGH else _size, arguments)))
        result = bounded(FUNCTIONS[node.name].apply(self, arguments), ExpressionError)
        return dig(result, node.members)

    def _step(self, count: int) -> None:
        self._effort.take(count, ExpressionError)


def _computed(sign: str, left: object, right: object) -> object:
    if sign == "+" and (isinstance(left, str) or isinstance(right, str)):
        return to_text(left) + to_text(right)
    one, other = number(left), number(right)
    match sign:
        case "+":
            return one + other
        case "-":
            return one - other
        case "*":
            return one * other
        case _:
            if other == 0:
                raise ExpressionError("nothing can be divided by 0")
            quotient = one / other
            exact = isinstance(one, int) and isinstance(other, int) and one % other == 0
            return one // other if exact else quotient


def _size(value: object) -> int:
    return len(value) if isinstance(value, list | dict) else 0

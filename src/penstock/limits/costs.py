"""What does a start weigh at each of its gates?

A job has one cost for all its limits, and a limit may bring a cost of its own: a number, a template or a function of
the arguments.  Costs are kept beside the limits, in the order of their keys, so that jobs whose costs differ share a
lane.

Pure.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from penstock.errors import InvalidLimitError
from penstock.limits.rules import Limit, check_cost
from penstock.limits.template import check_template, parse_template

Cost = int | str | Callable[..., int]


def check_cost_of(cost: Cost | None, parameter_names: Collection[str] | None = None) -> None:
    """Raise unless *cost* can be that of a limit, with places only for *parameter_names* if those are known."""
    if isinstance(cost, str):
        try:
            parse_template(cost)
            if parameter_names is not None:
                check_template(cost, parameter_names)
        except InvalidLimitError as error:
            raise InvalidLimitError("cost", error.problem) from None
    elif cost is not None and not callable(cost):
        check_cost(cost)


def cost_for(cost: Cost | None, arguments: Mapping[str, object]) -> int | None:
    """Return what *cost* comes to for a call; None if the limit has none of its own."""
    if cost is None or isinstance(cost, int):
        return cost
    return usable_cost(_filled(cost, arguments) if isinstance(cost, str) else cost(arguments), cost)


def usable_cost(found: object, source: Cost) -> int:
    """Return the cost that *source* gave, or raise unless a start can weigh that much."""
    try:
        return check_cost(found)
    except InvalidLimitError as error:
        raise InvalidLimitError(
            "cost", f"{source!r} gave a cost that cannot be used: {error.problem}"
        ) from None


def costs_to_text(limits: Sequence[Limit], usual: int) -> str | None:
    """Return the cost at each of *limits*, in the order of their keys; None if each is the *usual* one."""
    if all(limit.cost is None or limit.cost == usual for limit in limits):
        return None
    ordered = sorted(limits, key=lambda limit: limit.key)
    return ",".join(str(usual if limit.cost is None else limit.cost) for limit in ordered)


@lru_cache(maxsize=4096)
def costs_from_text(text: str) -> tuple[int, ...]:
    """Read back what `costs_to_text` wrote."""
    return tuple(map(int, text.split(",")))


def cost_at(place: int, usual: int, costs: str | None) -> int:
    """Return the cost at the gate in this *place*: those of the limits come first, at others it is the *usual* one."""
    if costs is None:
        return usual
    own = costs_from_text(costs)
    return own[place] if place < len(own) else usual


def with_costs(limits: Iterable[Limit], costs: str | None) -> tuple[Limit, ...]:
    """Return *limits*, in the order of their keys, with the *costs* that are kept beside them; slots count none."""
    if costs is None:
        return tuple(limits)
    pairs = zip(limits, costs_from_text(costs), strict=True)
    return tuple(limit if _counts_none(limit) else replace(limit, cost=cost) for limit, cost in pairs)


def _counts_none(limit: Limit) -> bool:
    """Tell whether a start costs the same at a limit whatever it weighs: one of slots, or of a group of resources."""
    numbers = limit.numbers
    return limit.group or (numbers.slots is not None and numbers.rate is None and numbers.throttle is None)


def _filled(template: str, arguments: Mapping[str, object]) -> object:
    try:
        text = parse_template(template).fill(arguments)
    except InvalidLimitError as error:
        raise InvalidLimitError("cost", error.problem) from None
    return int(text) if text.isascii() and text.isdigit() else text

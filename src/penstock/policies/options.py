"""The options that every limit has, checked where a limit is made; and the key and the cost of a call.

A key is a function of the call's own arguments, the name of one of them, or a format string over them.
A cost is a number, a format string or a function.
"""

import inspect
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict

from penstock.limits.costs import Cost, check_cost_of, cost_for, usable_cost
from penstock.limits.durations import Duration
from penstock.limits.template import check_template, parse_template
from penstock.policies import clock
from penstock.policies.errors import InvalidPolicyError
from penstock.policies.events import Listeners
from penstock.policies.wait_list import DISCIPLINES, FairList, PriorityList, WaitList

if TYPE_CHECKING:
    from penstock.policies.call_admission import CallAdmission

Key = str | Callable[..., Hashable]
Pick = Callable[[tuple[Any, ...], Mapping[str, Any]], Hashable]
Amount = int | Mapping[str, int]  # of one limit, or by the names of several
Weigh = Callable[[tuple[Any, ...], Mapping[str, Any]], Any]
Discipline = Literal["fifo", "priority", "adaptive_lifo"]
_MODES: Final = {"queue", "delay", "reject"}
_numbers: Final = count(1)


class LimitOptions(TypedDict, total=False):
    """How calls wait at a limit, as users write it."""

    mode: str
    max_queue: int | None
    max_wait: Duration | None
    max_keys: int | None
    order: Discipline
    aging: Duration
    shed: str | bool | None
    target: Duration | None
    name: str | None
    on_event: Listeners


class SlotOptions(TypedDict, total=False):
    """What can be said of one slot besides its key."""

    weight: int | None
    cost: Amount | None
    priority: int
    deadline: Duration | None
    group: Hashable


@dataclass(frozen=True, slots=True)
class WaitOptions:
    """How calls wait at a limit, checked; times in microseconds."""

    name: str
    max_queue: int | None = None
    max_wait: int | None = None
    max_keys: int | None = None
    wait_list: Callable[..., WaitList] = WaitList
    shed: bool | None = None
    target: int | None = None
    on_event: Listeners = None


def checked(
    kind: str, given: LimitOptions, key: Key | None = None, fair_by: Key | None = None
) -> WaitOptions:
    """Return the options *given* for a limit of some *kind*, or raise an error that names the wrong one."""
    for unknown in given.keys() - LimitOptions.__annotations__.keys():
        raise TypeError(f"a {kind} has no option {unknown!r}")
    mode, max_queue, max_keys = given.get("mode", "queue"), given.get("max_queue"), given.get("max_keys")
    shed = given.get("shed")
    name: object = given.get("name")
    if mode not in _MODES:
        raise InvalidPolicyError("mode", f"{mode!r} must be one of: queue, reject")
    if mode == "reject" and max_queue:
        raise InvalidPolicyError("max_queue", "no call waits in reject mode; leave one of them out")
    if max_queue is not None:
        whole("max_queue", max_queue, least=0)
    if max_keys is not None:
        whole("max_keys", max_keys)
    if shed not in (None, False, True, "codel"):
        raise InvalidPolicyError("shed", f'{shed!r} must be "codel" or False')
    check_key(key)
    check_key(fair_by)
    if name is not None and not isinstance(name, str):
        raise InvalidPolicyError("name", f"{name!r} must be text")
    aging = clock.span(given.get("aging", 1), "aging")
    return WaitOptions(
        name or f"{kind.replace(' ', '-')}-{next(_numbers)}",
        0 if mode == "reject" else max_queue,
        clock.optional_span(given.get("max_wait"), "max_wait"),
        max_keys,
        _wait_list(given.get("order", "fifo"), fair=fair_by is not None, aging=aging),
        None if shed is None else bool(shed),
        clock.optional_span(given.get("target"), "target"),
        given.get("on_event"),
    )


def whole(field: str, value: object, least: int = 1) -> int:
    """Return *value* if it is a whole number, at least *least*."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidPolicyError(field, f"{value!r} must be a whole number, at least {least}")
    return value


def check_key(key: object) -> None:
    """Raise unless *key* can pick keys."""
    if key is not None and not callable(key) and (not isinstance(key, str) or not key):
        raise InvalidPolicyError(
            "key", f"{key!r} must be a function of the call's arguments, or the name of one"
        )
    if isinstance(key, str) and "{" in key:
        parse_template(key)


def picker(key: Key | None, function: Callable[..., Any]) -> Pick | None:
    """Return a function that picks the key of a call of *function*, as *key* says."""
    if key is None:
        return None
    if callable(key):
        return _by_call(key)
    names = _parameters(function)
    if "{" in key:
        check_template(key, names)
        return _by_template(key, inspect.signature(function))
    if key not in names:
        raise InvalidPolicyError("key", f"{key!r} is no argument of {_name(function)}; there are {names}")
    return _by_name(key, function, names.index(key))


def checked_cost(cost: Cost) -> Cost:
    """Return *cost* if a limit can find the cost of a call by it."""
    if callable(cost):
        return cost
    if not isinstance(cost, str):
        return whole("cost", cost)
    check_cost_of(cost)
    if not parse_template(cost).fields:
        raise InvalidPolicyError(
            "cost", f"{cost!r} names no argument; write a number, or an argument as in '{{tokens}}'"
        )
    return cost


def weigher(cost: Cost, function: Callable[..., Any]) -> Weigh | None:
    """Return a function that finds the cost of a call of *function*, as *cost* says; None if it is a number."""
    if isinstance(cost, int):
        return None
    if callable(cost):
        return lambda args, kwargs: usable_cost(cost(*args, **kwargs), cost)
    check_cost_of(cost, _parameters(function))
    signature = inspect.signature(function)
    return lambda args, kwargs: cost_for(cost, _bound(signature, args, kwargs))


def by_name(field: str, value: Amount, names: Collection[str], owner: str) -> Mapping[str, int]:
    """Return what *value* says for each of the *names*, which are limits of *owner* that count starts."""
    if not names:
        raise InvalidPolicyError(field, f"{owner} counts no starts")
    known = ", ".join(map(repr, names))
    if not isinstance(value, Mapping):
        if len(names) > 1:
            raise InvalidPolicyError(
                field, f"{value!r} could be for any of {known}; say which, as in {{name: {value}}}"
            )
        return dict.fromkeys(names, value)
    for unknown in value.keys() - set(names):
        raise InvalidPolicyError(
            field, f"{unknown!r} is no limit of {owner} that counts starts; there are: {known}"
        )
    return value


def checked_key(key: object, source: object) -> Hashable:
    """Return *key* if it can be one."""
    if key is None:
        raise TypeError(f"the key function {_name(source)} returned None; return a text, such as 'anonymous'")
    try:
        hash(key)
    except TypeError:
        message = f"the key function {_name(source)} returned {key!r}, which cannot be hashed"
        raise TypeError(message) from None
    return key


def _wait_list(order: str, *, fair: bool, aging: int) -> Callable[..., WaitList]:
    if fair:
        if order != "fifo":
            raise InvalidPolicyError("order", f"{order!r} and fair_by are two orders; choose one")
        return FairList
    if order not in DISCIPLINES:
        raise InvalidPolicyError("order", f"{order!r} must be one of: {', '.join(DISCIPLINES)}")
    if order == "priority":

        def by_priority(admission: "CallAdmission", key: Hashable) -> WaitList:
            return PriorityList(admission, key, aging)

        return by_priority
    return DISCIPLINES[order]


def _by_call(key: Callable[..., Hashable]) -> Pick:
    def pick(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Hashable:
        picked = key(*args, **kwargs)
        return picked if type(picked) is str else checked_key(picked, key)

    return pick


def _by_template(text: str, signature: inspect.Signature) -> Pick:
    template = parse_template(text)

    def pick(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Hashable:
        return template.fill(_bound(signature, args, kwargs))

    return pick


def _by_name(name: str, function: Callable[..., Any], place: int) -> Pick:
    parameter = inspect.signature(function).parameters[name]

    def pick(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Hashable:
        if len(args) > place and parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
            return checked_key(args[place], name)
        return checked_key(
            kwargs.get(name, None if parameter.default is parameter.empty else parameter.default), name
        )

    return pick


def _bound(
    signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Mapping[str, Any]:
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.arguments


def _parameters(function: Callable[..., Any]) -> list[str]:
    return list(inspect.signature(function).parameters)


def _name(source: object) -> str:
    return getattr(source, "__qualname__", None) or repr(source)

"""What can be asked of a limit besides its number, checked where it is made."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, Literal

from penstock.limits.durations import Duration
from penstock.policies import moment
from penstock.policies.errors import InvalidPolicyError
from penstock.policies.events import Listeners
from penstock.policies.keys import check_key
from penstock.policies.line import Line
from penstock.policies.orders import LINES, FairLine, PriorityLine

Order = Literal["fifo", "priority", "adaptive_lifo"]
_MODES: Final = {"queue", "delay", "reject"}
_numbers: Final = count(1)


@dataclass(frozen=True, slots=True)
class Options:
    """How calls wait at a limit; times in microseconds."""

    name: str
    max_queue: int | None = None
    max_wait: int | None = None
    max_keys: int | None = None
    line: Callable[..., Line] = Line
    shed: bool | None = None
    target: int | None = None
    on_event: Listeners = None
    scope: str = "step"


def options(
    kind: str,
    *,
    mode: str = "queue",
    max_queue: int | None = None,
    max_wait: Duration | None = None,
    key: Any = None,
    max_keys: int | None = None,
    order: str = "fifo",
    fair_by: Any = None,
    aging: Duration = 1,
    shed: str | bool | None = None,
    target: Duration | None = None,
    name: str | None = None,
    on_event: Listeners = None,
    scope: str = "step",
) -> Options:
    """Return what was asked for, or raise an error that names what cannot be."""
    if mode not in _MODES:
        raise InvalidPolicyError("mode", f"{mode!r} must be one of: queue, reject")
    if mode == "reject" and max_queue:
        raise InvalidPolicyError("max_queue", "nobody waits in reject mode; leave one of them out")
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
    return Options(
        name or f"{kind}-{next(_numbers)}",
        0 if mode == "reject" else max_queue,
        moment.optional_span(max_wait, "max_wait"),
        max_keys,
        _line(order, fair=fair_by is not None, aging=moment.span(aging, "aging")),
        None if shed is None else bool(shed),
        moment.optional_span(target, "target"),
        on_event,
        scope,
    )


def whole(field: str, value: object, least: int = 1) -> int:
    """Return *value* if it is a whole number, at least *least*."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidPolicyError(field, f"{value!r} must be a whole number, at least {least}")
    return value


def _line(order: str, *, fair: bool, aging: int) -> Callable[..., Line]:
    if fair:
        if order != "fifo":
            raise InvalidPolicyError("order", f"{order!r} and fair_by are two orders; choose one")
        return FairLine
    if order not in LINES:
        raise InvalidPolicyError("order", f"{order!r} must be one of: {', '.join(LINES)}")
    if order == "priority":

        def by_priority(limiter: Any, key: Hashable) -> Line:
            return PriorityLine(limiter, key, aging)

        return by_priority
    return LINES[order]

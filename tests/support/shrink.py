"""Find the few operations of a failing run that still fail.

An operation is a tuple; a list inside it (the jobs of an enqueue, the reports of a settle) and an
optional fact of a job may be left out too.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

PATIENCE: Final = 3_000  # replays, after which what was reached so far is good enough

Operation = tuple[Any, ...]
Fails = Callable[[Sequence[Operation]], bool]


def shrink(operations: Sequence[Operation], fails: Fails) -> list[Operation]:
    """Return a short list of operations for which *fails* still holds."""
    fewest = list(operations)
    for tried, candidate in enumerate(_candidates(lambda: fewest)):
        if tried == PATIENCE:
            break
        if fails(candidate):
            fewest[:] = candidate
    return fewest


def _candidates(current: Callable[[], list[Operation]]) -> Iterator[list[Operation]]:
    """Yield ever smaller variations of what is current, until no variation has helped."""
    before = None
    while before != current():
        before = list(current())
        yield from _without_chunks(current)
        yield from _simpler(current)


def _without_chunks(current: Callable[[], list[Operation]]) -> Iterator[list[Operation]]:
    size = max(len(current()) // 2, 1)
    while size:
        at = len(current()) - size
        while at >= 0 or at > -size:
            start = max(at, 0)
            yield current()[:start] + current()[start + size :]
            at -= size
        size //= 2


def _simpler(current: Callable[[], list[Operation]]) -> Iterator[list[Operation]]:
    for index in reversed(range(len(current()))):
        if index < len(current()):
            for simpler in _simpler_operations(current()[index]):
                yield [*current()[:index], simpler, *current()[index + 1 :]]


def _simpler_operations(operation: Operation) -> Iterator[Operation]:
    verb, *rest = operation
    if verb == "crash_in":
        yield rest[1]
        for simpler in _simpler_operations(rest[1]):
            yield (verb, rest[0], simpler)
    elif verb == "enqueue":
        for jobs in _fewer(rest[0]):
            yield (verb, jobs)
        for at, job in enumerate(rest[0]):
            for simpler in _simpler_jobs(job):
                yield (verb, [*rest[0][:at], simpler, *rest[0][at + 1 :]])
    elif verb == "exchange":
        yield ("settle", rest[0])
        yield ("claim", *rest[1:])
        for fewer in _fewer(rest[0]):
            yield (verb, fewer, *rest[1:])
    elif verb in {"settle", "claim", "claims"}:
        for fewer in _fewer(rest[0]):
            yield (verb, fewer, *rest[1:])
    if verb == "claim" and rest[1] > 1:
        yield (verb, rest[0], rest[1] - 1, *rest[2:])


def _simpler_jobs(job: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for fact in sorted(job.keys() - {"name", "queue"}):
        yield {key: value for key, value in job.items() if key != fact}
    for limits in _fewer(job.get("limits", ())):
        yield {**job, "limits": limits}


def _fewer(items: Sequence[Any]) -> Iterator[Any]:
    if len(items) > 1:
        for at in range(len(items)):
            yield [*items[:at], *items[at + 1 :]]

"""Series without gaps: where nothing happened there is no minute, but what stood before still stood."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from penstock.minutes.minute import Level, Minute, together


@dataclass(frozen=True, slots=True)
class _Stood:
    waiting: int
    kept: int
    used: int


def closed(minutes: Sequence[Minute], span: int, level: Level, until: int) -> list[Minute]:
    """Return minutes to whose ends time has passed, or *until* a moment; *level* is what stands after the last."""
    after_each: list[Minute | Level] = [*minutes[1:], level]
    for minute, after in zip(minutes, after_each, strict=True):
        minute.pass_time(min(minute.at + span, until), after.kept, after.used)
    return list(minutes)


def filled(minutes: Iterable[Minute], span: int, level: Level, since: int, until: int) -> list[Minute]:
    """Return one for each *span* that begins *since* then and before *until*; spans that are given twice are added.

    *level* is what stands after the last.
    """
    known: dict[int, Minute] = {}
    for each in minutes:
        known[each.at] = together(each.at, [known[each.at], each]) if each.at in known else each
    places = range(since, until, span)
    later = [each for each in known.values() if each.at >= until]
    stands = (
        _of(min(later, key=lambda each: each.at)) if later else _Stood(level.waiting, level.kept, level.used)
    )
    found = []
    for at in reversed(places):
        minute = known.get(at)
        if minute is None:
            ends = min(at + span, until)
            minute = Minute(
                at, waiting=stands.waiting, kept=stands.kept, used=stands.used, most=stands.used, last=at
            )
            minute.pass_time(ends, stands.kept, stands.used)
        stands = _of(minute)
        found.append(minute)
    return found[::-1]


def _of(minute: Minute) -> _Stood:
    return _Stood(minute.waiting, minute.kept, minute.used)

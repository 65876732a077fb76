"""Series without gaps: where nothing happened there is no minute, but what stood before still stood."""

from collections.abc import Iterable

from penstock.minutes.minute import Level, Minute, together


def filled(minutes: Iterable[Minute], span: int, level: Level, since: int, until: int) -> list[Minute]:
    """Return one for each *span* that begins *since* then and before *until*; spans that are given twice are added.

    *level* is what stands after the last.
    """
    known: dict[int, Minute] = {}
    for each in minutes:
        known[each.at] = together(each.at, [known[each.at], each]) if each.at in known else each
    later = [each for each in known.values() if each.at >= until]
    stands = _began(min(later, key=lambda each: each.at)) if later else level
    found = []
    for at in reversed(range(since, until, span)):
        minute = known.get(at)
        if minute is None:
            minute = Minute.quiet(at, stands, min(at + span, until) - at)
        stands = _began(minute)
        found.append(minute)
    return found[::-1]


def _began(minute: Minute) -> Level:
    """Return what stood when a span began."""
    return Level(minute.at, minute.waiting, minute.kept, 0, minute.used)

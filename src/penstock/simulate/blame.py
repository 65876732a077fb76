"""What did the jobs of a lane wait for?

Of the time since the last start of a lane, each part is charged to the rules that were shut then, in equal shares.
"""

from itertools import pairwise

from penstock.simulate.watch import Lane, Rule, Slots

Shut = tuple[int, int, Rule]  # from when to when, by what


def charge(lane: Lane, workers: Slots, crew: Rule, now: int) -> None:
    """Charge what the jobs of a lane have waited since its last start, and begin again from now."""
    lane.count(now)
    if lane.area:
        _divide(lane.area, _shut(lane, workers, crew, now) or [(0, 1, crew)])
    lane.area = 0
    lane.since = now


def _shut(lane: Lane, workers: Slots, crew: Rule, now: int) -> list[Shut]:
    """Return what was shut since the last start of a lane."""
    cost, since = lane.kind.cost, lane.since
    found = [(*gate.shut(rule, cost, since, now), rule) for gate in lane.gates for rule in gate.rules]
    found.append((*workers.full(since, now), crew))
    return [(begin, end, rule) for begin, end, rule in found if begin < end]


def _divide(area: int, shut: list[Shut]) -> None:
    parts = []
    for begin, end in pairwise(sorted({moment for each in shut for moment in each[:2]})):
        rules = [rule for first, last, rule in shut if first <= begin and end <= last]
        parts += [((end - begin) / len(rules), rule) for rule in rules]
    total = sum(length for length, _ in parts)
    for length, rule in parts:
        rule.held += area * length / total

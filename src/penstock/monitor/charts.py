"""Charts in SVG that the server makes: what happened over time, with round numbers and moments beside it.

A chart is as wide as the page lets it be: its paths are stretched, its words are not.  It says in words what it shows.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from markupsafe import Markup

from penstock.clock import SECOND
from penstock.job import Past, WaitedFor
from penstock.monitor import words
from penstock.monitor.limit_past import Limit
from penstock.monitor.lookback import Part, parts_of, per_minute
from penstock.monitor.plot import (
    WIDE,
    Axis,
    Scale,
    Values,
    area,
    bars,
    brief,
    line,
    marks,
    steps,
    thinned,
    ticks,
    time_marks,
)

_TOP: Final = 6  # units above a drawing, so that the word beside its top is seen
_WORDS: Final = 20  # units below a drawing, in which moments are written
_EDGE: Final = 60  # of WIDE: a word that stands nearer to an edge begins or ends there
_FAR: Final = WIDE * 0.62  # what is said of a moment that stands beyond is written before it
_SPARK: Final = 22  # units that a small one is tall
_LEAST: Final = SECOND  # of the times beside a chart
_THIN: Final = Markup('vector-effect="non-scaling-stroke"')
_NONE: Final = Markup("")
_GATES: Final = 4  # colours of gates; the next ones are those of other gates and of a worker


class Lane(NamedTuple):
    """A drawing on an axis: how tall it is, the round numbers beside it, and what it says in words."""

    axis: Axis
    tall: int
    scale: Scale
    beside: Sequence[tuple[float, str]]
    told: str


def sparkline(values: Values, told: str, kind: str = "") -> Markup:
    """Draw how something went, small."""
    axis = Axis(0, max(len(values), 1), 1)
    most = max((value for value in values if value is not None), default=0)
    scale = Scale(max(most, 1), 2, _SPARK - 2)
    shape = Markup('<path class="spark-area" d="{}"/><path class="spark-line {}" d="{}" {}/>').format(
        area(axis, values, scale), kind, line(axis, values, scale), _THIN
    )
    drawn = Markup(
        '<svg class="spark" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}">{}</svg>'
    )
    return drawn.format(WIDE, _SPARK, told, shape if values else _NONE)


def waited_chart(waited: WaitedFor, now: int) -> Markup:
    """Draw how many jobs waited, by what they waited for, above each other."""
    parts = parts_of(waited)
    whole = Axis(waited.since, waited.until, waited.step)
    drawn = [thinned(whole, part.waited) for part in parts]
    axis = drawn[0][0]
    tops = [0.0] * len(drawn[0][1])
    layers = []
    for _, values in drawn:
        under, tops = tops, [low + value for low, value in zip(tops, values, strict=True)]
        layers.append((tops, under))
    round_numbers = marks(max(tops, default=0))
    lane = _lane(
        axis, 152, [(mark, brief(mark)) for mark in round_numbers], _told_waited(waited, parts, tops)
    )
    shapes = [
        Markup('<path class="layer {}" d="{}" {}/>').format(
            colour(n, len(parts)), area(axis, over, lane.scale, under), _THIN
        )
        for n, (over, under) in enumerate(layers)
        if max(over, default=0) > 0
    ]
    return _drawn(lane, _NONE.join(shapes), now, moments=True)


def colour(number: int, of: int) -> str:
    """Return the class of the colour of a part: the last two are those of other gates and of a worker."""
    return f"k{min(number + 1, _GATES)}" if number < of - 2 else ("k5" if number == of - 2 else "k6")


def starts_chart(past: Past, limits: Sequence[Limit], now: int) -> Markup:
    """Draw how many jobs started in each minute, below what the limit in force allowed."""
    whole = Axis(past.since, past.until, past.step)
    axis, values = thinned(whole, [per_minute(moment.started, past.step) for moment in past.moments])
    allowed = [(limit.at, limit.starts(axis.step)) for limit in limits]
    most = max([*values, *(value for _, value in allowed if value is not None)], default=0)
    lane = _lane(
        axis, 84, [(mark, brief(mark)) for mark in marks(most, 2)],
        f"Starts per minute: {_range(values)}{_told_limits(limits)}",
    )  # fmt: skip
    shapes = Markup('<path class="bars" d="{}"/><path class="limit" d="{}" {}/>').format(
        bars(axis, values, lane.scale), steps(axis, allowed, lane.scale), _THIN
    )
    return _drawn(lane, shapes, now, said=_said(axis, limits, lane.scale))


def slots_chart(past: Past, limits: Sequence[Limit], now: int) -> Markup:
    """Draw how many slots were taken, below how many there were."""
    axis = Axis(past.since, past.until, past.step)
    values = [moment.used for moment in past.moments]
    allowed = [
        (limit.at, None if limit.numbers.slots is None else float(limit.numbers.slots)) for limit in limits
    ]
    most = max([*values, *(value for _, value in allowed if value is not None)], default=0)
    told = f"Slots in use, on average: {_range(values)}"
    lane = _lane(axis, 44, [(mark, brief(mark)) for mark in marks(most, 2)], told)
    shapes = Markup(
        '<path class="wash run" d="{}"/><path class="line run" d="{}" {}/><path class="limit" d="{}" {}/>'
    )
    return _drawn(
        lane,
        shapes.format(
            area(axis, values, lane.scale), line(axis, values, lane.scale), _THIN,
            steps(axis, allowed, lane.scale), _THIN,
        ),
        now,
    )  # fmt: skip


def waiting_chart(past: Past, now: int) -> Markup:
    """Draw how many jobs a gate kept."""
    axis = Axis(past.since, past.until, past.step)
    values = [moment.kept for moment in past.moments]
    lane = _lane(
        axis, 54, [(mark, brief(mark)) for mark in marks(max(values, default=0), 2)],
        f"Jobs that it kept waiting, on average: {_range(values)}",
    )  # fmt: skip
    shapes = Markup('<path class="wash wait" d="{}"/><path class="line wait" d="{}" {}/>')
    return _drawn(
        lane, shapes.format(area(axis, values, lane.scale), line(axis, values, lane.scale), _THIN), now
    )


def waits_chart(past: Past, now: int) -> Markup:
    """Draw how long it kept jobs: half of them up to the lower edge of a band, 95 of 100 up to the upper."""
    axis = Axis(past.since, past.until, past.step)
    high = [moment.waited_p95 for moment in past.moments]
    low = [moment.waited_p50 or 0 for moment in past.moments]
    round_times = time_marks(max([_LEAST, *(value for value in high if value is not None)]))
    lane = _lane(
        axis, 44, [(mark, words.short_span(mark) if mark else "0") for mark in round_times],
        f"How long it kept jobs: {_waits(past.whole.waited_p50, past.whole.waited_p95)}",
    )  # fmt: skip
    shapes = Markup(
        '<path class="band" d="{}"/><path class="line kept" d="{}" {}/><path class="line kept" d="{}" {}/>'
    )
    return _drawn(
        lane,
        shapes.format(
            area(axis, high, lane.scale, low), line(axis, high, lane.scale), _THIN,
            line(axis, [moment.waited_p50 for moment in past.moments], lane.scale), _THIN,
        ),
        now,
        moments=True,
    )  # fmt: skip


def _lane(axis: Axis, tall: int, beside: Sequence[tuple[float, str]], told: str) -> Lane:
    return Lane(axis, tall, Scale(beside[-1][0], _TOP, _TOP + tall), beside, told)


def _drawn(lane: Lane, shapes: Markup, now: int, said: Markup = _NONE, *, moments: bool = False) -> Markup:
    """Return a chart; *moments* says that the moments are written below it."""
    tall = lane.tall + 2 * _TOP + (_WORDS if moments else 0)
    below = _NONE.join(_moments(lane, now)) if moments else _NONE
    plot = Markup(
        '<svg viewBox="0 0 {} {}" width="100%" height="{}" preserveAspectRatio="none">{}</svg>'
    ).format(WIDE, lane.tall + 2 * _TOP, lane.tall + 2 * _TOP, shapes)
    return Markup('<svg class="chart" height="{}" role="img" aria-label="{}">{}{}{}{}</svg>').format(
        tall, lane.told, _NONE.join(_beside(lane)), plot, said, below
    )


def _beside(lane: Lane) -> list[Markup]:
    """Return the lines and the round numbers beside a chart."""
    drawn = Markup(
        '<line class="{}" x1="0" x2="100%" y1="{}" y2="{}"/><text x="-6" y="{}" text-anchor="end">{}</text>'
    )
    found = []
    for number, text in lane.beside:
        y = round(lane.scale(number)) + 0.5
        found.append(drawn.format("grid" if number else "base", y, y, round(y + 3.5), text))
    return found


def _moments(lane: Lane, now: int) -> list[Markup]:
    found = []
    for number, at in enumerate(ticks(lane.axis)):
        place, y = lane.axis.place(at), lane.tall + 2 * _TOP + 14
        anchor = "start" if place < _EDGE else "end" if place > WIDE - _EDGE else "middle"
        found.append(
            Markup('<text class="{}" x="{:.1f}%" y="{}" text-anchor="{}">{}</text>').format(
                "wide" if number % 2 else "", place / WIDE * 100, y, anchor, moment(at, now)
            )
        )
    return found


def moment(at: int, now: int) -> Markup:
    """Write a moment in a drawing; a script writes it as the reader's clock has it."""
    return Markup('<tspan data-at="{}">{}</tspan>').format(words.iso(at), words.minute(at, now))


def _said(axis: Axis, limits: Sequence[Limit], scale: Scale) -> Markup:
    """Write beside the last step of a limit who changed it."""
    changed = [limit for limit in limits if limit.what and limit.at > axis.since]
    if not changed:
        return _NONE
    last = changed[-1]
    place, allowed = axis.place(last.at), last.starts(axis.step)
    late = place > _FAR
    y = max(scale(allowed or 0) - 6, _TOP + 8)
    return Markup('<text class="said wide" x="{:.1f}%" dx="{}" y="{:.0f}" text-anchor="{}">{}</text>').format(
        place / WIDE * 100, -6 if late else 6, y, "end" if late else "start", last.told
    )


def _told_waited(waited: WaitedFor, parts: Sequence[Part], tops: Sequence[float]) -> str:
    span = words.span(waited.until - waited.since)
    if not any(tops):
        return f"What jobs waited for in the last {span}: no job waited"
    shares = ", ".join(
        f"{words.shortened(words.name(part.title))} {part.share} %" for part in parts if part.share
    )
    return f"What jobs waited for in the last {span}: {shares}; {_range(tops)} waited at a time"


def _told_limits(limits: Sequence[Limit]) -> str:
    told = [words.numbers(limit.numbers) for limit in limits]
    return f"; the limit was {', then '.join(told)}" if limits else ""


def _range(values: Sequence[float]) -> str:
    if not values:
        return "nothing is known"
    least, most = f"{min(values):,.0f}", f"{max(values):,.0f}"
    return most if least == most else f"{least} to {most}, {values[-1]:,.0f} at last"


def _waits(half: int | None, most: int | None) -> str:
    if half is None or most is None:
        return "no job that waited started"
    return f"half no longer than {words.span(half)}, 95 of 100 no longer than {words.span(most)}"


FILTERS: Final[dict[str, Callable[..., object]]] = {
    "sparkline": sparkline,
    "waited_chart": waited_chart,
    "starts_chart": starts_chart,
    "slots_chart": slots_chart,
    "waiting_chart": waiting_chart,
    "waits_chart": waits_chart,
    "colour": colour,
    "range": _range,
}

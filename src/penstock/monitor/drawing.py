"""Small drawings in SVG, with classes for colours: the style sheet knows them, in light and in dark.

They say in words what they show.  Only numbers and our own words go into them.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final, Protocol

from markupsafe import Markup

from penstock.job import GateDetail, GateLook
from penstock.limits.rules import Numbers, Window
from penstock.monitor import words

WIDE: Final = 132  # units of a meter
_ROW: Final = 12  # dots in a row
_DOTS: Final = 24  # more slots than these are drawn as a bar
_STEP: Final = 11  # units from dot to dot
_BEATS: Final = 11
_STRIP: Final = 1_000  # units of a strip
_AHEAD: Final = 0.12  # the part of a strip that is yet to come


def meters(look: GateLook, now: int) -> Markup:
    """Draw how much of each number of a gate is in use."""
    drawn = []
    if look.numbers.slots is not None:
        drawn.append(_slots(look.running, look.numbers.slots))
    if look.numbers.rate is not None:
        drawn.append(_bar(look.recent, look.numbers.rate.limit, "starts of the rate are used"))
    if look.numbers.throttle is not None and look.numbers.throttle.limit:
        drawn.append(_beats(look, look.numbers.throttle, now))
    return Markup("").join(drawn)


def use(look: GateLook) -> str:
    """Say how much of each number of a gate is in use."""
    numbers, parts = look.numbers, list[str]()
    if numbers.slots is not None:
        floats = ", floating" if look.floating is not None else ""
        parts.append(f"{look.running:,} of {numbers.slots:,} at once{floats}")
    elif look.running:
        parts.append(f"{look.running:,} running")
    if numbers.rate is not None:
        parts.append(f"{look.recent:,} of {words.window(numbers.rate)}")
    if numbers.throttle is not None:
        parts.append(words.numbers(Numbers(throttle=numbers.throttle)))
    return ", ".join(parts) or "no limit in force"


def window_strip(detail: GateDetail, now: int) -> Markup:
    """Draw every start in the window of a rate, the one that leaves next, and those that are to come."""
    period = window_of(detail.gate.numbers)
    ahead = int(period * _AHEAD)
    place = _scale(now - period, now + ahead)
    lines = [
        _line(place(start.at), 14, 46, "leaving" if n == 0 else "start")
        for n, start in enumerate(detail.starts)
    ]
    coming = [job.starts for job in detail.line if job.starts is not None and now < job.starts <= now + ahead]
    lines += [_line(place(at), 20, 46, "coming") for at in coming]
    lines.append(_line(place(now), 6, 50, "nowline"))
    base = Markup('<path class="base" d="M0 46.5H{}" vector-effect="non-scaling-stroke"/>').format(_STRIP)
    told = f"{sum(start.weight for start in detail.starts)} starts in the last {words.span(period)}"
    return _strip(base + Markup("").join(lines), 52, told)


def window_of(numbers: Numbers) -> int:
    """Return how far back the starts of a gate are shown."""
    if numbers.rate is not None:
        return numbers.rate.period
    return numbers.throttle.gap * _BEATS if numbers.throttle and numbers.throttle.limit else 0


class Span(Protocol):
    """A part of a life."""

    @property
    def what(self) -> str: ...
    @property
    def begin(self) -> int: ...
    @property
    def end(self) -> int: ...


def life_strip(spans: Sequence[Span]) -> Markup:
    """Draw a life; no part is drawn too small to be seen."""
    if not spans:
        return Markup("")
    least = max(sum(span.end - span.begin for span in spans) // 100, 1)
    shown = [max(span.end - span.begin, least) for span in spans]
    edges = [0]
    for width in shown:
        edges.append(edges[-1] + width)
    place = _scale(0, edges[-1])
    parts = [
        Markup('<rect class="life-{}" x="{:.1f}" y="1" width="{:.1f}" height="12"/>').format(
            span.what, place(left), max(place(right) - place(left) - 1.5, 1)
        )
        for span, (left, right) in zip(spans, pairwise(edges), strict=True)
    ]
    return _strip(Markup("").join(parts), 14, "the life of the job, from left to right")


def part(used: float) -> Markup:
    """Draw which part of a whole is used."""
    return _bar(round(used * 100), 100, "percent are used")


def _slots(running: int, slots: int) -> Markup:
    told = f"{running:,} of {slots:,} slots are taken"
    if not slots:
        return _meter(Markup('<path class="shut" d="M2 7h26"/>'), 14, "no slots: nothing starts")
    if max(slots, running) > _DOTS:
        return _bar(running, slots, "slots are taken")
    dots = []
    for n in range(max(slots, running)):
        kind = "slot over" if n >= slots else "slot on" if n < running else "slot"
        x, y = 4.5 + n % _ROW * _STEP, 7 + n // _ROW * _STEP
        dots.append(Markup('<circle class="{}" cx="{:.1f}" cy="{}" r="4"/>').format(kind, x, y))
    return _meter(Markup("").join(dots), 14 if max(slots, running) <= _ROW else 25, told)


def _bar(used: int, most: int, told: str) -> Markup:
    part = min(used / most, 1.0) if most else 1.0
    kind = "fill full" if used >= most else "fill"
    track = Markup('<rect class="track" x=".5" y="4.5" width="{}" height="5" rx="2.5"/>').format(WIDE - 1)
    fill = Markup('<rect class="{}" x="0" y="4" width="{:.1f}" height="6" rx="3"/>').format(kind, part * WIDE)
    return _meter(track + (fill if used else Markup("")), 14, f"{used:,} of {most:,} {told}")


def _beats(look: GateLook, rule: Window, now: int) -> Markup:
    """Draw the beats of a throttle around now: the last start, and the next one."""
    gap = rule.gap
    last = look.last_start if look.last_start is not None and look.last_start > now - gap * 6 else None
    first = (last or now) - gap * 5
    place = _scale(first, first + gap * (_BEATS - 1), WIDE - 4)
    beats = []
    for n in range(_BEATS):
        x = place(first + gap * n) + 2
        kind = "beat next" if last is not None and n == 6 else "beat"  # noqa: PLR2004 - the one after the last start
        beats.append(Markup('<path class="{}" d="M{:.1f} {}v8"/>').format(kind, x, 3))
    if last is not None:
        beats.append(Markup('<circle class="hand" cx="{:.1f}" cy="7" r="3.5"/>').format(place(last) + 2))
    return _meter(Markup("").join(beats), 14, f"one start every {words.span(gap)}")


def _scale(first: int, last: int, units: int = _STRIP) -> Callable[[int], float]:
    span = max(last - first, 1)
    return lambda at: max(0.0, min((at - first) / span, 1.0)) * units


def _line(x: float, top: int, bottom: int, kind: str) -> Markup:
    drawn = Markup('<path class="{}" d="M{:.1f} {}V{}" vector-effect="non-scaling-stroke"/>')
    return drawn.format(kind, x, top, bottom)


def _meter(inside: Markup, height: int, told: str) -> Markup:
    drawn = Markup('<svg class="meter{}" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>')
    return drawn.format(" tall" if height > 14 else "", WIDE, height, told, inside)  # noqa: PLR2004 - one row


def _strip(inside: Markup, height: int, told: str) -> Markup:
    drawn = Markup(
        '<svg class="strip h{}" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}">{}</svg>'
    )
    return drawn.format(height, _STRIP, height, told, inside)


FILTERS: Final[dict[str, Callable[..., object]]] = {
    "meters": meters,
    "use": use,
    "window_strip": window_strip,
    "life_strip": life_strip,
    "used_part": part,
}

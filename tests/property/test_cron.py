"""What the next moment of a schedule promises, whatever the expression, the zone and the moment."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from penstock.lifecycle.cron import parse_cron

MINUTE = 60_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ZONES = (
    "UTC",
    "America/New_York",
    "Europe/Berlin",
    "Africa/Cairo",  # changes at midnight
    "America/Havana",  # repeats midnight
    "Asia/Kolkata",
    "Australia/Lord_Howe",  # changes by half an hour
    "Antarctica/Troll",  # changes by two hours
)


def field(least: int, most: int) -> st.SearchStrategy[str]:
    """Numbers, ranges, steps and lists of one field."""
    number = st.integers(least, most)
    span = st.tuples(number, number).map(lambda ends: f"{min(ends)}-{max(ends)}")
    step = st.tuples(st.one_of(st.just("*"), span), st.integers(1, most)).map(lambda s: f"{s[0]}/{s[1]}")
    one = st.one_of(number.map(str), span, step)
    return st.one_of(st.just("*"), one, st.lists(one, min_size=2, max_size=3).map(",".join))


times = st.tuples(field(0, 59), field(0, 23)).map(" ".join)
expressions = st.tuples(times, st.one_of(st.just("*"), field(1, 28)), st.just("*"), field(0, 7)).map(" ".join)
# Around the changes of 2026, and anywhere.
changes = st.sampled_from(
    [
        datetime(2026, month, day, tzinfo=UTC)
        for month, day in ((3, 8), (3, 29), (4, 5), (4, 23), (10, 25), (11, 1))
    ]
)
near = st.builds(lambda day, span: day + span, changes, st.timedeltas(timedelta(days=-1), timedelta(days=2)))
anywhere = st.datetimes(datetime(2020, 1, 1), datetime(2060, 1, 1), timezones=st.just(UTC))
moments = st.one_of(near, anywhere).map(lambda at: (at - EPOCH) // timedelta(microseconds=1))


def walls(at: int, zone: str) -> datetime:
    return (EPOCH + timedelta(microseconds=at)).astimezone(ZoneInfo(zone))


def values(text: str, least: int, most: int) -> set[int]:
    """Read a field as its words say, without the code under test."""
    found: set[int] = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        first, _, last = (f"{least}-{most}" if span == "*" else span).partition("-")
        if step and not last and span != "*":
            last = str(most)
        if step and last == first:
            last = str(most)  # one number and a step: from there on
        found.update(range(int(first), int(last or first) + 1, int(step or 1)))
    return found


def matches(expression: str, wall: datetime) -> bool:
    minute, hour, day, _, weekday = expression.split()
    of_month = wall.day in values(day, 1, 31)
    of_week = not {wall.isoweekday(), wall.isoweekday() % 7}.isdisjoint(values(weekday, 0, 7))
    both = day.startswith("*") or weekday.startswith("*")
    return (
        wall.minute in values(minute, 0, 59)
        and wall.hour in values(hour, 0, 23)
        and ((of_month and of_week) if both else (of_month or of_week))
    )


@given(expressions, st.sampled_from(ZONES), moments)
def test_the_next_moment_is_later_and_matches_every_field(expression, zone, moment):
    at = parse_cron(expression, zone).next_after(moment)

    if at is not None:
        assert at > moment
        assert 0 == at % MINUTE
        assert matches(expression, walls(at, zone))


@given(expressions, st.sampled_from(ZONES), moments)
def test_no_moment_in_between_is_passed_over(expression, zone, moment):
    """But for the second of two that the clocks show alike, where only chosen hours count."""
    at = parse_cron(expression, zone).next_after(moment)
    every_hour = len(values(expression.split()[1], 0, 23)) == 24
    first = moment // MINUTE * MINUTE + MINUTE
    last = min(at or first, first + 3 * 1_440 * MINUTE)

    for between in range(first, last, MINUTE):
        wall = walls(between, zone)
        assert not matches(expression, wall) or (wall.fold and not every_hour)


@given(times, st.sampled_from(ZONES), moments)
def test_chosen_hours_fire_once_for_each_time_that_clocks_show(time, zone, moment):
    expression = f"{time} * * *"
    if len(values(expression.split()[1], 0, 23)) == 24:
        return
    cron, seen = parse_cron(expression, zone), []
    for _ in range(50):
        moment = cron.next_after(moment)
        seen.append(walls(moment, zone).replace(tzinfo=None, fold=0))

    assert sorted(set(seen)) == seen


@given(expressions, st.sampled_from(ZONES), moments)
def test_a_question_from_an_earlier_moment_has_the_same_answer(expression, zone, moment):
    cron = parse_cron(expression, zone)
    at = cron.next_after(moment)

    if at is not None:
        assert at == cron.next_after(at - 1)
        assert at == cron.next_after(moment + (at - 1 - moment) // 2)

"""Days of a time zone, caps and shares, for whatever Hypothesis can think of."""

from collections import Counter
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from penstock.limits.calendar import EVE, KEPT, DailyCap, Days, Ramp, day_ends, day_starts, local_day
from penstock.limits.gate import ON_RELEASE, Gate
from penstock.limits.groups import Group, Member, Resource, Strategy

ZONES = st.sampled_from(
    [
        *("UTC", "Europe/Berlin", "America/New_York", "America/Havana", "America/St_Johns", "Africa/Cairo"),
        *("Africa/Casablanca", "Asia/Beirut", "Asia/Kathmandu", "Australia/Lord_Howe", "Pacific/Apia"),
        "Pacific/Chatham",
    ]
)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MOMENTS = st.datetimes(datetime(2007, 1, 1), datetime(2037, 1, 1)).map(
    lambda found: (found.replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)
)
DATES = st.dates(date(2007, 1, 1), date(2037, 1, 1))


def shown(at: int, zone: str) -> int:
    """Return the date on the clocks, looked up by itself."""
    return (EPOCH + timedelta(microseconds=at)).astimezone(ZoneInfo(zone)).date().toordinal()


@given(MOMENTS, ZONES)
def test_a_day_ends_where_another_date_begins(at: int, zone: str) -> None:
    ends = day_ends(at, zone)

    assert at < ends <= at + 50 * 3_600_000_000
    assert shown(ends, zone) != shown(at, zone)
    step = max((ends - at) // 50, 1)
    assert {shown(each, zone) for each in [*range(at, ends, step), ends - 1]} == {shown(at, zone)}


@given(DATES, ZONES)
def test_a_day_starts_where_its_date_is_first_shown(day: date, zone: str) -> None:
    number = day.toordinal()
    starts = day_starts(number, zone)

    assert local_day(starts, zone) >= number > local_day(starts - 1, zone)


@given(
    MOMENTS,
    ZONES,
    st.integers(0, 3),
    st.one_of(st.none(), st.tuples(st.integers(-20, 20), st.integers(1, 40), st.integers(0, 3))),
    st.dictionaries(st.integers(-KEPT, KEPT), st.integers(0, 4)),
    st.integers(1, 2),
)
def test_a_cap_opens_at_the_first_moment_of_a_day_with_room(
    at: int,
    zone: str,
    most: int,
    ramp: tuple[int, int, int] | None,
    counts: dict[int, int],
    starts: int,
) -> None:
    today = shown(at, zone)
    grows = None
    if ramp is not None and ramp[2] <= most:
        grows = Ramp(date.fromordinal(today + ramp[0]), ramp[1], ramp[2])
    cap = DailyCap(most, zone, grows)
    days = Days({today + day: count for day, count in counts.items()})

    opens = cap.opens_at(days, at, starts)

    # The naive way: day by day.
    moment = at
    for _ in range(100):
        ends = day_ends(moment, zone)
        day = shown(moment, zone)
        if moment < ends - EVE and days.on(day) + starts <= cap.on(day):
            assert opens == moment
            return
        moment = ends
    assert opens == ON_RELEASE


@given(st.lists(st.integers(1, 50), min_size=1, max_size=8), st.integers(1, 300))
def test_shares_are_never_more_than_one_start_from_their_weights(weights: list[int], starts: int) -> None:
    members = [Member(Resource(f"k{n}", weight), Gate(n)) for n, weight in enumerate(weights)]
    group = Group(0, strategy=Strategy.WEIGHTED, members=members)
    counts: Counter[str] = Counter()

    for n in range(1, starts + 1):
        counts[group.choose(members, 0.0).resource.key] += 1
        for member in members:
            ideal = n * member.resource.weight
            assert abs(counts[member.resource.key] * sum(weights) - ideal) <= sum(weights)


@given(st.data(), st.lists(st.integers(1, 9), min_size=1, max_size=5), st.sampled_from(Strategy))
def test_only_what_has_room_is_chosen_and_each_is_chosen_in_the_end(
    data: st.DataObject, weights: list[int], strategy: Strategy
) -> None:
    members = [Member(Resource(f"k{n}", weight), Gate(n)) for n, weight in enumerate(weights)]
    group = Group(0, strategy=strategy, members=members)
    for _ in range(20):
        having_room = data.draw(st.lists(st.sampled_from(members), min_size=1, unique_by=id))
        assert group.choose(having_room, 0.5) in having_room

    chosen = {group.choose(members, n / 200) for n in range(200)}

    assert chosen == set(members)

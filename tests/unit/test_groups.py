"""A gate that is any of several: which resource has room, and which of those is taken."""

import pytest

from penstock.clock import SECOND
from penstock.errors import InvalidLimitError
from penstock.limits.calendar import DailyCap, Days
from penstock.limits.gate import ON_RELEASE, Gate, Rules, Starts
from penstock.limits.groups import Group, Member, Resource, Strategy
from penstock.limits.rules import UNLIMITED, Floating, Limit, Numbers, Window
from penstock.limits.spec import limits_from_json, limits_to_json

NOW = 1_000_000 * SECOND
DAY = 86_400 * SECOND
MIDNIGHT = (NOW // DAY + 1) * DAY


def member(key: str, numbers: Numbers | None = None, running: int = 0, **facts: object) -> Member:
    rules = None if numbers is None else Rules(configured=numbers)
    return Member(Resource(key, **facts), Gate(ord(key), running, None, rules))


def capped(key: str, cap: int, used: int = 0, **facts: object) -> Member:
    found = member(key, daily=DailyCap(cap), **facts)
    found.days = Days({found.resource.daily.day(NOW): used})
    return found


def group(*members: Member, strategy: Strategy = Strategy.ROUND_ROBIN) -> Group:
    return Group(1, strategy=strategy, members=list(members))


def opens(*members: Member, cost: int = 1, kept: int = 0) -> int:
    return group(*members).opens_at(UNLIMITED, cost, NOW, kept)


BUSY = Numbers(slots=1)


class TestRoom:
    def test_it_opens_when_the_first_resource_has_room(self) -> None:
        assert opens() == ON_RELEASE
        assert opens(member("a")) <= NOW
        assert opens(member("a", enabled=False)) == ON_RELEASE
        assert opens(capped("a", 1, 1)) == MIDNIGHT
        assert opens(capped("a", 1, 1), member("b", BUSY, 1)) == MIDNIGHT
        assert opens(capped("a", 1, 1), member("b", BUSY)) <= NOW

    def test_a_resource_needs_its_gate_and_its_day_at_once(self) -> None:
        shut = capped("a", 1)
        shut.gate.rules = Rules(shut_until=MIDNIGHT + SECOND)

        assert opens(shut) == MIDNIGHT + SECOND
        shut.gate.rules = Rules(configured=Numbers(slots=0))
        assert opens(shut) == ON_RELEASE

    @pytest.mark.parametrize(
        ("members", "fits"),
        [
            ([member("a", BUSY)], False),
            ([member("a", Numbers(slots=2))], True),
            ([member("a", BUSY), member("b", BUSY)], True),
            ([member("a", BUSY), member("b", BUSY, 1)], False),
            ([capped("a", 5, 4)], False),
            ([capped("a", 5, 3)], True),
            ([capped("a", 5, 4), capped("b", 5, 4)], True),
            ([], False),
        ],
        ids=range(8),
    )
    def test_a_start_beside_one_that_is_kept_needs_room_for_both(
        self, members: list[Member], fits: bool
    ) -> None:
        assert (opens(*members, kept=1) <= NOW) is fits
        assert group(*members).leaves_room(UNLIMITED, 1, 1, NOW) is fits

    def test_only_what_leaves_room_for_the_kept_start_may_be_taken(self) -> None:
        light = member("a", Numbers(rate=Window(3, SECOND)))
        heavy = member("b", Numbers(rate=Window(9, SECOND)))

        openings = group(light, heavy).openings(1, NOW, kept=9)

        assert [found.resource.key for found, at in openings if at <= NOW] == ["a"]

    def test_a_start_is_too_heavy_if_it_is_for_every_resource(self) -> None:
        two, nine = Numbers(rate=Window(2, SECOND)), Numbers(rate=Window(9, SECOND))

        assert group(member("a", two)).too_heavy(UNLIMITED, 3, NOW)
        assert not group(member("a", two), member("b", nine)).too_heavy(UNLIMITED, 3, NOW)
        assert group(member("a", two), member("b", nine, enabled=False)).too_heavy(UNLIMITED, 3, NOW)
        assert not group(member("b", enabled=False)).too_heavy(UNLIMITED, 3, NOW)

    def test_it_changes_by_itself_when_a_rule_or_a_day_of_a_resource_ends(self) -> None:
        override = member("a")
        override.gate.rules = Rules(override=BUSY, override_until=NOW + SECOND)

        assert group(member("a")).next_change(NOW) == ON_RELEASE
        assert group(capped("a", 1), member("b", BUSY)).next_change(NOW) == MIDNIGHT
        assert group(capped("a", 1), override).next_change(NOW) == NOW + SECOND

    def test_a_start_counts_on_its_day_and_can_be_taken_back(self) -> None:
        free, limited = member("a"), capped("b", 2)
        limited.number = 7
        assert free.start(NOW) is None
        counted = limited.start(NOW)
        assert counted is not None

        assert (free.days.text, limited.days.on(limited.resource.daily.day(NOW))) == ("", 1)
        assert (free.last_moment(NOW), limited.last_moment(NOW)) == (ON_RELEASE, MIDNIGHT - 1)
        assert not free.take_back(counted)
        assert limited.take_back(counted)
        assert not limited.take_back(counted)
        assert free.has_day(NOW)
        assert not capped("c", 1, 1).has_day(NOW)
        assert not member("d", enabled=False).has_day(NOW)

    def test_a_resource_is_found_by_its_key(self) -> None:
        a, b = member("a"), member("b")

        assert group(a, b).member("b") is b
        assert group(a, b).member("c") is None

    def test_another_zone_takes_over_all_that_may_belong_to_its_day(self) -> None:
        changed = capped("a", 9, 2)
        today = changed.resource.daily.day(NOW)
        changed.days.counts[today - 1] = 3

        changed.renew(Resource("a", daily=DailyCap(7)), NOW)
        assert changed.days.on(today) == 2
        changed.renew(Resource("a", daily=DailyCap(7, "Asia/Tokyo")), NOW)
        assert changed.days.on(changed.resource.daily.day(NOW)) == 5
        changed.renew(Resource("a"), NOW)
        assert changed.resource.daily is None


class TestChoice:
    def test_one_after_the_other(self) -> None:
        a, b, c = members = [member("a"), member("b"), member("c")]
        chosen = group(*members)

        assert [chosen.choose(members, 0.0) for _ in range(6)] == [a, b, c, a, b, c]
        assert [chosen.choose([a, c], 0.0) for _ in range(4)] == [a, c, a, c]

    def test_one_that_had_no_room_for_long_has_no_claim_to_what_it_missed(self) -> None:
        a, b = member("a"), member("b")
        chosen = group(a, b)
        for _ in range(100):
            chosen.choose([a], 0.0)

        assert [chosen.choose([a, b], 0.0) for _ in range(6)].count(b) <= 4

    def test_chance_takes_any(self) -> None:
        members = [member("a"), member("b")]
        chosen = group(*members, strategy=Strategy.RANDOM)

        assert [chosen.choose(members, chance) for chance in (0.0, 0.49, 0.5, 0.999)] == [
            *members[:1] * 2,
            *members[1:] * 2,
        ]

    def test_its_time_is_set_back_before_it_is_too_large_to_be_stored(self) -> None:
        a, b = member("a", weight=3), member("b")
        chosen = group(a, b, strategy=Strategy.WEIGHTED)
        chosen.place = a.place = b.place = 2**60

        taken = [chosen.choose([a, b], 0.0) for _ in range(8)]

        assert chosen.place < 2**50
        assert (taken.count(a), taken.count(b)) == (6, 2)


class TestLimits:
    def test_a_limit_that_names_a_group_is_read_back(self) -> None:
        limits = (Limit("a", BUSY), Limit("g", UNLIMITED, group=True), Limit("h", UNLIMITED, shared=True))

        assert limits_from_json(limits_to_json(limits)) == limits

    @pytest.mark.parametrize(
        "facts",
        [{"numbers": BUSY}, {"numbers": Numbers(slots=1), "floating": Floating("f", 1)}, {"cost": 2}],
        ids=["numbers", "floating", "cost"],
    )
    def test_a_group_has_no_numbers_of_its_own(self, facts: dict[str, object]) -> None:
        with pytest.raises(InvalidLimitError):
            Limit(**{"key": "g", "numbers": UNLIMITED, "group": True} | facts)

    def test_a_job_takes_of_one_group(self) -> None:
        with pytest.raises(InvalidLimitError):
            limits_to_json([Limit(key, UNLIMITED, group=True) for key in "ab"])

    @pytest.mark.parametrize("facts", [{"key": ""}, {"weight": 0}, {"weight": 10_001}], ids=range(3))
    def test_a_resource_that_makes_no_sense_is_refused(self, facts: dict[str, object]) -> None:
        with pytest.raises(InvalidLimitError):
            Resource(**{"key": "a"} | facts)

    def test_a_resource_whose_window_is_full_opens_with_it(self) -> None:
        full = member("a", Numbers(rate=Window(1, SECOND)))
        full.gate.starts = Starts(SECOND, [NOW], [1])

        assert opens(full) == NOW + SECOND

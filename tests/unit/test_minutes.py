"""Minutes: what tallies say, how times are counted, and how long gates kept jobs."""

import random

from penstock.minutes import kept, spread
from penstock.minutes.filled import filled
from penstock.minutes.minute import MINUTE, QUARTER, Change, Level, Minute, packed, together, unpacked
from penstock.minutes.tally import UNKNOWN, Tally, Told


class TestSpread:
    def test_a_span_is_counted_within_an_eighth_of_it(self):
        for span in [1_000, 1_249, 1_250, 1_999, 2_000, 86_400_000_000, *range(1_000, 40_000, 37)]:
            found = spread.span_of(spread.step_of(span))

            assert abs(found - span) <= span / 8

    def test_steps_follow_one_another(self):
        steps = [spread.step_of(span) for span in range(0, 9_000, 50)]

        assert sorted(steps) == steps
        assert set(range(max(steps) + 1)) == set(steps)

    def test_half_of_the_spans_do_not_exceed_the_median(self):
        counts = spread.counted([5_000] * 10 + [60_000] * 9 + [UNKNOWN])

        assert 19 == sum(counts.values())
        assert abs(spread.quantile(counts, 0.5) - 5_000) <= 5_000 / 8
        assert abs(spread.quantile(counts, 0.95) - 60_000) <= 60_000 / 8
        assert spread.quantile({}, 0.5) is None


class TestKept:
    def test_what_a_lane_adds_up_and_a_job_noted_make_how_long_each_gate_kept_it(self):
        chance = random.Random(5)
        for gates in ([7], [7, 8], [7, 8, 9]):
            text, noted, true = "", "", {}
            for step in range(40):
                gate, span = chance.choice(gates), chance.randrange(4)
                text = kept.longer(text, gate, span)
                if step < 20:
                    noted = text
                elif span:
                    true[gate] = true.get(gate, 0) + span

                assert kept.between(noted, text) == true

    def test_a_job_that_moves_to_another_lane_keeps_what_it_waited(self):
        noted = kept.moved("7:10", "7:15,8:3", "7:100,9:1")

        assert {7: 5, 8: 3} == kept.between(noted, "7:100,9:1")
        assert {7: 6, 8: 3, 9: 4} == kept.between(noted, "7:101,9:5")


class TestTally:
    def test_what_was_counted_is_told(self):
        tally = Tally()
        change = tally.task(("", "q", "t"))
        change.arrived = 2
        change.started += [5_000, UNKNOWN]
        change.ended.append(7_000)
        tally.start_at(3, 5_000)
        tally.end_at(4, 7_000)
        tally.waiting[3] = 1
        tally.kept[3] = 0
        tally.line(("", "q"), 2, 1)
        told = Told(9, tally.text())

        steps = [spread.step_of(5_000), 1], [spread.step_of(7_000), 1]
        assert [["", "q", "t", 2, 0, 0, 0, 0, 2, *steps]] == told.tasks
        assert ([3, steps[0][0]], [4, steps[1][0]]) == (told.started, told.ended)
        assert ([3, 1], [], []) == (told.waiting, told.kept, told.used)
        assert [["", "q", 2, 1]] == told.lines

    def test_where_nothing_changed_there_is_no_tally(self):
        assert "" == Tally().text()


class TestMinute:
    def test_changes_may_come_in_any_order(self):
        moments = [(10, 3), (20, -1), (50, 2)]
        found = []
        for order in (moments, moments[::-1]):
            level = Level(waiting=1)
            minute = Minute.quiet(0, level)
            for at, more in order:
                left = MINUTE - at * 1_000_000
                minute.add(Change(at, waiting=more, waiting_time=more * left), level)
            found.append((minute, level.waiting))

        assert found[0] == found[1]
        assert (10 * 1 + 10 * 4 + 30 * 3 + 10 * 5) * 1_000_000 == found[0][0].waiting_time
        assert 5 == found[0][1]

    def test_a_minute_that_is_not_over_is_worth_what_has_passed(self):
        level = Level(used=2)
        minute = Minute.quiet(0, level)
        minute.until(15_000_000, level)

        assert 30_000_000 == minute.used_time

    def test_what_is_packed_is_read_again_with_what_was_packed_before(self):
        minutes = [Minute(n * MINUTE, arrived=n, kept_time=n * 7_000, waits={3: n}) for n in (1, 2, 3)]

        assert minutes == unpacked(packed(minutes[2:], packed(minutes[:2])))

    def test_minutes_together_are_added(self):
        first = Minute(0, started=2, waiting=4, most=2, kept_time=5, waits={1: 1})
        second = Minute(MINUTE, started=3, waiting=9, most=1, kept_time=6, waits={1: 2, 4: 1})

        whole = Minute(0, started=5, waiting=4, most=2, kept_time=11, waits={1: 3, 4: 1})
        assert whole == together(0, [first, second])

    def test_where_nothing_happened_stands_what_stood_before(self):
        busy = Minute(2 * MINUTE, waiting=3, started=1)
        found = filled([busy], MINUTE, Level(waiting=5), 0, 4 * MINUTE + 1_000)

        assert [3, 3, 3, 5, 5] == [minute.waiting for minute in found]
        assert [3 * MINUTE, 3 * MINUTE, 0, 5 * MINUTE, 5_000] == [minute.waiting_time for minute in found]
        assert QUARTER == 15 * MINUTE

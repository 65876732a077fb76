"""Names may be any text: whatever they contain, no two of them are taken for one."""

from hypothesis import assume, example, given
from hypothesis import strategies as st

from penstock.engine.admission.lane import Lane, Stand
from penstock.engine.admission.rows import lane_of, lane_row, line_of
from penstock.limits.rules import Numbers, OnLimit, Window

NAMES = st.text(st.sampled_from("ab|@#/%:\\ ;c1é"), min_size=1, max_size=8)
NUMBERS = st.sampled_from([Numbers(1), Numbers(12), Numbers(rate=Window(5, 60)), Numbers(1, Window(2, 3))])
MAYBE = NAMES | st.just("")
LINES = st.tuples(st.integers(1, 12), NAMES, NUMBERS, st.none() | st.integers(1, 12), MAYBE, MAYBE)


def _line(gate: int, queue: str, numbers: Numbers, apart: int | None, tenant: str, part: str = "") -> str:
    return _parked(gate, queue, numbers, apart, tenant, part).line.name


def _parked(gate: int, queue: str, numbers: Numbers, apart: int | None, tenant: str, part: str = "") -> Lane:
    stand = Stand(gate, numbers, OnLimit.WAIT, 0)
    weight = None if apart is None else str(apart)
    lane = Lane(1, tenant, queue, part, (stand,), weight, cost=apart or 1)
    lane.line = line_of(lane, stand)
    return lane


@given(LINES, LINES)
@example((1, "a", Numbers(1), None, "t|c1"), (1, "a|c1|@t", Numbers(1), None, ""))
@example((1, "a", Numbers(1), 2, "t|c1"), (1, "a|c1|#2|@t", Numbers(1), None, ""))
@example((1, "a", Numbers(1), None, "t", "p"), (1, "a", Numbers(1), None, "", "p|@t"))
def test_two_lines_have_two_names(one, other):
    assume(one != other)

    assert _line(*one) != _line(*other)


@given(LINES)
@example((7, "a|b", Numbers(3), None, "t|u"))
def test_a_parked_lane_is_the_same_once_it_was_written_and_read(line):
    lane = _parked(*line)

    assert lane_of(lane_row(lane)) == lane


def test_a_line_that_an_older_version_wrote_is_the_same_line():
    assert _line(7, "mail.out", Numbers(3), None, "acme") == "7|mail.out|c3|@acme"
    assert _line(7, "mail.out", Numbers(3), 4, "") == "7|mail.out|c3|#4"

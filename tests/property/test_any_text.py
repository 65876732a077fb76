"""Names may be any text: whatever they contain, no two of them are taken for one."""

from dataclasses import MISSING, fields

from hypothesis import assume, example, given
from hypothesis import strategies as st

from penstock.engine.admission.lane import Lane, Stand, line_of, stand_of
from penstock.limits.rules import Numbers, OnLimit, Window

REQUIRED = [
    each.name for each in fields(Lane) if each.init and each.default is each.default_factory is MISSING
]
NAMES = st.text(st.sampled_from("ab|@#/%:\\ ;c1é"), min_size=1, max_size=8)
NUMBERS = st.sampled_from([Numbers(1), Numbers(12), Numbers(rate=Window(5, 60)), Numbers(1, Window(2, 3))])
MAYBE = NAMES | st.just("")
LINES = st.tuples(st.integers(1, 12), NAMES, NUMBERS, st.none() | st.integers(1, 12), MAYBE, MAYBE)


def _line(gate: int, queue: str, numbers: Numbers, apart: int | None, tenant: str, part: str = "") -> str:
    suffix = "" if apart is None else f"#{apart}"
    # A line is named by these; whatever else a lane has does not matter.
    given = {"tenant": tenant, "queue": queue, "part": part, "gates": f"[]{suffix}", "cost": apart or 1}
    lane = Lane(**dict.fromkeys(REQUIRED) | given)
    return line_of(lane, Stand(gate, numbers, OnLimit.WAIT))


@given(LINES, LINES)
@example((1, "a", Numbers(1), None, "t|c1"), (1, "a|c1|@t", Numbers(1), None, ""))
@example((1, "a", Numbers(1), 2, "t|c1"), (1, "a|c1|#2|@t", Numbers(1), None, ""))
@example((1, "a", Numbers(1), None, "t", "p"), (1, "a", Numbers(1), None, "", "p|@t"))
def test_two_lines_have_two_names(one, other):
    assume(one != other)

    assert _line(*one) != _line(*other)


@given(LINES)
@example((7, "a|b", Numbers(3), None, "t|u"))
def test_a_line_tells_its_gate_and_its_numbers(line):
    gate, _, numbers, *_ = line

    assert (gate, numbers) == stand_of(_line(*line))


def test_a_line_that_an_older_version_wrote_is_the_same_line():
    assert _line(7, "mail.out", Numbers(3), None, "acme") == "7|mail.out|c3|@acme"
    assert _line(7, "mail.out", Numbers(3), 4, "") == "7|mail.out|c3|#4"

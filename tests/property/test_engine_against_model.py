"""The engine and a naive model, side by side, through random operations.

A: cost 1, turns off: every answer is equal.  B: costs 1 to 3: every start is admissible, nobody is
passed over without a reason.  C: turns on: every start is admissible, and whoever a claim with room
left behind had a reason.

PENSTOCK_MODEL_STEPS sets how many operations each mode makes in all; PENSTOCK_MODEL_SEED where its
runs begin.
"""

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from penstock.clock import MILLISECOND
from penstock.engine import claim
from penstock.store.postgres.session import Opening
from penstock.store.session import Locks
from tests.support.driver import run
from tests.support.postgres import drop_schema, empty_schema, fresh_schema, shared_url
from tests.support.referee import LEASE, Referee

STEPS = int(os.environ.get("PENSTOCK_MODEL_STEPS", "3000"))
SEED = int(os.environ.get("PENSTOCK_MODEL_SEED", "1"))
STEPS_OF_A_RUN = 300


@pytest.mark.parametrize("mode", ["A", "B", "C"])
def test_the_engine_answers_as_the_model_does(mode: str) -> None:
    for number in range(-(-STEPS // STEPS_OF_A_RUN)):
        run(mode, SEED + number, STEPS_OF_A_RUN)


@pytest.fixture
def schema() -> Iterator[str]:
    url = fresh_schema(shared_url())
    yield url
    drop_schema(url)


@pytest.mark.parametrize("mode", ["A", "B", "C"])
def test_it_does_on_postgres_too(mode: str, schema: str) -> None:
    for number in range(-(-STEPS // STEPS_OF_A_RUN // 10)):
        run(mode, SEED + number, STEPS_OF_A_RUN, store=schema)
        empty_schema(schema)


@pytest.mark.parametrize("mode", ["A", "B", "C"])
def test_it_does_when_all_jobs_come_by_the_door(
    mode: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    true = Opening.writing

    def taken(self: Opening, locks: Locks, *, keep: bool) -> str:
        return true(self, Locks.NONE if locks is Locks.GATES_IF_FREE else locks, keep=keep)

    monkeypatch.setattr(Opening, "writing", taken)

    for number in range(-(-STEPS // STEPS_OF_A_RUN // 10)):
        run(mode, SEED + number, STEPS_OF_A_RUN, store=schema, at_door=True)
        empty_schema(schema)


def test_short_transactions_come_to_the_same_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Claims that look at two lanes at a time and give up after four tests, and are asked again."""

    class Impatient(claim.Budget):
        def __init__(self, left: int) -> None:
            super().__init__(min(left, 4))

    monkeypatch.setattr(claim, "LEAST_PAGE", 2)
    monkeypatch.setattr(claim, "Budget", Impatient)

    for number in range(-(-STEPS // STEPS_OF_A_RUN // 3)):
        run("A", SEED + number, STEPS_OF_A_RUN)


LIMITS = st.lists(
    st.tuples(
        st.sampled_from("XYZ"),
        st.sampled_from(("c1", "c2", "r1/100000", "r2/100000", "c1;r2/100000")),
        st.just("wait"),
    ),
    max_size=2,
    unique_by=lambda limit: limit[0],
)
# Keys that remember starts and keys that do not are kept apart, as in the driver.
KEYS_OF = {"c1": "X", "c2": "X"}
NUMBERS = st.integers(0, 30)


class EngineAndModel(RuleBasedStateMachine):
    """Small operations that Hypothesis shrinks by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.referee = Referee("A")
        self.count = 0

    @rule(queue=st.sampled_from("pq"), limits=LIMITS, priority=st.integers(0, 1))
    def enqueue(self, queue: str, limits: list[tuple[str, str, str]], priority: int) -> None:
        self.count += 1
        kept = {KEYS_OF.get(text, key if key != "X" else "Y"): text for key, text, _ in limits}
        chosen = tuple((key, text, "wait") for key, text in kept.items())
        ask = {
            "name": f"j{self.count}",
            "queue": queue,
            "limits": chosen,
            "priority": priority,
            "attempts": 2,
        }
        self.referee.do(("enqueue", [ask]))

    @rule(queues=st.sampled_from((["p"], ["q"], ["p", "q"])), count=st.integers(1, 3))
    def claim(self, queues: list[str], count: int) -> None:
        self.referee.do(("claim", queues, count))

    @rule(
        job=NUMBERS, outcome=st.sampled_from((("done",), ("failed",), ("cancelled",), ("handed back", False)))
    )
    def settle(self, job: int, outcome: tuple[object, ...]) -> None:
        self.referee.do(("settle", [(f"j{job}", outcome, None)]))

    @rule(job=NUMBERS)
    def cancel(self, job: int) -> None:
        self.referee.do(("cancel", f"j{job}"))

    @rule(job=NUMBERS)
    def begun(self, job: int) -> None:
        self.referee.do(("begun", f"j{job}", 0))

    @rule(text=st.sampled_from((None, "c0", "c1", "c3")))
    def configure(self, text: str | None) -> None:
        self.referee.do(("configure", "key", "X", text))

    @rule(queue=st.sampled_from("pq"))
    def pause(self, queue: str) -> None:
        self.referee.do(("pause", queue))

    @rule(queue=st.sampled_from("pq"))
    def resume(self, queue: str) -> None:
        self.referee.do(("resume", queue))

    @rule(span=st.sampled_from((MILLISECOND, 50 * MILLISECOND, 100 * MILLISECOND, LEASE)))
    def advance(self, span: int) -> None:
        self.referee.do(("advance", span))

    def teardown(self) -> None:
        try:
            self.referee.do(("compare",))
        finally:
            self.referee.close()


EngineAndModel.TestCase.settings = settings(
    max_examples=60, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
test_hypothesis_finds_no_difference_either = EngineAndModel.TestCase

"""No wake-up is lost: a slot or a window that opens calls a job that may start, by whichever way."""

from penstock.clock import MILLISECOND, SECOND
from penstock.engine import GUARD
from penstock.lifecycle.outcomes import Again, Cancelled
from penstock.lifecycle.retry import Backoff, RetryPolicy
from penstock.lifecycle.states import State
from tests.support.desk import LEASE, Desk, rate, slots, throttle

TWICE = RetryPolicy(attempts=2, backoff=Backoff.FIXED, delay=SECOND, jitter=False)


def test_a_called_job_that_is_refused_elsewhere_lets_the_next_one_by(desk: Desk) -> None:
    desk.enqueue("x", slots("X", 1))
    desk.enqueue("y", slots("Y", 1))
    desk.claim()
    desk.enqueue("xy", slots("X", 1), slots("Y", 1))
    desk.enqueue("plain", slots("X", 1))
    desk.settle("x")

    assert desk.claim() == "plain"


def test_a_chain_of_refusals_ends_at_a_job_that_is_free(desk: Desk) -> None:
    desk.enqueue("y", slots("Y", 1))
    desk.enqueue("x", slots("X", 1))
    desk.claim()
    for number in range(300):  # more different limits than one transaction cares to test
        desk.enqueue(f"both{number}", slots("X", 1), slots("Y", 1), slots(f"own{number}", 1))
    desk.enqueue("plain", slots("X", 1))
    desk.settle("x")

    assert desk.claim(1) == "plain"


def test_a_wake_up_is_not_lost_when_a_called_job_is_refused_and_its_gate_opens_later(desk: Desk) -> None:
    desk.enqueue("x", slots("X", 1))
    desk.enqueue("y", slots("Y", 1))
    desk.claim()
    desk.enqueue("xy", slots("X", 1), slots("Y", 1))
    desk.settle("x")
    assert desk.claim() == ""  # called at X, refused at Y
    desk.settle("y")

    assert desk.claim() == "xy"


def test_a_wake_up_is_not_lost_when_the_gate_opens_before_the_line_is_joined(desk: Desk) -> None:
    desk.enqueue("a", slots("X", 1))
    desk.claim()
    desk.settle("a")
    desk.enqueue("b", slots("X", 1))

    assert desk.claim() == "b"


def test_a_wake_up_is_not_lost_when_a_call_is_handed_from_queue_to_queue(desk: Desk) -> None:
    desk.enqueue("r", slots("X", 1), queue="one")
    desk.claim(queues=["one"])
    desk.enqueue("a", slots("X", 1), queue="one")
    desk.enqueue("b", slots("X", 1), queue="two")
    desk.settle("r")  # calls both
    assert desk.claim(queues=["two"]) == "b"
    assert desk.claim(queues=["one"]) == ""
    desk.settle("b", Cancelled())

    assert desk.claim(queues=["one"]) == "a"


def test_a_wake_up_is_not_lost_when_a_rate_opens_for_several(desk: Desk) -> None:
    desk.enqueue("a b c d", rate("X", 2))
    assert desk.claim() == "a b"
    desk.begun("a")
    desk.wait(20 * MILLISECOND)
    desk.begun("b")
    desk.wait(SECOND + GUARD - 20 * MILLISECOND)

    assert desk.claim() == "c"
    desk.wait(20 * MILLISECOND)
    assert desk.claim() == "d"


def test_a_wake_up_is_not_lost_when_a_start_turns_out_to_be_earlier(desk: Desk) -> None:
    desk.enqueue("a b", throttle("X", 10))
    desk.claim()
    began = desk.clock.now()
    desk.wait(100 * MILLISECOND + GUARD)
    assert desk.claim() == ""  # as far as is known it may begin as late as 50 ms after its claim
    desk.settle("a", began=began)

    assert desk.claim() == "b"


def test_a_wake_up_is_not_lost_when_a_lost_attempt_frees_several_gates(desk: Desk) -> None:
    desk.enqueue("xyz", slots("X", 1), slots("Y", 1), slots("Z", 1))
    desk.claim()
    desk.enqueue("x", slots("X", 1))
    desk.enqueue("y", slots("Y", 1))
    desk.engine.cancel("xyz")
    desk.wait(LEASE)

    assert desk.claim() == "x y"
    assert desk.state("xyz") is State.CANCELLED


def test_a_wake_up_is_not_lost_when_a_retry_overtakes_nobody(desk: Desk) -> None:
    desk.enqueue("a", slots("X", 1), retry=TWICE)
    desk.enqueue("b", slots("X", 1))
    desk.claim()
    desk.settle("a", Again(after=SECOND))
    desk.engine.cancel("b")
    desk.wait(SECOND)

    assert desk.claim() == "a"

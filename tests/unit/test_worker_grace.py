"""How much time a worker gives handlers to begin where a gate remembers their start."""

from types import SimpleNamespace

from penstock.worker.grace import LONGEST, SHORTEST, Grace

LATE = SimpleNamespace(begin_by=1, late=True)
IN_TIME = SimpleNamespace(begin_by=1, late=False)
UNRATED = SimpleNamespace(begin_by=0, late=False)


def test_handlers_that_come_too_late_get_more_time():
    grace = Grace()
    grace.learn([IN_TIME, LATE])

    assert grace.span == 2 * SHORTEST


def test_there_is_an_end_to_it():
    grace = Grace()
    for _ in range(20):
        grace.learn([LATE])

    assert grace.span == LONGEST


def test_it_shrinks_again_while_they_begin_in_time():
    grace = Grace()
    grace.learn([LATE])
    for _ in range(50):
        grace.learn([IN_TIME])

    assert grace.span == SHORTEST


def test_jobs_whose_start_no_gate_remembers_teach_nothing():
    grace = Grace()
    grace.learn([LATE])
    grace.learn([UNRATED])

    assert grace.span == 2 * SHORTEST

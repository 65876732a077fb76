"""Callers that come at the same time share one statement."""

import threading

import pytest

from penstock.errors import StoreError
from penstock.store.postgres.bulk_insert import BulkInsert, _Piece

BOUND = 10


class Slow:
    """Adds rows once it is let go, and remembers which came together."""

    def __init__(self):
        self.go = threading.Event()
        self.begun = threading.Event()
        self.batches = []
        self.errors = []

    def add(self, rows):
        self.begun.set()
        assert self.go.wait(BOUND)
        self.batches.append(list(rows))
        if self.errors:
            raise self.errors.pop()


def start(gathering, rows, insert, outcomes):
    def call():
        try:
            gathering.add(rows, insert)
            outcomes[rows[0]] = None
        except BaseException as error:  # noqa: BLE001 - what the caller hears
            outcomes[rows[0]] = error

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    return thread


def all_at_once(slow, count):
    """Let one caller be at work and *count* others come meanwhile; return how each fared."""
    gathering, outcomes = BulkInsert(), {}
    threads = [start(gathering, [(0,)], slow.add, outcomes)]
    assert slow.begun.wait(BOUND)
    for number in range(1, count + 1):
        threads.append(start(gathering, [(number,)], slow.add, outcomes))
    while len(gathering._waiting) < count:
        pass
    slow.go.set()
    for thread in threads:
        thread.join(BOUND)
        assert not thread.is_alive()
    assert not gathering._busy
    return outcomes


def test_an_idle_caller_goes_straight_through():
    slow = Slow()
    slow.go.set()
    BulkInsert().add([(1,), (2,)], slow.add)

    assert [[(1,), (2,)]] == slow.batches


def test_callers_that_come_meanwhile_go_together():
    slow = Slow()
    outcomes = all_at_once(slow, 20)

    assert {None} == set(outcomes.values())
    assert [1, 20] == [len(batch) for batch in slow.batches]
    assert {(number,) for number in range(21)} == {row for batch in slow.batches for row in batch}


def test_a_failure_is_told_to_the_callers_that_went_together_and_to_no_other():
    slow = Slow()
    slow.errors = [ValueError("no")]
    outcomes = all_at_once(slow, 5)

    assert isinstance(outcomes[0,], ValueError)
    assert {None} == {outcomes[number,] for number in range(1, 6)}


def test_an_interrupt_strikes_only_the_caller_it_was_meant_for():
    slow = Slow()
    slow.errors = [KeyboardInterrupt()]
    outcomes = all_at_once(slow, 2)

    assert isinstance(outcomes[0,], KeyboardInterrupt)
    assert {None} == {outcomes[1,], outcomes[2,]}


def test_others_of_an_interrupted_statement_hear_that_it_may_not_be_there():
    slow = Slow()
    slow.go.set()
    gathering = BulkInsert()
    waiting = [_Piece([(number,)]) for number in (1, 2)]
    gathering._waiting += waiting
    slow.errors = [KeyboardInterrupt()]

    with pytest.raises(KeyboardInterrupt):
        gathering.add([(0,)], slow.add)

    assert all(isinstance(piece.error, StoreError) and piece.finished for piece in waiting)


def test_more_than_fit_are_left_for_the_next(monkeypatch):
    monkeypatch.setattr("penstock.store.postgres.bulk_insert.MOST", 3)
    slow = Slow()
    all_at_once(slow, 7)

    assert [1, 3, 3, 1] == [len(batch) for batch in slow.batches]

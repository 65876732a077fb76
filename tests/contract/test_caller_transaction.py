"""Enqueue in the caller's own transaction: the job exists if and only if that commits."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from penstock import App, Concurrency
from penstock.engine import Engine
from penstock.errors import DuplicateJobError, InvalidError, QueueFullError, WrongStateError
from penstock.job import Bound, Claimed, NewJob, OnFull, Settlement
from penstock.lifecycle.outcomes import Done
from penstock.lifecycle.states import State
from penstock.lifecycle.unique import OnDuplicate, Unique
from penstock.limits.rules import Limit
from tests.support.clock import FakeClock
from tests.support.desk import slots
from tests.support.postgres import split_schema
from tests.support.stores import on_postgres

Connection = Any
ONE = slots("X", 1)


@contextmanager
def connected(store: str, url: str) -> Iterator[Connection]:
    if store == "sqlite":
        with closing(sqlite3.connect(url)) as connection:
            yield connection
    else:
        plain, _ = split_schema(url)
        with psycopg.connect(plain, row_factory=dict_row) as connection:
            yield connection


@pytest.fixture
def engine(opened: Callable[[], Engine]) -> Iterator[Engine]:
    engine = opened()
    yield engine
    assert engine.doctor() == []


def claim(engine: Engine) -> list[Claimed]:
    return engine.claim(["default"], 5, worker="w").jobs


def end(engine: Engine, job: Claimed) -> None:
    engine.settle([Settlement(job.seq, job.fence, Done())])


@pytest.fixture
def connection(engine: Engine, store: str, url: str) -> Iterator[Connection]:
    with connected(store, url) as found:
        yield found


def test_a_job_is_there_once_the_transaction_commits(engine: Engine, connection) -> None:
    made = engine.enqueue([NewJob("task"), NewJob("task", limits=(ONE,))], connection=connection)

    assert engine.count() == {}
    connection.commit()
    assert engine.count() == {State.WAITING: 2}
    assert {job.id for job in claim(engine)} == {job.id for job in made}


def test_and_never_if_it_is_rolled_back(engine: Engine, connection, clock: FakeClock) -> None:
    (running,) = engine.enqueue([NewJob("task", limits=(ONE,))])
    engine.claim(["default"], 1, worker="w")
    ask = [
        NewJob("task"),
        NewJob("task", limits=(ONE,)),
        NewJob("task", due=clock.now() + 10**6, expires=clock.now() + 10**7),
        NewJob("task", unique=Unique("once")),
    ]
    engine.enqueue(ask, connection=connection)
    connection.rollback()

    assert engine.count() == {State.RUNNING: 1}
    assert engine.gate("X").waiting == 0
    assert engine.doctor() == []
    assert not engine.enqueue([NewJob("task", unique=Unique("once"))])[0].reused
    assert engine.job(running.id).state is State.RUNNING


@on_postgres
def test_gates_are_right_whatever_happens_meanwhile(engine: Engine, connection) -> None:
    engine.enqueue([NewJob("task", limits=(ONE,))])
    (first,) = claim(engine)
    (late,) = engine.enqueue([NewJob("task", limits=(ONE,))], connection=connection)
    end(engine, first)
    assert claim(engine) == []

    connection.commit()

    assert [job.id for job in claim(engine)] == [late.id]


def test_what_fails_leaves_the_transaction_usable(engine: Engine, connection) -> None:
    (known,) = engine.enqueue([NewJob("task")])
    engine.enqueue([NewJob("before")], connection=connection)

    with pytest.raises(DuplicateJobError):
        engine.enqueue([NewJob("new"), NewJob("task", id=known.id)], connection=connection)

    engine.enqueue([NewJob("after")], connection=connection)
    connection.commit()
    assert {job.task for job in engine.jobs()} == {"task", "before", "after"}


def test_a_unique_job_is_found_again(engine: Engine, connection) -> None:
    ask = [NewJob("task", unique=Unique("once"))]
    (first,) = engine.enqueue(ask)

    (again,) = engine.enqueue(ask, connection=connection)

    assert (again.id, again.reused) == (first.id, True)


@on_postgres
def test_the_callers_settings_are_left_alone(engine: Engine, connection) -> None:
    connection.execute("SET search_path = pg_catalog")
    engine.enqueue([NewJob("task")], connection=connection)

    assert connection.execute("SHOW search_path").fetchone() == {"search_path": "pg_catalog"}


def test_one_that_waits_is_replaced_once_the_transaction_is_committed(
    engine: Engine, connection, limits: tuple[Limit, ...]
) -> None:
    (old,) = engine.enqueue([replacing(limits)])
    engine.enqueue([NewJob("other", limits=limits)])
    (new,) = engine.enqueue([replacing(limits)], connection=connection)
    connection.commit()
    engine.upkeep()

    assert engine.job(old.id).reason == f"replaced by {new.id}"
    assert engine.claim(["default"], 1, worker="w").jobs[0].id == new.id


def test_one_that_waits_stays_if_the_transaction_is_rolled_back(engine: Engine, connection) -> None:
    (old,) = engine.enqueue([replacing()])
    engine.enqueue([replacing()], connection=connection)
    connection.rollback()

    assert [job.id for job in claim(engine)] == [old.id]


@on_postgres
def test_the_transaction_keeps_nobody_from_starting_or_ending_what_it_replaces(
    engine: Engine, connection
) -> None:
    (old,) = engine.enqueue([replacing()])
    (new,) = engine.enqueue([replacing()], connection=connection)
    (running,) = claim(engine)
    assert running.id == old.id
    (newer,) = engine.enqueue([replacing()], connection=connection)
    assert engine.heartbeat([(running.seq, running.fence)])[0].alive
    connection.commit()

    assert claim(engine) == []  # they wait for its end
    assert engine.job(new.id).reason == f"replaced by {newer.id}"
    assert engine.doctor() == []
    end(engine, running)
    assert [job.id for job in claim(engine)] == [newer.id]


def test_a_later_call_replaces_one_that_was_committed_and_not_let_in_yet(engine: Engine, connection) -> None:
    (first,) = engine.enqueue([replacing((ONE,))])
    engine.enqueue([NewJob("other", limits=(ONE,))])
    (second,) = engine.enqueue([replacing((ONE,))], connection=connection)
    connection.commit()
    (third,) = engine.enqueue([replacing((ONE,))])

    assert [job.id for job in claim(engine)] == [third.id]
    assert {engine.job(job.id).state for job in (first, second)} == {State.CANCELLED}


@pytest.mark.parametrize("by_door", [True, False], ids=["before it was let in", "while it waited for that"])
def test_a_call_waits_for_the_one_that_runs_though_its_predecessor_was_cancelled(
    engine: Engine, connection, by_door: bool
) -> None:
    engine.enqueue([replacing(() if by_door else (ONE,))])
    (running,) = claim(engine)
    (second,) = engine.enqueue([replacing()], connection=connection if by_door else None)
    connection.commit()
    (third,) = engine.enqueue([replacing()], connection=connection)
    connection.commit()
    with suppress(WrongStateError):  # where it was replaced at once
        engine.cancel(second.id)

    assert claim(engine) == []
    end(engine, running)
    assert [job.id for job in claim(engine)] == [third.id]


def test_a_call_replaces_any_number_that_were_committed_and_not_let_in_yet(
    engine: Engine, connection
) -> None:
    (first,) = engine.enqueue([replacing((ONE,))])
    for _ in range(5):
        engine.enqueue([replacing((ONE,))] * 100, connection=connection)
        connection.commit()
    (last,) = engine.enqueue([replacing((ONE,))])

    assert [job.id for job in claim(engine)] == [last.id]
    assert engine.count() == {State.RUNNING: 1, State.CANCELLED: 501}
    assert engine.job(first.id).reason.startswith("replaced by")


def test_a_call_replaces_nobody_if_the_one_at_the_door_is_dropped_when_it_is_let_in(
    engine: Engine, connection
) -> None:
    engine.enqueue([NewJob("task", limits=(ONE,))])
    engine.claim(["default"], 5, worker="w")
    dropped = replacing((slots("X", 1, "drop"),))
    (first,) = engine.enqueue([dropped], connection=connection)
    connection.commit()
    (second,) = engine.enqueue([dropped])

    assert [engine.job(job.id).state for job in (first, second)] == [State.DISCARDED] * 2


def replacing(limits: tuple[Limit, ...] = ()) -> NewJob:
    return NewJob("task", limits=limits, unique=Unique("once", on_duplicate=OnDuplicate.REPLACE))


def test_a_connection_to_something_else_is_refused(engine: Engine) -> None:
    with pytest.raises(InvalidError, match="connection"):
        engine.enqueue([NewJob("task")], connection=object())
    with closing(sqlite3.connect(":memory:")) as other, pytest.raises(InvalidError, match="connection"):
        engine.enqueue([NewJob("task")], connection=other)


@on_postgres
def test_an_async_connection_is_refused_for_what_it_is(engine: Engine, url: str) -> None:
    """Once: "must be a connection of psycopg", said of one."""

    async def enqueue() -> None:
        async with await psycopg.AsyncConnection.connect(split_schema(url)[0]) as connection:
            engine.enqueue([NewJob("task")], connection=connection)

    with pytest.raises(InvalidError, match=r"^connection: .* is an async connection.*psycopg\.Connection$"):
        asyncio.run(enqueue())


def test_tasks_take_it_as_an_option(engine: Engine, connection) -> None:
    app = App(engine=engine)
    task = app.task(name="mail", limits=[Concurrency(1, key="X")])(lambda: None)

    task.with_options(connection=connection).enqueue()
    task.enqueue_many([(), ()], connection=connection)
    app.enqueue_many([task.call()], connection=connection)
    assert engine.count() == {}
    connection.commit()

    assert engine.count() == {State.WAITING: 4}
    with pytest.raises(TypeError, match="same connection"):
        app.enqueue_many([task.with_options(connection=object()).call()], connection=connection)


@on_postgres
def test_an_enqueue_that_waits_for_its_unique_key_does_not_hold_the_gates(engine: Engine, connection) -> None:
    once = NewJob("task", unique=Unique("once"), limits=(ONE,))
    engine.enqueue([NewJob("other", limits=(slots("Y", 1),))])
    (first,) = engine.enqueue([once], connection=connection)
    with ThreadPoolExecutor(1) as pool:
        rival = pool.submit(engine.enqueue, [once])
        with pytest.raises(TimeoutError):
            rival.result(timeout=0.3)
        assert [job.task for job in claim(engine)] == ["other"]
        connection.commit()

        (answer,) = rival.result(timeout=10)
    assert (answer.id, answer.reused) == (first.id, True)


@on_postgres
def test_an_enqueue_that_waits_to_be_counted_does_not_hold_the_gates(
    engine: Engine, connection, limits: tuple[Limit, ...]
) -> None:
    engine.bound("default", Bound(2, OnFull.DROP_OLDEST))
    engine.enqueue([NewJob("other", queue="q", limits=(slots("Y", 1),))])
    engine.enqueue([NewJob("first")])
    engine.enqueue([NewJob("second", limits=limits)], connection=connection)
    with ThreadPoolExecutor(1) as pool:
        rival = pool.submit(engine.enqueue, [NewJob("third", limits=limits)])
        with pytest.raises(TimeoutError):
            rival.result(timeout=0.3)
        assert [job.task for job in engine.claim(["q"], 5, worker="w").jobs] == ["other"]
        connection.commit()

        rival.result(timeout=10)
    assert engine.count(task="first") == {State.DISCARDED: 1}
    assert engine.depth("default") == 2


def test_a_full_queue_refuses_it(engine: Engine, connection) -> None:
    engine.bound("default", Bound(1))
    engine.enqueue([NewJob("task")], connection=connection)
    with pytest.raises(QueueFullError):
        engine.enqueue([NewJob("task")], connection=connection)
    connection.commit()

    assert engine.depth("default") == 1


@on_postgres
def test_one_for_which_another_is_dropped_is_refused(engine: Engine, connection) -> None:
    engine.bound("default", Bound(1, OnFull.DROP_OLDEST))
    engine.enqueue([NewJob("task")])

    with pytest.raises(InvalidError, match="connection"):
        engine.enqueue([NewJob("task")], connection=connection)
    assert engine.count() == {State.WAITING: 1}

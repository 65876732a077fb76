"""Sequences that are stored, and instances of them."""

import json

import pytest

from penstock.clock import SECOND
from penstock.errors import ConflictError, InvalidError, NotFoundError
from penstock.job import NewInstance
from penstock.lifecycle.outcomes import Failed
from tests.support.desk import slots
from tests.support.runs import Chain
from tests.support.sequences import sequence, step

NO = Failed("ValueError", "no")
ONE = slots("contact", 1)


def work(*names, **fields):
    return [step(name, name, **fields) for name in names]


def put(engine, *blocks, name="test", **fields):
    return engine.put_sequence(name, json.dumps(sequence(*blocks) | {"name": name}), **fields).number


def create(runs, number, ids="x", context="{}", *limits, **facts):
    facts.setdefault("queue", "q")
    created = runs.engine.create_instances(
        [NewInstance("test", context, id_, number, limits=limits, **facts) for id_ in ids.split()]
    )
    return " ".join(each.state for each in created)


class TestStored:
    def test_versions_are_numbered_and_the_latest_is_found(self, engine):
        for expected in (1, 2, 3):
            put(engine, *work("a"))
            assert engine.sequence("test").version == expected
        put(engine, *work("a"), version=7)
        engine.deprecate_sequence(engine.sequence("test").number)

        assert engine.sequence("test").version == 3
        assert engine.sequence("test", 7).deprecated
        assert [found.version for found in engine.sequences(name="test")] == [7, 3, 2, 1]
        with pytest.raises(ConflictError):
            put(engine, *work("a"), version=7)

    def test_what_cannot_be_read_is_not_stored(self, engine):
        for bad in ("no", "[]", '{"name":"x","blocks":[{"id":"a"}]}'):
            with pytest.raises(InvalidError):
                engine.put_sequence("x", bad)
        with pytest.raises(InvalidError):
            put(engine, *work("a"), version=0)

        assert engine.sequences() == []

    def test_tenants_and_namespaces_are_apart(self, engine):
        put(engine, *work("a"), tenant="acme")
        put(engine, *work("a"), namespace="mail")

        for where in ({}, {"tenant": "acme", "namespace": "mail"}):
            with pytest.raises(NotFoundError):
                engine.sequence("test", **where)
        assert len(engine.sequences("acme")) == 1

    def test_one_is_deleted_when_no_instance_of_it_is_live(self, runs):
        engine, number = runs.engine, put(runs.engine, *work("a"))
        create(runs, number)
        with pytest.raises(ConflictError):
            engine.delete_sequence(number)
        engine.cancel_instance("x")
        engine.delete_sequence(number)

        assert engine.instance("x").version is None
        for verb in (engine.delete_sequence, engine.deprecate_sequence, engine.sequence_of):
            with pytest.raises(NotFoundError):
                verb(number)


class TestInstances:
    def test_steps_run_one_after_the_other_in_the_transactions_of_each_other(self, runs):
        number = put(runs.engine, step("a", "a", params={"to": "{{context.email}}"}), *work("b"))
        assert create(runs, number, "x y", '{"email":"john"}', ONE) == "running deferred"
        assert runs.claim() == "a"
        assert json.loads(runs.attempts["a"].args)["kwargs"] == {"to": "john"}
        runs.settle("a")
        assert runs.claim() == "b"
        runs.settle("b")

        assert runs.states("x y") == "done running"
        assert runs.engine.instance("x").version == 1
        assert runs.claim() == "a"

    def test_steps_inside_the_engine_need_no_worker(self, runs):
        number = put(runs.engine, step("a", "noop"), step("b", "set_state", params={"key": "n", "value": 5}))
        assert create(runs, number, "x y", "{}", ONE) == "done done"

        assert json.loads(runs.engine.instance("x").result) == {"key": "n", "value": 5}
        assert runs.engine.count() == {}

    def test_a_thousand_without_steps_for_workers_end_in_the_transaction_that_creates_them(self, runs):
        number = put(runs.engine, step("a", "noop"))
        created = runs.engine.create_instances(
            [NewInstance("test", "{}", sequence=number, queue="q") for _ in range(1_000)]
        )

        assert {each.state for each in created} == {"done"}

    def test_a_delay_is_a_timer(self, runs, clock):
        number = put(runs.engine, *work("a", delay={"duration": 5_000}))
        create(runs, number)
        assert runs.claim() == ""
        clock.advance(5 * SECOND)
        assert runs.claim() == "a"

    def test_parallel_branches_and_a_race(self, runs):
        number = put(
            runs.engine,
            {"type": "parallel", "id": "p", "branches": [work("a"), work("b")]},
            {"type": "race", "id": "r", "branches": [work("c"), work("d")]},
            *work("e"),
        )
        create(runs, number)
        assert runs.claim() == "a b"
        runs.settle("a b")
        assert runs.claim() == "c d"
        runs.settle("d")
        assert runs.engine.job(runs.attempts["c"].id).cancel_asked
        assert runs.claim() == "e"
        runs.settle("e")
        assert runs.state("x") == "running"
        runs.settle("c")
        assert runs.state("x") == "done"

    def test_a_sub_sequence_is_a_child_of_the_named_version(self, runs):
        put(runs.engine, *work("old"), name="sub")
        put(runs.engine, *work("new"), name="sub")
        blocks = [
            {"type": "sub_sequence", "id": "one", "sequence_name": "sub", "version": 1},
            {"type": "sub_sequence", "id": "two", "sequence_name": "sub"},
        ]
        number = put(runs.engine, *blocks)
        create(runs, number)
        assert runs.claim() == "old"
        runs.settle("old")
        assert runs.claim() == "new"
        runs.settle("new")

        assert runs.state("x") == "done"
        assert {view.parent for view in runs.engine.instances(workflow="sub")[0]} == {"x"}

    def test_an_unknown_sub_sequence_fails_its_block(self, runs):
        number = put(runs.engine, {"type": "sub_sequence", "id": "one", "sequence_name": "nothing"})
        assert create(runs, number) == "failed"

    def test_a_scope_comes_to_its_end_before_a_cancel_does(self, runs):
        number = put(
            runs.engine, {"type": "cancellation_scope", "id": "s", "blocks": work("a", "b")}, *work("c")
        )
        create(runs, number, "x y", "{}", ONE)
        runs.claim()
        runs.engine.cancel_instance("x")
        runs.settle("a")
        assert runs.states("x y") == "running deferred"
        assert runs.claim() == "b"
        runs.settle("b")

        assert runs.states("x y") == "cancelled running"

    def test_a_retry_goes_on_at_the_block_that_failed(self, runs):
        stored = step("s", "set_state", params={"key": "n", "value": 5})
        number = put(runs.engine, stored, *work("a", "b", "c"))
        create(runs, number, "x y", "{}", ONE)
        runs.claim()
        runs.settle("a")
        runs.claim()
        runs.settle("b", NO)
        assert runs.states("x y") == "failed running"
        runs.engine.cancel_instance("y")
        runs.engine.retry_instance("x")
        assert runs.claim() == "b"
        runs.settle("b")
        assert runs.claim() == "c"
        runs.settle("c")

        assert set(runs.memo("x")) >= {"s", "a", "b", "c", "@state/n"}
        assert set(runs.memo("x").values()) == {"done"}
        assert runs.state("x") == "done"

    def test_a_retry_of_a_composite_begins_all_of_it_again(self, runs):
        number = put(
            runs.engine, *work("a"), {"type": "parallel", "id": "p", "branches": [work("b"), work("c")]}
        )
        create(runs, number)
        runs.claim()
        runs.settle("a")
        runs.claim()
        runs.settle("b", NO)
        runs.settle("c")
        assert runs.state("x") == "failed"
        runs.engine.retry_instance("x")

        assert runs.claim() == "b c"
        runs.settle("b c")
        assert runs.state("x") == "done"

    def test_an_error_in_the_conductor_fails_the_instance_and_nothing_else(self, runs):
        runs.engine._definitions.conductor = Chain()
        found = runs.engine.put_sequence("chain", json.dumps([["job", "a"], ["broken", "oops"]]))
        create(runs, found.number, "x y")
        assert runs.claim() == "a a"
        runs.settle("a")

        assert sorted(runs.states("x y").split()) == ["failed", "running"]
        runs.engine.cancel_instance("x" if runs.state("x") == "running" else "y")

"""Faults that can be put into the processes of a storm, to see that its referee finds them."""

import random
from dataclasses import replace

from msgspec.structs import replace as replaced

from penstock.engine.conducting import Conducting
from penstock.engine.engine import Engine
from penstock.engine.settle import Settling
from penstock.job import Enqueued
from penstock.limits.gate import Gate, Rules
from penstock.limits.rules import Window
from penstock.store import attempts as attempt_rows


def one_slot_too_many():
    opens_at = Gate.opens_at

    def generous(gate, *args, **kwargs):
        gate.running -= 1
        try:
            return opens_at(gate, *args, **kwargs)
        finally:
            gate.running += 1

    Gate.opens_at = generous


def slots_that_are_not_given_back():
    release = Gate.release

    def forgetful(gate):
        if random.random() > 0.02:
            release(gate)

    Gate.release = forgetful


def a_window_that_lets_one_more_through():
    opens_at = Gate._rate_opens_at

    def generous(gate, rate, cost, now):
        return opens_at(gate, Window(rate.limit + 1, rate.period), cost, now)

    Gate._rate_opens_at = generous


def gaps_too_short():
    opens_at = Gate.throttle_opens_at

    def hasty(gate, throttle):
        return opens_at(gate, Window(throttle.limit + throttle.limit // 4, throttle.period))

    Gate.throttle_opens_at = hasty


def a_floating_limit_that_never_falls():
    effective = Rules.effective

    def deaf(rules, own, now):
        higher = None if rules.floating is None else max(rules.floating, 4)
        return effective(replace(rules, floating=higher), own, now)

    Rules.effective = deaf


def a_fence_with_a_hole():
    settle = Settling.settle

    def trusting(settling, settlements):
        rows = attempt_rows.locked(settling.board.db, [s.seq for s in settlements])
        fences = {row[0]: row[1] for row in rows}
        settle(settling, [replaced(s, fence=fences.get(s.seq, s.fence)) for s in settlements])
        return [True] * len(settlements)

    Settling.settle = trusting


def leases_that_end_early():
    overdue = attempt_rows.overdue

    def impatient(db, now, most):
        return overdue(db, now + 2_700_000, most)

    attempt_rows.overdue = impatient


def jobs_that_are_forgotten():
    enqueue = Engine.enqueue

    def forgetful(engine, jobs, **options):
        if random.random() < 0.02:
            return [Enqueued(job.id) for job in jobs]
        return enqueue(engine, jobs, **options)

    Engine.enqueue = forgetful


def slots_given_back_during_a_sleep():
    set_timer = Conducting._set_timer

    def careless(conducting, run, *timer):
        set_timer(conducting, run, *timer)
        board = conducting.board
        ((text,),) = board.db.all("SELECT gates FROM running WHERE seq = ?", run.seq)
        gates = attempt_rows.gates_from_text(text)
        board.load_gates(gates)
        for gate in gates:
            board.posts[gate].gate.release()
        board.db.run("UPDATE running SET gates = '' WHERE seq = ?", run.seq)
        board.ring(set(gates), released=True)

    Conducting._set_timer = careless


def steps_that_are_forgotten():
    memo, put_new = Engine.memo, Conducting._put_new

    def forgetful(engine, *args):
        known = memo(engine, *args)
        if known.entries and "draft" in known.entries[-1].key and random.random() < 0.2:
            return replaced(known, entries=known.entries[:-1])
        return known

    def careless(conducting, run, key, kind):
        if "draft" in key and run.step(key) is not None:
            run.put(run.new(key, kind))
            return True
        return put_new(conducting, run, key, kind)

    Engine.memo, Conducting._put_new = forgetful, careless


_ALL = (
    one_slot_too_many, slots_that_are_not_given_back, a_window_that_lets_one_more_through, gaps_too_short,
    a_floating_limit_that_never_falls, a_fence_with_a_hole, leases_that_end_early, jobs_that_are_forgotten,
    slots_given_back_during_a_sleep, steps_that_are_forgotten,
)  # fmt: skip
WOUNDS = {wound.__name__: wound for wound in _ALL}

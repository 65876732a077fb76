"""Whatever the shape of a workflow and however its steps end: each is set free once, after all it waits for."""

from copy import copy

from hypothesis import given
from hypothesis import strategies as st

from penstock.workflows import (
    Flow,
    Standing,
    Step,
    StepState,
    Tally,
    When,
    WorkflowState,
    check_steps,
    children,
)
from penstock.workflows.steps import BAD, LIVE

OUTCOMES = (StepState.DONE, StepState.DONE, StepState.FAILED, StepState.CANCELLED)


@st.composite
def shapes(draw, conditions=tuple(When), callbacks=True):
    """Steps in any order of writing, with how the job of each would end."""
    count = draw(st.integers(1, 9))
    steps = []
    for n in range(count):
        parents = draw(st.lists(st.sampled_from(range(n)), unique=True, max_size=4)) if n else []
        when = draw(st.sampled_from(conditions)) if parents else When.DONE
        callback = bool(parents) and callbacks and draw(st.booleans())
        opening = str(draw(st.sampled_from(parents))) if callback and draw(st.booleans()) else None
        outcome, names = draw(st.sampled_from(OUTCOMES)), tuple(map(str, parents))
        steps.append(Step(str(n), outcome, names, when, callback, opening=opening))
    return tuple(draw(st.permutations(steps)))


class Book:
    """What a store would remember between two transactions."""

    def __init__(self, steps):
        check_steps(steps)
        number_of = {step.id: n for n, step in enumerate(steps)}
        self.ids = list(number_of)
        self.outcome = {number_of[step.id]: step.job for step in steps}
        self.parents = {number_of[step.id]: [number_of[p] for p in step.depends_on] for step in steps}
        followers = children(steps)
        self.rows = {}
        self.freed = []
        self.tally = Tally(sum(not step.callback for step in steps))
        for step in steps:
            number = number_of[step.id]
            first = not step.depends_on
            state = StepState.RUNNING if first else StepState.WAITING
            self.rows[number] = Standing(
                number, 1, state, step.when, step.callback, first, len(step.depends_on), 0, 0,
                tuple(number_of[child] for child in followers[step.id]), number_of.get(step.opening),
            )  # fmt: skip
            if first:
                self.freed.append(number)

    def change(self, states, closed=()):
        flow = Flow(lambda numbers: [copy(self.rows[number]) for number in numbers])
        flow.change(states, closed)
        for number in flow.free:
            # An early word about a failure cancels; no step runs before all have ended.
            assert all(self.now(flow, parent) not in LIVE for parent in self.parents[number])
        self.freed += flow.free
        for change in flow.changes:
            self.tally.count(change)
        self.rows |= {number: copy(step) for number, step in flow.touched.items()}

    def now(self, flow, number):
        return (flow.steps if number in flow.steps else self.rows)[number].state

    def running(self):
        return sorted(number for number, row in self.rows.items() if row.state is StepState.RUNNING)

    def states(self):
        return {number: row.state for number, row in self.rows.items()}

    def named(self):
        return {self.ids[number]: row.state for number, row in self.rows.items()}

    def finish(self, data):
        """Let all jobs end, in any order and any number at once."""
        while running := self.running():
            chosen = data.draw(st.lists(st.sampled_from(running), min_size=1, unique=True))
            self.change({number: self.outcome[number] for number in chosen})


def expected(steps):
    """Return how every step must end, found from those it waits for alone."""
    known, began = {}, set()
    by_id = {step.id: step for step in steps}

    def of(id_):
        if id_ not in known:
            step = by_id[id_]
            states = [(of(parent), by_id[parent].callback) for parent in step.depends_on]
            verdict = judged(step, states, began)
            if verdict is None:
                began.add(id_)
            known[id_] = step.job if verdict is None else verdict
        return known[id_]

    return {step.id: of(step.id) for step in steps}


def judged(step, parents, began):
    """Return what becomes of a step; None if it runs."""
    failed = any(state in BAD for state, _ in parents)
    skipped = any(state is StepState.SKIPPED and not callback for state, callback in parents)
    if step.opening is not None and step.opening not in began:
        return StepState.CANCELLED if failed else StepState.SKIPPED
    if step.when is When.FAILED:
        return None if failed else StepState.SKIPPED
    if step.when is When.DONE and failed:
        return StepState.SKIPPED if step.callback else StepState.CANCELLED
    if step.when is When.DONE and skipped and not step.callback:
        return StepState.SKIPPED
    return None


@given(shapes(), st.data())
def test_each_step_is_set_free_once_and_ends_as_those_before_it_let_it(steps, data):
    book = Book(steps)
    book.finish(data)

    assert expected(steps) == book.named()
    assert len(book.freed) == len(set(book.freed))
    ran = {n for n, state in book.states().items() if state in {StepState.DONE, StepState.FAILED}}
    assert ran <= set(book.freed)


@given(shapes(), st.data())
def test_a_workflow_is_counted_right_at_every_step(steps, data):
    book = Book(steps)
    while running := book.running():
        book.change({(n := data.draw(st.sampled_from(running))): book.outcome[n]})

        counted = [row.state for row in book.rows.values() if not row.callback]
        assert book.tally.unfinished == sum(state in LIVE for state in counted)
        assert book.tally.completed == counted.count(StepState.DONE)
        assert (book.tally.state is WorkflowState.RUNNING) == any(state in LIVE for state in counted)
        assert book.tally.failed == sum(row.state in BAD for row in book.rows.values())

    failed = any(row.state in BAD for row in book.rows.values())
    assert book.tally.state is (WorkflowState.FAILED if failed else WorkflowState.COMPLETED)


@given(shapes(), st.data())
def test_nothing_is_set_free_in_a_workflow_that_is_closed(steps, data):
    book = Book(steps)
    while (running := book.running()) and data.draw(st.booleans()):
        book.change({running[0]: book.outcome[running[0]]})
    freed = list(book.freed)

    waiting = [n for n, state in book.states().items() if state is StepState.WAITING]
    book.change(dict.fromkeys(waiting, StepState.CANCELLED), closed={1})
    while running := book.running():
        book.change({running[0]: book.outcome[running[0]]}, closed={1})

    assert freed == book.freed
    assert StepState.WAITING not in book.states().values()


@given(shapes(conditions=(When.DONE,), callbacks=False), st.data())
def test_steps_run_again_by_hand_lead_to_what_would_have_been(steps, data):
    book = Book(steps)
    book.finish(data)
    while failed := sorted(n for n in book.freed if book.rows[n].state in BAD):
        number = data.draw(st.sampled_from(failed))
        book.outcome[number] = StepState.DONE
        book.change({number: StepState.RUNNING})
        book.finish(data)

    assert set(book.states().values()) == {StepState.DONE}
    assert len(book.freed) == len(set(book.freed)) == len(steps)


@given(shapes(), st.data())
def test_nobody_runs_twice_though_others_are_run_again_by_hand(steps, data):
    book = Book(steps)
    book.finish(data)
    for _ in range(3):
        failed = sorted(n for n in book.freed if book.rows[n].state in BAD)
        if failed:
            number = data.draw(st.sampled_from(failed))
            book.outcome[number] = data.draw(st.sampled_from(OUTCOMES))
            book.change({number: StepState.RUNNING})
            book.finish(data)

    assert len(book.freed) == len(set(book.freed))
    assert not LIVE & set(book.states().values())

"""Workflows in workflows end as if each were run by itself, from the inside out."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from penstock.workflows import Step, StepState, When, WorkflowState, batch, chain, dag, group
from penstock.workflows.steps import BAD, LIVE
from tests.property.test_workflows import Book

WHEN = {"on_success": When.DONE, "on_failure": When.FAILED, "on_complete": When.ENDED}

# Most are done: what comes after a failure has little to tell.
outcomes = st.sampled_from((StepState.DONE,) * 6 + (StepState.FAILED, StepState.CANCELLED))
told = st.dictionaries(st.sampled_from(sorted(WHEN)), outcomes)


def deeper(inner):
    several = st.lists(inner, min_size=1, max_size=3)
    ordered = st.lists(st.tuples(inner, st.sets(st.integers(0, 2))), min_size=1, max_size=3)
    return st.one_of(
        st.tuples(st.just("chain"), several, st.just({})),
        st.tuples(st.just("group"), several, st.just({})),
        st.tuples(st.just("batch"), several, told),
        st.tuples(st.just("dag"), ordered, told),
    )


trees = deeper(st.recursive(outcomes, deeper, max_leaves=10))


def shape(tree):
    """Return the steps of a drawn workflow; its jobs are how they end."""
    if not isinstance(tree, tuple):
        return tree
    kind, members, callbacks = tree
    if kind == "dag":
        steps = [Step(str(n), shape(each), tuple(map(str, parents))) for n, each, parents in ordered(members)]
        every = tuple(step.id for step in steps)
        return dag([*steps, *(Step(n, job, every, WHEN[n], callback=True) for n, job in callbacks.items())])
    inner = [shape(each) for each in members]
    return batch(inner, **callbacks) if kind == "batch" else {"chain": chain, "group": group}[kind](inner)


def ordered(members):
    return [(n, each, sorted(p for p in parents if p < n)) for n, (each, parents) in enumerate(members)]


@dataclass
class Model:
    """Runs a workflow by calling itself for each one inside; what is left alone is cancelled."""

    states: dict = field(default_factory=dict)
    heard: dict = field(default_factory=dict)
    counted: int = 0

    def run(self, tree, at, before, begins):
        """Return whether it was done, and its result."""
        if not isinstance(tree, tuple):
            self.counted += 1
            return self.job(tree, at, before, begins)
        kind, members, callbacks = tree
        if kind == "chain":
            done, result = begins, None
            for n, each in enumerate(members):
                one, result = self.run(each, f"{at}/step-{n}", before, done)
                done, before = done and one, [result]
            return done, result
        if kind == "dag":
            return self.dag(ordered(members), at, before, begins, callbacks)
        ends = [self.run(each, f"{at}/job-{n}", before, begins) for n, each in enumerate(members)]
        results = [result for _, result in ends]
        done = self.tell(callbacks, at, results, begins, all(one for one, _ in ends))
        return done, results

    def dag(self, members, at, before, begins, callbacks):
        ends = []
        for n, each, parents in members:
            heard = [ends[p][1] for p in parents] if parents else before
            ends.append(self.run(each, f"{at}/{n}", heard, begins and all(ends[p][0] for p in parents)))
        waited_for = {p for _, _, parents in members for p in parents}
        done = self.tell(callbacks, at, [result for _, result in ends], begins, all(one for one, _ in ends))
        return done, [result for n, (_, result) in enumerate(ends) if n not in waited_for]

    def tell(self, callbacks, at, results, begins, done):
        good = done
        for name, outcome in callbacks.items():
            concerned = {"on_success": done, "on_failure": not done, "on_complete": True}[name]
            if begins and not concerned:
                self.states[f"{at}/{name}"[1:]] = StepState.SKIPPED
            else:
                good &= self.job(outcome, f"{at}/{name}", results, begins)[0]
        return good

    def job(self, outcome, at, before, begins):
        id_ = at[1:]
        self.states[id_] = outcome if begins else StepState.CANCELLED
        if begins:
            self.heard[id_] = before
        done = self.states[id_] is StepState.DONE
        return done, id_ if done else None


def arranged(results, states):
    if isinstance(results, str):
        return results if states[results] is StepState.DONE else None
    return [arranged(each, states) for each in results]


@given(trees, st.data())
def test_each_step_ends_and_hears_as_if_every_workflow_ran_by_itself(tree, data):
    model = Model()
    done, _ = model.run(tree, "", [], begins=True)
    steps = shape(tree)
    book = Book(steps)
    assert book.tally.unfinished == model.counted
    book.finish(data)

    assert model.states == book.named()
    assert book.tally.state is (WorkflowState.COMPLETED if done else WorkflowState.FAILED)
    by_id = {step.id: step for step in steps}
    freed = [by_id[book.ids[number]] for number in book.freed]
    assert len({step.id for step in freed}) == len(freed)
    heard = {
        step.id: arranged(step.depends_on if step.results is None else step.results, model.states)
        for step in freed
    }
    assert model.heard == heard


@given(trees, st.data())
def test_steps_run_again_by_hand_lead_to_what_would_have_been(tree, data):
    steps = shape(tree)
    book = Book(steps)
    book.finish(data)
    while failed := sorted(n for n in book.freed if book.rows[n].state in BAD):
        number = data.draw(st.sampled_from(failed))
        book.outcome[number] = StepState.DONE
        book.change({number: StepState.RUNNING})
        book.finish(data)

    assert not LIVE & set(book.states().values())
    assert {row.state for row in book.rows.values() if not row.callback} == {StepState.DONE}
    assert book.tally.state is WorkflowState.COMPLETED
    assert len(set(book.freed)) == len(book.freed)

"""Questions that share a transaction: what goes wrong with one is not the others' loss (B13)."""

import pytest

from penstock.edge.together import Adding, answers
from penstock.errors import InvalidJobError
from penstock.job import ClaimFor, NewJob
from penstock.testing import engine_in_memory


@pytest.fixture
def engine():
    engine = engine_in_memory()
    yield engine
    engine.close()


def test_a_claim_is_answered_though_another_question_of_its_batch_fails_in_an_unforeseen_way(
    engine, monkeypatch
):
    engine.enqueue([NewJob("task", id="a")])
    enqueue = engine.enqueue

    def breaks(jobs):
        if jobs[0].task == "broken":
            raise RuntimeError("unforeseen")
        return enqueue(jobs)

    monkeypatch.setattr(engine, "enqueue", breaks)
    questions = [
        ClaimFor(("default",), 1, "w"),
        Adding([NewJob("broken")]),
        Adding([NewJob("task", queue="not a queue")]),
    ]

    claim, broken, invalid = answers(engine, questions)

    assert ["a"] == [job.id for job in claim.jobs]
    assert isinstance(broken, RuntimeError)
    assert isinstance(invalid, InvalidJobError)

"""When a workflow began: when the first of its jobs did for the first time."""

from penstock.clock import SECOND
from penstock.lifecycle.outcomes import Failed, HandedBack
from penstock.lifecycle.retry import Backoff, RetryPolicy
from penstock.workflows import chain, group
from tests.support.desk import LEASE
from tests.support.works import jobs

TWICE = RetryPolicy(attempts=2, backoff=Backoff.FIXED, delay=SECOND, jitter=False)


def test_a_workflow_began_when_its_first_job_did(works, clock, ample):
    works.start(group(jobs("a b", limits=ample)))
    assert works.view.started is None
    clock.advance(SECOND)
    works.claim(1)
    began = clock.now()
    clock.advance(SECOND)
    works.claim(1)

    assert began == works.view.started == works.attempts["a"].started
    (listed,), _ = works.engine.workflows()
    assert began == listed.started


def test_neither_a_retry_nor_a_lost_worker_changes_when_it_began(works, clock, ample):
    works.start(chain(jobs("a", retry=TWICE, limits=ample)))
    works.claim()
    began = clock.now()
    clock.advance(LEASE)
    works.claim()
    works.settle("a", Failed("ValueError", "no"))
    clock.advance(SECOND)
    works.run("a")

    assert began == works.view.started


def test_an_attempt_that_was_handed_back_unbegun_began_nothing(works, clock, ample):
    works.start(chain(jobs("a", limits=ample)))
    works.run("a", HandedBack())
    assert works.view.started is None
    clock.advance(SECOND)
    works.run("a")

    assert clock.now() == works.view.started


def test_a_claim_and_a_look_name_the_workflow_of_a_job(works, ample):
    id_ = works.start(chain(jobs("a", limits=ample))).id
    works.engine.enqueue(jobs("alone", limits=ample))
    works.claim()

    assert {"a": id_, "alone": None} == {name: job.workflow for name, job in works.attempts.items()}
    assert {"a": id_, "alone": None} == {view.task: view.workflow for view in works.engine.jobs()}


def test_of_workflows_from_before_it_is_known_when_their_jobs_began_last(migrated):
    def stand(db):
        db.run("INSERT INTO workflow VALUES (7, 'w', '', 'group', '', '{}', 1, NULL, 'running', 2, 1, 1, 0)")
        db.run("INSERT INTO workflow_job VALUES (1, 7, 1), (2, 7, 2), (3, 7, 3)")
        db.run("INSERT INTO done VALUES (1, 'done', 9, 5, 1, NULL, NULL, '')")
        db.run("INSERT INTO running VALUES (2, 1, 'q', 't', 'w', 99, 4, 0, '', 1, 0, 2, 1, 0, 0)")

    assert 4 == migrated("0010_workflow_starts.sql", stand).workflow("w").started

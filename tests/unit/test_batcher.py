import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.errors import InvalidJobError, StoreDownError
from penstock.http.batcher import Adding, Batcher, answers
from penstock.job import ClaimFor, NewJob, Settlement
from penstock.lifecycle.outcomes import Done
from penstock.lifecycle.states import State


def run(together, ask, **options):
    async def work():
        with ThreadPoolExecutor(4) as threads:
            return await ask(Batcher(together, threads, **options))

    return asyncio.run(work())


class Held:
    """Answers with the questions themselves, as soon as it is let go; remembers which came together."""

    def __init__(self):
        self.begun, self.go, self.batches = threading.Event(), threading.Event(), []

    def __call__(self, questions):
        self.batches.append(list(questions))
        self.begun.set()
        self.go.wait(30)
        return questions


def test_what_comes_while_a_batch_is_under_way_becomes_the_next():
    held = Held()

    async def ask(batcher):
        asked = [asyncio.ensure_future(batcher.ask(1))]
        await asyncio.to_thread(held.begun.wait, 30)
        asked += [asyncio.ensure_future(batcher.ask(n)) for n in (2, 3)]
        await asyncio.sleep(0)
        held.go.set()
        return await asyncio.gather(*asked)

    assert run(held, ask) == [1, 2, 3]
    assert held.batches == [[1], [2, 3]]


def test_one_answer_may_be_an_error_and_the_others_are_not():
    def together(questions):
        return [ValueError("two") if question == 2 else question for question in questions]

    async def ask(batcher):
        return await asyncio.gather(*(batcher.ask(n) for n in (1, 2, 3)), return_exceptions=True)

    one, two, three = run(together, ask)
    assert (one, three) == (1, 3)
    assert isinstance(two, ValueError)


def test_what_breaks_the_batch_is_told_to_all_and_the_next_goes_on():
    broken = [True]

    def together(questions):
        if broken.pop() if broken else False:
            raise RuntimeError("no")
        return questions

    async def ask(batcher):
        with pytest.raises(RuntimeError):
            await batcher.ask(1)
        return await batcher.ask(2)

    assert run(together, ask) == 2


def test_an_answer_that_no_caller_waits_for_is_unwanted():
    held, unwanted = Held(), []

    async def ask(batcher):
        asked = asyncio.ensure_future(batcher.ask("job"))
        await asyncio.to_thread(held.begun.wait, 30)
        asked.cancel()
        held.go.set()
        await asyncio.sleep(0.1)

    run(held, ask, unwanted=unwanted.append)
    assert unwanted == ["job"]


def test_a_caller_that_left_before_its_turn_is_not_asked_about():
    held = Held()

    async def ask(batcher):
        first = asyncio.ensure_future(batcher.ask("first"))
        await asyncio.to_thread(held.begun.wait, 30)
        second = asyncio.ensure_future(batcher.ask("second"))
        await asyncio.sleep(0)
        second.cancel()
        held.go.set()
        await first
        await asyncio.sleep(0.05)

    run(held, ask)
    assert held.batches == [["first"]]


# Every question is answered, whatever raises on the way.


def asked(batcher, *questions):
    return asyncio.wait_for(asyncio.gather(*map(batcher.ask, questions), return_exceptions=True), 10)


@pytest.mark.parametrize(
    "together",
    [lambda questions: questions[1:], lambda questions: iter(()).__next__(), lambda questions: 1 / 0],
    ids=["too few answers", "StopIteration", "an error"],
)
def test_a_batch_that_goes_wrong_answers_all_its_questions(together):
    broken = True

    async def ask(batcher):
        nonlocal broken
        failed = await asked(batcher, 1, 2, 3)
        broken = False
        return failed, await asked(batcher, 4)

    def perhaps(questions):
        return together(questions) if broken else questions

    failed, after = run(perhaps, ask)
    assert all(isinstance(answer, Exception) for answer in failed)
    assert [4] == after


def test_when_an_answer_cannot_be_undone_the_others_are_answered_all_the_same():
    held = Held()

    async def ask(batcher):
        alone = asyncio.ensure_future(batcher.ask("first"))
        await asyncio.sleep(0)
        left, stays = (asyncio.ensure_future(batcher.ask(name)) for name in ("left", "stays"))
        await asyncio.sleep(0)
        held.go.set()
        await alone
        left.cancel()
        return await asyncio.wait_for(stays, 10)

    def fails(_):
        raise RuntimeError("no")

    assert run(held, ask, unwanted=fails) == "stays"


def test_an_answer_that_comes_in_the_moment_of_the_cancelling_is_unwanted():
    unwanted = []

    async def ask(batcher):
        tell = batcher._tell
        batcher._tell = lambda *batch: (tell(*batch), question.cancel())
        question = asyncio.ensure_future(batcher.ask("job"))
        with pytest.raises(asyncio.CancelledError):
            await question

    run(lambda questions: questions, ask, unwanted=unwanted.append)
    assert unwanted == ["job"]


def test_a_caller_that_asks_when_there_are_no_threads_any_more_is_told():
    async def ask(batcher):
        batcher._threads.shutdown()
        return await asked(batcher, 1, 2)

    assert [StoreDownError] * 2 == [type(answer) for answer in run(lambda questions: questions, ask)]


def test_a_caller_that_waits_while_the_threads_are_taken_away_is_told():
    held = Held()

    async def ask(_):
        with ThreadPoolExecutor(1) as threads:
            busy = threads.submit(held, [])
            await asyncio.to_thread(held.begun.wait, 30)
            question = asyncio.ensure_future(asked(Batcher(held, threads), 1))
            await asyncio.sleep(0)
            threads.shutdown(wait=False, cancel_futures=True)
            held.go.set()
            busy.result(30)
            return await question

    assert [StoreDownError] == [type(answer) for answer in run(held, ask)]


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
        Adding([NewJob("task", queue="not a\nqueue")]),
    ]

    claim, broken, invalid = answers(engine, questions)

    assert ["a"] == [job.id for job in claim.jobs]
    assert isinstance(broken, RuntimeError)
    assert isinstance(invalid, InvalidJobError)


def test_outcomes_that_come_without_claims_are_settled_by_the_verb_for_them_alone(engine, monkeypatch):
    engine.enqueue([NewJob("task", id=id_) for id_ in "ab"])
    jobs = engine.claim(["default"], 2, worker="w").jobs
    monkeypatch.setattr(engine, "batch", None)
    questions = [Settlement(job.seq, job.fence, Done()) for job in jobs]
    stale = Settlement(jobs[0].seq, jobs[0].fence + 1, Done())

    lost, *ended = answers(engine, [stale, *questions])

    assert lost is None
    assert all(isinstance(moment, int) for moment in ended)
    assert engine.count() == {State.DONE: 2}

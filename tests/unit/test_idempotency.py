"""A request that is sent again does nothing twice, and no worker is told of a job after it was given back."""

import asyncio

import pytest

from penstock.dialects.native import idempotency
from penstock.dialects.native.idempotency import AnswerMemory, KeptAnswer
from penstock.job import Claimed

JOB = Claimed(1, "job", "task", "{}", "queue", 1, 1, 0, 0, None, "{}", "", 0)
PLACE = ("claim", "token", "", "key")


class Maker:
    """Makes answers when the test lets it, and counts them."""

    def __init__(self, *, at_once=True):
        self.made = 0
        self.go = asyncio.Event()
        if at_once:
            self.go.set()

    async def __call__(self):
        self.made += 1
        await self.go.wait()
        return KeptAnswer(b"with jobs", [JOB], b"without")


def run(scenario):
    asyncio.run(scenario())


def test_the_same_question_is_answered_alike_and_done_once():
    async def scenario():
        answers, make = AnswerMemory(), Maker(at_once=False)
        first = asyncio.create_task(answers.once(PLACE, make))
        second = asyncio.create_task(answers.once(PLACE, make))
        await asyncio.sleep(0)
        make.go.set()

        assert await first is await second is await answers.once(PLACE, make)
        assert 1 == make.made

    run(scenario)


def test_another_question_is_another_matter():
    async def scenario():
        answers, make = AnswerMemory(), Maker()

        assert await answers.once(PLACE, make) is not await answers.once((*PLACE[:3], "other"), make)

    run(scenario)


def test_what_failed_is_done_again():
    async def fail():
        raise ValueError

    async def scenario():
        answers, make = AnswerMemory(), Maker()
        with pytest.raises(ValueError):
            await answers.once(PLACE, fail)

        assert b"with jobs" == (await answers.once(PLACE, make)).body

    run(scenario)


def test_jobs_are_given_back_when_the_last_caller_has_gone():
    async def scenario():
        answers, make = AnswerMemory(), Maker()
        made = await answers.once(PLACE, make)
        await answers.once(PLACE, make)

        assert [] == made.unheard()
        assert [JOB] == made.unheard()
        assert [] == made.unheard()
        assert b"without" == (await answers.once(PLACE, make)).body

    run(scenario)


def test_jobs_of_an_answer_that_was_heard_are_not_given_back():
    async def scenario():
        answers, make = AnswerMemory(), Maker()
        await answers.once(PLACE, make)
        again = await answers.once(PLACE, make)

        assert [] == again.unheard()
        assert b"with jobs" == again.body

    run(scenario)


@pytest.mark.parametrize(("limit", "value"), [("MOST", 1), ("MOST_BYTES", 10), ("LONGEST", -1)])
def test_what_is_old_or_too_much_is_forgotten(monkeypatch, limit, value):
    monkeypatch.setattr(idempotency, limit, value)

    async def scenario():
        answers, make = AnswerMemory(), Maker()
        for number in range(3):
            await answers.once((*PLACE[:3], str(number)), make)

        assert len(answers._kept) <= 1

    run(scenario)

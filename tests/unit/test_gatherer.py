import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.edge.gather import Gatherer


def run(together, ask, **options):
    async def work():
        with ThreadPoolExecutor(4) as threads:
            return await ask(Gatherer(together, threads, **options))

    return asyncio.run(work())


def test_what_comes_while_a_batch_is_under_way_becomes_the_next():
    batches = []
    first = threading.Event()

    def together(questions):
        batches.append(list(questions))
        if len(batches) == 1:
            first.wait(5)
        return [question * 2 for question in questions]

    async def ask(gatherer):
        asked = [asyncio.ensure_future(gatherer.ask(1))]
        await asyncio.sleep(0.05)
        asked += [asyncio.ensure_future(gatherer.ask(n)) for n in (2, 3)]
        await asyncio.sleep(0)
        first.set()
        return await asyncio.gather(*asked)

    assert run(together, ask) == [2, 4, 6]
    assert batches == [[1], [2, 3]]


def test_one_answer_may_be_an_error_and_the_others_are_not():
    def together(questions):
        return [ValueError("two") if question == 2 else question for question in questions]

    async def ask(gatherer):
        return await asyncio.gather(*(gatherer.ask(n) for n in (1, 2, 3)), return_exceptions=True)

    one, two, three = run(together, ask)
    assert (one, three) == (1, 3)
    assert isinstance(two, ValueError)


def test_what_breaks_the_batch_is_told_to_all_and_the_next_goes_on():
    broken = [True]

    def together(questions):
        if broken.pop() if broken else False:
            raise RuntimeError("no")
        return questions

    async def ask(gatherer):
        with pytest.raises(RuntimeError):
            await gatherer.ask(1)
        return await gatherer.ask(2)

    assert run(together, ask) == 2


def test_an_answer_that_nobody_waits_for_is_unwanted():
    go = threading.Event()
    unwanted = []

    def together(questions):
        go.wait(5)
        return questions

    async def ask(gatherer):
        asked = asyncio.ensure_future(gatherer.ask("job"))
        await asyncio.sleep(0.05)
        asked.cancel()
        go.set()
        await asyncio.sleep(0.1)

    run(together, ask, unwanted=unwanted.append)
    assert unwanted == ["job"]


def test_one_who_left_before_his_turn_is_not_asked_about():
    asked_about = []
    go = threading.Event()

    def together(questions):
        asked_about.extend(questions)
        go.wait(5)
        return questions

    async def ask(gatherer):
        first = asyncio.ensure_future(gatherer.ask("first"))
        await asyncio.sleep(0.05)
        second = asyncio.ensure_future(gatherer.ask("second"))
        await asyncio.sleep(0)
        second.cancel()
        go.set()
        await first
        await asyncio.sleep(0.05)

    run(together, ask)
    assert asked_about == ["first"]

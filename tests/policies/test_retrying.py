"""Retrying: how often, how far apart, after which errors."""

import asyncio

import pytest

from penstock.policies import AttemptTimeout, Bulkhead, Retrying, Timeout


def test_retry_tries_again_and_gives_up_with_the_last_error(time):
    waits = []
    calls = []

    @Retrying(4, backoff=0.1, factor=2, max_backoff=0.3, on_retry=lambda *told: waits.append(told[2]))
    async def fails():
        calls.append(time.now())
        raise LookupError(len(calls))

    with pytest.raises(LookupError, match="4"):
        time.run(fails())
    assert [0.1, 0.2, 0.3] == waits
    assert [0, 0.1, 0.3, 0.6] == [pytest.approx(at) for at in calls]


@pytest.mark.parametrize(
    "on", [LookupError, (LookupError, OSError), lambda error: isinstance(error, LookupError)]
)
def test_retry_covers_what_it_is_told_to(on):
    calls = []

    @Retrying(3, backoff=0, on=on)
    def fails(error):
        calls.append(error)
        raise error

    with pytest.raises(LookupError):
        fails(LookupError())
    with pytest.raises(ZeroDivisionError):
        fails(ZeroDivisionError())
    assert 4 == len(calls)


def test_retry_believes_an_error_about_itself(time):
    error = RuntimeError()
    error.retryable = False
    polite = RuntimeError()
    polite.retry_after = 5
    calls = []

    @Retrying(2, backoff=0)
    async def fails(which):
        calls.append(time.now())
        raise which

    for which, at in ((error, [0]), (polite, [0, 5])):
        calls.clear()
        with pytest.raises(RuntimeError):
            time.run(fails(which))
        assert at == [pytest.approx(each) for each in calls]


def test_retry_in_blocks(time):
    async def main():
        numbers = []
        async for attempt in Retrying(3, backoff=1):
            with attempt:
                numbers.append(attempt.number)
                if attempt.number < 3:
                    raise LookupError
        return numbers

    assert [1, 2, 3] == time.run(main())
    numbers = []

    def fails():
        for attempt in Retrying(2, backoff=0):
            with attempt:
                numbers.append(attempt.number)
                raise LookupError

    with pytest.raises(LookupError):
        fails()
    assert [1, 2] == numbers


@pytest.mark.parametrize("options", [{"attempts": 0}, {"backoff": -1}, {"factor": 0}])
def test_wrong_retries_are_refused(options):
    with pytest.raises(ValueError):
        Retrying(**options)


def test_no_more_runs_than_attempts_that_were_granted(time, watch):
    bulkhead = Bulkhead(1)
    call = Retrying(4, backoff=0)(Timeout(0.5)(bulkhead(watch.work)))

    async def main():
        answers = await asyncio.gather(*(call(n, 10) for n in range(5)), return_exceptions=True)
        at_the_end = len(watch.starts)
        await asyncio.sleep(100)
        return answers, at_the_end

    answers, at_the_end = time.run(main())
    stats = bulkhead.stats()

    assert [AttemptTimeout] * 5 == [type(answer) for answer in answers]
    assert at_the_end == len(watch.starts) == stats.acquired
    assert (0, 0, 1) == (stats.queued, stats.in_use, watch.peak)

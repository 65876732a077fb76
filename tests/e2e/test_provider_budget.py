"""Tokens and requests of a provider that counts for itself, and that another program uses too.

No call of ours is refused for what we did ourselves, and nearly all of the budget is used.
"""

import asyncio
import threading
import time
from datetime import UTC, datetime
from email.utils import format_datetime

import pytest

from penstock import App, Rate, RateLimited, current_job
from penstock.testing import FakeClock, app_for_tests, run_until_idle
from tests.support.postgres import empty_store
from tests.support.soak import often
from tests.support.timing import until

SECOND = 1_000_000
TOKENS, REQUESTS, AT_MOST = 30_000, 200, 300
RIVAL = 1_000  # tokens that another program uses now and then
HALT = SECOND // 20  # beyond which a thread that sleeps a moment was halted by the machine
# A thread may be halted between its worker's look at the clock and its call; then the call leaves a window later.
LOOSE = SECOND // 100


class Refused(Exception):
    """Too many: come again when the header says."""

    def __init__(self, retry_after):
        super().__init__(retry_after)
        self.retry_after = retry_after


class Provider:
    """Counts tokens and requests in any window as long as *period*, and refuses what is too much."""

    def __init__(self, now, period, date=None):
        self._now, self._period, self._date = now, period, date or now
        self.calls = []  # when, whether it is ours, and how many tokens
        self.told, self.overruns, self._lock = [], 0, threading.Lock()

    def ask(self, number):
        with self._lock:
            now, used = self._now(), 100 + number * 37 % 180
            if number % 30 == 0 and self._fits(RIVAL, now):
                self.calls.append((now, False, RIVAL))
            if not self._fits(used, now):
                self.overruns += not self._fits(used, now + LOOSE, of=(True,))
                raise Refused(self._retry_after(used, now))
            self.calls.append((now, True, used))
            return used

    def used(self, span):
        """Return the tokens used within *span* of the first call."""
        first = self.calls[0][0] if self.calls else 0
        return sum(tokens for at, _, tokens in self.calls if at < first + span)

    def _fits(self, used, now, of=(True, False)):
        recent = [tokens for at, ours, tokens in self.calls if at > now - self._period and ours in of]
        return sum(recent) + used <= TOKENS and len(recent) < REQUESTS

    def _retry_after(self, used, now):
        """Return when it fits, in whole seconds: alternately so many, and a date."""
        seconds = next(n for n in range(1, 100) if self._fits(used, now + n * SECOND))
        moment = datetime.fromtimestamp(-(-self._date() // SECOND) + seconds, UTC)
        self.told.append(format_datetime(moment, usegmt=True) if len(self.told) % 2 else str(seconds))
        return self.told[-1]


class Halts:
    """Hears for how long the machine halted this process."""

    def __init__(self):
        self.total, self._over = 0, threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()

    def _watch(self):
        since = now()
        while not self._over.wait(HALT / SECOND / 10):
            late, since = now() - since, now()
            self.total += late if late > HALT else 0


def now():
    return time.monotonic_ns() // 1_000


def limits(period):
    return [
        Rate(TOKENS, per=period, key="tokens", cost=AT_MOST),
        Rate(REQUESTS, per=period, key="requests"),
    ]


def call(provider, number):
    """Ask the provider; a call that is refused keeps no estimate."""
    try:
        return provider.ask(number)
    except Refused as refused:
        current_job().spend("tokens", 0)
        raise RateLimited(refused.retry_after) from None


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    if request.param == "sqlite":
        yield str(tmp_path / "jobs.db")
    else:
        with empty_store() as url:
            yield url


def test_minutes_of_virtual_time_use_the_budget_and_no_call_of_ours_is_too_much():
    clock = FakeClock()
    with app_for_tests(clock) as app:
        provider = Provider(clock.now, 60 * SECOND)

        @app.task(limits=limits("1m"))
        def ask(number: int) -> None:
            current_job().spend("tokens", call(provider, number))

        app.enqueue_many([ask.call(number) for number in range(500)])
        run_until_idle(app, advance=True)

    assert 0 == provider.overruns
    assert ["60", "Thu, 01 Jan 2026 00:02:01 GMT"] == provider.told[:2]
    assert provider.used(60 * SECOND) >= 0.97 * TOKENS
    assert provider.used(120 * SECOND) >= 0.97 * 2 * TOKENS
    assert 500 == sum(ours for _, ours, _ in provider.calls)


def test_a_call_that_is_refused_keeps_no_estimate():
    clock = FakeClock()
    with app_for_tests(clock) as app:
        attempts = []

        @app.task(limits=[Rate(AT_MOST, per="1m", key="tokens", cost=AT_MOST)])
        def ask() -> None:
            attempts.append(clock.now())
            if len(attempts) == 1:
                current_job().spend("tokens", 0)
                raise RateLimited("1")

        ask.enqueue()
        run_until_idle(app, advance=True)

    first, second = attempts
    assert SECOND <= second - first < 2 * SECOND


def test_seconds_of_real_time_use_the_budget_and_no_call_of_ours_is_too_much(url):
    provider = Provider(now, 5 * SECOND, date=lambda: time.time_ns() // 1_000)
    with App(url) as app, Halts() as halts:

        @app.task(limits=limits("5s"))
        async def ask(number: int) -> None:
            used = call(provider, number)
            await asyncio.sleep(0.01)
            current_job().spend("tokens", used)

        app.enqueue_many([ask.call(number) for number in range(600)])
        worker = app.worker()
        thread = threading.Thread(target=worker.run)
        thread.start()
        try:
            until(lambda: provider.used(now()) >= 2 * TOKENS, 120)
        finally:
            worker.stop_now()
            thread.join(60)
            assert not thread.is_alive()

    assert 0 == provider.overruns
    assert provider.used(10 * SECOND + halts.total) >= often(20, 97) / 100 * 2 * TOKENS

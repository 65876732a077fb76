"""Tokens and requests of a provider that counts for itself: none refused, nearly all of it used."""

import asyncio
import threading
import time

from penstock import App, Rate, RateLimited, current_job
from penstock.testing import FakeClock, app_for_tests, run_until_idle

SECOND = 1_000_000
TOKENS, REQUESTS, AT_MOST = 15_000, 200, 300


class Refused(Exception):
    """Too many."""


class Provider:
    """Counts tokens and requests in any window as long as *period*, and refuses what is too much."""

    def __init__(self, now, period):
        self._now, self._period = now, period
        self.calls, self.refused, self._lock = [], 0, threading.Lock()

    def ask(self, number):
        with self._lock:
            now, used = self._now(), 100 + number * 37 % 180
            recent = [tokens for at, tokens in self.calls if at > now - self._period]
            if sum(recent) + used > TOKENS or len(recent) >= REQUESTS:
                self.refused += 1
                raise Refused
            self.calls.append((now, used))
            return used

    def used(self, span):
        """Return the tokens used within *span* of the first call."""
        first = self.calls[0][0]
        return sum(tokens for at, tokens in self.calls if at < first + span)


def limits(period):
    return [
        Rate(TOKENS, per=period, key="tokens", cost=AT_MOST),
        Rate(REQUESTS, per=period, key="requests"),
    ]


def test_a_minute_of_virtual_time_uses_the_budget_and_is_never_refused():
    clock = FakeClock()
    with app_for_tests(clock) as app:
        provider = Provider(clock.now, 10 * SECOND)

        @app.task(limits=limits("10s"))
        def ask(number: int) -> None:
            try:
                used = provider.ask(number)
            except Refused:
                raise RateLimited("1") from None
            current_job().spend("tokens", used)

        app.enqueue_many([ask.call(number) for number in range(700)])
        run_until_idle(app, advance=True)

    assert 0 == provider.refused
    assert provider.used(60 * SECOND) >= 0.97 * 6 * TOKENS


def test_ten_seconds_of_real_time_use_the_budget_and_are_never_refused(tmp_path):
    provider = Provider(lambda: time.monotonic_ns() // 1_000, 5 * SECOND)
    with App(str(tmp_path / "jobs.db")) as app:

        @app.task(limits=limits("5s"))
        async def ask(number: int) -> None:
            try:
                used = provider.ask(number)
            except Refused:
                raise RateLimited("1") from None
            await asyncio.sleep(0.01)
            current_job().spend("tokens", used)

        app.enqueue_many([ask.call(number) for number in range(400)])
        worker = app.worker()
        thread = threading.Thread(target=worker.run)
        thread.start()
        try:
            time.sleep(11)
        finally:
            worker.stop_now()
            thread.join(20)

    assert 0 == provider.refused
    assert provider.used(10 * SECOND) >= 0.97 * 2 * TOKENS

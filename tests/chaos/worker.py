"""A worker of the storm: `python -m tests.chaos.worker [WOUND]`."""

import logging
import os
import sys
import threading
import time

from penstock.engine import open_engine
from penstock.errors import StoreError
from penstock.worker import Worker
from tests.chaos import tasks, wounds
from tests.chaos.provider import end_with_parent, now
from tests.chaos.rules import LEASE, SECOND

HANDS = 8
HALT = SECOND // 3


class Watched:
    """An engine that tells the provider what its worker asked and was answered."""

    def __init__(self, engine):
        self._engine = engine
        self._names = {}  # jobs, by (seq, fence)
        self._is_ready = False

    def __getattr__(self, name):
        return getattr(self._engine, name)

    def claim(self, *args, **kwargs):
        if not self._is_ready:  # the worker's signal handlers are in place before its first claim
            self._is_ready = True
            tasks.caller.tell("ready")
        asked = now()
        claim = self._engine.claim(*args, **kwargs)
        self._taken(claim, asked)
        return claim

    def settle(self, settlements):
        answers = self._engine.settle(settlements)
        self._settled(settlements, answers)
        return answers

    def exchange(self, settlements, *args, **kwargs):
        asked = now()
        answers, claim = self._engine.exchange(settlements, *args, **kwargs)
        self._taken(claim, asked)
        self._settled(settlements, answers)
        return answers, claim

    def heartbeat(self, *args, **kwargs):
        asked = now()
        try:
            return self._engine.heartbeat(*args, **kwargs)
        finally:
            tell_halt(asked)

    def refreshed(self, refresh, *, value=None, error=""):
        named = {"key": refresh.key, "fence": refresh.fence}
        tasks.caller.tell("refreshing", value=value, **named)
        accepted = self._engine.refreshed(refresh, value=value, error=error)
        tasks.caller.tell("refreshed", accepted=accepted, **named)
        return accepted

    def _taken(self, claim, asked):
        answered = now()
        for job in claim.jobs:
            tasks.claims[job.id, job.fence] = asked, answered
            self._names[job.seq, job.fence] = job.id

    def _settled(self, settlements, answers):
        for settlement, accepted in zip(settlements, answers, strict=True):
            job = self._names.pop((settlement.seq, settlement.fence))
            outcome = type(settlement.outcome).__name__
            tasks.caller.tell("settled", job=job, fence=settlement.fence, outcome=outcome, accepted=accepted)


def tell_halt(since):
    """Tell the provider if the machine halted what should have taken a moment."""
    if now() - since > HALT:
        tasks.caller.tell("halted", since=since)


def watch_machine():
    """Tell of every halt of this process, for as long as it lives."""
    while True:
        begun = now()
        time.sleep(0.05)
        tell_halt(begun)


def opened(url):
    """Open the store, once it is there: a worker may be begun while the server is down."""
    while True:
        try:
            return open_engine(url)
        except StoreError as error:
            logging.getLogger("penstock.worker").warning("cannot open the store yet: %s", error)
            time.sleep(0.1)


def main():
    logging.basicConfig(level=logging.WARNING, format=f"{os.getpid()} %(asctime)s %(message)s")
    end_with_parent()
    for wound in sys.argv[1:]:
        wounds.WOUNDS[wound]()
    threading.Thread(target=watch_machine, daemon=True).start()
    engine = opened(os.environ["PENSTOCK_URL"])
    app = tasks.app
    worker = Worker(
        Watched(engine), app.handlers, refreshers=app.refreshers, queues=app.queues,
        lease=LEASE, threads=HANDS, concurrency=HANDS,
    )  # fmt: skip
    with app.connection.lent(engine):  # passes read memos
        worker.run(signals=True)
    engine.close()


if __name__ == "__main__":
    main()

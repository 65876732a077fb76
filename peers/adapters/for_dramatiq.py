"""dramatiq on Redis: a key is a mutex and a rate a counter, asked inside the actor, which fails and tries again."""

import logging
from types import SimpleNamespace

import common
import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.rate_limits import ConcurrentRateLimiter, WindowRateLimiter
from dramatiq.rate_limits.backends import RedisBackend


class Dramatiq:
    def __init__(self, order: SimpleNamespace) -> None:
        self.order = order
        # A retry is logged with its traceback, which would be most of the work.
        logging.disable(logging.CRITICAL)
        self.broker = RedisBroker(url=order.url)
        self.limits = RedisBackend(url=order.url)
        self.window = WindowRateLimiter(self.limits, "api", limit=200, window=1)
        self.witness: common.Witness | None = None
        self.actors = {kind: self._actor(kind) for kind in ("noop", "keyed", "busy", "limited", "stamped")}

    def install(self) -> None:
        self.broker.client.flushall()

    def connect(self, callers: int) -> None:
        """Leave it to the client, which connects every thread by itself."""

    def one(self, kind: str, number: int) -> None:
        self.actors[kind].send(number)

    def many(self, kind: str, numbers: list[int]) -> None:
        for number in numbers:
            self.one(kind, number)

    def work(self, witness: common.Witness) -> None:
        self.witness = witness
        dramatiq.Worker(self.broker, worker_threads=self.order.settings["worker_threads"]).start()

    def left(self) -> bool:
        """Look for messages that are not acknowledged yet; those of a busy key stay for ever."""
        return "busy" not in self.order.kinds and bool(self.broker.client.hlen("dramatiq:default.msgs"))

    def _actor(self, kind: str) -> dramatiq.Actor:
        def handle(number: int) -> None:
            if kind in {"keyed", "busy"}:
                key = f"{kind}-{number if kind == 'keyed' else 0}"
                with ConcurrentRateLimiter(self.limits, key, limit=1).acquire():
                    self.witness.run_plain(kind, number)
            elif kind == "limited":
                with self.window.acquire():
                    self.witness.run_plain(kind, number)
            else:
                self.witness.run_plain(kind, number)

        options = self.order.settings.get("retry", {}) if kind in {"keyed", "busy", "limited"} else {}
        return dramatiq.actor(handle, actor_name=kind, broker=self.broker, max_retries=None, **options)


common.main(Dramatiq)

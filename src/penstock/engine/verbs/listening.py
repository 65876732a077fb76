"""Hear of what was committed, or wait until something is."""

from collections.abc import Callable, Sequence

from penstock.engine.telling import Listener
from penstock.engine.transactions import Transactions
from penstock.job import Event
from penstock.store.session import Topic


class ListeningVerbs(Transactions):
    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call *listener* with every event this engine commits; call the answer to stop."""
        return self._telling.listen(listener)

    def listen_to_batches(self, listener: Callable[[Sequence[Event]], None]) -> Callable[[], None]:
        """Call *listener* with all events that are to be told at once; call the answer to stop."""
        return self._telling.listen_to_batches(listener)

    def token(self, topic: Topic = Topic.WORK) -> int:
        """Return a number that changes whenever any process did something about *topic*."""
        return self.store.token(topic)

    def wait(self, token: int, timeout: float, topic: Topic = Topic.WORK) -> int:
        """Wait until somebody did something after *token*, or for *timeout* seconds; return the new token."""
        return self.store.wait(topic, token, timeout)

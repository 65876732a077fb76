"""How long attempts are expected to take, so that the worker knows what can begin soon."""

from collections.abc import Iterable, Mapping
from typing import Final

from penstock.job import STANDBY
from penstock.worker.attempt import Attempt
from penstock.worker.handler import Handler
from penstock.worker.relay import WITHIN

# By one part in so many the last duration of a task changes what is expected of it.  It is soon found to be longer: a
# busy loop has moments of rest.
RISE: Final = 8
FALL: Final = 64


class Expected:
    """How long attempts keep their place, on the loop or in a thread: a moving mean for each task.

    That is from when an attempt could begin.  On a busy loop it has to wait for its turn, and longer each time that it
    awaits something.  There a relay would bring no more through, and might be late.
    """

    def __init__(self, handlers: Mapping[str, Handler]) -> None:
        kinds = {handler.is_async for handler in handlers.values()}
        # A relay has one place, on the loop or in a thread.
        self._tasks = {task for task, handler in handlers.items() if handler.is_async is (True in kinds)}
        self._means: dict[str, int] = {}

    def learn(self, ended: Iterable[Attempt]) -> None:
        """Take into account how long those kept their place that have ended."""
        for attempt in ended:
            task = attempt.claimed.task
            waited = attempt.claimed.after or attempt.stands_until
            if (attempt.began or waited) and task in self._tasks:
                # One that did not come to begin after others was claimed for nothing.
                took = attempt.finished - attempt.sent if attempt.began else WITHIN
                mean = self._means.get(task, took)
                self._means[task] = mean + (took - mean) // (RISE if took > mean else FALL)

    def short(self) -> list[tuple[str, int]]:
        """Return the tasks of which attempts may stand by, or two fit into a relay, with how long each takes."""
        means = list(self._means.items())  # another thread may learn meanwhile
        return [(task, max(1, mean)) for task, mean in means if mean <= STANDBY]

    def for_each_hand(self) -> int:
        """Return how many attempts may stand by for each hand: so many of the slowest of these tasks."""
        return STANDBY // max((span for _, span in self.short()), default=STANDBY + 1)

"""Concurrent requests become one transaction: batches form while the previous one is being committed."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Generic, TypeVar

Q = TypeVar("Q")
A = TypeVar("A")


class Gatherer(Generic[Q, A]):
    """Asks *together* about all questions that came meanwhile; it answers each, or with what it raised.

    One batch is under way at a time, none with more than *most* questions.  An answer that nobody waits for any
    more is *unwanted*.
    """

    def __init__(
        self,
        together: Callable[[Sequence[Q]], Sequence[A | Exception]],
        threads: Executor,
        *,
        most: int = 500,
        unwanted: Callable[[A], None] = lambda _: None,
    ) -> None:
        self._together = together
        self._threads = threads
        self._most = most
        self._unwanted = unwanted
        self._busy = False
        self._waiting: list[tuple[asyncio.Future[A], Q]] = []

    async def ask(self, question: Q) -> A:
        """Return the answer to *question*."""
        future: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self._waiting.append((future, question))
        if not self._busy:
            self._go()
        return await future

    def _go(self) -> None:
        # Whoever was cancelled meanwhile asks no more; what is under way cannot be taken back.
        batch = [(future, question) for future, question in self._waiting if not future.done()]
        batch, self._waiting = batch[: self._most], batch[self._most :]
        if not batch:
            return
        self._busy = True
        loop = asyncio.get_running_loop()
        asked = loop.run_in_executor(self._threads, self._together, [question for _, question in batch])
        asked.add_done_callback(lambda done: self._answered(batch, done))

    def _answered(
        self,
        batch: Sequence[tuple["asyncio.Future[A]", Q]],
        done: "asyncio.Future[Sequence[A | Exception]]",
    ) -> None:
        self._busy = False
        failure = done.exception()
        answers = [failure] * len(batch) if failure is not None else done.result()
        for (future, _), answer in zip(batch, answers, strict=True):
            if future.done():
                if not isinstance(answer, BaseException):
                    self._unwanted(answer)
            elif isinstance(answer, BaseException):
                future.set_exception(answer)
            else:
                future.set_result(answer)
        self._go()

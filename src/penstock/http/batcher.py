"""Concurrent requests become one transaction: batches form while the previous one is being committed."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from itertools import islice
from typing import Generic, NamedTuple, TypeVar

from penstock.engine import Engine
from penstock.errors import PenstockError, StoreDownError, StoreError
from penstock.job import Claim, ClaimFor, Enqueued, NewJob, Refresh, RefreshesFor, Settlement

Q = TypeVar("Q")
A = TypeVar("A")

log = logging.getLogger("penstock.server")


class Batcher(Generic[Q, A]):
    """Collects questions while a batch is under way, and then asks *together* for all their answers.

    One batch is under way at a time, none with more than *most* questions.  For each question *together* returns
    the answer, or the exception.  *unwanted* is called with an answer whose request was cancelled.

    Invariant: every question is answered or fails, whatever raises on the way.
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
        try:
            return await future
        except asyncio.CancelledError:
            # The answer may have come in the same moment.
            if future.done() and not future.cancelled() and future.exception() is None:
                self._leave(future.result())
            raise

    def _go(self) -> None:
        # Questions of cancelled requests are left out; a batch that is under way cannot be stopped.
        batch = [(future, question) for future, question in self._waiting if not future.done()]
        batch, self._waiting = batch[: self._most], batch[self._most :]
        if not batch:
            return
        self._busy = True
        loop = asyncio.get_running_loop()
        try:
            asked = loop.run_in_executor(self._threads, self._ask, [question for _, question in batch])
        except RuntimeError as error:  # the threads have ended
            self._tell(batch, [_gone(error)] * len(batch))
        else:
            asked.add_done_callback(lambda done: self._tell(batch, self._heard(done, len(batch))))

    def _tell(
        self, batch: Sequence[tuple["asyncio.Future[A]", Q]], answers: Sequence[A | BaseException]
    ) -> None:
        self._busy = False
        for (future, _), answer in zip(batch, answers, strict=True):
            if future.done():
                if not isinstance(answer, BaseException):
                    self._leave(answer)
            elif isinstance(answer, BaseException):
                future.set_exception(answer)
            else:
                future.set_result(answer)
        self._go()

    def _ask(self, questions: Sequence[Q]) -> Sequence[A | Exception]:
        """Return the answer to each question, or its exception.  Runs in a thread."""
        try:
            answers = self._together(questions)
        except StopIteration as error:  # which no future can carry
            raise RuntimeError("a batch ended early") from error
        if len(answers) != len(questions):
            raise RuntimeError(f"{len(questions)} questions were answered by {len(answers)} answers")
        return answers

    @staticmethod
    def _heard(done: "asyncio.Future[Sequence[A | Exception]]", count: int) -> Sequence[A | BaseException]:
        if done.cancelled():
            return [_gone()] * count
        failure = done.exception()
        return done.result() if failure is None else [failure] * count

    def _leave(self, answer: A) -> None:
        """Undo an answer whose request was cancelled."""
        try:
            self._unwanted(answer)
        except Exception:
            log.exception("the answer to a cancelled request could not be undone")


def _gone(error: BaseException | None = None) -> StoreDownError:
    gone = StoreDownError("the server is about to end")
    gone.__cause__ = error
    return gone


class Adding(NamedTuple):
    """Jobs to enqueue, all or none."""

    jobs: Sequence[NewJob]


class Fetching(NamedTuple):
    """A claim whose jobs start when the answer is sent that hands them out, perhaps with refreshes."""

    wanted: ClaimFor
    refreshing: RefreshesFor | None = None


class Leasing(NamedTuple):
    """A claim, and what its worker can recompute of floating limits."""

    wanted: ClaimFor
    refreshing: RefreshesFor


class Leased(NamedTuple):
    """The answer to a `Leasing`."""

    claim: Claim
    refreshes: list[Refresh]


Question = Adding | Settlement | ClaimFor | Leasing
# Of a settlement: when the attempt ended, None if it was lost.
Answer = list[Enqueued] | int | None | Claim | Leased


def answers(engine: Engine, questions: Sequence[Question]) -> Sequence[Answer | Exception]:
    """Return the answer to each of *questions*, or its exception."""
    if len(questions) > 1:
        try:
            return _together(engine, questions)
        except StoreError as error:
            return [error] * len(questions)
        except PenstockError:
            pass  # one of them is refused: each is asked by itself
    return [_alone(engine, question) for question in questions]


def _together(engine: Engine, questions: Sequence[Question]) -> Sequence[Answer]:
    adding = [question for question in questions if isinstance(question, Adding)]
    settlements = [question for question in questions if isinstance(question, Settlement)]
    # Concurrent requests have no order among them; those for the same queues are claimed as one.
    requests = [
        question.wanted if isinstance(question, Leasing) else question
        for question in questions
        if isinstance(question, ClaimFor | Leasing)
    ]
    refreshing = [question.refreshing for question in questions if isinstance(question, Leasing)]
    order = sorted(range(len(requests)), key=lambda n: (requests[n].queues, requests[n].lease))
    jobs = [job for each in adding for job in each.jobs]
    added: Sequence[Enqueued] = ()
    settled: Sequence[int | None] = ()
    claimed: Sequence[Claim] = ()
    refreshes: Sequence[list[Refresh]] = ()
    # The verb for one kind of question takes fewer steps and locks than the one for several.
    if not settlements and not requests:
        added = engine.enqueue(jobs)
    elif not jobs and not requests:
        settled = engine.settled_at(settlements)
    else:
        added, settled, claimed, refreshes = engine.batch(
            jobs, settlements, [requests[n] for n in order], refreshing
        )
    claims = dict(zip(order, claimed, strict=True))
    each_added, each_settled, each_refreshes = iter(added), iter(settled), iter(refreshes)
    each_claim = iter(claims[n] for n in range(len(requests)))
    found: list[Answer] = []
    for question in questions:
        match question:
            case Adding(wanted):
                found.append(list(islice(each_added, len(wanted))))
            case Settlement():
                found.append(next(each_settled))
            case ClaimFor():
                found.append(next(each_claim))
            case Leasing():
                found.append(Leased(next(each_claim), next(each_refreshes)))
    return found


def _alone(engine: Engine, question: Question) -> Answer | Exception:
    try:
        match question:
            case Adding(jobs):
                return engine.enqueue(jobs)
            case Settlement():
                return engine.settled_at([question])[0]
            case ClaimFor():
                return engine.claims([question])[0]
            case Leasing(wanted, refreshing):
                _, _, (claim,), (refreshes,) = engine.batch([], [], [wanted], [refreshing])
                return Leased(claim, refreshes)
    except Exception as error:  # noqa: BLE001 - the other questions have good answers
        return error

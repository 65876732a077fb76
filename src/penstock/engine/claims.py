"""Several claims in one transaction, and the order between several queues.

Claims that ask for the same are one claim whose jobs are dealt out, so that many workers cost little more than one.
"""

import random
from collections.abc import Callable, Sequence
from typing import Final

from msgspec.structs import replace

from penstock.engine.board import Board
from penstock.job import Claim, Claimed, ClaimFor, Order
from penstock.store import leases as lease_rows
from penstock.store import queues as queue_rows
from penstock.store import terms as term_rows

# Claims jobs of these queues, so many, for these workers, under this lease and within this grace.
Take = Callable[[Board, Sequence[str], int, Sequence[str], int, int | None], Claim]
_FAR: Final = 2**62


def claim_all(board: Board, requests: Sequence[ClaimFor], take: Take) -> list[Claim]:
    """Answer *requests* one after the other."""
    answers: dict[int, Claim] = {}
    for group in _alike(requests):
        asked = [requests[n] for n in group]
        workers = [each.worker for each in asked for _ in range(each.count)]
        claim = _ordered(board, asked[0], workers, take)
        if asked[0].timed:
            claim = Claim(_timed(board, claim.jobs, asked[0].lease), claim.more, claim.next_at)
        jobs = iter(claim.jobs)
        for n, each in zip(group, asked, strict=True):
            own = [job for job, _ in zip(jobs, range(each.count), strict=False)]
            answers[n] = Claim(own, claim.more and len(own) < each.count, claim.next_at)
    return [answers[n] for n in range(len(requests))]


def _alike(requests: Sequence[ClaimFor]) -> list[list[int]]:
    """Return the places of requests that differ only in worker and count, together."""
    groups: dict[object, list[int]] = {}
    for n, each in enumerate(requests):
        like = (each.queues, each.lease, each.grace, each.timed, each.order, each.weights)
        groups.setdefault(like, []).append(n)
    return list(groups.values())


def _ordered(board: Board, asked: ClaimFor, workers: Sequence[str], take: Take) -> Claim:
    queues = list(dict.fromkeys(asked.queues))
    if asked.order is Order.PRIORITY or len(queues) == 1:
        return take(board, queues, len(workers), workers, asked.lease, asked.grace)
    jobs: list[Claimed] = []
    next_at, more = _FAR, False
    for queue, share in _shares(board, asked, queues, len(workers)):
        wanted = min(share, len(workers) - len(jobs))
        if wanted <= 0:
            continue
        claim = take(board, [queue], wanted, workers[len(jobs) :], asked.lease, asked.grace)
        jobs += claim.jobs
        more = more or claim.more
        next_at = min(next_at, _FAR if claim.next_at is None else claim.next_at)
        if claim.more and asked.order is Order.STRICT:
            break  # it is this queue's turn still
    return Claim(jobs, more and len(jobs) < len(workers), None if next_at == _FAR else next_at)


def _shares(board: Board, asked: ClaimFor, queues: Sequence[str], count: int) -> list[tuple[str, int]]:
    """Return how much to take of each queue, in order; what some leave is offered to all once more."""
    everything = [(queue, count) for queue in queues]
    match asked.order:
        case Order.LEAST_LOADED:
            running = queue_rows.running(board.db, queues)
            return sorted(everything, key=lambda each: (running.get(each[0], 0), random.random()))  # noqa: S311
        case Order.ROUND_ROBIN:
            return _dealt(queues, [1] * len(queues), count) + everything
        case Order.WEIGHTED:
            named = dict(zip(asked.queues, asked.weights, strict=False))
            return _dealt(queues, [max(1, named.get(queue, 1)) for queue in queues], count) + everything
        case _:
            return everything


def _dealt(queues: Sequence[str], weights: Sequence[int], count: int) -> list[tuple[str, int]]:
    """Deal *count* out by weight; what cannot be divided goes by chance, heavier queues first more often."""
    total = sum(weights)
    shares = [count * weight // total for weight in weights]
    for n in random.choices(range(len(queues)), weights, k=count - sum(shares)):  # noqa: S311
        shares[n] += 1
    order = sorted(range(len(queues)), key=lambda n: random.random() ** (1 / weights[n]), reverse=True)  # noqa: S311
    return [(queues[n], shares[n]) for n in order if shares[n]]


def _timed(board: Board, jobs: Sequence[Claimed], lease: int) -> list[Claimed]:
    """Give attempts the leases that their jobs bring along, and deadlines to those with a timeout."""
    if not jobs:
        return []
    own = term_rows.own(board.db, [job.seq for job in jobs])
    ends = {job.seq: board.now + job.timeout for job in jobs if job.timeout is not None}
    timed = []
    for job in jobs:
        until = min(board.now + own.get(job.seq, lease), ends.get(job.seq, _FAR))
        timed.append(job if until == job.lease else replace(job, lease=until))
    term_rows.set_terms(
        board.db,
        [(job.lease, job.seq) for job, before in zip(timed, jobs, strict=True) if job is not before],
        [(job.seq, job.fence, ends[job.seq]) for job in timed if job.seq in ends],
    )
    return timed


def deal(board: Board, jobs: Sequence[Claimed], workers: Sequence[str]) -> None:
    """Write down which worker has which job, where not all are the first one's."""
    others = [(worker, job.seq) for job, worker in zip(jobs, workers, strict=False) if worker != workers[0]]
    if others:
        lease_rows.assign(board.db, others)

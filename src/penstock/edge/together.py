"""What many ask at once of one engine, in one transaction; if that cannot be, each by itself."""

from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from penstock.engine import Engine
from penstock.errors import PenstockError, StoreError
from penstock.job import Claim, ClaimFor, Enqueued, NewJob, Settlement


class Adding(NamedTuple):
    """Jobs to enqueue, all or none."""

    jobs: Sequence[NewJob]


Question = Adding | Settlement | ClaimFor
Answer = list[Enqueued] | int | None | Claim  # of a settlement: when the attempt ended, None if it was lost


def answers(engine: Engine, questions: Sequence[Question]) -> Sequence[Answer | Exception]:
    """Return the answer to each of *questions*, or what it raised."""
    if len(questions) > 1:
        try:
            return _together(engine, questions)
        except StoreError as error:
            return [error] * len(questions)
        except PenstockError:
            pass  # one of them cannot be; each finds out by itself
    return [_alone(engine, question) for question in questions]


def _together(engine: Engine, questions: Sequence[Question]) -> Sequence[Answer]:
    adding = [question for question in questions if isinstance(question, Adding)]
    settlements = [question for question in questions if isinstance(question, Settlement)]
    # Those who came at once have no order among them; those who ask for the same are served as one.
    requests = [question for question in questions if isinstance(question, ClaimFor)]
    order = sorted(range(len(requests)), key=lambda n: (requests[n].queues, requests[n].lease))
    jobs = [job for each in adding for job in each.jobs]
    if settlements or requests:
        added, settled, claimed = engine.turn(jobs, settlements, [requests[n] for n in order])
    else:
        added, settled, claimed = engine.enqueue(jobs), [], []
    claims = dict(zip(order, claimed, strict=True))
    each_added, each_settled = iter(added), iter(settled)
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
    except Exception as error:  # noqa: BLE001 - the others' answers are good all the same
        return error

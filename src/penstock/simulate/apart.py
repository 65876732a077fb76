"""Play plans in a process of its own, so that a server that is asked to goes on meanwhile.

As a script: plans from standard input, what they come to on standard output.  It gives way to all other processes,
and ends when its time is over, also if the process that started it is gone.
"""

import os
import sys
from dataclasses import dataclass

import msgspec

from penstock.clock import monotonic
from penstock.errors import InvalidError
from penstock.simulate.plan import end_of, read_plan
from penstock.simulate.play import play
from penstock.simulate.side import Side, side

_NICE = 10


@dataclass(frozen=True, slots=True)
class Order:
    """Plans to play, each with at most so many *jobs*, over such a *span* of virtual time, in such a *time*."""

    plans: tuple[str, ...]
    jobs: int
    span: int
    time: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the plans come to, or the first of them that is *wrong*, and how."""

    sides: tuple[Side, ...] = ()
    wrong: int | None = None
    problem: str = ""


def play_all(order: Order) -> Outcome:
    """Play the plans of an order, one after the other."""
    sides = []
    for number, text in enumerate(order.plans):
        try:
            sides.append(_played(text, order))
        except InvalidError as error:
            return Outcome(wrong=number, problem=str(error))
    return Outcome(tuple(sides))


def _played(text: str, order: Order) -> Side:
    plan = read_plan(text)
    end_of(plan, most=order.jobs)
    give_up = monotonic() + order.time
    return side(play(plan, keep_on=lambda now, _: now < order.span and monotonic() < give_up))


def main() -> None:
    """Play what standard input says."""
    if hasattr(os, "nice"):
        os.nice(_NICE)
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=Order)
    sys.stdout.buffer.write(msgspec.json.encode(play_all(order)))


if __name__ == "__main__":
    main()

"""Start worker processes for a workload, and end each by its own process id."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from os import SEEK_END
from tempfile import TemporaryFile
from typing import IO, Final

import msgspec

PATIENCE: Final = 240.0
_TAIL: Final = 4_000  # bytes of a log that are shown of a process that was lost

Hand = subprocess.Popen[bytes]


class Order(msgspec.Struct, frozen=True):
    """What a worker process is to do: end when *idle*, after *enough* jobs, or when its input is closed.

    It does *at_once* jobs, or as many as workers do by default.
    """

    url: str
    handler: str
    idle: bool = False
    enough: int = 0
    at_once: int = 0
    patience: float = PATIENCE


class Sight(msgspec.Struct, frozen=True):
    """What the handlers of one worker process saw.

    *began* is when it went to work, in microseconds; it took *seconds* until all, or *enough*, had begun;
    *starts* are (number, nanoseconds) pairs.
    """

    began: int
    seconds: float
    overlaps: int
    peak_megabytes: float
    starts: list[tuple[int, int]]


class HandLostError(RuntimeError):
    """A worker process ended without telling what it saw."""

    def __init__(self, status: int) -> None:
        super().__init__(f"a worker process ended with status {status} and no report")


@contextmanager
def hired(order: Order, count: int = 1) -> Iterator[Sequence[Hand]]:
    """Have *count* worker processes go to work at once; whatever happens, none outlives the block."""
    command = [sys.executable, "-m", "penstock.bench.child", msgspec.json.encode(order).decode()]
    with ExitStack() as stack:
        # What they log goes to a file, as it does under a supervisor.
        log = stack.enter_context(TemporaryFile())
        hands = []
        try:
            for _ in range(count):
                hand = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
                stack.enter_context(hand)
                stack.callback(hand.kill)
                hands.append(hand)
            # What is measured is work, not the start of processes.
            for hand in hands:
                _await_ready(hand)
            for hand in hands:
                _let_go(hand)
            yield hands
        except HandLostError:
            _show_end(log)
            raise


def _show_end(log: IO[bytes]) -> None:
    log.seek(max(0, log.seek(0, SEEK_END) - _TAIL))
    sys.stderr.write(log.read().decode(errors="replace"))


def dismiss(hands: Sequence[Hand]) -> list[Sight]:
    """Close their input, wait until all have ended and return what they saw."""
    for hand in hands:
        if hand.stdin:
            hand.stdin.close()
            hand.stdin = None
    return [_sight(hand) for hand in hands]


def drained(url: str, handler: str, at_once: int = 0) -> Sight:
    """Let one worker process empty the store at *url*."""
    with hired(Order(url, handler, idle=True, at_once=at_once)) as (hand,):
        return _sight(hand)


def served(url: str, handler: str, enough: int) -> Sight:
    """Let one worker process do *enough* jobs of the store at *url*."""
    with hired(Order(url, handler, enough=enough)) as (hand,):
        return _sight(hand)


def _await_ready(hand: Hand) -> None:
    if not hand.stdout or not hand.stdout.readline():
        raise HandLostError(hand.wait())


def _let_go(hand: Hand) -> None:
    if hand.stdin:
        hand.stdin.write(b"!")
        hand.stdin.flush()


def _sight(hand: Hand) -> Sight:
    output = hand.communicate(timeout=PATIENCE + 10)[0]
    if hand.returncode or not output:
        raise HandLostError(hand.returncode)
    return msgspec.json.decode(output, type=Sight)

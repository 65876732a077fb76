"""Random operations for the referee."""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any, Final

from penstock.clock import MILLISECOND
from penstock.job import START_GRACE
from penstock.lifecycle.states import ENDED, State
from tests.support.model import Mismatch
from tests.support.referee import LEASE, Operation, Referee, Report, failure
from tests.support.shrink import shrink

QUEUES: Final = ("q1", "q2", "q3")
TASKS: Final = ("t1", "t2")
KEYS: Final = ("A", "B", "C", "D", "E")
PERIODS: Final = tuple(period * MILLISECOND for period in (100, 200, 500, 3_000))
LAGS: Final = (0, 0, MILLISECOND, 10 * MILLISECOND, 45 * MILLISECOND)
SPANS: Final = tuple(span * MILLISECOND for span in (1, 10, 49, 50, 51, 100, 200, 500, 1_000, 3_000))


class Driver:
    """Chooses operations that are likely to matter next, from one seed."""

    def __init__(self, referee: Referee, seed: int) -> None:
        self._referee = referee
        self._random = random.Random(seed)
        self._jobs = 0
        # Few keys and few queues make jobs meet; the mix differs from run to run.
        self._keys = KEYS[: self._random.randint(1, len(KEYS))]
        self._queues = QUEUES[: self._random.randint(1, len(QUEUES))]
        self._heavy = referee.mode == "B" or (referee.mode == "C" and self._random.random() < 0.5)
        # What the numbers of each key are made of.  Where starts are remembered every job asks for it,
        # and all look back equally far, so that memory never depends on who came before.
        self._kinds = {key: self._random.choice(("c", "c", "r", "t", "rc", "tc", "rtc")) for key in KEYS}
        self._periods = {name: self._random.choice(PERIODS) for name in (*KEYS, *QUEUES, *TASKS)}
        self._rated_scopes = self._random.random() < 0.3
        self._priorities = self._random.choice(((0,), (0, 0, 1), (-1, 0, 1)))
        self._drops = self._random.choice((0, 0, 0.2)) if referee.mode == "A" else 0
        # Types would make jobs with equal limits differ, and which is first among them matters to drops.
        self._scopes = ("key", "key", "queue") if self._drops else ("key", "key", "queue", "type")

    def first(self) -> list[Operation]:
        """Have queues and types remember starts from the beginning, in runs where they have rates."""
        # Otherwise it would depend on when memory was swept whether an older start still counts.
        if not self._rated_scopes:
            return []
        scopes = (("queue", QUEUES), ("type", () if self._drops else TASKS))
        return [("configure", scope, name, self._ample(name)) for scope, names in scopes for name in names]

    def next(self) -> Operation:
        """Choose one operation."""
        choices: list[tuple[int, Callable[[], Operation]]] = [
            (20, self._enqueue),
            (30, self._claim),
            (15, self._settle),
            (8, self._exchange),
            (10, self._claims),
            (18, self._advance),
            (6, self._begun),
            (3, self._cancel),
            (2, self._retry),
            (2, self._beat),
            (3, self._configure),
            (2, self._override),
            (1, self._clear_override),
            (1, self._shut),
            (1, self._pause),
            (2, self._resume),
            (1, lambda: ("upkeep",)),
            (6, lambda: ("doctor",)),
            (4, lambda: ("compare",)),
            (1, self._settle_late),
        ]
        weights = [weight for weight, _ in choices]
        return self._random.choices([choose for _, choose in choices], weights)[0]()

    def _enqueue(self) -> Operation:
        return ("enqueue", [self._job() for _ in range(self._random.randint(1, 4))])

    def _job(self) -> dict[str, Any]:
        chance = self._random
        self._jobs += 1
        cost = chance.choice((1, 1, 2, 3)) if self._heavy else 1
        ask: dict[str, Any] = {"name": f"j{self._jobs}", "queue": chance.choice(self._queues)}
        keys = chance.sample(self._keys, min(chance.choice((0, 1, 1, 2, 3)), len(self._keys)))
        ask["limits"] = tuple((key, self._own_numbers(key, cost), self._on_limit()) for key in keys)
        ask["cost"] = cost
        ask["task"] = chance.choice(TASKS)
        ask["priority"] = chance.choice(self._priorities)
        if chance.random() < 0.05:
            ask["tenant"] = "another"
        if chance.random() < 0.1:
            ask["due"] = chance.choice(SPANS)
        if chance.random() < 0.05:
            ask["expires"] = chance.choice(SPANS)
        if chance.random() < 0.3:
            ask |= {"attempts": chance.randint(2, 4), "delay": chance.choice((0, 0, *SPANS))}
        if chance.random() < 0.1:
            ask["discard"] = True
        return ask

    def _own_numbers(self, key: str, cost: int) -> str:
        kinds = self._kinds[key]
        least = kinds[0]
        return self._numbers(key, least + self._random.choice(("", kinds)), cost)

    def _numbers(self, name: str, kinds: str, least: int = 0) -> str:
        """Return numbers of these *kinds*; a rate allows at least *least*."""
        chance, period = self._random, self._periods[name]
        parts = {
            "c": f"c{chance.choice((1, 1, 2, 3))}",
            "r": f"r{max(least, chance.choice((1, 2, 3, 5)))}/{period}",
            "t": f"t{chance.choice((1, 2, 3))}/{period}",
        }
        return ";".join(parts[kind] for kind in "crt" if kind in kinds)

    def _changed_numbers(self, scope: str, name: str) -> str:
        chance = self._random
        kinds = self._kinds[name] if scope == "key" else "c"
        if chance.random() < 0.15:
            kind = chance.choice(kinds)
            return "c0" if kind == "c" else f"{kind}0/{self._periods[name]}"
        return self._numbers(name, "".join(chance.sample(kinds, chance.randint(1, len(kinds)))))

    def _rated_numbers(self, name: str) -> str:
        """Return numbers for a queue or type that always remembers starts."""
        choices = (
            self._numbers(name, "r"),
            f"{self._numbers(name, 'c')};{self._ample(name)}",
            self._ample(name),
        )
        return self._random.choice(choices)

    def _ample(self, name: str) -> str:
        return f"r1000/{self._periods[name]}"

    def _on_limit(self) -> str:
        if self._random.random() < self._drops:
            return "drop"
        return self._random.choice(("wait", "wait", "reschedule"))

    def _claim(self) -> Operation:
        count = self._random.randint(1, len(self._queues))
        return ("claim", self._random.sample(self._queues, count), self._random.randint(1, 6), LEASE)

    def _claims(self) -> Operation:
        if self._referee.mode == "C":
            return self._claim()  # what each left behind is explained by the turns of that moment
        chance, requests = self._random, []
        for _ in range(chance.randint(2, 4)):
            _, queues, count, lease = self._claim()
            requests.append((queues, count, lease * chance.choice((1, 1, 2))))
        if chance.random() < 0.4:
            requests = [(requests[0][0], count, LEASE) for _, count, _ in requests]
        return ("claims", requests, chance.choice(("priority", "strict")))

    def _settle(self) -> Operation:
        return ("settle", self._reports())

    def _exchange(self) -> Operation:
        _, queues, count, _ = self._claim()
        return ("exchange", self._reports(), queues, count)

    def _reports(self) -> list[Report]:
        running = self._in(State.RUNNING)
        names = self._random.sample(running, min(len(running), self._random.randint(1, 3)))
        return [(name, self._outcome(), self._began()) for name in names]

    def _outcome(self) -> Operation:
        chance = self._random
        kinds = ("done", "done", "done", "failed", "failed", "again", "cancelled", "limited", "handed back")
        match kind := chance.choice(kinds):
            case "again":
                return (kind, chance.choice((None, 0, *SPANS)))
            case "limited":
                return (kind, chance.choice(SPANS), chance.choice((None, *KEYS)))
            case "handed back":
                return (kind, chance.random() < 0.4)
            case _:
                return (kind,)

    def _began(self) -> int | None:
        return self._random.choice(LAGS) if self._random.random() < 0.3 else None

    def _begun(self) -> Operation:
        return ("begun", self._pick(self._in(State.RUNNING)), self._random.choice(LAGS))

    def _advance(self) -> Operation:
        chance = self._random
        if chance.random() < 0.04:
            return ("advance", LEASE + chance.choice((-1, 0, 1)))
        if chance.random() < 0.02:
            return ("advance", -chance.choice(SPANS))
        if chance.random() < 0.1:
            return ("advance", START_GRACE)
        return ("advance", chance.choice(SPANS))

    def _cancel(self) -> Operation:
        live = [name for name, job in self._referee.model.jobs.items() if job.state not in ENDED]
        return ("cancel", self._pick(live))

    def _retry(self) -> Operation:
        ended = [name for name, job in self._referee.model.jobs.items() if job.state in ENDED]
        return ("retry", self._pick(ended))

    def _beat(self) -> Operation:
        return ("beat", self._pick(self._in(State.RUNNING)), LEASE)

    def _settle_late(self) -> Operation:
        return ("settle_late", self._pick(list(self._referee.model.jobs)))

    def _configure(self) -> Operation:
        scope = self._random.choice(self._scopes)
        name = self._random.choice({"key": self._keys, "queue": self._queues, "type": TASKS}[scope])
        if scope != "key" and self._rated_scopes:
            return ("configure", scope, name, self._rated_numbers(name))
        cleared = self._random.random() < 0.4
        return ("configure", scope, name, None if cleared else self._changed_numbers(scope, name))

    def _override(self) -> Operation:
        key = self._random.choice(self._keys)
        return ("override", key, self._changed_numbers("key", key), self._random.choice((None, *SPANS)))

    def _clear_override(self) -> Operation:
        return ("clear_override", self._random.choice(self._keys))

    def _shut(self) -> Operation:
        return ("shut", self._random.choice(self._keys), self._random.choice(SPANS))

    def _pause(self) -> Operation:
        return ("pause", self._random.choice(self._queues))

    def _resume(self) -> Operation:
        return ("resume", self._random.choice(self._queues))

    def _in(self, state: State) -> list[str]:
        return [name for name, job in self._referee.model.jobs.items() if job.state is state]

    def _pick(self, names: Sequence[str]) -> str:
        return self._random.choice(names) if names else ""


def run(mode: str, seed: int, steps: int, **where: Any) -> None:
    """Make *steps* random operations; raise, with the few that matter, at the first mismatch."""
    done: list[Operation] = []
    with closing(Referee(mode, **where)) as referee:
        try:
            for operation in operations(referee, seed, steps):
                done.append(operation)
                referee.do(operation)
        except Exception as error:
            shrunk = shrink(done, lambda fewer: failure(mode, fewer) is not None)
            raise Mismatch(report(mode, seed, error, shrunk)) from error


def operations(referee: Referee, seed: int, steps: int) -> Iterator[Operation]:
    """Yield random operations, each chosen by what the ones before it did."""
    driver = Driver(referee, seed)
    yield from driver.first()
    for _ in range(steps):
        yield driver.next()
    yield ("compare",)


def report(mode: str, seed: int, error: Exception, shrunk: Sequence[Operation]) -> str:
    lines = "".join(f"    {operation!r},\n" for operation in shrunk)
    return (
        f"seed {seed}, mode {mode}: {error}\nshrunk: {failure(mode, shrunk)}\nreplay({mode!r}, [\n{lines}])"
    )

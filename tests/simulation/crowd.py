"""The same histories, dealt to threads and processes that all work on one store at once.

Which comes first is left to chance, so nothing is foretold; what each of them saw is written down and judged
when all is at rest.  Times are microseconds since the machine's start, the same in every process.
"""

import multiprocessing
import re
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from penstock.clock import since_boot
from penstock.engine import Engine, open_engine
from penstock.errors import PenstockError
from penstock.job import Claimed, Settlement
from penstock.lifecycle.states import LIVE
from penstock.limits.rules import numbers_from_text
from tests.simulation.fate import Fate
from tests.simulation.model import Numbers, numbers
from tests.simulation.referee import Pass, Referee
from tests.simulation.world import Operation, new_job, outcome_of, world

PROCESSES, THREADS = 2, 3
LEASE = 1_000_000
RESERVE = 5_000  # before a handler's last moment, which a worker keeps
LONGEST = 100_000  # a period, so that no job waits long
PATIENCE = 40.0  # seconds until all must be at rest
PLAIN = {"cancel", "retry", "why", "upkeep", "pause", "resume"}  # verbs that the engine is told as they are
PERIOD = re.compile(r"/(\d+)")


@dataclass
class Log:
    """What one of the crowd saw."""

    asks: list[dict[str, Any]] = field(default_factory=list)
    # Asked, answered, job, fence, lease.
    claims: list[tuple[int, int, str, int, int]] = field(default_factory=list)
    begins: dict[tuple[str, int], int] = field(default_factory=dict)
    # Asked, job, fence, accepted, outcome.
    ends: list[tuple[int, str, int, bool, str]] = field(default_factory=list)
    # From, to, layer, gate, text.
    rules: list[tuple[int, int, str, Any, str | None]] = field(default_factory=list)


def histories(seed: int, count: int, steps: int) -> list[list[Operation]]:
    """Return a history for each of a crowd: every key has numbers of its own, and no period is long."""
    with world("C") as fresh:
        fate = Fate(fresh, seed)
        fate.be_uniform()
        whole = []
        for operation in fate.history(steps * count):
            fresh.do(operation)
            whole.append(operation[2] if operation[0] == "crash_in" else operation)
    quick = [_quickly(operation) for operation in whole]
    return [quick[number::count] for number in range(count)]


def _quickly(thing: Any) -> Any:
    if isinstance(thing, str):
        return PERIOD.sub(lambda found: f"/{min(int(found[1]), LONGEST)}", thing)
    if isinstance(thing, dict):
        return {key: _quickly(value) for key, value in thing.items()}
    return type(thing)(map(_quickly, thing)) if isinstance(thing, list | tuple) else thing


class Actor:
    """One of the crowd: lets its part of the history happen, and runs the jobs it claimed."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._hands: list[Claimed] = []
        self._former: list[Claimed] = []
        self.log = Log()

    def act(self, history: Sequence[Operation]) -> Log:
        for verb, *rest in history:
            act = getattr(self._engine, verb) if verb in PLAIN else getattr(self, f"_{verb}", None)
            if act is not None:
                with suppress(PenstockError):  # refused, as when another was there first
                    act(*rest)
        return self.log

    def _enqueue(self, asks: Sequence[dict[str, Any]]) -> None:
        asks = [ask for ask in asks if "unique" not in ask]
        self._engine.enqueue([new_job(ask, self._engine.clock.now()) for ask in asks])
        self.log.asks += asks

    def _claim(
        self,
        queues: Sequence[str],
        count: int,
        _lease: int = LEASE,
        _lags: Any = (),
        _worker: str = "",
        tasks: Any = None,
        _relay: Any = (),
        _standby: int = 0,
    ) -> None:
        asked = since_boot()
        name = threading.current_thread().name
        claim = self._engine.claim(queues, count, worker=name, lease=LEASE, tasks=tasks)
        answered = since_boot()
        for job in claim.jobs:
            self.log.claims.append((asked, answered, job.id, job.fence, job.lease - self._offset))
            self._hands.append(job)
            self._begin(job)

    def _begin(self, job: Claimed) -> None:
        now = since_boot()
        latest = min(job.begin_by or job.lease, job.lease) - self._offset - RESERVE
        if now <= latest:
            self.log.begins[job.id, job.fence] = now

    @property
    def _offset(self) -> int:
        return self._engine.clock.now() - since_boot()

    def _settle(self, reports: Sequence[tuple[str, Operation, bool]]) -> None:
        mine, self._hands = self._hands[: len(reports)], self._hands[len(reports) :]
        self._settle_these([(job, *report[1:]) for job, report in zip(mine, reports, strict=False)])
        self._former += mine

    def _settle_late(self, _: str) -> None:
        self._settle_these([(job, ("done",), False) for job in self._former[-3:]])

    def _settle_these(self, reports: Sequence[tuple[Claimed, Operation, bool]]) -> None:
        settlements, outcomes = [], []
        for job, wanted, tell in reports:
            began = self.log.begins.get((job.id, job.fence))
            outcome = ("handed back",) if began is None else wanted
            if outcome[0] == "handed back":
                outcome = ("handed back", began is not None)
            elif outcome[0] == "limited":
                outcome = ("limited", self._engine.clock.now() + min(outcome[1], LONGEST), outcome[2])
            told = began + self._offset - job.started if tell and began is not None else None
            settlements.append(Settlement(job.seq, job.fence, outcome_of(*outcome), told))
            outcomes.append(outcome[0])
        asked = since_boot()
        answers = self._engine.settle(settlements)
        for (job, *_), outcome, accepted in zip(reports, outcomes, answers, strict=True):
            self.log.ends.append((asked, job.id, job.fence, accepted, outcome))

    def _begun(self, _: str) -> None:
        begins = self.log.begins
        told = [(job, begins[job.id, job.fence]) for job in self._hands if (job.id, job.fence) in begins]
        self._engine.begun([(job.seq, job.fence, at + self._offset - job.started) for job, at in told])

    def _die(self, _: str) -> None:
        self._former, self._hands = self._former + self._hands, []

    def _advance(self, span: int) -> None:
        time.sleep(min(span, 3_000) / 1e6)

    def _shut(self, key: str, span: int, tenant: str = "") -> None:
        self._engine.shut(key, self._engine.clock.now() + min(span, LONGEST), tenant=tenant)

    def _configure(self, scope: str, name: str, text: str | None, tenant: str = "") -> None:
        told = None if text is None else numbers_from_text(text)
        with self._changing("configured", (scope, tenant, name), text):
            self._engine.configure(scope, name, told, tenant=tenant)

    def _override(self, key: str, text: str, span: int | None, tenant: str = "") -> None:
        until = None if span is None else self._engine.clock.now() + span
        gate = ("key", tenant, key)
        with self._changing("override", gate, text):
            self._engine.override(key, numbers_from_text(text), until=until, tenant=tenant)
        if until is not None:
            ends = until - self._offset
            self.log.rules.append((ends - RESERVE, ends + RESERVE, "override", gate, None))

    def _clear_override(self, key: str, tenant: str = "") -> None:
        with self._changing("override", ("key", tenant, key), None):
            self._engine.clear_override(key, tenant=tenant)

    @contextmanager
    def _changing(self, *what: Any) -> Iterator[None]:
        """Note from when to when a rule may have been changed."""
        since = since_boot()
        try:
            yield
        finally:
            self.log.rules.append((since, since_boot(), *what))


def play_at_once(url: str, seed: int, steps: int) -> tuple[list[str], Referee]:
    """Let a crowd work on one store; return what was wrong in the end."""
    parts = histories(seed, PROCESSES * THREADS, steps)
    work = [(url, parts[number::PROCESSES]) for number in range(PROCESSES)]
    with ProcessPoolExecutor(PROCESSES, multiprocessing.get_context("spawn")) as pool:
        logs = [log for of_process in pool.map(_act_together, work) for log in of_process]
    with closing(open_engine(url)) as engine:
        found, last = _rest(engine, logs)
        states = _states(engine)
        found += engine.doctor()
    logs.append(last)
    asked = {ask["name"] for log in logs for ask in log.asks}
    found += [f"{name} is lost" for name in sorted(asked - states.keys())]
    found += [f"no thread asked for {name}" for name in sorted(states.keys() - asked)]
    referee = judged(logs)
    return found + referee.finish(), referee


def _act_together(work: tuple[str, list[list[Operation]]]) -> list[Log]:
    url, parts = work
    with closing(open_engine(url)) as engine, ThreadPoolExecutor(len(parts)) as pool:
        return list(pool.map(lambda part: Actor(engine).act(part), parts))


def _rest(engine: Engine, logs: Sequence[Log]) -> tuple[list[str], Log]:
    """Open whatever is shut, and work until nothing is left."""
    actor = Actor(engine)
    queues = sorted({ask["queue"] for log in logs for ask in log.asks})
    opening = [("resume", queue) for queue in queues]
    for _, _, layer, (scope, tenant, name), _ in [rule for log in logs for rule in log.rules]:
        done = layer == "configured"
        opening.append(("configure", scope, name, None, tenant) if done else ("clear_override", name, tenant))
    actor.act(sorted(set(opening)))
    end = time.monotonic() + PATIENCE
    while (left := {s: n for s, n in engine.count().items() if s in LIVE}) and time.monotonic() < end:
        actor.act([("claim", queues, 20), ("settle", [("", ("done",), True)] * 20), ("advance", 2_000)])
    return [f"there still are {left}"] if left else [], actor.log


def _states(engine: Engine) -> dict[str, str]:
    found: dict[str, str] = {}
    before = None
    while page := engine.jobs(before=before, limit=1_000):
        found |= {view.id: view.state.value for view in page}
        before = page[-1].seq
    return found


def judged(logs: Sequence[Log]) -> Referee:
    """Tell the referee what each of the crowd saw, in the order in which it is certain to have happened."""
    asks = {ask["name"]: ask for log in logs for ask in log.asks}
    begins = {key: at for log in logs for key, at in log.begins.items()}
    rules = Rules([rule for log in logs for rule in log.rules])
    events: list[tuple[int, int, Any]] = []
    for log in logs:
        events += [(claim[1], 1, claim) for claim in log.claims]
        events += [(end[0], 0, end) for end in log.ends]
    referee, attempts = Referee(), {}
    for at, is_claim, event in sorted(events, key=lambda event: event[:2]):
        if is_claim:
            asked, _, job, fence, lease = event
            passes = list(rules.passes(asks[job], asked - LONGEST, at))
            attempt = referee.claimed(job, fence, at, lease, passes)
            attempts[job, fence] = attempt
            if (job, fence) in begins:
                referee.began(attempt, begins[job, fence])
        else:
            _, job, fence, accepted, outcome = event
            referee.ended(attempts[job, fence], at, accepted=accepted, done=outcome == "done")
    return referee


class Rules:
    """What may have been in force, and when: of several possibilities the most generous counts."""

    def __init__(self, changes: Sequence[tuple[int, int, str, Any, str | None]]) -> None:
        self._changes = sorted(changes, key=lambda change: change[:2])

    def passes(self, ask: dict[str, Any], since: int, until: int) -> Iterator[Pass]:
        tenant = ask.get("tenant", "")
        keys = [(key, "" if key.startswith("*") else tenant, text) for key, text, *_ in ask["limits"]]
        own = [(("key", owner, key), numbers(text)) for key, owner, text in keys]
        scopes = [(("type", "", ask.get("task", "t1")), Numbers()), (("queue", "", ask["queue"]), Numbers())]
        for gate, brought in [*own, *scopes]:
            told = [self._told(layer, gate, since, until) for layer in ("override", "configured")]
            slots, rate, throttle = (
                _most(brought[part], [[numbers(text)[part] for text in texts] for texts in told])
                for part in range(3)
            )
            yield Pass(gate, slots, rate, throttle, counts=gate[0] == "key", cost=ask.get("cost", 1))

    def _told(self, layer: str, gate: Any, since: int, until: int) -> set[str | None]:
        """Return what may have been told of a gate at any moment between."""
        told: set[str | None] = {None}
        for begin, end, of_layer, of_gate, text in self._changes:
            if (of_layer, of_gate) == (layer, gate) and begin <= until:
                told = {text} if end < since else told | {text}
        return told


def _most(own: Any, layers: list[list[Any]]) -> Any:
    """Return the most generous of the numbers that may have been in force; None is no limit at all."""
    possible = {own}
    for layer in reversed(layers):
        possible = {value for value in layer if value is not None} | (possible if None in layer else set())
    return None if None in possible else max(possible, key=_generosity)


def _generosity(value: Any) -> float:
    return value if isinstance(value, int) else value[0] / value[1]

"""Which lane does the next job of a kind belong to?  Lanes and gates are made when they are first needed."""

from collections.abc import Iterator
from random import Random

from penstock.errors import InvalidError
from penstock.job import NewJob
from penstock.limits.template import parse_template
from penstock.simulate.plan import JobKind, Plan, PlannedLimit
from penstock.simulate.watch import Group, Lane, SeenGate, engine_limit, rules_of, seen_gate


class Lanes:
    """The lanes of a plan, by number; a job names its lane by what it has for arguments."""

    def __init__(self, plan: Plan, seed: int) -> None:
        self.every: list[Lane] = []
        self.everything = Group("all jobs")
        self.kinds = tuple(Group(kind.name) for kind in plan.jobs)
        self.gates: dict[str, SeenGate] = {}
        self.rules = {limit.name: rules_of(limit) for limit in plan.limits}
        self._jobs = plan.jobs
        self._by_values: list[dict[tuple[str, ...], Lane]] = [{} for _ in plan.jobs]
        self._values = [_values(kind, seed) for kind in plan.jobs]

    def next_of(self, number: int) -> Lane:
        """Return the lane of the next job of a kind."""
        values = next(self._values[number])
        lane = self._by_values[number].get(values)
        if lane is None:
            lane = self._by_values[number][values] = self._make(number, values)
        return lane

    def _make(self, number: int, values: tuple[str, ...]) -> Lane:
        kind = self._jobs[number]
        arguments = dict(zip(kind.keys or {}, values, strict=True))
        keys = [parse_template(limit.key).fill(arguments) for limit in kind.limits]
        gates = tuple(self._gate(limit, key) for limit, key in zip(kind.limits, keys, strict=True))
        limits = tuple(engine_limit(limit, key) for limit, key in zip(kind.limits, keys, strict=True))
        job = NewJob(
            kind.name, args=str(len(self.every)), priority=kind.priority, limits=limits, cost=kind.cost
        )
        groups = (self.everything, self.kinds[number], *(gate.group for gate in gates))
        lane = Lane(kind, job, gates, groups)
        self.every.append(lane)
        return lane

    def _gate(self, limit: PlannedLimit, key: str) -> SeenGate:
        gate = self.gates.get(key)
        if gate is None:
            gate = self.gates[key] = seen_gate(limit, key, self.rules[limit.name])
        if gate.limit is not limit:
            problem = f"{key!r} is also a key of {gate.limit.name!r}; begin each with a word of its own"
            raise InvalidError(f"limits.{limit.name}.key", problem)
        return gate


def _values(kind: JobKind, seed: int) -> Iterator[tuple[str, ...]]:
    """Return what the keys of one job after the other are made of."""
    parts = [values.draw(Random(f"{seed} {kind.name} {name}")) for name, values in (kind.keys or {}).items()]
    while True:
        yield tuple(next(part) for part in parts)

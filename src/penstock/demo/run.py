"""Play scenarios and judge them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.clock import SECOND, monotonic, pause
from penstock.demo.checks import Request, Seen, Verdict
from penstock.demo.scenarios import Scenario, Setting
from penstock.demo.stage import PATIENCE, Stage, StageError, tasks
from penstock.errors import JobDroppedError, PenstockError, ResultTimeoutError

if TYPE_CHECKING:
    from penstock import JobHandle, Run

# A rate of the last round must not be felt in the next one.
REST: Final = 1.0
MORE: Final = SECOND // 5  # that a scenario takes beside what it needs at best


@dataclass(frozen=True, slots=True)
class Played:
    """One scenario after it was played: what was seen of it, and how it is judged."""

    scenario: Scenario
    round: int
    seen: Seen
    ideal: int
    verdicts: tuple[Verdict, ...]

    @property
    def kept(self) -> bool:
        """Whether every promise was kept."""
        return all(verdict.kept for verdict in self.verdicts)


def expected(scenarios: Sequence[Scenario], setting: Setting, repeat: int) -> int:
    """Return about how long it takes to play *scenarios*, *repeat* times over."""
    ideal = sum(scenario.ideal(setting) + MORE for scenario in scenarios)
    return repeat * (ideal + round(REST * SECOND))


def rounds(stage: Stage, scenarios: Iterable[Scenario], setting: Setting, repeat: int) -> Iterator[Played]:
    """Play *scenarios* in turn, *repeat* times over."""
    chosen = tuple(scenarios)
    for number in range(1, repeat + 1):
        if number > 1:
            pause(REST)
        for scenario in chosen:
            yield play(stage, scenario, setting, number)


def play(stage: Stage, scenario: Scenario, setting: Setting, number: int = 1) -> Played:
    """Play one *scenario* and judge it."""
    stage.reset()
    began = monotonic()
    jobs = _enqueue(scenario, scenario.gap(setting))
    dropped, errors = _results(stage, jobs)
    elapsed = monotonic() - began
    reused = Counter(request.account for request, job in jobs if job.reused)
    seen = Seen(scenario.requests, stage.calls(), dropped, reused, errors, elapsed, scenario.may_overlap)
    verdicts = tuple(check(seen) for check in scenario.checks)
    return Played(scenario, number, seen, scenario.ideal(setting), verdicts)


def _enqueue(scenario: Scenario, gap: int) -> "list[tuple[Request, JobHandle[str] | Run[str]]]":
    named = getattr(tasks(), scenario.task)
    send = named.start if hasattr(named, "start") else named.enqueue
    jobs: list[tuple[Request, JobHandle[str] | Run[str]]] = []
    for request in scenario.requests:
        if jobs and gap:
            pause(gap / SECOND)
        jobs.append((request, send(request.account, request.op)))
    return jobs


def _results(
    stage: Stage, jobs: "Iterable[tuple[Request, JobHandle[str] | Run[str]]]"
) -> tuple[Counter[str], list[str]]:
    dropped: Counter[str] = Counter()
    errors: list[str] = []
    for request, job in jobs:
        try:
            _result(stage, job)
        except JobDroppedError:
            dropped[request.account] += 1
        except StageError:
            raise
        except PenstockError as error:
            errors.append(f"{request.account} {request.op}: {str(error).splitlines()[0]}")
    return dropped, errors


def _result(stage: Stage, job: "JobHandle[str] | Run[str]") -> None:
    give_up = monotonic() + PATIENCE
    while True:
        try:
            job.result(timeout=1)
            return
        except ResultTimeoutError:
            stage.check()
            if monotonic() > give_up:
                raise

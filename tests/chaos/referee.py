"""Was every limit kept, and is no job lost?  Judged from what the provider was told.

The engine is asked for two things only: how every job ended, and which attempts it took for lost.
Times are nanoseconds by the clock that all processes share.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import pairwise

from tests.chaos.rules import GUARD, LEASE, SECOND, Rules
from tests.chaos.run_referee import RunJudge

FOREVER = 2**63
# Until a worker looks again after a disturbance, at the latest.
LAG = 8 * SECOND
# The share of handlers that a busy machine may halt right before their first line.
HALTED = 0.02


@dataclass(slots=True)
class Story:
    """All that is known of a storm once it is over."""

    lines: list[dict]  # what the provider was told
    states: dict[str, str]  # of every job in the store, in the end
    rescues: dict[tuple[str, int], int] = field(default_factory=dict)  # when, by (job, attempt)
    killed: dict[int, int] = field(default_factory=dict)  # when, by process
    troubles: list[tuple[int, int]] = field(
        default_factory=list
    )  # the server down, a worker frozen or halted
    runs: dict[str, str] = field(default_factory=dict)  # the state of every instance, in the end

    def told(self, what: str) -> list[dict]:
        """Return the lines of one kind, by time."""
        return sorted((line for line in self.lines if line["what"] == what), key=lambda line: line["at"])


@dataclass(slots=True)
class Attempt:
    """A handler that ran: *until* it ended, its process was killed or the engine took it for lost."""

    job: str
    number: int
    fence: int
    pid: int
    asked: int  # when its claim was sent
    answered: int
    looked: int  # at the clock, by its worker, right before its handler
    began: int
    ended: int | None
    rescued: int | None
    until: int

    @property
    def vouched(self) -> int:
        """The latest moment at which its worker can have taken it to begin.

        A thread that is halted between its worker's look at the clock and its handler's first line
        begins later than can be known; workers grant `GUARD` for that step.
        """
        return min(self.began, self.looked + GUARD)


class Judge:
    """Reads a story; `complaints` are sentences, one for each thing that should not have happened."""

    def __init__(self, story: Story, rules: Rules) -> None:
        self.story = story
        self.rules = rules
        # A step of a run is enqueued by the engine; its handler knows what it passes.
        self.passes = {
            line["job"]: line["passes"]
            for line in story.told("enqueued") + story.told("began")
            if "passes" in line
        }
        ends = {(line["job"], line["fence"]): line for line in story.told("ended")}
        self._accepted = {
            (line["job"], line["fence"]): line["at"] for line in story.told("settled") if line["accepted"]
        }
        self.attempts = [
            self._attempt(line, ends.get((line["job"], line["fence"]))) for line in story.told("began")
        ]
        self.completed = {line["job"] for line in ends.values() if line["completed"]}
        self.at_gate: dict[str, list[Attempt]] = defaultdict(list)
        for attempt in self.attempts:
            for gate in self.passes.get(attempt.job, ()):
                self.at_gate[gate].append(attempt)
        self.runs = RunJudge(story, self.attempts, self.completed)
        self.at_gate |= self.runs.spans()
        self.most: dict[str, int] = {}  # at once, by gate
        self.excused = 0  # starts too close to one that was halted
        self.filled: dict[str, set[int]] = defaultdict(set)  # values of a floating limit that were reached
        self.complaints = self._complaints()

    def _complaints(self) -> list[str]:
        return [
            *self._jobs(),
            *self._unended(),
            *self._fencing(),
            *self._needless_rescues(),
            *(found for gate, slots in self.rules.slots.items() for found in self._overlaps(gate, slots)),
            *(found for gate, first in self.rules.floating.items() for found in self._floating(gate, first)),
            *(found for gate, window in self.rules.rates.items() for found in self._windows(gate, *window)),
            *(found for gate, gap in self.rules.gaps.items() for found in self._gaps(gate, gap)),
            *self._halts(),
            *self.runs.complaints(),
        ]

    def gentle(self) -> list[str]:
        """Say where the storm was too gentle to show anything."""
        found = self.runs.gentle()
        for gate, slots in self.rules.slots.items():
            if self.most.get(gate, 0) < slots:
                found.append(f"{gate} was never full: {self.most.get(gate, 0)} of {slots}")
        for gate, (limit, period) in self.rules.rates.items():
            starts = [attempt.began for attempt in self.at_gate[gate]]
            if not any(
                later - earlier < 2 * period for earlier, later in zip(starts, starts[limit:], strict=False)
            ):
                found.append(f"{gate} never had to hold a start back")
        for gate, gap in self.rules.gaps.items():
            starts = [attempt.began for attempt in self.at_gate[gate]]
            if not any(later - earlier < 2 * gap for earlier, later in pairwise(starts)):
                found.append(f"{gate} never had to hold a start back")
        for gate in self.rules.floating:
            if len(self.filled[gate]) < 2:
                found.append(f"{gate} was full at {self.filled[gate] or 'no value'} only")
        if not any(attempt.ended is None for attempt in self.attempts):
            found.append("no handler was cut short")
        return found

    def figures(self) -> dict[str, object]:
        settled = self.story.told("settled")
        return {
            "jobs": len(self.passes),
            "runs": len(self.runs.started),
            "enqueued again": sum(line["tries"] > 1 for line in self.story.told("enqueued")),
            "attempts": len(self.attempts),
            "cut short": sum(attempt.ended is None for attempt in self.attempts),
            "rescued": len(self.story.rescues),
            "ended after their rescue": sum(
                a.rescued is not None and (a.ended or 0) > a.rescued for a in self.attempts
            ),
            "refused": sum(not line["accepted"] for line in settled),
            "kills": len(self.story.killed),
            "most at once": self.most,
            "refreshes": len(self.story.told("refreshed")),
            "floating values reached": dict(self.filled),
            "halted before the first line": sum(a.began > a.vouched for a in self.attempts),
            "too close to one halted": self.excused,
        }

    def _attempt(self, line: dict, end: dict | None) -> Attempt:
        key = line["job"], line["attempt"]
        rescued = self.story.rescues.get(key)
        if rescued is not None and self._accepted.get((line["job"], line["fence"]), FOREVER) < rescued:
            rescued = None  # it was handed back, and another one of the same number was lost
        ended = None if end is None else end["at"]
        stopped = self.story.killed.get(line["pid"], FOREVER) if ended is None else ended
        until = stopped if rescued is None else min(stopped, rescued)
        return Attempt(
            *key, line["fence"], line["pid"], line["asked"], line["answered"], line["looked"], line["at"],
            ended, rescued, max(until, line["at"]),
        )  # fmt: skip

    def _jobs(self) -> list[str]:
        states = self.story.states
        return [
            *(f"job {job} is lost" for job in self.passes if job not in states),
            *(f"job {job} was never enqueued" for job in states if job not in self.passes),
            *(f"job {job} is {state}" for job, state in states.items() if state != "done"),
            *(
                f"job {job} is done, but no handler completed it"
                for job in states
                if job not in self.completed
            ),
        ]

    def _unended(self) -> list[str]:
        return [
            f"job {attempt.job}, attempt {attempt.number} began and never ended, though its worker was not killed"
            for attempt in self.attempts
            if attempt.ended is None and attempt.pid not in self.story.killed
        ]

    def _fencing(self) -> list[str]:
        done = Counter(
            line["job"]
            for line in self.story.told("settled")
            if line["accepted"] and line["outcome"] == "Done"
        )
        return [
            *(f"job {job} was done {times} times" for job, times in done.items() if times > 1),
            *(
                f"job {a.job}, attempt {a.number} was accepted though its lease had run out"
                for a in self.attempts
                if a.rescued is not None and (a.job, a.fence) in self._accepted
            ),
        ]

    def _needless_rescues(self) -> list[str]:
        found = []
        for attempt in self.attempts:
            at = attempt.rescued
            if at is None or attempt.began > at or self.story.killed.get(attempt.pid, FOREVER) <= at:
                continue
            earliest = at - LEASE * SECOND - LAG
            if not any(begin <= at and end >= earliest for begin, end in self.story.troubles):
                found.append(
                    f"job {attempt.job}, attempt {attempt.number} was taken from a worker that was well"
                )
        return found

    def _overlaps(self, gate: str, slots: int) -> list[str]:
        return [
            f"{gate} had {len(running)} at once, {slots} allowed: {_named(running)}"
            for running in self._running(gate)
            if len(running) > slots
        ]

    def _floating(self, gate: str, first: int) -> list[str]:
        found = []
        values = self._values(gate, first)
        for running in self._running(gate):
            # All of them held a slot when the last of them was claimed; which one that was may be uncertain.
            asked = max(attempt.asked for attempt in running)
            lasts = [attempt for attempt in running if attempt.answered >= asked]
            allowed = max(
                value
                for value, since, until in values
                for last in lasts
                if since <= last.answered and last.asked <= until
            )
            if len(running) == allowed:
                self.filled[gate].add(allowed)
            if len(running) > allowed:
                found.append(f"{gate} had {len(running)} at once, {allowed} allowed: {_named(running)}")
        return found

    def _values(self, gate: str, first: int) -> list[tuple[int, int, int]]:
        """Return (value, since, until): a value may have been in force then, at the longest.

        A change whose answer was lost may have been made or not.
        """
        answers = {
            (line["pid"], line["fence"]): line["at"]
            for line in self.story.told("refreshed")
            if line["key"] == gate and line["accepted"]
        }
        values = [(first, 0, FOREVER)]
        for line in self.story.told("refreshing"):
            if line["key"] != gate:
                continue
            answered = answers.get((line["pid"], line["fence"]))
            if answered is not None:
                values = [(value, since, min(until, answered)) for value, since, until in values]
            if line["value"] is not None:
                values.append((line["value"], line["at"], FOREVER))
        return values

    def _windows(self, gate: str, limit: int, period: int) -> list[str]:
        return [
            f"{gate} had {limit + 1} starts in {apart / 1e6:.3f} ms; {limit} may be in {period / 1e6:g}"
            for apart in self._too_close(gate, limit, period)
        ]

    def _gaps(self, gate: str, gap: int) -> list[str]:
        return [
            f"{gate} had two starts {apart / 1e6:.3f} ms apart; {gap / 1e6:.3f} must lie between"
            for apart in self._too_close(gate, 1, gap)
        ]

    def _too_close(self, gate: str, limit: int, period: int) -> list[int]:
        """Return how far starts are apart that come *limit* starts after another and within *period* of it."""
        starts = self._started(gate)
        found = []
        for earlier, later in zip(starts, starts[limit:], strict=False):
            if later.began - earlier.vouched < period:
                found.append(later.began - earlier.began)
            elif later.began - earlier.began < period:
                self.excused += 1
        return found

    def _halts(self) -> list[str]:
        halted = sum(attempt.began > attempt.vouched for attempt in self.attempts)
        if halted <= len(self.attempts) * HALTED:
            return []
        return [
            f"{halted} of {len(self.attempts)} handlers began long after their worker had looked at the clock"
        ]

    def _started(self, gate: str) -> list[Attempt]:
        return [a for a in self.at_gate[gate] if a.rescued is None or a.looked < a.rescued]

    def _running(self, gate: str) -> list[list[Attempt]]:
        """Return who was at work whenever another began, that one included."""
        moments, running = [], []
        for attempt in self.at_gate[gate]:
            running = [other for other in running if other.until > attempt.began]
            if attempt.until > attempt.began:
                running.append(attempt)
                moments.append(running)
        self.most[gate] = max(map(len, moments), default=0)
        return moments


def _named(running: list[Attempt]) -> str:
    return ", ".join(f"{a.job} (attempt {a.number} of {a.pid}, at {a.began / 1e9:.4f})" for a in running)

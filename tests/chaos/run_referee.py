"""Did every run of a workflow keep its slots from its first step to its end, and begin each step once?

Judged by what the handlers of its steps told the provider.
"""

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.chaos.rules import STEPS

if TYPE_CHECKING:
    from tests.chaos.referee import Attempt, Story


class RunJudge:
    """Reads what a story tells of runs, given all *attempts* and which steps were *completed*."""

    def __init__(self, story: "Story", attempts: list["Attempt"], completed: set[str]) -> None:
        self.story = story
        self.started = {line["run"]: line["passes"] for line in story.told("run")}
        self._completed = completed
        self._step_of = {
            line["job"]: (line["run"], line["step"]) for line in story.told("began") if "run" in line
        }
        self._by_step: dict[tuple[str, str], list[Attempt]] = defaultdict(list)
        self._by_run: dict[str, list[Attempt]] = defaultdict(list)
        for attempt in attempts:
            if attempt.job in self._step_of:
                run, step = self._step_of[attempt.job]
                self._by_step[run, step].append(attempt)
                self._by_run[run].append(attempt)

    def spans(self) -> dict[str, list["Attempt"]]:
        """Return runs by gate, in their order: each from the beginning of its first step to the end of its last."""
        at_gate = defaultdict(list)
        for run, attempts in self._by_run.items():
            began = min(attempt.began for attempt in attempts)
            # One that began after it was given up is no longer the run's.
            until = max((a.until for a in attempts if a.until > a.began), default=began)
            for gate in self.started.get(run, ()):
                at_gate[gate].append(replace(attempts[0], job=run, began=began, until=until))
        return {gate: sorted(runs, key=lambda run: run.began) for gate, runs in at_gate.items()}

    def complaints(self) -> list[str]:
        states = self.story.runs
        return [
            *(f"run {run} is lost" for run in self.started if run not in states),
            *(f"run {run} was never started" for run in states if run not in self.started),
            *(f"run {run} is {state}" for run, state in states.items() if state != "done"),
            *(found for run, state in states.items() if state == "done" for found in self._incomplete(run)),
            *(found for step in self._by_step for found in self._begun_again(*step)),
        ]

    def gentle(self) -> list[str]:
        """Say where the storm was too gentle to show anything."""
        if any(attempt.rescued is not None for attempts in self._by_step.values() for attempt in attempts):
            return []
        return ["no step of a run was taken from a worker"] if self.started else []

    def _incomplete(self, run: str) -> list[str]:
        done = {self._step_of[a.job][1] for a in self._by_run[run] if a.job in self._completed}
        missing = [step for step in STEPS if step not in done]
        return [f"run {run} is done, but no handler completed {', '.join(missing)}"] if missing else []

    def _begun_again(self, run: str, step: str) -> list[str]:
        attempts = self._by_step[run, step]
        jobs = sorted({attempt.job for attempt in attempts})
        if len(jobs) > 1:
            return [f"step {step} of run {run} began as {len(jobs)} jobs: {', '.join(jobs)}"]
        return [
            f"step {step} of run {run} began again, as attempt {attempt.number}, though the one before was not lost"
            for attempt in attempts
            if attempt.number > 1 and (attempt.job, attempt.number - 1) not in self.story.rescues
        ]

"""What follows from the end of a step?

A step remembers only how many of those it waits for have not ended, and how the others did.  So a change
costs as much as it has children, however large the workflow is.

Invariant: a step is set free once, and not before all it waits for have ended.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, assert_never

from penstock.workflows.steps import BAD, LIVE, StepState, When, WorkflowState


@dataclass(slots=True)
class Standing:
    """What is remembered of a step: *waiting*, *failed* and *skipped* count the steps that it depends on."""

    number: int
    workflow: int
    state: StepState
    when: When
    callback: bool
    begun: bool  # a job was made for it
    waiting: int
    failed: int
    skipped: int
    children: tuple[int, ...] = ()
    opening: int | None = None

    def hear(self, change: "Change") -> None:
        """Note that one it depends on went from one state to another."""
        for state, by in ((change.before, -1), (change.after, 1)):
            if state in LIVE:
                self.waiting += by
            elif state in BAD:
                self.failed += by
            elif state is StepState.SKIPPED and not change.step.callback:
                self.skipped += by

    def verdict(self) -> StepState:
        """Say what becomes of it if no job was made for it yet; `RUNNING` sets it free."""
        if self.failed and self.when is When.DONE and not self.callback:
            return StepState.CANCELLED
        if self.waiting:
            return StepState.WAITING
        match self.when:
            case When.DONE:
                runs = not self.failed and (self.callback or not self.skipped)
            case When.FAILED:
                runs = self.failed > 0
            case When.ENDED:
                runs = True
            case _:
                assert_never(self.when)
        return StepState.RUNNING if runs else StepState.SKIPPED

    @property
    def decided(self) -> bool:
        """Whether nothing that others do changes it any more."""
        # A callback that was told how all ended is not told again, though one of them was retried by hand.
        return self.begun or (self.callback and self.state is StepState.SKIPPED)


class Change(NamedTuple):
    """A step that went from one state to another."""

    step: Standing
    before: StepState
    after: StepState


@dataclass(slots=True)
class Tally:
    """How far a workflow is: steps that have not ended, that were done, that failed or were cancelled.

    Callbacks are counted only where they fail.
    """

    unfinished: int
    completed: int = 0
    failed: int = 0

    def count(self, change: Change) -> None:
        """Note that a step went from one state to another."""
        for state, by in ((change.before, -1), (change.after, 1)):
            if state in BAD:
                self.failed += by
            if not change.step.callback:
                self.unfinished += by if state in LIVE else 0
                self.completed += by if state is StepState.DONE else 0

    @property
    def state(self) -> WorkflowState:
        """Where the workflow stands, unless it was cancelled."""
        if self.unfinished:
            return WorkflowState.RUNNING
        return WorkflowState.FAILED if self.failed else WorkflowState.COMPLETED


class Flow:
    """The steps that a change has reached; *load* brings more of them."""

    def __init__(self, load: Callable[[list[int]], Iterable[Standing]]) -> None:
        self._load = load
        self.steps: dict[int, Standing] = {}
        self.touched: dict[int, Standing] = {}
        self.changes: list[Change] = []
        self.free: list[int] = []

    def bring(self, numbers: Iterable[int]) -> None:
        """Load steps, each once."""
        missing = sorted({number for number in numbers if number not in self.steps})
        if missing:
            self.steps |= {step.number: step for step in self._load(missing)}

    def change(self, states: Mapping[int, StepState], closed: Collection[int] = ()) -> None:
        """Let steps have these states, and all follow from it; in workflows that are *closed* nothing does."""
        self.bring(states)
        changes = [self._changed(self.steps[number], state) for number, state in states.items()]
        while changes:
            told = [change for change in changes if change.step.workflow not in closed]
            self.bring(number for change in told for number in change.step.children)
            changes = [
                reaction
                for change in told
                for number in change.step.children
                if (reaction := self._hear(self.steps[number], change)) is not None
            ]

    def _hear(self, step: Standing, change: Change) -> Change | None:
        step.hear(change)
        self.touched[step.number] = step
        verdict = step.state if step.decided else self._verdict(step)
        if verdict is step.state:
            return None
        if verdict is StepState.RUNNING:
            step.begun = True
            self.free.append(step.number)
        return self._changed(step, verdict)

    def _verdict(self, step: Standing) -> StepState:
        if step.opening is None or step.waiting:
            return step.verdict()
        self.bring([step.opening])
        if self.steps[step.opening].begun:
            return step.verdict()
        # The batch inside another workflow never came to its turn: there is nothing to tell of it.
        return StepState.CANCELLED if step.failed else StepState.SKIPPED

    def _changed(self, step: Standing, state: StepState) -> Change:
        change = Change(step, step.state, state)
        step.state = state
        self.touched[step.number] = step
        self.changes.append(change)
        return change

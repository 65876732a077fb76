"""What is to follow in a transaction from what it did: workflows and instances go on, instances are admitted."""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from penstock.engine.admission.lane import Lane
from penstock.lifecycle.states import State

ADMISSIONS: Final = 128  # instances that one transaction admits; the rest are left to the next


class JobEnd(NamedTuple):
    """How a job ended.  A pass also asks for *commands*, having *seen* its memo in that version."""

    state: State
    result: str | None = None
    error: str | None = None
    commands: tuple[object, ...] | None = None
    seen: int | None = None


@dataclass(slots=True)
class ToFollow:
    """What the workflows and instances of a transaction's jobs have not heard of yet."""

    ended: dict[int, JobEnd] = field(default_factory=dict)  # how jobs ended
    returned: list[int] = field(default_factory=list)  # jobs of instances that wait for another attempt
    fired: list[tuple[int, str]] = field(default_factory=list)  # timers that are over, as instance and key
    cancelling: list[tuple[int, str]] = field(default_factory=list)  # instances to cancel, and why
    admissible: list[Lane] = field(default_factory=list)  # lanes of instances that became ready
    free_instances: bool = False  # instances without limits wait
    unadmitted: bool = False  # lanes of instances are ready that an earlier transaction left
    admissions: int = ADMISSIONS  # so many more
    admitted: set[int] = field(default_factory=set)  # instances
    finished: set[int] = field(default_factory=set)  # the same
    in_workflows: bool = False

    @property
    def is_any(self) -> bool:
        """Whether anything is to follow."""
        admissible = (self.admissible or self.free_instances or self.unadmitted) and self.admissions > 0
        return bool(self.ended or self.returned or self.fired or self.cancelling or admissible)

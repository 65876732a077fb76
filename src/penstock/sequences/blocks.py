"""What a sequence is made of: steps, and blocks that have branches of other blocks.  Plain data.

Every block with others inside has them in *branches*, which are lists that run in order.  So one machine moves along
all of them, and each kind of block only says which branch begins, and what follows from the end of one.
"""

from dataclasses import dataclass, field
from datetime import date, datetime, time
from typing import NamedTuple

from penstock.lifecycle.retry import RetryPolicy
from penstock.sequences.expression_parser import Expression
from penstock.sequences.templates import Template

Tree = object  # JSON in which some texts are templates
Branch = tuple["AnyBlock", ...]
Condition = Expression | bool


@dataclass(frozen=True, slots=True)
class Delay:
    """How long to wait before a step.  Spans are microseconds."""

    duration: int = 0
    jitter: int = 0
    business_days_only: bool = False
    holidays: frozenset[date] = frozenset()
    fire_at_local: time | datetime | None = None
    timezone: str | None = None


@dataclass(frozen=True, slots=True)
class SendWindow:
    """From which hour to which, and on which days (0 is Monday), a step may begin."""

    start_hour: int = 9
    end_hour: int = 17
    days: frozenset[int] = frozenset(range(7))
    timezone: str | None = None


class Choice(NamedTuple):
    """One answer that a person may give."""

    label: str
    value: object


@dataclass(frozen=True, slots=True)
class Wait:
    """What is asked of a person; without *choices* any answer counts."""

    prompt: str = ""
    timeout: int | None = None
    choices: tuple[Choice, ...] = ()
    store_as: str | None = None
    escalation_handler: str | None = None
    allow_comment: bool = False


class Action(NamedTuple):
    """A handler and what it is given."""

    handler: str
    params: Tree


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """What all blocks share: an *id* that is unique in its sequence."""

    id: str


@dataclass(frozen=True, slots=True, eq=False)
class Step(Block):
    """One handler, run by a worker or by the engine itself."""

    handler: str
    params: Tree
    when: Condition = True
    delay: Delay | None = None
    send_window: SendWindow | None = None
    retry: RetryPolicy = RetryPolicy()
    retry_if: Condition | None = None
    timeout: int | None = None
    deadline: int | None = None
    on_deadline_breach: Action | None = None
    wait: Wait | None = None
    rate_limit_key: str | Template | None = None
    queue_name: str = ""
    pool: str | None = None
    fallback_handler: str | None = None
    cancellable: bool = True

    @property
    def may_have_frame(self) -> bool:
        """Whether it may wait for something other than its delay and its job."""
        asks = self.wait is not None or self.send_window is not None or self.deadline is not None
        return asks or self.fallback_handler is not None or self.retry_if is not None


@dataclass(frozen=True, slots=True, eq=False)
class SubSequence(Block):
    """Another sequence, as an instance of its own."""

    name: str
    version: int | None
    input: Tree


@dataclass(frozen=True, slots=True, eq=False)
class Composite(Block):
    """A block with others inside."""

    branches: tuple[Branch, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Root(Composite):
    """The whole sequence; its branches are the blocks, and those to run after a failure or a cancel."""


@dataclass(frozen=True, slots=True, eq=False)
class Parallel(Composite):
    """All branches at once."""


@dataclass(frozen=True, slots=True, eq=False)
class Race(Composite):
    """All branches at once; the first to succeed ends the others."""


@dataclass(frozen=True, slots=True, eq=False)
class Loop(Composite):
    """A branch that is repeated while *condition* holds."""

    condition: Condition
    break_on: Condition
    max_iterations: int
    continue_on_error: bool
    poll_interval: int


@dataclass(frozen=True, slots=True, eq=False)
class ForEach(Composite):
    """A branch that is repeated for each item of a list."""

    collection: Expression | Tree
    item_var: str
    max_iterations: int


@dataclass(frozen=True, slots=True, eq=False)
class Router(Composite):
    """The branch of the first condition that holds, else the last one."""

    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True, eq=False)
class TryCatch(Composite):
    """Three branches: to try, to run if that fails, and to run in any case."""


@dataclass(frozen=True, slots=True, eq=False)
class Split(Composite):
    """One of several variants, the same one whenever an instance comes here."""

    names: tuple[str, ...]
    weights: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class CancellationScope(Composite):
    """A branch that runs to its end though the instance, or the branch of a race around it, is cancelled."""


@dataclass(frozen=True, slots=True, eq=False)
class Saga(Composite):
    """Actions, each followed in *branches* by what undoes it; that is empty if nothing does."""

    names: tuple[str, ...]


Branching = Root | Parallel | Race | Loop | ForEach | Router | TryCatch | Split | CancellationScope | Saga
AnyBlock = Step | SubSequence | Branching


class Place(NamedTuple):
    """Where a block stands: at *position* of a *branch* of its *parent*."""

    parent: Branching
    branch: int
    position: int


@dataclass(frozen=True, slots=True, eq=False)
class Sequence:
    """A sequence, read.  *warnings* tell of fields that have no effect here, *item_vars* are those of its for_each."""

    name: str
    version: int
    root: Root
    blocks: dict[str, "AnyBlock"] = field(repr=False)
    places: dict[str, Place] = field(repr=False)
    item_vars: frozenset[str] = frozenset()
    warnings: tuple[str, ...] = ()

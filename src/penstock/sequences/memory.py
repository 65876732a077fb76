"""What a conductor may look at: the memo and the context of one instance, and what ended.

Invariant: a key names a block in its iteration, and what the block uses is named after it.  Outside of loops the key
is the block's id; in iteration 2 of a loop `outer` it is `outer#2/id`, and so on inwards.  `key@delay`, `key@wait.1`
and the like are timers, waits and jobs of that block.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from penstock.job import Entry, EntryState
from penstock.sequences.blocks import AnyBlock, Branching, ForEach, Loop, Place

GOOD: Final = frozenset({EntryState.DONE, EntryState.SKIPPED})  # the next block may begin


class Memory(Protocol):
    """One instance as its conductor sees it."""

    @property
    def instance(self) -> str:
        """The id."""
        ...

    @property
    def now(self) -> int:
        """The time, in microseconds."""
        ...

    @property
    def context(self) -> Mapping[str, object]:
        """The context, decoded: sections, or flat, which is the section `data`."""
        ...

    def entry(self, key: str) -> Entry | None:
        """Return what is remembered of a key."""
        ...


class Ended(NamedTuple):
    """Something that ended: a job, a timer, a wait or a child."""

    key: str
    state: EntryState
    result: str | None = None
    error: str | None = None


class Outcome(NamedTuple):
    """How a block ended; *result* and *error* are JSON text."""

    state: EntryState
    result: str | None = None
    error: str | None = None

    @property
    def is_good(self) -> bool:
        """Whether the next block may begin."""
        return self.state in GOOD


class At(NamedTuple):
    """A block in its iteration; *prefix* names the iterations it is in, from the outermost inwards."""

    block: AnyBlock
    prefix: str = ""

    @property
    def key(self) -> str:
        """The key of its entry."""
        return f"{self.prefix}{self.block.id}"


class CompositeAt(NamedTuple):
    """A composite in its iteration, and which *branch* and *iteration* of it something happened in."""

    at: At
    block: Branching
    branch: int
    position: int
    iteration: int


def split_key(key: str) -> tuple[str, str, str]:
    """Return the prefix, the block's id and what follows the mark `@` in *key*."""
    base, _, suffix = key.partition("@")
    prefix, slash, block_id = base.rpartition("/")
    return prefix + slash, block_id, suffix


def block_id(key: str) -> str:
    """Return the id of the block that *key* belongs to."""
    return split_key(key)[1]


def inside(at: At, iteration: int = 0) -> str:
    """Return the prefix of the blocks inside a composite."""
    return f"{at.key}#{iteration}/" if isinstance(at.block, Loop | ForEach) else at.prefix


def around(at: At, place: Place) -> CompositeAt:
    """Return the composite that *at* stands in."""
    parent = place.parent
    prefix, iteration = at.prefix, 0
    if isinstance(parent, Loop | ForEach):
        outer, _, last = at.prefix[:-1].rpartition("/")
        prefix = f"{outer}/" if outer else ""
        iteration = int(last.rpartition("#")[2])
    return CompositeAt(At(parent, prefix), parent, place.branch, place.position, iteration)

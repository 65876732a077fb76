"""The limits of the storm: what its tasks carry, its engine is told and its referee checks."""

from dataclasses import dataclass, field

MILLISECOND = 1_000_000  # nanoseconds, as everything the provider is told
SECOND = 1_000 * MILLISECOND

ACCOUNTS = 2
QUEUE, QUEUE_SLOTS = "boxed", 3
# Little enough for a busy machine to press against.
RATE, RATE_PERIOD = 3, 0.5  # seconds
THROTTLE = 8  # in a second
FLOATING, FIRST_VALUE, VALUES = "floats", 2, (1, 2, 3, 4)
# Workflows: each run has a contact to itself, from its first step to its end.
CONTACTS, PASSES_QUEUE, STEPS = 3, "passes", ("draft", "mail", "file")
NAP = 0.3  # seconds
MAIL, MAIL_PERIOD = 2, 1.0  # seconds
LEASE = 3  # seconds
GUARD = 5 * MILLISECOND  # which a worker grants between its look at the clock and the handler's first line

# What jobs of a task must keep to, for an account.
PASSES = {
    "one": ("one:{}",),
    "two": ("two:{}",),
    "five": ("five",),
    "rated": ("rated:{}",),
    "both": ("two:{}", "rated:{}"),
    "spaced": ("spaced",),
    "floats": (FLOATING,),
    "boxed": (QUEUE,),
    "draft": (),
    "mail": ("mailbox",),
    "file": (),
}


def passes(task: str, account: int) -> tuple[str, ...]:
    """Return the gates that a job passes."""
    return tuple(name.format(account) for name in PASSES[task])


def contact(number: int) -> str:
    """Return the gate that a run of a contact passes."""
    return f"contact:{number}"


@dataclass(frozen=True, slots=True)
class Rules:
    """What must be kept, by gate: so many at once, (so many, in so long), so far apart; and what floats."""

    slots: dict[str, int] = field(default_factory=dict)
    rates: dict[str, tuple[int, int]] = field(default_factory=dict)
    gaps: dict[str, int] = field(default_factory=dict)
    floating: dict[str, int] = field(default_factory=dict)  # the first value


def storm_rules() -> Rules:
    """Return the rules of a storm."""
    accounts = range(ACCOUNTS)
    return Rules(
        slots={
            **{f"one:{n}": 1 for n in accounts},
            **{f"two:{n}": 2 for n in accounts},
            "five": 5,
            QUEUE: QUEUE_SLOTS,
            **{contact(n): 1 for n in range(CONTACTS)},
        },
        rates={
            **{f"rated:{n}": (RATE, round(RATE_PERIOD * SECOND)) for n in accounts},
            "mailbox": (MAIL, round(MAIL_PERIOD * SECOND)),
        },
        gaps={"spaced": SECOND // THROTTLE},
        floating={FLOATING: FIRST_VALUE},
    )

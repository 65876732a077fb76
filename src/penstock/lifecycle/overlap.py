"""What becomes of a schedule's next job while an earlier one has not ended?"""

from enum import StrEnum


class Overlap(StrEnum):
    """*wait*: it is enqueued, but starts only when no other job of its schedule runs."""

    ALLOW = "allow"
    SKIP = "skip"
    CANCEL_PREVIOUS = "cancel_previous"
    WAIT = "wait"

"""The spec's states, and the engine's."""

from typing import Final

# The engine counts jobs that wait for another attempt as `retrying`; the engine has no `pending`.
ENGINE_STATES: Final[dict[str, tuple[str, ...]]] = {
    "scheduled": ("scheduled",),
    "available": ("waiting",),
    "pending": (),
    "active": ("running",),
    "completed": ("done",),
    "retryable": ("retrying",),
    "cancelled": ("cancelled",),
    "discarded": ("failed", "discarded", "expired"),
}
SPEC_STATES: Final = tuple(ENGINE_STATES)
USED_STATES: Final = tuple(spec for spec, names in ENGINE_STATES.items() if names)
SPEC_STATE: Final = {name: spec for spec, names in ENGINE_STATES.items() for name in names}

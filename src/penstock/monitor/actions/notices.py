"""What was done, told once: a cookie names the action, and the next page says so and takes the cookie away."""

from typing import Final

from penstock.monitor.actions.action import Action
from penstock.monitor.actions.table import ACTIONS
from penstock.monitor.requests import Asked

COOKIE: Final = "penstock-done"
_LASTS: Final = 60  # seconds


def told(asked: Asked) -> Action | None:
    """Return the action of which the next page is to tell."""
    return ACTIONS.get((asked.cookie(COOKIE) or "").replace(".", "/"))


def cookie(asked: Asked, action: Action | None) -> str:
    """Return the header that has the next page tell of an action, or of none any more."""
    value, lasts = ("", 0) if action is None else (action.path.replace("/", "."), _LASTS)
    secure = "; Secure" if asked.secure else ""
    return f"{COOKIE}={value}; Path={asked.root or '/'}; Max-Age={lasts}; HttpOnly; SameSite=Strict{secure}"

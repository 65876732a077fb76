"""Other names for the same options, as Routecraft spells them: max, maxQueue, maxKeys, label."""

from typing import Any, Final

from penstock.policies.errors import InvalidPolicyError

NAMES: Final = {
    "max": "max_concurrent",
    "maxQueue": "max_queue",
    "maxKeys": "max_keys",
    "label": "name",
    "scope": "scope",
}


def spelled(names: dict[str, Any], **given: Any) -> dict[str, Any]:
    """Return what was *given*, with what came by other *names*."""
    for name, value in names.items():
        if name not in NAMES:
            raise InvalidPolicyError(name, "there is no such option")
        own = NAMES[name]
        if given.get(own) is not None:
            raise InvalidPolicyError(name, f"is another name for {own}; give one of them")
        if name == "maxQueue" and value == 0:
            raise InvalidPolicyError(name, '0 must be at least 1; to let nobody wait, write mode="reject"')
        given[own] = value
    return given

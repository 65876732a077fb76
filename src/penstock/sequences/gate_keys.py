"""Keys of gates: a concurrency key and a rate resource of the same name are two gates.  Pure.

The gate of a resource is called as the resource is, so that jobs of other origins may pass it too; only names that
could be taken for the gate of a concurrency key are written in another way.
"""

from typing import Final

_INSTANCES: Final = "instance:"
_RESOURCES: Final = "resource:"


def slot_key(name: str) -> str:
    """Return the key of the gate at which instances of a concurrency key hold their slots."""
    return f"{_INSTANCES}{name}"


def concurrency_name(key: str) -> str | None:
    """Return the concurrency key whose gate has this *key*; None if it is another gate."""
    return key.removeprefix(_INSTANCES) if key.startswith(_INSTANCES) else None


def resource_key(name: str) -> str:
    """Return the key of the gate of a rate resource."""
    return f"{_RESOURCES}{name}" if name.startswith((_INSTANCES, _RESOURCES)) else name


def resource_name(key: str) -> str:
    """Return the rate resource whose gate has this *key*."""
    return key.removeprefix(_RESOURCES)

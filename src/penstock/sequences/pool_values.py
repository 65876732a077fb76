"""What only the start of a job knows: the resource that it takes of its pool.  Pure.

`{{pool.resource_key}}` is left out of the params of a job, and its meta says where.  When the job starts, the name of
the resource is put there.  So no other text in the params, whatever it looks like, is ever taken for it.
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import msgspec

from penstock.sequences.gate_keys import resource_name

GAPS: Final = "penstock.resource"  # in the meta of a job: where the name of its resource stands in its params


class Gap(NamedTuple):
    """A text in the params, by the way to it, and the places in it where the name of the resource stands."""

    way: tuple[str | int, ...]
    places: tuple[int, ...]


def with_resource(args: str, meta: str, key: str) -> str:
    """Return the arguments of a job that took the resource whose gate has this *key*, as JSON text."""
    if GAPS not in meta:
        return args
    gaps = msgspec.json.decode(meta, type=dict[str, Any]).get(GAPS)
    if gaps is None:
        return args
    read = msgspec.json.decode(args, type=dict[str, Any])
    read["kwargs"] = fill_gaps(read["kwargs"], msgspec.convert(gaps, list[Gap]), resource_name(key))
    return msgspec.json.encode(read).decode()


def fill_gaps(params: Any, gaps: Iterable[Gap], name: str) -> Any:  # noqa: ANN401 - any JSON
    """Return *params* with the *name* of a resource in all its gaps."""
    whole = [params]
    for way, places in gaps:
        inside: Any = whole
        *path, last = (0, *way)
        for step in path:
            inside = inside[step]
        inside[last] = _filled(inside[last], places, name)
    return whole[0]


def _filled(text: str, places: Iterable[int], name: str) -> str:
    parts, start = [], 0
    for place in places:
        parts.append(text[start:place])
        start = place
    return name.join([*parts, text[start:]])

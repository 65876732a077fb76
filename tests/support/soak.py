"""How long tests last that could last for ever: minutes in all for `make test`, more for `make soak`."""

import os

SOAKING = bool(os.environ.get("PENSTOCK_SOAK"))


def often(few: int, many: int) -> int:
    """Return how often to try: *many* times for `make soak`."""
    return many if SOAKING else few

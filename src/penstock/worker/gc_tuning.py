"""Keep Python's garbage collector from looking through all of a worker again and again.

For processes that do nothing but work: `penstock worker` and the bench.
"""

import gc
from typing import Final

# A batch of jobs makes thousands of objects, and nearly all are gone without the collector's help.
THRESHOLDS: Final = (20_000, 50, 50)


def calm() -> None:
    """Leave alone what is there already, and look less often through what comes."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)

"""The names of pynenc over penstock's engine: change the import lines and keep the tasks.

What differs from pynenc, on purpose:

- A limit holds for any number of workers, and for batches and retries too.
- `registration_concurrency` finds the earlier call while it waits *or runs*, so "once per account" holds
  whatever the timing, and two producers cannot both be first.
- A mistake in the options is an error where the task is declared.
- Blocked calls wait in line, in order; nothing is polled.

As in pynenc, `reroute_on_concurrency_control` is False unless you say otherwise: a call that finds its key
busy is dropped, and its `.result` raises a `KeyError`.
"""

from penstock.dialects.pynenc.app import Pynenc
from penstock.dialects.pynenc.builder import PynencBuilder
from penstock.dialects.pynenc.errors import (
    InvalidTaskOptionsError,
    InvocationConcurrencyWithDifferentArgumentsError,
    RetryError,
)
from penstock.dialects.pynenc.invocation import (
    Invocation,
    InvocationGroup,
    InvocationStatus,
    ReusedInvocation,
)
from penstock.dialects.pynenc.options import ConcurrencyControlType
from penstock.dialects.pynenc.task import Arguments, PynencTask

__all__ = [
    "Arguments",
    "ConcurrencyControlType",
    "InvalidTaskOptionsError",
    "Invocation",
    "InvocationConcurrencyWithDifferentArgumentsError",
    "InvocationGroup",
    "InvocationStatus",
    "Pynenc",
    "PynencBuilder",
    "PynencTask",
    "RetryError",
    "ReusedInvocation",
]

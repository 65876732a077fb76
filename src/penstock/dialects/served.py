"""The dialects that `penstock serve` speaks."""

from typing import Final

from penstock.dialects import native, ojs

SERVED: Final = (ojs.DIALECT, native.DIALECT)

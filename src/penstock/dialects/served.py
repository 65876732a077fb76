"""The dialects that `penstock serve` speaks.  A path belongs to the first whose `paths` match it.

To add one: a package with a `DIALECT` (see `http/dialect.py`), a line here, and its name in the contract
"No dialect knows another" of pyproject.toml.
"""

from typing import Final

from penstock.dialects import native, ojs, orch8

SERVED: Final = (ojs.DIALECT, native.DIALECT, orch8.DIALECT)

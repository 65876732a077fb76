"""What passes along a route."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Final, Self

_numbers: Final = count(1)


@dataclass(frozen=True, slots=True)
class Exchange:
    """A body with its headers; each step makes a new one, with the same id."""

    body: Any = None
    headers: Mapping[str, Any] = field(default_factory=dict)
    id: str = field(default_factory=lambda: f"exchange-{next(_numbers)}")

    def with_body(self, body: Any) -> Self:
        """Return the same exchange with another body."""
        return replace(self, body=body)


class Dropped(Exception):  # noqa: N818 - it is not an error
    """Raised by a step that ends an exchange without a result."""

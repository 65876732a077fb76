"""Pages of a list."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from penstock.http.routes import Request

T = TypeVar("T")

QUERY: Final = ("page", "per_page")
OFFSETS: Final = ("limit", "offset", *QUERY)
MOST: Final = 1_000


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list: *limit* items from *offset* on."""

    offset: int
    limit: int

    def of(self, items: Sequence[T]) -> list[T]:
        """Return what of *items* is on this page."""
        return list(items[self.offset : self.offset + self.limit])

    def shown(self, total: int) -> dict[str, Any]:
        """Describe the page, in every form that clients read."""
        return {
            "total": total,
            "page": self.offset // self.limit + 1,
            "per_page": self.limit,
            "limit": self.limit,
            "offset": self.offset,
            "has_more": self.offset + self.limit < total,
        }


def page_of(request: Request, per_page: int = 20) -> Page:
    """Return the page that a request asks for: by page and per_page, or by limit and offset."""
    if "limit" in request.query or "offset" in request.query:
        return Page(request.number("offset", 0, 0, 10**9), request.number("limit", per_page, 1, MOST))
    page, size = request.page(per_page)
    return Page((page - 1) * size, size)

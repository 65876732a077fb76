"""The context of an instance: sections, of which `data` is what users gave it.  Pure."""

from collections.abc import Iterable, Mapping
from datetime import date
from typing import Final

from penstock.sequences.paths import dig
from penstock.sequences.reading import is_zone

DATA: Final = "data"
SECTIONS: Final = (DATA, "config", "audit", "runtime")


class Context:
    """The sections of a context; what stands beside them, or in a flat one, is in `data`."""

    def __init__(self, given: Mapping[str, object]) -> None:
        self.sections: dict[str, dict[str, object]] = {
            name: section for name in SECTIONS if isinstance(section := given.get(name), dict)
        }
        beside = {name: value for name, value in given.items() if name not in self.sections}
        self.sections[DATA] = {**beside, **self.sections.get(DATA, {})}

    @property
    def data(self) -> dict[str, object]:
        return self.sections[DATA]

    @property
    def depth(self) -> int:
        """How many instances are around this one."""
        depth = self.section("runtime").get("depth")
        return max(0, depth) if isinstance(depth, int) else 0

    @property
    def zone(self) -> str:
        """The time zone of the instance."""
        zone = self.section("runtime").get("timezone")
        return zone if isinstance(zone, str) and is_zone(zone) else "UTC"

    @property
    def holidays(self) -> frozenset[date]:
        """The holidays of the instance; what is no day is none."""
        days = self.section("config").get("holidays")
        return frozenset(_days(days)) if isinstance(days, list) else frozenset()

    def section(self, name: str) -> dict[str, object]:
        """Return a section; one that was not given is empty."""
        return self.sections.get(name, {})

    def dig(self, steps: tuple[str, ...]) -> object:
        """Return what `context.` and these steps lead to; `context.x` is short for `context.data.x`."""
        if not steps:
            return self.sections
        first, *rest = steps
        if first in self.sections or (first in SECTIONS and first not in self.data):
            return dig(self.section(first), rest)
        return dig(self.data, steps)

    def with_data(self, name: str, value: object) -> "Context":
        """Return the context with one more value in `data`."""
        return Context({**self.sections, DATA: {**self.data, name: value}})


def _days(given: Iterable[object]) -> Iterable[date]:
    for text in given:
        try:
            yield date.fromisoformat(str(text))
        except ValueError:
            continue

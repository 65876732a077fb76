"""Find the route of a path.  Paths without parameters are looked up; of the others few have the same length."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, Generic, NamedTuple, Protocol, TypeVar
from urllib.parse import unquote

REST: Final = "{+"  # begins a last parameter that may hold slashes


class _Named(Protocol):
    @property
    def method(self) -> str: ...
    @property
    def path(self) -> str: ...


R = TypeVar("R", bound=_Named)


class _Pattern(NamedTuple, Generic[R]):
    parts: tuple[str, ...]
    methods: dict[str, R]


class Router(Generic[R]):
    """Routes by path and method."""

    def __init__(self, routes: Iterable[R]) -> None:
        self._plain: dict[str, dict[str, R]] = defaultdict(dict)
        self._patterns: dict[int, list[_Pattern[R]]] = defaultdict(list)
        self._long: list[_Pattern[R]] = []  # those whose last parameter may hold slashes
        for route in routes:
            self._add(route)

    def _add(self, route: R) -> None:
        if "{" not in route.path:
            self._plain[route.path][route.method] = route
            return
        parts = tuple(route.path.split("/"))
        among = self._long if parts[-1].startswith(REST) else self._patterns[len(parts)]
        for pattern in among:
            if pattern.parts == parts:
                pattern.methods[route.method] = route
                return
        among.append(_Pattern(parts, {route.method: route}))
        # Fixed parts go before parameters.
        among.sort(key=lambda pattern: [part.startswith("{") for part in pattern.parts])

    def find(self, path: str) -> tuple[Mapping[str, R], dict[str, str]]:
        """Return the routes of a path (still quoted) by method, and the values of its parameters."""
        plain = self._plain.get(path)
        if plain is not None:
            return plain, {}
        parts = path.split("/")
        for pattern in self._patterns.get(len(parts), ()):
            params = _match(pattern.parts, parts)
            if params is not None:
                return pattern.methods, params
        for pattern in self._long:
            fixed = len(pattern.parts) - 1
            params = _match(pattern.parts, [*parts[:fixed], "/".join(parts[fixed:])])
            if params is not None:
                return pattern.methods, params
        return {}, {}


def _match(pattern: tuple[str, ...], parts: list[str]) -> dict[str, str] | None:
    if len(pattern) != len(parts):
        return None
    params = {}
    for wanted, part in zip(pattern, parts, strict=True):
        if wanted.startswith("{"):
            if not part:
                return None
            params[wanted.strip("{+}")] = unquote(part, errors="replace")
        elif wanted != part:
            return None
    return params

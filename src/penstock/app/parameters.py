"""What a task's function takes and returns, read once so that each call is cheap.

A call travels as JSON text of `{"args": [...], "kwargs": {...}}`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from inspect import Parameter, signature
from itertools import chain, repeat
from types import SimpleNamespace
from typing import Any, Final, get_type_hints

import msgspec

from penstock.app.codec import UNWRITABLE, convert, convertible, decode, encode
from penstock.errors import InvalidJobError

_SIMPLE: Final = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


class _Call(msgspec.Struct):
    args: list[Any] = []
    kwargs: dict[str, Any] = {}


_CALLS: Final = msgspec.json.Decoder(_Call)


class Parameters:
    """The parameters of *function*, known to users as *task*."""

    def __init__(self, function: Callable[..., object], task: str) -> None:
        self._function = function
        self._task = task
        self._signature = signature(function)
        parameters = self._signature.parameters.values()
        self._simple = all(each.kind in _SIMPLE for each in parameters)
        self._positional = [each.name for each in parameters if each.kind < Parameter.VAR_POSITIONAL]
        self._more_positional = _name_of(parameters, Parameter.VAR_POSITIONAL)
        self._more_named = _name_of(parameters, Parameter.VAR_KEYWORD)
        self._defaults = {each.name: each.default for each in parameters if each.default is not each.empty}
        self.names = frozenset(self._signature.parameters)

    def bind(self, args: Sequence[object], kwargs: Mapping[str, object]) -> dict[str, object]:
        """Return each parameter's value in this call.

        Raises `TypeError`, as the call itself would.
        """
        if self._simple and len(args) <= len(self._positional) and kwargs.keys() <= self.names:
            given = dict(zip(self._positional, args, strict=False))
            if kwargs.keys().isdisjoint(given):
                bound = {**self._defaults, **given, **kwargs}
                if len(bound) == len(self.names):
                    return bound
        return self._bind_slowly(args, kwargs)

    def encode(self, args: Sequence[object], kwargs: Mapping[str, object]) -> str:
        """Return the call as JSON text."""
        try:
            return encode({"args": args, "kwargs": kwargs})
        except UNWRITABLE:
            for name, value in self.bind(args, kwargs).items():
                self._encode_argument(name, value)
            raise

    def decode(self, text: str) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments in JSON *text*, converted to their annotated types."""
        call = _CALLS.decode(text)
        if not call.args and not call.kwargs:
            return call.args, call.kwargs
        names = chain(self._positional, repeat(self._more_positional))
        args = [self._convert(name, value) for value, name in zip(call.args, names, strict=False)]
        return args, {name: self._convert(self._named(name), value) for name, value in call.kwargs.items()}

    def decode_result(self, text: str) -> Any:
        """Return the result in JSON *text*, converted to the annotated type."""
        return self._convert("return", decode(text))

    def _bind_slowly(self, args: Sequence[object], kwargs: Mapping[str, object]) -> dict[str, object]:
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self._task}(): {error}") from None
        bound.apply_defaults()
        return bound.arguments

    def _encode_argument(self, name: str, value: object) -> None:
        try:
            encode(value)
        except UNWRITABLE as error:
            problem = f"this argument of {self._task} cannot be written as JSON: {error}"
            raise InvalidJobError(name, problem) from error

    def _named(self, name: str) -> str:
        return name if name in self.names else self._more_named

    def _convert(self, name: str, value: object) -> Any:
        kind = self._types.get(name)
        # Plain values of the very type, the most common case, need no conversion.
        if kind is None or type(value) is kind:
            return value
        try:
            return convert(value, kind)
        except msgspec.ValidationError as error:
            raise InvalidJobError(name, f"not as {self._task} is annotated: {error}") from error

    # Late, because an annotation may name what its module defines further down.
    @cached_property
    def _types(self) -> dict[str, Any]:
        return {name: kind for name, kind in _annotations(self._function).items() if convertible(kind)}


def _name_of(parameters: Iterable[Parameter], kind: object) -> str:
    return next((each.name for each in parameters if each.kind is kind), "")


def _annotations(function: Callable[..., object]) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except Exception:  # noqa: BLE001 - an annotation is code and can fail in any way
        return _resolvable(function)


def _resolvable(function: Callable[..., object]) -> dict[str, Any]:
    """Return the annotations that can be resolved: one imported only for type checkers cannot."""
    known: dict[str, Any] = {}
    for name, annotation in getattr(function, "__annotations__", {}).items():
        alone = SimpleNamespace(__annotations__={name: annotation})
        try:
            known |= get_type_hints(alone, getattr(function, "__globals__", {}), include_extras=True)
        except Exception:  # noqa: BLE001, S112 - as above; its values stay plain
            continue
    return known

"""What a task's function takes and returns, read once so that each call is cheap.

A call travels as JSON text of `{"args": [...], "kwargs": {...}}`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from inspect import (
    Parameter,
    Signature,
    isasyncgenfunction,
    iscoroutinefunction,
    isgeneratorfunction,
    signature,
)
from itertools import chain, repeat
from types import SimpleNamespace
from typing import Any, Final, get_type_hints

import msgspec

from penstock.app.codec import UNWRITABLE, convert, convertible, decode, encode
from penstock.errors import InvalidJobError
from penstock.worker.handler import decode_payload

_SIMPLE: Final = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


@dataclass(frozen=True, slots=True)
class Fitted:
    """A *function* for a key or a cost, called with the values of a call as *spread* turns them into its arguments."""

    function: Callable[..., Any]
    spread: Callable[[Mapping[str, object]], tuple[Sequence[Any], Mapping[str, Any]]]

    def __repr__(self) -> str:
        return repr(self.function)

    def __call__(self, arguments: Mapping[str, object]) -> Any:
        args, kwargs = self.spread(arguments)
        return self.function(*args, **kwargs)


class Parameters:
    """The parameters of *function*, known to users as *task*."""

    def __init__(self, function: Callable[..., object], task: str) -> None:
        self._function = function
        self._task = task
        self._signature = _signature(function)
        parameters = self._signature.parameters.values()
        self._simple = all(each.kind in _SIMPLE for each in parameters)
        self._positional = [each.name for each in parameters if each.kind < Parameter.VAR_POSITIONAL]
        self._more_positional = _name_of(parameters, Parameter.VAR_POSITIONAL)
        self._named_only = [each.name for each in parameters if each.kind is Parameter.KEYWORD_ONLY]
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

    def fitted(self, function: Callable[..., Any]) -> "Fitted":
        """Return *function* so that it takes the values of a call as `bind` returns them, defaults included.

        It gets those it names, if it names nothing else, or all of them as the task itself does.  Raises `TypeError`
        if it cannot be called with either.
        """
        if iscoroutinefunction(function):
            raise TypeError(f"{function!r} must be a plain function, not an async one")
        try:
            wanted = signature(function)
        except (TypeError, ValueError):
            # Some of those written in C do not tell what they take.
            return Fitted(function, self._spread)
        named = [each.name for each in wanted.parameters.values() if each.kind in _SIMPLE]
        others = {each.kind for each in wanted.parameters.values()}.difference(_SIMPLE)
        allowed = {Parameter.VAR_KEYWORD} if self._simple else set()
        if {*self._positional, *self._named_only}.issuperset(named) and others <= allowed:
            names = self.names if others else named
            return Fitted(function, lambda arguments: ((), {name: arguments[name] for name in names}))
        self._check_call(function, wanted)
        return Fitted(function, self._spread)

    def _check_call(self, function: Callable[..., Any], wanted: Signature) -> None:
        several = {self._more_positional: ((),), self._more_named: {"other": ()}}
        args, kwargs = self._spread({name: several.get(name) for name in self.names})
        try:
            wanted.bind(*args, **kwargs)
        except TypeError as error:
            unknown = [repr(name) for name in wanted.parameters if name not in self.names]
            problem = f"it names {', '.join(unknown)}" if unknown else str(error)
            takes = ", ".join(self._signature.parameters) or "none"
            raise TypeError(
                f"{function!r} does not take the arguments of {self._task}, which are: {takes}; {problem}"
            ) from None

    def _spread(self, arguments: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return the values of a call as the task itself gets them."""
        args = [arguments[name] for name in self._positional]
        args += arguments[self._more_positional] if self._more_positional else ()
        kwargs = {name: arguments[name] for name in self._named_only}
        return args, kwargs | (arguments[self._more_named] if self._more_named else {})

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
        call = decode_payload(text)
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
            encode({"args": (value,)})
        except UNWRITABLE as error:
            hint = f"; pass {name}.model_dump(mode='json')" if hasattr(value, "model_dump") else ""
            problem = f"this argument of {self._task} cannot be written as JSON: {error}{hint}"
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
            raise InvalidJobError(name, f"not as {self._task} is annotated: {error}") from None

    # Late, because an annotation may name what its module defines further down.
    @cached_property
    def _types(self) -> dict[str, Any]:
        return {name: kind for name, kind in _annotations(self._function).items() if convertible(kind)}


def _signature(function: Callable[..., object]) -> Signature:
    """Return what *function* takes, or raise `InvalidJobError` if it can be no task."""
    if isgeneratorfunction(function) or isasyncgenfunction(function):
        problem = f"{function!r} is a generator, whose values no job could return; return a list"
        raise InvalidJobError("function", problem)
    try:
        return signature(function)
    except (TypeError, ValueError):
        problem = f"what {function!r} takes cannot be read; wrap it in a function of your own"
        raise InvalidJobError("function", problem) from None


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

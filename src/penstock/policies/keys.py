"""The key of a call.

It is a function of the call's own arguments, the name of one of them, or a format string over them.
"""

import inspect
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from penstock.limits.template import check_template, parse_template
from penstock.policies.errors import InvalidPolicyError

Key = str | Callable[..., Hashable]
Pick = Callable[[tuple[Any, ...], Mapping[str, Any]], Hashable]


def check_key(key: object) -> None:
    """Raise unless *key* can pick keys."""
    if key is not None and not callable(key) and (not isinstance(key, str) or not key):
        raise InvalidPolicyError(
            "key", f"{key!r} must be a function of the call's arguments, or the name of one"
        )
    if isinstance(key, str) and "{" in key:
        parse_template(key)


def picker(key: Key | None, function: Callable[..., Any]) -> Pick | None:
    """Return a function that picks the key of a call of *function*, as *key* says."""
    if key is None:
        return None
    if callable(key):
        return _by_call(key)
    names = _parameters(function)
    if "{" in key:
        check_template(key, names)
        return _by_template(key, inspect.signature(function))
    if key not in names:
        raise InvalidPolicyError("key", f"{key!r} is no argument of {_name(function)}; there are {names}")
    return _by_name(key, function, names.index(key))


def checked(key: object, source: object) -> Hashable:
    """Return *key* if it can be one."""
    if key is None:
        raise TypeError(f"the key function {_name(source)} returned None; return a text, such as 'anonymous'")
    try:
        hash(key)
    except TypeError:
        message = f"the key function {_name(source)} returned {key!r}, which cannot be hashed"
        raise TypeError(message) from None
    return key


def _by_call(key: Callable[..., Hashable]) -> Pick:
    def pick(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Hashable:
        picked = key(*args, **kwargs)
        return picked if type(picked) is str else checked(picked, key)

    return pick


def _by_template(text: str, signature: inspect.Signature) -> Pick:
    template = parse_template(text)

    def pick(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Hashable:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return template.fill(bound.arguments)

    return pick


def _by_name(name: str, function: Callable[..., Any], place: int) -> Pick:
    parameter = inspect.signature(function).parameters[name]

    def pick(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Hashable:
        if len(args) > place and parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
            return checked(args[place], name)
        return checked(
            kwargs.get(name, None if parameter.default is parameter.empty else parameter.default), name
        )

    return pick


def _parameters(function: Callable[..., Any]) -> list[str]:
    return list(inspect.signature(function).parameters)


def _name(source: object) -> str:
    return getattr(source, "__qualname__", None) or repr(source)

"""Texts to be filled in: `"Hello {{data.name | data.nick | 'friend'}}"`.  Pure.

A text that is one template keeps the type of its value.  Segments of a chain are tried in order: the first that is not
null counts, a literal ends the search, and filters change what was found.  A template is read once, with its sequence,
and filled in for every step.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from penstock.errors import InvalidError
from penstock.lifecycle.nesting import is_deep
from penstock.sequences.filters import FILTERS, apply_filter
from penstock.sequences.paths import ROOTS, Lookup, Path, read_path
from penstock.sequences.values import LARGEST, Effort, TemplateError, bounded, to_json, to_text, weight

RESOURCE: Final = Path("pool", ("resource_key",))
_CALL: Final = re.compile(r"(?P<name>[a-z]\w*)\s*\((?P<arguments>.*)\)", re.DOTALL)
# A quoted text, or one character; what is in quotes is never a bracket or a bar.  A quote that is not closed reaches to
# the end: to look for its end again from the next quote would take time that grows with the square of the length.
_PIECE: Final = re.compile(r""""(?:[^"\\]|\\.?)*(?:"|\Z)|'(?:[^'\\]|\\.?)*(?:'|\Z)|.""", re.DOTALL)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r"}


@dataclass(frozen=True, slots=True)
class Literal:
    """A value that stands in the template itself."""

    value: object


@dataclass(frozen=True, slots=True)
class Call:
    """`json(path)` or `len(path)`."""

    name: str
    path: Path


@dataclass(frozen=True, slots=True)
class Applied:
    """A filter with its arguments."""

    name: str
    arguments: tuple[object, ...]


Segment = Path | Call | Literal | Applied


@dataclass(frozen=True, slots=True)
class Chain:
    """What stands between two pairs of braces."""

    segments: tuple[Segment, ...]

    @property
    def names_resource(self) -> bool:
        """Whether it is the resource of a pool, which only the start of a job chooses."""
        return self.segments == (RESOURCE,)


@dataclass(frozen=True, slots=True)
class Template:
    """A text with chains in it."""

    parts: tuple[str | Chain, ...]

    @property
    def names_resource(self) -> bool:
        """Whether the resource of a pool stands in it."""
        return any(isinstance(part, Chain) and part.names_resource for part in self.parts)


def read_template(text: str, field: str) -> str | Template:
    """Read *text*; it is returned as it is if there is nothing to fill in.  Raises `InvalidError` for *field*."""
    parts: list[str | Chain] = []
    at = 0
    while (braces := text.find("{{", at)) >= 0:
        begin, end = braces + 2, _end(text, braces + 2)
        if end is None:
            raise InvalidError(field, f"{text[:80]!r} has braces that are not closed")
        parts += [text[at:braces], read_chain(text[begin:end], field)]
        at = end + 2
    parts = [part for part in (*parts, text[at:]) if part]
    return Template(tuple(parts)) if any(isinstance(part, Chain) for part in parts) else text


def read_chain(text: str, field: str) -> Chain:
    """Read what stands between braces, or raise `InvalidError` for *field*."""
    segments = tuple(
        _segment(segment.strip(), field, first=number == 0)
        for number, segment in enumerate(_split(text, "|"))
    )
    paths = [segment.path if isinstance(segment, Call) else segment for segment in segments]
    if segments != (RESOURCE,) and any(isinstance(p, Path) and p.root == RESOURCE.root for p in paths):
        raise InvalidError(
            field, f"of a pool there is {{{{{RESOURCE}}}}}, and nothing else beside it in the braces"
        )
    return Chain(segments)


def fill_in(template: str | Template, lookup: Lookup, effort: Effort | None = None) -> object:
    """Return the value of *template*, or raise `TemplateError`."""
    if isinstance(template, str):
        return template
    if len(template.parts) == 1 and isinstance(only := template.parts[0], Chain):
        return evaluate_chain(only, lookup, effort or Effort())
    return fill_around(template, lookup, effort)[0]


def fill_around(
    template: Template, lookup: Lookup, effort: Effort | None = None
) -> tuple[str, tuple[int, ...]]:
    """Return the text of *template* without the resource of a pool, and the places where that stands."""
    effort = effort or Effort()
    texts, length, places = [], 0, []
    for part in template.parts:
        if isinstance(part, Chain) and part.names_resource:
            places.append(length)
            continue
        text = part if isinstance(part, str) else to_text(evaluate_chain(part, lookup, effort))
        effort.take(weight(text), TemplateError)
        texts.append(text)
        length += len(text)
        if length > LARGEST:
            raise TemplateError(
                f"the text has more than {LARGEST:,} characters; at most that many are allowed"
            )
    return "".join(texts), tuple(places)


def evaluate_chain(chain: Chain, lookup: Lookup, effort: Effort) -> object:
    """Return the value of *chain*, or raise `TemplateError`."""
    value: object = None
    found = False
    for segment in chain.segments:
        effort.take(1, TemplateError)
        if isinstance(segment, Applied):
            effort.take(weight(value), TemplateError)
            value = bounded(apply_filter(segment.name, value, segment.arguments), TemplateError)
        elif isinstance(segment, Literal):
            value = value if found else segment.value
            found = True
        elif not found:
            value = lookup(segment) if isinstance(segment, Path) else _called(segment, lookup)
        found = found or value is not None
    return value


def _called(call: Call, lookup: Lookup) -> object:
    value = lookup(call.path)
    if call.name == "json":
        return bounded(to_json(value), TemplateError)
    if not isinstance(value, str | list | dict):
        raise TemplateError(f"len needs a text, a list or an object, and {call.path} is none")
    return len(value)


def _end(text: str, begin: int) -> int | None:
    """Return where the braces stand that close those before *begin*; None if nothing closes them."""
    for match in _PIECE.finditer(text, begin):
        if text.startswith("}}", match.start()):
            return match.start()
    return None


def _split(text: str, separator: str) -> Iterator[str]:
    """Split *text* where *separator* stands outside of quotes and brackets."""
    depth, start = 0, 0
    for match in _PIECE.finditer(text):
        piece = match[0]
        depth += piece in "([" or -(piece in ")]")
        if piece == separator and depth == 0:
            yield text[start : match.start()]
            start = match.end()
    yield text[start:]


def _segment(text: str, field: str, *, first: bool) -> Segment:
    if not text:
        raise InvalidError(field, "there is nothing between braces or bars")
    if text in FILTERS and not first:
        return _applied(text, (), field)
    call = _CALL.fullmatch(text)
    if call is not None:
        return _call(call["name"], call["arguments"], field, first=first)
    path = read_path(text)
    if path is not None and (path.root in ROOTS or (first and text not in {"true", "false", "null"})):
        return path
    value = _literal(text)
    if first and value is text:
        raise InvalidError(field, f"{text[:80]!r} is no path")
    return Literal(value)


def _call(name: str, text: str, field: str, *, first: bool) -> Segment:
    if name in {"json", "len"}:
        path = read_path(text.strip())
        if path is None:
            raise InvalidError(field, f"{name}() needs a path, not {text[:80]!r}")
        return Call(name, path)
    if name not in FILTERS or first:
        raise InvalidError(field, f"there is no {'function' if first else 'filter'} {name!r}")
    arguments = [argument.strip() for argument in _split(text, ",")] if text.strip() else []
    return _applied(name, tuple(map(_literal, arguments)), field)


def _applied(name: str, arguments: tuple[object, ...], field: str) -> Applied:
    known = FILTERS[name]
    if not known.least <= len(arguments) <= known.most:
        wanted = str(known.least) if known.least == known.most else f"{known.least} to {known.most}"
        raise InvalidError(field, f"the filter {name} takes {wanted} arguments, not {len(arguments)}")
    return Applied(name, arguments)


def _literal(text: str) -> object:
    """Return the value of a literal: a text in quotes, a value of JSON, or else the text itself."""
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        return _ESCAPED.sub(lambda match: _ESCAPES.get(match[1], match[1]), text[1:-1])
    try:
        return text if is_deep(text) else msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text

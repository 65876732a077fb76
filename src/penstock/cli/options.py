"""Options that several commands share, and how they are read."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import urlsplit, urlunsplit

import typer

from penstock.errors import InvalidError

if TYPE_CHECKING:
    from penstock.app.backend import AnyEngine
    from penstock.limits.rules import Numbers, Window

DEFAULT_STORE: Final = "penstock.db"
STORE_HELP: Final = (
    "The database: a file, sqlite:///FILE or postgresql://HOST/DATABASE; or a server: http://HOST:PORT."
)


def option(metavar: str, says: str, default: str | bool = True, *names: str, least: int | None = None) -> Any:  # noqa: ANN401 - typer says no more of its options
    """Return an option that takes a value: what its help *says*, and what that shows as its *default*."""
    return typer.Option(*names, metavar=metavar, help=says, show_default=default, min=least)


def flag(name: str, says: str) -> Any:  # noqa: ANN401 - as above
    """Return an option without a value."""
    return typer.Option(name, help=says)


def _given_here_or_before(ctx: typer.Context, value: str) -> str:
    """Prefer the option of the command itself to the one before it."""
    return value or str(ctx.obj or DEFAULT_STORE)


StoreOption = Annotated[
    str,
    typer.Option(
        "--store",
        metavar="URL",
        help=STORE_HELP,
        callback=_given_here_or_before,
        show_default=f"$PENSTOCK_URL or {DEFAULT_STORE}",
    ),
]
JsonOption = Annotated[bool, flag("--json", "Print one JSON document and nothing else.")]
MostOption = Annotated[int, typer.Option(metavar="N", min=1, max=1000, help="At most so many.")]
TenantOption = Annotated[str, option("NAME", "The tenant, where there are several.")]
ReasonOption = Annotated[str, option("TEXT", "Why; it is kept with who did it and when.")]
SlotsOption = Annotated[int | None, option("N", "At most N at once; 0 shuts the gate.")]
RateOption = Annotated[str, option("N/TIME", "At most N starts in any window, as in 100/1m.")]
ThrottleOption = Annotated[
    str, option("N/TIME[+BURST]", "Evenly spaced starts, as in 10/1s; after a burst, as in 10/1s+40.")
]


class LogLevel(StrEnum):
    """How much a worker or a server tells."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """For whom it tells."""

    TEXT = "text"
    JSON = "json"


LogFormatOption = Annotated[
    LogFormat, typer.Option("--log-format", help="Lines for people, or JSON objects for programs.")
]


def log_to_stderr(level: LogLevel, form: LogFormat) -> None:
    """Write the logs of this process to standard error, in colours on a terminal."""
    from penstock.logs import log_to_stderr as write

    colour = sys.stderr.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    write(level.upper(), as_json=form is LogFormat.JSON, colour=colour)


@contextmanager
def opened(store: str, reason: str = "") -> "Iterator[AnyEngine]":
    """Open the engine on *store*, which must exist: looking at a database never creates one.

    What is changed is written down with the *reason*.
    """
    from penstock.acting import Actor, acting, user
    from penstock.app.backend import open_backend

    path = file_of(store)
    if path is not None and not path.is_file():
        raise InvalidError(
            "store",
            f"there is no database {str(path)!r}; name one with --store or PENSTOCK_URL, "
            "or create it with `penstock migrate`",
        )
    engine = open_backend(store, migrate=False)
    try:
        with acting(Actor(user().name, "cli", reason)):
            yield engine
    finally:
        engine.close()


@contextmanager
def bulk(
    engine: "AnyEngine", verb: str, kind: str, subjects: "Sequence[str]", tenant: str
) -> "Iterator[None]":
    """Write down several changes as one."""
    from penstock.acting import acting, actor

    who = actor()
    if len(subjects) > 1:
        who = engine.begin_bulk(verb, kind, f"{len(subjects)}: {', '.join(subjects)}", tenant=tenant)
    with acting(who):
        yield


def file_of(store: str) -> Path | None:
    """Return the file that *store* names; None if it is a database elsewhere."""
    if store == ":memory:":
        raise InvalidError("store", "a database in memory is gone when its process ends; name a file")
    scheme, found, rest = store.partition("://")
    if not found:
        return Path(store)
    return Path(rest.removeprefix("/")) if scheme == "sqlite" else None


def shown(store: str) -> str:
    """Return *store* without a password or a token, fit to be printed."""
    parts = urlsplit(store)
    user, found, host = parts.netloc.rpartition("@")
    if found and parts.scheme in {"http", "https"}:
        return urlunsplit(parts._replace(netloc=host))
    if parts.password is None:
        return store
    return urlunsplit(parts._replace(netloc=f"{user.partition(':')[0]}@{host}"))


def named(store: str) -> str:
    """Return what people call *store*: the name of a file, or of a database and its server."""
    parts = urlsplit(store)
    if parts.scheme in {"", "sqlite"} or store == ":memory:":
        return Path(store).name
    return f"{parts.path.strip('/') or 'the database'} on {parts.hostname or 'this machine'}"


def read_numbers(slots: int | None, rate: str, throttle: str) -> "Numbers":
    """Return the numbers given on the command line, of which there must be one at least."""
    from dataclasses import replace

    from penstock.limits.rules import Numbers

    throttle, _, burst = throttle.partition("+")
    paced = read_window("throttle", throttle)
    if paced is not None and burst:
        if not burst.strip().isdecimal():
            raise InvalidError("--throttle", f"{burst!r} must be a number: the burst, as in 2/1s+40")
        paced = replace(paced, burst=int(burst))
    numbers = Numbers(slots, read_window("rate", rate), paced)
    if not numbers.text:
        raise InvalidError("limit", "give at least one of --slots, --rate and --throttle")
    return numbers


def read_window(option: str, text: str) -> "Window | None":
    """Read `100/1m`; nothing given is None."""
    from penstock.limits.durations import parse_duration
    from penstock.limits.rules import Window

    if not text:
        return None
    count, slash, period = text.partition("/")
    if not slash or not count.strip().isdecimal() or not period.strip():
        raise InvalidError(f"--{option}", f"{text!r} must be a number and a time, as in 100/1m or 10/1s")
    period = period.strip()
    return Window(int(count), parse_duration(f"1{period}" if period.isalpha() else period, f"--{option}"))


def read_time(option: str, text: str, *, zero: bool = False) -> int | None:
    """Read a span of time such as `10m` or `90` (seconds), in microseconds; nothing given is None."""
    from penstock.limits.durations import parse_duration

    if not text:
        return None
    span = f"{text}s" if text.replace(".", "", 1).isdecimal() else text
    return parse_duration(span, f"--{option}", zero=zero)

"""`penstock worker`: run the jobs of an app."""

import importlib
import os
import re
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from penstock.cli.options import LogFormat, LogFormatOption, LogLevel, flag, log_to_stderr, option, read_time
from penstock.errors import InvalidError

# A comma that follows no number is a part of a name.
_WEIGHT: Final = re.compile(r"\s*(\S|\S.*?\S)\s*=\s*(\d+)\s*(,|$)")

if TYPE_CHECKING:
    from penstock import App
    from penstock.worker import Worker


def worker(
    ctx: typer.Context,
    target: Annotated[
        str,
        typer.Argument(metavar="MODULE:APP", help="Where the app is, as in tasks:app.", show_default=False),
    ],
    *,
    url: Annotated[
        str,
        option(
            "URL",
            "Work for the server there, as in http://HOST:8080, whatever the app names.",
            "what the app names",
        ),
    ] = "",
    token_file: Annotated[
        Path | None, option("FILE", "Holds the token for --url.", "$PENSTOCK_TOKEN")
    ] = None,
    queue: Annotated[
        list[str] | None,
        option("NAME", "A queue to serve; repeatable.", "those its tasks name", "--queue", "-q"),
    ] = None,
    weights: Annotated[str, option("A=3,B=1", "Serve queues by weight: three jobs of A for one of B.")] = "",
    strict: Annotated[bool, flag("--strict", "Serve the queues strictly in the order given.")] = False,
    tenant: Annotated[
        str | None, option("NAME", "Serve the jobs of this tenant only.", "all of them, in turns")
    ] = None,
    concurrency: Annotated[int | None, option("N", "Async handlers at once.", "100", least=1)] = None,
    threads: Annotated[
        int | None, option("N", "Threads for plain handlers.", "what the app names, or 8", least=1)
    ] = None,
    lease: Annotated[str, option("TIME", "How long a silent worker keeps its jobs.", "15s")] = "",
    drain_timeout: Annotated[
        str, option("TIME", "How long running jobs may go on when it is asked to stop.", "30s")
    ] = "",
    keep: Annotated[
        str, option("TIME", "How long ended jobs can be looked at; `forever` is a time too.", "7d")
    ] = "",
    until_idle: Annotated[bool, flag("--until-idle", "Stop when nothing is left to do.")] = False,
    stop_with_stdin: Annotated[
        bool, flag("--stop-with-stdin", "Stop when standard input closes, so as not to outlive a parent.")
    ] = False,
    log_level: Annotated[
        LogLevel, typer.Option(help="How much to tell on standard error; info tells of each job.")
    ] = LogLevel.INFO,
    log_format: LogFormatOption = LogFormat.TEXT,
    log_arguments: Annotated[
        bool, flag("--log-arguments", "Tell what jobs were called with, and what they returned.")
    ] = False,
) -> None:
    """Run the jobs of an app.

    Ctrl-C or SIGTERM lets running jobs finish first; a second Ctrl-C hands them back at once.
    """
    from penstock.worker.gc_tuning import calm

    source = ctx.parent.get_parameter_source("store") if ctx.parent is not None else None
    if source is not None and source.name == "COMMANDLINE":
        raise InvalidError(
            "--store",
            "a worker works on the database its app names; change it there, or name a server with --url",
        )
    if token_file is not None and not url:
        raise InvalidError("--token-file", "is for a server; name it with --url")
    options: dict[str, Any] = {"strict": strict, "log_arguments": log_arguments}
    if queue or weights:
        options["queues"] = read_weights(weights, queue or []) if weights else queue
    given = {
        "tenant": tenant,
        "concurrency": concurrency,
        "threads": threads,
        "lease": _span(read_time("lease", lease)),
        "drain_timeout": _span(read_time("drain-timeout", drain_timeout, zero=True)),
    }
    if keep == "forever":
        options["keep"] = None
    elif keep:
        given["keep"] = _span(read_time("keep", keep))
    options |= {name: value for name, value in given.items() if value is not None}
    log_to_stderr(log_level, log_format)
    app = load(target)
    with _working_for(app, url, token_file):
        running = app.worker(**options)
        calm()
        if stop_with_stdin:
            stop = threading.Thread(
                target=_stop_with_stdin, args=(running,), name="penstock-stdin", daemon=True
            )
            stop.start()
        running.run(until_idle=until_idle, signals=True)


@contextmanager
def _working_for(app: "App", url: str, token_file: Path | None) -> Iterator[None]:
    """Let *app* work for the server at *url* instead of for what it names itself, if one is given."""
    if not url:
        yield
        return
    from penstock.app.backend import open_backend

    token = None if token_file is None else read_token(token_file)
    with closing(open_backend(url, token=token)) as engine, app.connection.lent(engine):
        yield


def read_token(file: Path) -> str:
    """Return the first word of *file* that is not in a comment."""
    from penstock.http.tokens import token_lines

    for _, (token, *_) in token_lines(file):
        return token
    raise InvalidError("--token-file", f"{file} holds no token")


def read_weights(text: str, queues: list[str]) -> dict[str, int]:
    """Read `mail=3,reports=1`; *queues* named besides weigh 1."""
    weights = dict.fromkeys(queues, 1)
    left = text
    while match := _WEIGHT.match(left):
        weights[match[1]] = int(match[2])
        if not match[3]:
            return weights
        left = left[match.end() :]
    raise InvalidError("--weights", f"{text!r} must be queues and numbers, as in mail=3,reports=1")


def _span(microseconds: int | None) -> timedelta | None:
    return None if microseconds is None else timedelta(microseconds=microseconds)


def load(target: str) -> "App":
    """Import the app that *target* names as `module:app`, looking in the working directory first."""
    from penstock import App

    name, colon, path = target.partition(":")
    if not colon or not name or not path:
        module, _, last = target.rpartition(".")
        example = f"{module}:{last}" if module and last not in {"", "py"} else "tasks:app"
        raise InvalidError(
            "app", f"{target!r} must be a module and an app with a colon between, as in {example}"
        )
    if name.endswith(".py") or os.sep in name:
        example = name.removesuffix(".py").replace(os.sep, ".")
        raise InvalidError("app", f"{name!r} is a file; name its module, as in {example}:{path}")
    found: object = _import(name)
    for part in path.split("."):
        found = _attribute(found, part, target)
    if not isinstance(found, App):
        raise InvalidError("app", f"{target!r} is of type {type(found).__name__}, not a penstock.App")
    return found


def _import(name: str) -> ModuleType:
    here = os.getcwd()  # noqa: PTH109 - what sys.path holds is text
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise InvalidError("app", f"there is no module {error.name!r} in {here} or installed") from None
        raise _failed(name, error) from error
    except Exception as error:
        raise _failed(name, error) from error


def _failed(name: str, error: Exception) -> InvalidError:
    if os.environ.get("PENSTOCK_TRACEBACK"):
        raise error
    told = f"{type(error).__name__}: {error}"
    how = "set PENSTOCK_TRACEBACK=1 to see how it came there"
    if not isinstance(error, SyntaxError):  # which says itself where it is
        where = traceback.extract_tb(error.__traceback__)[-1]
        told = f"{told} ({where.filename}, line {where.lineno})"
    return InvalidError("app", f"cannot import {name!r}: {told}; {how}")


def _attribute(owner: object, name: str, target: str) -> object:
    try:
        return getattr(owner, name)
    except AttributeError:
        close = get_close_matches(name, [known for known in dir(owner) if not known.startswith("_")], n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise InvalidError("app", f"{target!r}: there is no {name!r} in it{hint}") from None


def _stop_with_stdin(running: "Worker") -> None:
    sys.stdin.buffer.read()
    running.stop()

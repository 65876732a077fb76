"""`penstock simulate`: how long would jobs wait?"""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from penstock.cli.options import JsonOption, flag, option, read_time
from penstock.cli.output import print_json
from penstock.clock import SECOND
from penstock.errors import InvalidError

if TYPE_CHECKING:
    from penstock.simulate.play import KeepOn

INTERRUPTED: Final = 130
PATIENCE: Final = SECOND  # before there is a word of progress


def simulate(
    plan: Annotated[
        str, typer.Argument(metavar="PLAN", help="A TOML file; see --example.", show_default=False)
    ] = "",
    *,
    plot: Annotated[str, option("FILE", "Draw the lines over time: an SVG picture.")] = "",
    seed: Annotated[
        int | None, option("N", "Draw other random numbers.", "the plan's, or 1", least=0)
    ] = None,
    until: Annotated[str, option("TIME", "Stop then, as in 30d.", "the plan's")] = "",
    example: Annotated[bool, flag("--example", "Print a plan to begin with.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Play a plan through the real engine in virtual time: how long would jobs wait, and for what?

    A plan names limits, when jobs arrive and how long they take.  Nothing is stored and nothing is run.
    """
    if example:
        from penstock.simulate.example import EXAMPLE

        sys.stdout.write(EXAMPLE)
        return
    from penstock.cli.forecast import show
    from penstock.simulate.document import document
    from penstock.simulate.plan import read_plan
    from penstock.simulate.play import play
    from penstock.simulate.report import report

    length = read_time("until", until)
    _check_picture(plot)
    wanted = read_plan(_text(plan), plan)
    with _progress(wanted.expected(length or wanted.until)) as keep_on:
        played = play(wanted, seed=seed, until=length, keep_on=keep_on)
    found = report(played)
    if plot:
        from penstock.simulate.plot import draw

        _write(plot, draw(played, found))
    if as_json:
        print_json(document(played, found))
    else:
        show(played, found, plot)
    if not played.whole:
        raise typer.Exit(INTERRUPTED)


def _text(plan: str) -> str:
    if not plan:
        raise InvalidError("plan", "name a file, or see --example and --help")
    try:
        return Path(plan).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InvalidError("plan", f"cannot read {plan!r}: {reason}") from None


def _check_picture(file: str) -> None:
    """Refuse what cannot be drawn before the play begins."""
    if file and not file.lower().endswith(".svg"):
        raise InvalidError("--plot", f"{file!r} must end in .svg, which is what is drawn")
    if file and not Path(file).parent.is_dir():
        raise InvalidError("--plot", f"cannot write {file!r}: there is no such folder")


def _write(file: str, picture: str) -> None:
    try:
        Path(file).write_text(picture, encoding="utf-8")
    except OSError as error:
        raise InvalidError("--plot", f"cannot write {file!r}: {error.strerror}") from None


@contextmanager
def _progress(expected: float) -> "Iterator[KeepOn]":
    """Show progress on a terminal. An interrupt ends the play, and what was seen so far is shown."""
    from rich.console import Console

    from penstock.clock import monotonic
    from penstock.simulate.words import span

    console = Console(stderr=True, highlight=False)
    status = console.status("playing")
    begin = monotonic()
    stopped = False

    def stop(*_: object) -> None:
        nonlocal stopped
        stopped = True
        signal.signal(signal.SIGINT, before)

    def keep_on(now: int, arrived: int) -> bool:
        if console.is_terminal and monotonic() - begin > PATIENCE:
            status.start()
            part = f" of about {expected:,.0f}" if expected < float("inf") else ""
            status.update(f"{arrived:,}{part} jobs, {span(now)} played; Ctrl-C to stop here")
        return not stopped

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield keep_on
    finally:
        status.stop()
        signal.signal(signal.SIGINT, before)

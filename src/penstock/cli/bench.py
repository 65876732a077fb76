"""`penstock bench`: how fast, and how exact, on this machine?"""

import signal
from typing import Annotated

import typer

from penstock.cli.options import JsonOption, flag, option


def bench(
    workloads: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[WORKLOAD...]",
            help="W1 to W16, or MEM.",
            show_default="all but MEM, and W8 on SQLite",
        ),
    ] = None,
    quick: Annotated[bool, flag("--quick", "Smaller workloads, rougher figures.")] = False,
    store: Annotated[
        str,
        option(
            "URL",
            "A PostgreSQL database, in which schemas are made and dropped.",
            "SQLite files in a temporary folder",
        ),
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """Measure how fast this machine is, and how exact.

    Exits with 1 if a limit was broken.
    """
    from penstock.bench.main import main

    # SIGTERM leaves nothing behind, just as an interrupt does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    raise typer.Exit(main(workloads or [], as_json, quick, store))

"""`penstock demo`: see the limits kept."""

from typing import Annotated

import typer

from penstock.cli.options import JsonOption, option, read_time
from penstock.errors import InvalidError


def demo(
    scenarios: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SCENARIO...]",
            help="A unsafe, B keyed, C drop, D dedupe, E slots, F rate, G spaced, H both; by letter or name.",
            show_default="all",
        ),
    ] = None,
    workers: Annotated[
        int, typer.Option(metavar="N", min=1, max=16, help="Worker processes of 8 threads each.")
    ] = 1,
    spacing: Annotated[str, option("TIME", "Send the events of D this far apart, as in 20ms.")] = "",
    repeat: Annotated[int, option("N", "Play everything N times over.", least=1)] = 1,
    as_json: JsonOption = False,
) -> None:
    """See the limits kept, by a real provider and real workers.

    Needs no set-up and leaves nothing behind.  Exits with 1 if a limit was broken or a count is wrong.
    """
    from penstock.demo.main import main
    from penstock.demo.scenarios import MAX_SPACING, Setting

    apart = read_time("spacing", spacing) or 0
    if apart > MAX_SPACING:
        # Later events would come after the first call has ended, and rightly cause another.
        raise InvalidError("--spacing", f"{spacing!r} must be at most {MAX_SPACING // 1000}ms")
    raise typer.Exit(main(scenarios or [], Setting(workers, apart), repeat, as_json=as_json))

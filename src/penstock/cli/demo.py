"""`penstock demo`: see the limits kept."""

from typing import Annotated

import typer

from penstock.cli.options import JsonOption, flag, option, read_time
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
    *,
    watch: Annotated[bool, flag("--watch", "Show it in the monitor too, until Ctrl-C.")] = False,
    no_browser: Annotated[
        bool, flag("--no-browser", "Print the monitor's address, and open nothing.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """See the limits kept, by a real provider and real workers.

    Needs no set-up and leaves nothing behind.  Exits with 1 if a limit was broken or a count is wrong.
    """
    from penstock.demo.main import Watch, main
    from penstock.demo.scenarios import MAX_SPACING, Setting
    from penstock.demo.watch import check_needs

    apart = read_time("spacing", spacing) or 0
    if apart > MAX_SPACING:
        # Later events would come after the first call has ended, and rightly cause another.
        raise InvalidError("--spacing", f"{spacing!r} must be at most {MAX_SPACING // 1000}ms")
    if watch and as_json:
        raise InvalidError("--watch", "is for people; a program that reads --json does not look")
    if no_browser and not watch:
        raise InvalidError("--no-browser", "goes with --watch")
    if watch:
        check_needs()
    wanted = Watch.NOT if not watch else Watch.BY_HAND if no_browser else Watch.IN_BROWSER
    setting = Setting(workers, apart)
    raise typer.Exit(main(scenarios or [], setting, repeat, as_json=as_json, watch=wanted))

"""`penstock migrate`, `penstock prune` and `penstock doctor`: keep a database in shape."""

from typing import Annotated

import typer

from penstock.cli import NOT_WELL
from penstock.cli.options import JsonOption, StoreOption, file_of, opened, read_time
from penstock.cli.output import print_json


def migrate(*, store: StoreOption = "", as_json: JsonOption = False) -> None:
    """Create the database, or bring an older one up to date."""
    from penstock.engine import open_engine

    path = file_of(store)
    created = path is not None and not path.exists()
    open_engine(store).close()
    if as_json:
        print_json({"store": store, "created": created})
    else:
        print(f"{store}: {'created' if created else 'up to date'}")


def prune(
    *,
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="TIME", help="Forget jobs that ended longer ago than this.")
    ],
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Forget jobs that ended long ago; workers do this too, after 7 days."""
    age = read_time("older-than", older_than)
    with opened(store) as engine:
        pruned = engine.prune(engine.clock.now() - (age or 0))
    if as_json:
        print_json({"store": store, "pruned": pruned})
    else:
        print(f"{store}: {pruned} jobs forgotten")


def doctor(*, store: StoreOption = "", as_json: JsonOption = False) -> None:
    """Check that the database is sound.

    Compares what is counted with what is there; exits with 1 if they differ.
    """
    with opened(store) as engine:
        differences = engine.doctor()
    if as_json:
        print_json({"store": store, "healthy": not differences, "differences": differences})
    elif differences:
        for difference in differences:
            print(difference)
        print(f"\n{store}: {len(differences)} differences")
    else:
        print(f"{store}: healthy")
    raise typer.Exit(NOT_WELL if differences else 0)

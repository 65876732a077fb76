"""`penstock migrate`, `penstock prune` and `penstock doctor`: keep a database in shape."""

from contextlib import closing
from typing import Annotated

import typer

from penstock.cli import NOT_WELL
from penstock.cli.options import JsonOption, ReasonOption, StoreOption, file_of, opened, read_time, shown
from penstock.cli.output import print_json
from penstock.errors import InvalidError, StoreDamagedError


def migrate(*, store: StoreOption = "", as_json: JsonOption = False) -> None:
    """Create the database, or bring an older one up to date."""
    from penstock.client.address import is_server
    from penstock.engine import open_engine

    file_of(store)
    if is_server(store):
        raise InvalidError("store", "a server brings its own database up to date when it starts")
    with closing(open_engine(store)) as engine:
        steps = engine.store.steps
    created = any(step.startswith("0001") for step in steps)
    if as_json:
        print_json({"store": shown(store), "created": created, "steps": steps})
    else:
        print(f"{shown(store)}: {'created' if created else 'brought up to date' if steps else 'up to date'}")


def prune(
    *,
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="TIME", help="Forget jobs that ended longer ago than this.")
    ],
    store: StoreOption = "",
    reason: ReasonOption = "",
    as_json: JsonOption = False,
) -> None:
    """Forget jobs that ended long ago; workers do this too, after 7 days."""
    age = read_time("older-than", older_than)
    with opened(store, reason) as engine:
        pruned = engine.prune(engine.clock.now() - (age or 0))
    if as_json:
        print_json({"store": shown(store), "pruned": pruned})
    else:
        print(f"{shown(store)}: {pruned} jobs forgotten")


def doctor(*, store: StoreOption = "", as_json: JsonOption = False) -> None:
    """Check that the database is sound.

    A file is read from end to end by SQLite's own check; exits with 5 if it is damaged.  Then compares what is
    counted with what is there; exits with 1 if they differ.  On PostgreSQL it also says what slows the server
    down: dead rows, transactions left open, missing indexes, unsafe settings.
    """
    damage: StoreDamagedError | None = None
    differences: list[str] = []
    advice: list[str] = []
    try:
        with opened(store) as engine:
            differences, advice = engine.doctor(), engine.advice()
    except StoreDamagedError as error:
        damage, differences = error, list(error.found)
    if as_json:
        print_json(
            {"store": shown(store), "healthy": not differences, "differences": differences, "advice": advice}
        )
    else:
        for sentence in [*differences, *(f"advice: {each}" for each in advice)]:
            print(sentence)
        verdict = "damaged" if damage else f"{len(differences)} differences" if differences else "healthy"
        print(f"{shown(store)}: {verdict}")
    if damage:
        raise damage
    raise typer.Exit(NOT_WELL if differences else 0)

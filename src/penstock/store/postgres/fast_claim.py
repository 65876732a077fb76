"""Start jobs without limits in one message to the server, so that an idle worker picks a job up sooner.

One statement looks whether a claim has anything else to look at, and starts jobs only if it has not.  It is prepared
by name, so that it fits into one message with the statements that begin and end its transaction.
"""

from functools import cache, lru_cache
from typing import Final

from psycopg import sql as quoting

from penstock.clock import since_boot
from penstock.store.attempts import STARTED, starting
from penstock.store.claim_snapshot import ASKED, MOMENTS, SPECIAL, VIEW
from penstock.store.postgres import translation
from penstock.store.postgres.session import NOW, UNLESS_TAKEN, Connection, ConnectionState
from penstock.store.session import Moment, StartedJobs

_NAME: Final = "penstock_take"


def take(
    connection: Connection,
    state: ConnectionState,
    opening: str,
    queue: str,
    most: int,
    worker: str,
    lease: int,
    tasks: list[str] | None,
) -> StartedJobs | None:
    """Start at most so many jobs of a *queue*; None if a claim has more to look at, or meets one of other tasks."""
    fence, (name, number) = state.fences[0], state.number()
    known = "NULL" if tasks is None else _array(tuple(tasks))
    values = f"{known}, {_asked(queue)}, {most}, {fence}, {_quoted(worker)}, {lease}, '{name}', {number}"
    # In the transaction, so that it is prepared for the search path that it will be used with.
    prepare = "" if state.can_take else f"PREPARE {_NAME} {_text()}; "
    asked = since_boot()
    cursor = connection.execute(f"{opening}; {prepare}EXECUTE {_NAME} ({values}); COMMIT")
    heard = since_boot()
    state.can_take = True
    answers = []
    while cursor.nextset():
        if cursor.description:
            answers.append(cursor.fetchall())
    (then, *_), rows = answers[0][0], answers[-1]
    now, special, next_at = rows[0][:3]
    if special:
        return None
    jobs = [row[5:] for row in sorted(row for row in rows if row[5] is not None)]
    if jobs:
        state.fences.popleft()
    return StartedJobs(Moment(now, then - asked, now - heard), fence, next_at, jobs)


@lru_cache
def _asked(queue: str) -> str:
    every = _quoted(translation.array([queue], "text"))
    return ", ".join([*[every] * ASKED, _quoted(queue)])


@lru_cache
def _array(names: tuple[str, ...]) -> str:
    return _quoted(translation.array(names, "text"))


@lru_cache
def _quoted(text: str) -> str:
    return quoting.Literal(text).as_string()


@cache
def _text() -> str:
    """Return the types of the statement's values, and the statement."""
    types = ["text[]", *["text[]"] * ASKED, "text", "bigint", "bigint", "text", "bigint", "text", "bigint"]
    text = f"""
        WITH at AS MATERIALIZED (SELECT {NOW} AS now, ? AS tasks
        ), view AS MATERIALIZED ({VIEW}
        ), special AS MATERIALIZED (SELECT EXISTS (SELECT 1 FROM view CROSS JOIN at WHERE {SPECIAL}) AS found
        ), {starting("NOT (SELECT found FROM special)")}, noted AS (
            INSERT INTO receipt (connection, number, at) SELECT ?, ?, at.now FROM at
            WHERE EXISTS (SELECT 1 FROM taken) {UNLESS_TAKEN}
        ), next AS (SELECT min(number) AS at FROM view WHERE what IN {MOMENTS}
        )
        SELECT at.now, special.found OR strange.found, next.at, {STARTED}
        FROM at CROSS JOIN special CROSS JOIN strange CROSS JOIN next LEFT JOIN known ON true
    """
    return f"({', '.join(types)}) AS {translation.single(text, ('text',) * ASKED)}"

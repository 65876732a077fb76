"""Statements about workflows, their steps, and the jobs of those."""

from collections.abc import Iterable
from typing import Final

from penstock.store.session import Row, Session

WORKFLOW_COLUMNS: Final = """
    number, id, tenant, kind, name, meta, created, finished, state, total, unfinished, completed, failed
"""
_SHOWN: Final = f"""
    {WORKFLOW_COLUMNS},
    (SELECT min(j.started) FROM workflow_job j WHERE j.workflow = workflow.number AND j.started IS NOT NULL),
    (SELECT count(*) FROM workflow_step s WHERE s.workflow = workflow.number AND s.state = 'failed' AND s.callback = 0)
"""
STEP_COLUMNS: Final = "number, workflow, state, runs, callback, seq, waiting, failed, skipped, children"


def add(db: Session, workflow: Row, steps: Iterable[Row], plans: Iterable[Row]) -> None:
    """Add a workflow and its steps, in the order of WORKFLOW_COLUMNS and STEP_COLUMNS.

    Plans are (step, id, task, queue, job, parents).
    """
    db.run(
        f"INSERT INTO workflow ({WORKFLOW_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", *workflow
    )
    db.many(f"INSERT INTO workflow_step ({STEP_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", steps)
    db.many(
        "INSERT INTO workflow_plan (step, id, task, queue, job, parents) VALUES (?, ?, ?, ?, ?, ?)", plans
    )


def of_jobs(db: Session, seqs: list[int]) -> list[Row]:
    """Return (seq, workflow, step) of those jobs that belong to one."""
    return db.all(
        "SELECT seq, workflow, step FROM workflow_job WHERE seq IN (SELECT value FROM each(?)) ORDER BY seq",
        seqs,
    )


def locked(db: Session, numbers: list[int]) -> list[Row]:
    """Return (number, id, tenant, finished, state, unfinished, completed, failed), and keep them from being deleted."""
    return db.all(
        """
        SELECT number, id, tenant, finished, state, unfinished, completed, failed FROM workflow
        WHERE number IN (SELECT value FROM each(?)) ORDER BY number FOR UPDATE
        """,
        numbers,
    )


def save(db: Session, rows: Iterable[Row]) -> None:
    """Keep (state, finished, unfinished, completed, failed, number)."""
    db.many(
        """
        UPDATE workflow SET state = ?, finished = ?, unfinished = ?, completed = ?, failed = ? WHERE number = ?
        """,
        rows,
    )


def steps(db: Session, numbers: list[int]) -> list[Row]:
    """Return steps, in the order of STEP_COLUMNS."""
    return db.all(
        f"SELECT {STEP_COLUMNS} FROM workflow_step WHERE number IN (SELECT value FROM each(?))", numbers
    )


def live(db: Session, workflow: int) -> list[Row]:
    """Return the (number, seq) of the steps that have not ended; seq is None for those that wait."""
    return db.all(
        """
        SELECT number, seq FROM workflow_step WHERE workflow = ? AND state IN ('waiting', 'running')
        ORDER BY number
        """,
        workflow,
    )


def save_steps(db: Session, rows: Iterable[Row]) -> None:
    """Keep (state, waiting, failed, skipped, number)."""
    db.many("UPDATE workflow_step SET state = ?, waiting = ?, failed = ?, skipped = ? WHERE number = ?", rows)


def save_results(db: Session, rows: Iterable[Row]) -> None:
    """Keep (result, number) of steps that others wait for."""
    db.many("UPDATE workflow_step SET result = ? WHERE number = ?", rows)


def begin(db: Session, rows: Iterable[Row]) -> None:
    """Remember (seq, workflow, step, id): the job that was made for a step."""
    jobs = list(rows)
    db.many(
        "INSERT INTO workflow_job (seq, workflow, step) VALUES (?, ?, ?)",
        [(seq, workflow, step) for seq, workflow, step, _ in jobs],
    )
    db.many(
        "UPDATE workflow_step SET seq = ?, job = ? WHERE number = ?",
        [(seq, id_, step) for seq, _, step, id_ in jobs],
    )


def began(db: Session, seqs: list[int], now: int) -> None:
    """Remember when jobs of workflows began first."""
    if seqs:
        db.run(
            "UPDATE workflow_job SET started = ? WHERE seq IN (SELECT value FROM each(?)) AND started IS NULL",
            now,
            seqs,
        )


def not_begun(db: Session, seq: int) -> None:
    """Forget that the first attempt at a job of a workflow began."""
    db.run("UPDATE workflow_job SET started = NULL WHERE seq = ?", seq)


def plans(db: Session, numbers: list[int]) -> list[Row]:
    """Return (step, job, parents) of steps that are set free."""
    return db.all(
        """
        SELECT step, job, parents FROM workflow_plan WHERE step IN (SELECT value FROM each(?)) ORDER BY step
        """,
        numbers,
    )


def results(db: Session, numbers: list[int]) -> dict[int, str | None]:
    """Return what steps have to hand on."""
    return dict(
        db.all(
            "SELECT number, result FROM workflow_step WHERE number IN (SELECT value FROM each(?))", numbers
        )
    )


def find(db: Session, id_: str) -> Row | None:
    """Return one workflow, in the order of WORKFLOW_COLUMNS; then when it began and how many of its steps failed."""
    return db.one(f"SELECT {_SHOWN} FROM workflow WHERE id = ?", id_)


def page(db: Session, tenant: str | None, state: str | None, offset: int, most: int) -> list[Row]:
    """Return workflows as `find` does, newest first."""
    which, values = _chosen(tenant, state)
    return db.all(
        f"SELECT {_SHOWN} FROM workflow {which} ORDER BY number DESC LIMIT ? OFFSET ?",
        *values,
        most,
        offset,
    )


def total(db: Session, tenant: str | None, state: str | None) -> int:
    """Return how many workflows there are."""
    which, values = _chosen(tenant, state)
    row = db.one(f"SELECT count(*) FROM workflow {which}", *values)
    return int(row[0]) if row else 0


def view(db: Session, workflow: int) -> list[Row]:
    """Return (number, id, task, queue, state, job, parents, runs, callback) of its steps, in their order."""
    return db.all(
        """
        SELECT s.number, p.id, p.task, p.queue, s.state, s.job, p.parents, s.runs, s.callback
        FROM workflow_step s JOIN workflow_plan p ON p.step = s.number WHERE s.workflow = ? ORDER BY s.number
        """,
        workflow,
    )


def prune(db: Session, before: int, most: int) -> int:
    """Delete up to *most* workflows that ended before then and none of whose jobs is under way."""
    rows = db.all(
        """
        SELECT w.number FROM workflow w WHERE w.finished < ? AND NOT EXISTS (
            SELECT 1 FROM workflow_step s WHERE s.workflow = w.number AND s.state = 'running')
        ORDER BY w.finished LIMIT ? FOR UPDATE OF w SKIP LOCKED
        """,
        before,
        most,
    )
    numbers = [number for (number,) in rows]
    if numbers:
        db.run(
            """
            DELETE FROM workflow_plan WHERE step IN (
                SELECT number FROM workflow_step WHERE workflow IN (SELECT value FROM each(?)))
            """,
            numbers,
        )
        db.run(
            """
            DELETE FROM workflow_job WHERE seq IN (
                SELECT seq FROM workflow_step WHERE workflow IN (SELECT value FROM each(?)))
            """,
            numbers,
        )
        db.run("DELETE FROM workflow_step WHERE workflow IN (SELECT value FROM each(?))", numbers)
        db.run("DELETE FROM workflow WHERE number IN (SELECT value FROM each(?))", numbers)
    return len(numbers)


def miscounted(db: Session) -> list[Row]:
    """Return the (id, stored, true) of workflows whose count of unfinished steps is wrong."""
    return db.all(
        """
        SELECT w.id, w.unfinished, (SELECT count(*) FROM workflow_step s WHERE s.workflow = w.number
            AND s.callback = 0 AND s.state IN ('waiting', 'running')) AS true_count
        FROM workflow w WHERE w.unfinished <> (SELECT count(*) FROM workflow_step s WHERE s.workflow = w.number
            AND s.callback = 0 AND s.state IN ('waiting', 'running'))
        """
    )


def stuck(db: Session) -> list[Row]:
    """Return (workflow id, step id) of steps that nothing will ever move: all they wait for has been heard."""
    return db.all(
        """
        SELECT w.id, p.id FROM workflow w JOIN workflow_step s ON s.workflow = w.number
        JOIN workflow_plan p ON p.step = s.number
        WHERE w.state = 'running' AND ((s.state = 'waiting' AND s.waiting = 0) OR (s.state = 'running'
            AND (s.seq IS NULL OR EXISTS (SELECT 1 FROM done d WHERE d.seq = s.seq))))
        ORDER BY s.number
        """
    )


def _chosen(tenant: str | None, state: str | None) -> tuple[str, list[object]]:
    wanted = {"tenant": tenant, "state": state}
    given = {name: value for name, value in wanted.items() if value is not None}
    which = " AND ".join(f"{name} = ?" for name in given)
    return (f"WHERE {which}" if which else ""), list(given.values())

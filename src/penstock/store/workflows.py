"""Statements about workflows, their steps, and the jobs of those."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from penstock.job import WorkflowView
from penstock.store.session import Row, Session
from penstock.store.statements import chosen
from penstock.workflows.steps import WorkflowState


class WorkflowRow(NamedTuple):
    """A workflow as it is stored."""

    number: int
    id: str
    tenant: str
    kind: str
    name: str
    meta: str
    created: int
    finished: int | None
    state: str
    total: int
    unfinished: int
    completed: int
    failed: int


class StepRow(NamedTuple):
    """A step as it is stored; children are the numbers of the steps that depend on it.

    A callback with an opening runs only if that step began.
    """

    number: int
    workflow: int
    state: str
    runs: str
    callback: int
    seq: int | None
    waiting: int
    failed: int
    skipped: int
    children: str
    opening: int | None


class ShownStep(NamedTuple):
    """A step with its plan."""

    number: int
    id: str
    task: str
    queue: str
    state: str
    job: str | None
    parents: str
    runs: str
    callback: int


# number, id, tenant, finished, state, unfinished, completed, failed
ProgressRow = tuple[int, str, str, int | None, str, int, int, int]
# step, id, task, queue, job, parents, and how their results are arranged unless in that order
PlanRow = tuple[int, str, str, str, str, str, str | None]
_COLUMNS: Final = ", ".join(WorkflowRow._fields)
SHOWN: Final = """
    number, id, tenant, kind, name, meta, state, created, finished, total, completed,
    (SELECT min(j.started) FROM workflow_job j WHERE j.workflow = workflow.number AND j.started IS NOT NULL),
    (SELECT count(*) FROM workflow_step s WHERE s.workflow = workflow.number AND s.state = 'failed' AND s.callback = 0)
"""
_STEP_COLUMNS: Final = ", ".join(StepRow._fields)


def add(db: Session, workflow: WorkflowRow, steps: Iterable[StepRow], plans: Iterable[PlanRow]) -> None:
    """Add a workflow, its steps and their plans."""
    db.run(f"INSERT INTO workflow ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", *workflow)
    db.many(f"INSERT INTO workflow_step ({_STEP_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", steps)
    db.many(
        "INSERT INTO workflow_plan (step, id, task, queue, job, parents, results) VALUES (?, ?, ?, ?, ?, ?, ?)",
        plans,
    )


def of_jobs(db: Session, seqs: list[int]) -> list[tuple[int, int, int]]:
    """Return (seq, workflow, step) of those jobs that belong to one."""
    return db.all(
        "SELECT seq, workflow, step FROM workflow_job WHERE seq IN (SELECT value FROM each(?)) ORDER BY seq",
        seqs,
    )


def locked(db: Session, numbers: list[int]) -> list[ProgressRow]:
    """Return workflows, and lock them."""
    return db.all(
        """
        SELECT number, id, tenant, finished, state, unfinished, completed, failed FROM workflow
        WHERE number IN (SELECT value FROM each(?)) ORDER BY number FOR UPDATE
        """,
        numbers,
    )


def save(db: Session, rows: Iterable[tuple[str, int | None, int, int, int, int]]) -> None:
    """Keep (state, finished, unfinished, completed, failed, number)."""
    db.many(
        """
        UPDATE workflow SET state = ?, finished = ?, unfinished = ?, completed = ?, failed = ? WHERE number = ?
        """,
        rows,
    )


def steps(db: Session, numbers: list[int]) -> list[StepRow]:
    """Return steps."""
    rows = db.all(
        f"SELECT {_STEP_COLUMNS} FROM workflow_step WHERE number IN (SELECT value FROM each(?))", numbers
    )
    return [StepRow(*row) for row in rows]


def live(db: Session, workflow: int) -> list[tuple[int, int | None]]:
    """Return the (number, seq) of the steps that have not ended; seq is None for those that wait."""
    return db.all(
        """
        SELECT number, seq FROM workflow_step WHERE workflow = ? AND state IN ('waiting', 'running')
        ORDER BY number
        """,
        workflow,
    )


def save_steps(db: Session, rows: Iterable[tuple[str, int, int, int, int]]) -> None:
    """Keep (state, waiting, failed, skipped, number)."""
    db.many("UPDATE workflow_step SET state = ?, waiting = ?, failed = ?, skipped = ? WHERE number = ?", rows)


def save_results(db: Session, rows: Iterable[tuple[str | None, int]]) -> None:
    """Keep (result, number) of steps that other steps wait for."""
    db.many("UPDATE workflow_step SET result = ? WHERE number = ?", rows)


def begin(db: Session, rows: Iterable[tuple[int, int, int, str]]) -> None:
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


def plans(db: Session, numbers: list[int]) -> list[tuple[int, str, str]]:
    """Return (step, job, results) of steps that are set free."""
    return db.all(
        """
        SELECT step, job, coalesce(results, parents) FROM workflow_plan
        WHERE step IN (SELECT value FROM each(?)) ORDER BY step
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


def find(db: Session, id_: str) -> tuple[int, WorkflowView] | None:
    """Return one workflow without its steps, and its number."""
    row = db.one(f"SELECT {SHOWN} FROM workflow WHERE id = ?", id_)
    return None if row is None else (row[0], shown(row))


def page(db: Session, tenant: str | None, state: str | None, offset: int, most: int) -> list[WorkflowView]:
    """Return workflows without their steps, newest first."""
    which, values = chosen(tenant=tenant, state=state)
    rows = db.all(
        f"SELECT {SHOWN} FROM workflow {which} ORDER BY number DESC LIMIT ? OFFSET ?", *values, most, offset
    )
    return [shown(row) for row in rows]


def total(db: Session, tenant: str | None, state: str | None) -> int:
    """Return how many workflows there are."""
    which, values = chosen(tenant=tenant, state=state)
    row = db.one(f"SELECT count(*) FROM workflow {which}", *values)
    return int(row[0]) if row else 0


def view(db: Session, workflow: int) -> list[ShownStep]:
    """Return the steps of a workflow, in their order."""
    rows = db.all(
        """
        SELECT s.number, p.id, p.task, p.queue, s.state, s.job, p.parents, s.runs, s.callback
        FROM workflow_step s JOIN workflow_plan p ON p.step = s.number WHERE s.workflow = ? ORDER BY s.number
        """,
        workflow,
    )
    return [ShownStep(*row) for row in rows]


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


def miscounted(db: Session) -> list[tuple[str, int, int]]:
    """Return the (id, stored, true) of workflows whose count of unfinished steps is wrong."""
    return db.all(
        """
        SELECT w.id, w.unfinished, (SELECT count(*) FROM workflow_step s WHERE s.workflow = w.number
            AND s.callback = 0 AND s.state IN ('waiting', 'running')) AS true_count
        FROM workflow w WHERE w.unfinished <> (SELECT count(*) FROM workflow_step s WHERE s.workflow = w.number
            AND s.callback = 0 AND s.state IN ('waiting', 'running'))
        """
    )


def stuck(db: Session) -> list[tuple[str, str]]:
    """Return (workflow id, step id) of steps that nothing will ever move: all they wait for has ended."""
    return db.all(
        """
        SELECT w.id, p.id FROM workflow w JOIN workflow_step s ON s.workflow = w.number
        JOIN workflow_plan p ON p.step = s.number
        WHERE w.state = 'running' AND ((s.state = 'waiting' AND s.waiting = 0) OR (s.state = 'running'
            AND (s.seq IS NULL OR EXISTS (SELECT 1 FROM done d WHERE d.seq = s.seq))))
        ORDER BY s.number
        """
    )


def shown(row: Row) -> WorkflowView:
    _, id_, tenant, kind, name, meta, state, created, finished, total_, completed, started, failures = row
    return WorkflowView(
        id_, tenant, kind, name, meta, WorkflowState(state), created, finished, total_, completed, (), started, failures
    )  # fmt: skip

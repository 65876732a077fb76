"""Statements that look for instances that nothing will move on, for `doctor` and metrics.  Reads only."""

from penstock.store.instances import IS_STUCK
from penstock.store.session import Session


def stuck(db: Session) -> list[tuple[str, str]]:
    """Return (id, workflow) of running instances that nothing will ever move on.

    One that is to end waits for its jobs and children; another has a pass, or a step that is live.
    """
    return db.all(
        f"""
        SELECT j.id, i.workflow FROM running r JOIN instance i ON i.seq = r.seq JOIN job j ON j.seq = r.seq
        WHERE r.queue = '' AND CASE WHEN i.ending IS NOT NULL
            THEN NOT EXISTS (SELECT 1 FROM instance_job m WHERE m.instance = i.seq)
            WHEN i.pass IS NOT NULL THEN NOT EXISTS (SELECT 1 FROM instance_job m WHERE m.seq = i.pass)
            ELSE {IS_STUCK} END
        """
    )


def frozen(db: Session) -> list[tuple[str, str]]:
    """Return (id of the instance, key) of jobs that are frozen though their instance is not paused."""
    return db.all(
        """
        SELECT j.id, m.key FROM instance_job m JOIN instance i ON i.seq = m.instance JOIN job j ON j.seq = i.seq
        WHERE m.frozen IS NOT NULL AND i.paused = 0
        """
    )


def lost_jobs(db: Session) -> list[tuple[str, str]]:
    """Return (id of the instance, key) where an instance waits for a job that has ended or does not exist."""
    return db.all(
        """
        SELECT j.id, m.key FROM instance_job m JOIN job j ON j.seq = m.instance
        WHERE EXISTS (SELECT 1 FROM done d WHERE d.seq = m.seq)
            OR NOT EXISTS (SELECT 1 FROM job x WHERE x.seq = m.seq)
        """
    )


def idle_steps(db: Session) -> list[tuple[str, str]]:
    """Return (id of the instance, key) of steps that are live though their job, child, timer or wait is not."""
    return db.all(
        """
        SELECT j.id, s.key FROM instance_step s JOIN job j ON j.seq = s.instance
        WHERE s.state = 'live' AND CASE s.kind
            WHEN 'timer' THEN NOT EXISTS (
                SELECT 1 FROM instance_timer t WHERE t.instance = s.instance AND t.key = s.key)
            WHEN 'wait' THEN NOT EXISTS (
                SELECT 1 FROM instance_wait w WHERE w.instance = s.instance AND w.key = s.key)
            WHEN 'frame' THEN false
            ELSE NOT EXISTS (
                SELECT 1 FROM instance_job m WHERE m.instance = s.instance AND m.key = s.key) END
        """
    )


def outlived(db: Session) -> list[tuple[str]]:
    """Return the ids of instances that have ended though something of theirs is live."""
    return db.all(
        """
        SELECT j.id FROM done d JOIN instance i ON i.seq = d.seq JOIN job j ON j.seq = d.seq
        WHERE EXISTS (SELECT 1 FROM instance_job m WHERE m.instance = i.seq)
            OR EXISTS (SELECT 1 FROM instance_timer t WHERE t.instance = i.seq)
            OR EXISTS (SELECT 1 FROM instance_wait w WHERE w.instance = i.seq)
        """
    )

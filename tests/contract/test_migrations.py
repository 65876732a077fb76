"""A store of an earlier penstock goes on with all it had."""

from penstock.store.session import Session


def test_jobs_that_stood_in_lanes_before_their_table_was_renamed_still_do(migrated) -> None:
    def stand(db: Session) -> None:
        db.run(
            "INSERT INTO job (seq, id, tenant, queue, task, args, priority, cost, limits, retry, meta, enqueued) "
            """VALUES (1001, 'a', '', 'q', 't', '{}', 0, 1, '[["k","c1"]]', '', '{}', 0)"""
        )
        db.run(
            "INSERT INTO gate (id, kind, tenant, name, running, lanes) VALUES (1002, 'key', '', 'k', 0, 0)"
        )
        db.run(
            """INSERT INTO lane VALUES (1003, 'q', '[[1002,"c1","wait"]]', 1001, 0, 1001, 1, NULL, NULL, 1)"""
        )
        db.run("""INSERT INTO lane_name VALUES (1003, ?)""", '\x1fq\x1f[["k","c1"]]')
        db.run("INSERT INTO lane_gate VALUES (1002, 1003)")
        db.run("INSERT INTO line VALUES (1001, 1003, 0, 1001, 1, 0, 0, 0)")

    engine = migrated("0013_lane_job.sql", stand)

    assert engine.doctor() == []
    assert [job.id for job in engine.claim(["q"], 2, worker="w").jobs] == ["a"]

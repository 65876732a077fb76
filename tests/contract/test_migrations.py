"""A store of an earlier penstock goes on with all it had."""

import json

from penstock.clock import SECOND
from penstock.job import Bound, Claimed, Maintenance, NewJob, Settlement, TenantLimits
from penstock.lifecycle.outcomes import Done
from penstock.limits.rules import Numbers, Window
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


TENANT_GATE = '{"key":"@tenant","numbers":{"slots":null,"rate":null,"throttle":null},"on_limit":"wait",'
TENANT_GATE += '"floating":null,"shared":false}'
TEMPLATE = '{"task":"t","args":"{\\"queue\\":\\"acme:x\\"}","queue":"acme:mail","tenant":"acme",'
TEMPLATE += f'"limits":[{TENANT_GATE}]}}'


class Old:
    """Writes rows as they were while a queue's name began with its tenant's."""

    def __init__(self, db: Session) -> None:
        self.db = db

    def job(self, seq: int, tenant: str, queue: str, limits: str = "") -> None:
        into = "job (seq, id, tenant, queue, limits, task, args, priority, cost, retry, meta, enqueued)"
        values = (seq, f"j{seq}", tenant, queue, limits)
        self.db.run(f"INSERT INTO {into} VALUES (?, ?, ?, ?, ?, 't', '{{}}', 0, 1, '', '{{}}', 0)", *values)

    def gate(
        self, id_: int, kind: str, tenant: str, name: str, rules: str | None = None, **counts: int
    ) -> None:
        into = "gate (id, kind, tenant, name, running, lanes, rules)"
        values = (id_, kind, tenant, name, counts.get("running", 0), counts.get("lanes", 0), rules)
        self.db.run(f"INSERT INTO {into} VALUES (?, ?, ?, ?, ?, ?, ?)", *values)

    def lane(self, id_: int, signature: str, gates: str, jobs: list[int], behind: int | None = None) -> None:
        queue = signature.split("\x1f")[1]
        line = None if behind is None else f"{behind}|{queue}|"
        head = jobs[0] if jobs else None
        values = (id_, queue, gates, head, head or 0, behind, line, int(behind is None and bool(jobs)))
        self.db.run("INSERT INTO lane VALUES (?, ?, ?, ?, 0, ?, 1, ?, ?, ?)", *values)
        self.db.run("INSERT INTO lane_name VALUES (?, ?)", id_, signature)
        for gate in gates.replace("[", "").split(",")[::3]:
            self.db.run("INSERT INTO lane_gate VALUES (?, ?)", int(gate), id_)
        for seq in jobs:
            self.db.run("INSERT INTO lane_job VALUES (?, ?, 0, ?, 1, 0, 0, 0)", seq, id_, seq)


def _queues_of_tenants(db: Session) -> None:
    old = Old(db)
    own, both = '[["@tenant",""]]', '[["@tenant",""],["k","c1"]]'
    old.gate(2001, "key", "acme", "@tenant", '{"configured": "c2"}', running=1, lanes=1)
    old.gate(2002, "key", "acme", "k", lanes=0)
    old.gate(2003, "queue", "", "acme:mail", '{"configured": "c5"}')
    old.gate(2004, "queue", "", "mine:own", '{"configured": "c1"}')
    old.gate(2005, "key", "", "plain")
    # In a lane, parked; in a lane, ready; in an empty lane; without limits; at the door; later; running; ended.
    old.job(1001, "acme", "acme:mail", own)
    old.job(1002, "acme", "acme:mail", own)
    old.lane(3001, f"acme\x1facme:mail\x1f{own}", '[[2001,"","wait"]]', [1001, 1002], behind=2001)
    old.job(1003, "acme", "acme:film", both)
    old.lane(3002, f"acme\x1facme:film\x1f{both}", '[[2001,"","wait"],[2002,"c1","wait"]]', [1003])
    old.lane(3003, f"acme\x1facme:gone\x1f{own}", '[[2001,"","wait"]]', [])
    old.job(1004, "acme", "mail")
    db.run("INSERT INTO ready VALUES (1004, 'mail', 0, 1004, 1, 0, 0)")
    old.job(1005, "acme", "acme:mail", own)
    db.run("INSERT INTO door (seq, attempt, lost) VALUES (1005, 0, 0)")
    old.job(1006, "acme", "acme:mail", own)
    db.run(
        "INSERT INTO scheduled (seq, due, attempt, lost, signature) VALUES (1006, 1, 0, 0, ?)", f"{own}acme"
    )
    old.job(1007, "acme", "acme:mail", own)
    db.run(
        """
        INSERT INTO running (seq, fence, queue, task, worker, lease, started, begin_by, gates, cost, priority, ord,
            attempt, lost, cancel) VALUES (1007, 9, 'acme:mail', 't', 'w', ?, 0, 0, '2001', 1, 0, 1007, 1, 0, 0)
        """,
        2**60,
    )
    old.job(1008, "acme", "acme:mail", own)
    db.run("INSERT INTO done (seq, state, finished, attempt, reason) VALUES (1008, 'done', 1, 1, '')")
    # A job of a tenant has the turn: the migration removes the turn with the job's lane.
    db.run("INSERT INTO turn (gate, seq, lane, priority, ord, cost) VALUES (2002, 1003, 3002, 0, 1003, 1)")
    # Jobs of no tenant, one in a queue with a colon.
    old.job(1009, "", "mine:own", '[["plain","c9"]]')
    old.lane(3004, '\x1fmine:own\x1f[["plain","c9"]]', '[[2005,"c9","wait"]]', [1009])
    old.job(1010, "", "mail")
    db.run("INSERT INTO ready VALUES (1010, 'mail', 0, 1010, 1, 0, 0)")
    for queue in ("acme:film", "mine:own", "nobody:knows"):
        db.run("INSERT INTO paused (queue, at) VALUES (?, 0)", queue)
    db.run("INSERT INTO bound (queue, max_depth, strategy) VALUES ('acme:mail', 99, 'reject')")
    db.run("INSERT INTO pool (tenant, name, ordering) VALUES ('acme', 'p', 'strict')")
    db.run(
        "INSERT INTO pool_queue (queue, tenant, pool, place, weight) VALUES ('acme:mail', 'acme', 'p', 0, 1)"
    )
    db.run(
        """
        INSERT INTO schedule (tenant, name, expression, timezone, overlap, enabled, job, meta, created, fired)
        VALUES ('acme', 's', '* * * * *', 'UTC', 'allow', 0, ?, '{}', 0, 0)
        """,
        TEMPLATE,
    )
    db.run(
        "INSERT INTO workflow VALUES (4001, 'w', 'acme', 'chain', '', '{}', 0, NULL, 'running', 1, 1, 0, 0)"
    )
    db.run("INSERT INTO workflow_plan VALUES (4002, 'step', 't', 'acme:mail', ?, '')", TEMPLATE)
    db.run(
        "INSERT INTO workflow_step VALUES (4002, 4001, 'waiting', 'done', 0, 1, 0, 0, NULL, NULL, '', NULL)"
    )
    limits = '{"max_concurrency":2,"max_queue_depth":50,"max_enqueue_rate":{"limit":9,"period":"PT2S"}}'
    db.run(
        "INSERT INTO setting VALUES ('ojs:tenant:acme', ?, 0)", f'{{"limits":{limits},"name":"Acme","at":7}}'
    )
    db.run("""INSERT INTO setting VALUES ('ojs:maintenance', '{"at":5,"reason":"disks"}', 0)""")


def test_queues_of_tenants_that_were_named_after_them_are_taken_apart(migrated) -> None:
    engine = migrated("0014_tenants.sql", _queues_of_tenants)

    assert Maintenance(5, "disks") == engine.maintenance()
    engine.set_maintenance(None)
    assert TenantLimits(2, 50, None, Window(9, 2 * SECOND)) == engine.tenant_limits("acme")
    kept = json.loads(engine.settings()["http:tenant:acme"])
    assert ("Acme", 7, 50) == (kept["name"], kept["at"], kept["shown"]["max_queue_depth"])
    assert {("acme", "mail"): Bound(99)} == engine.bounds()
    assert Numbers(slots=5) == engine.configured("queue", "mail", tenant="acme")
    assert Numbers(slots=1) == engine.configured("queue", "mine:own")
    paused = {(queue["tenant"], queue["name"]) for queue in engine.queues() if queue["paused"]}
    assert {("acme", "film"), ("", "mine:own"), ("", "nobody:knows")} == paused
    assert [("mail",)] == [pool.queues for pool in engine.pools("acme")]
    assert {"acme": 8, "": 2} == {
        tenant: sum(sum(of.counts.values()) for of in engine.tally() if of.tenant == tenant)
        for tenant in ("", "acme")
    }
    template = engine.schedule("s", "acme").job
    assert ("mail", (), '{"queue":"acme:x"}') == (template.queue, template.limits, template.args)
    (step,) = engine.workflow("w").steps
    assert "mail" == step.queue
    for queue in ("film", "mine:own"):
        engine.resume(queue)
    first = engine.claim(["mail", "film", "mine:own"], 99, worker="w", tenant="acme")
    assert 1 == len(first.jobs)  # two may run, and one does
    assert [] == engine.doctor()


def test_a_store_with_jobs_of_tenants_is_drained(migrated) -> None:
    engine = migrated("0014_tenants.sql", _queues_of_tenants)
    engine.set_maintenance(None)
    for queue in ("film", "mine:own"):
        engine.resume(queue)
    seen, order = set(), []
    while True:
        claim = engine.claim(["mail", "film", "mine:own"], 1, worker="w")
        seen |= {job.id for job in claim.jobs}
        order += [job.id for job in claim.jobs if job.tenant and job.queue == "mail"]
        engine.settle([_done(job) for job in claim.jobs])
        if not claim.jobs and not claim.more:
            break

    assert {f"j{n}" for n in (1001, 1002, 1003, 1004, 1005, 1006, 1009, 1010)} == seen
    assert order.index("j1001") < order.index("j1002")
    engine.enqueue([NewJob("t", queue="mail", tenant="acme", id="new")])
    assert ["new"] == [job.id for job in engine.claim(["mail"], 9, worker="w").jobs]
    assert [] == engine.doctor()


def _done(job: Claimed) -> Settlement:
    return Settlement(job.seq, job.fence, Done())

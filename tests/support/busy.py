"""A store in which something of everything happens: what the monitor is looked at with."""

from penstock.clock import SECOND
from penstock.job import Bound, NewInstance, NewJob, Pool, Schedule, Settlement
from penstock.lifecycle.outcomes import Done, Failed
from penstock.lifecycle.retry import RetryPolicy
from penstock.limits.rules import Floating, Limit, Numbers, Window

MINUTE = 60 * SECOND
ACCOUNTS = ("acme", "globex", "initech", "hooli", "umbrella")
# Markup, a mark that turns the reading direction, a slash, dots, and quotes.
ODD = "<b>bold</b>\u202egnp.exe/../'\"&#x27;"
TIMEOUT = Failed(
    "TimeoutError", "the provider did not answer within 10 s", "Traceback (most recent call last):\n …"
)


def stripe(account):
    """Be one call to a provider with a rate, for an account that has one at a time."""
    return (
        Limit(f"account:{account}", Numbers(slots=1)),
        Limit("api:stripe", Numbers(rate=Window(60, MINUTE))),
    )


def fill(engine):
    """Let jobs of every kind wait, run, fail and end."""
    _watched(engine)
    _ended(engine)
    _waiting(engine)
    _decided(engine)


def _watched(engine):
    """Have a few things that tests know by name."""
    engine.enqueue([NewJob(task="watched", queue="watched", id="watched")])
    engine.enqueue(
        [
            NewJob(
                task="secret", queue="vault", id="secret", args='{"pin": "hunter2"}', meta='{"secret": true}'
            )
        ]
    )
    (job,) = engine.claim(["watched"], 1, worker="eu-1/4410", lease=600 * SECOND).jobs
    engine.settle([Settlement(job.seq, job.fence, Done('{"seen": true}'))])
    engine.create_instances([NewInstance("order", id="run", queue="orders", args='{"cart": 7}')])


def _ended(engine):
    engine.enqueue([_sync(n, ACCOUNTS[n % 5]) for n in range(25)])
    for _ in range(4):
        jobs = engine.claim(["default"], 20, worker="eu-1/4410", lease=600 * SECOND).jobs
        outcomes = [Done('{"synced": 12}') if n % 4 else TIMEOUT for n, _ in enumerate(jobs)]
        engine.settle([Settlement(job.seq, job.fence, end) for job, end in zip(jobs, outcomes, strict=True)])
    engine.enqueue([NewJob(task="import_rows", queue="reports", retry=RetryPolicy(attempts=1))])
    jobs = engine.claim(["reports"], 1, worker="eu-2/7731", lease=600 * SECOND).jobs
    engine.settle([Settlement(job.seq, job.fence, TIMEOUT) for job in jobs])


def _waiting(engine):
    now = engine.clock.now()
    engine.enqueue([_sync(n, ACCOUNTS[n % 5]) for n in range(100, 160)])
    mail = Limit("smtp", Numbers(throttle=Window(10, SECOND)))
    engine.enqueue(
        [
            NewJob(task="send_mail", queue="mail", args='{"to": "a@example.com"}', limits=(mail,))
            for _ in range(30)
        ]
    )
    warehouse = Limit("warehouse", Numbers(slots=5), floating=Floating("warehouse_slots", 60 * SECOND))
    engine.enqueue([NewJob(task="pick", queue="render", limits=(warehouse,)) for _ in range(9)])
    render = Limit("render", Numbers(slots=12))
    engine.enqueue([NewJob(task="render_page", queue="render", limits=(render,)) for _ in range(20)])
    engine.enqueue(
        [
            NewJob(
                task="odd",
                queue="mail",
                args='{"html": "<script>alert(1)</script>"}',
                limits=(Limit(ODD, Numbers(slots=1)),),
                tenant="acme",
            )
            for _ in range(3)
        ]
    )
    engine.enqueue(
        [NewJob(task="nightly", queue="reports", due=now + n * 3_600 * SECOND) for n in range(1, 4)]
    )
    for queue, worker, count in (
        ("default", "eu-1/4410", 4),
        ("mail", "eu-2/7731", 6),
        ("render", "eu-2/8200", 17),
    ):
        engine.claim([queue], count, worker=worker, lease=600 * SECOND)


def _sync(n, account):
    return NewJob(
        task="sync_account", args=f'{{"account": "{account}", "op": "fetch", "page": {n}}}', limits=stripe(account),
        retry=RetryPolicy(attempts=3), priority=n % 2,
    )  # fmt: skip


def _decided(engine):
    now = engine.clock.now()
    engine.configure("key", "api:stripe", Numbers(rate=Window(100, MINUTE)))
    engine.override("api:stripe", Numbers(rate=Window(12, MINUTE)), until=now + 27 * MINUTE)
    engine.override("account:initech", Numbers(slots=0))
    engine.shut("api:slow", now + 10 * MINUTE, reason="429 from the provider")
    engine.configure("queue", "render", Numbers(slots=20))
    engine.pause("reports")
    engine.bound("mail", Bound(10_000))
    engine.set_pool(Pool("batch", ("reports", "render"), slots=30))
    engine.set_schedule(
        Schedule(
            "nightly-report", "0 3 * * *", NewJob(task="nightly", queue="reports"), timezone="Europe/Berlin"
        )
    )

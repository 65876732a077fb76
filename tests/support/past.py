"""An hour of a store's life in which lines grow: what charts are looked at with."""

from itertools import cycle

from penstock.acting import Actor
from penstock.clock import SECOND
from penstock.job import NewJob, Settlement
from penstock.lifecycle.outcomes import Done, Failed
from penstock.lifecycle.retry import RetryPolicy
from penstock.limits.rules import Limit, Numbers, Window

MINUTE = 60 * SECOND
TIMEOUT = Failed("TimeoutError", "the provider did not answer within 10 s", "")
LEASE = 3_600 * SECOND


def live(engine, clock, minutes=60, every=20 * SECOND):
    """Let so many minutes pass until now, in which jobs come, wait for gates or workers, run, fail and end."""
    limits = {
        "default": (Limit("api:stripe", Numbers(rate=Window(12, MINUTE))),),
        "mail": (Limit("smtp", Numbers(throttle=Window(9, MINUTE))),),
        "render": (Limit("render", Numbers(slots=4)),),
        "free": (),
    }
    tasks = {"default": "sync_account", "mail": "send_mail", "render": "render_page", "free": "tidy"}
    running = []
    total = minutes * MINUTE // every
    engine.enqueue(
        [NewJob(task="import_rows", queue="reports", retry=RetryPolicy(attempts=1)) for _ in range(5)]
    )
    for n, failing in zip(range(total), cycle([False] * 6 + [True])):
        if n == total // 2:
            with engine.acting(Actor("on-call", "monitor", "the provider is slow")):
                engine.override(
                    "api:stripe", Numbers(rate=Window(6, MINUTE)), until=clock.now() + 12 * 3_600 * SECOND
                )
        comes = {
            "default": 3 + n % 2,
            "mail": 2 if n < total * 0.7 else 5,
            "render": n % 3,
            "free": 2 + n // 40,
        }
        for queue, jobs in comes.items():
            engine.enqueue(
                [NewJob(task=tasks[queue], queue=queue, limits=limits[queue]) for _ in range(jobs)]
            )
        begun = []
        for queue, most in (("default", 20), ("mail", 20), ("render", 20), ("free", 3)):
            begun += engine.claim([queue], most, worker=f"eu-{len(queue) % 2 + 1}/4410", lease=LEASE).jobs
        if n == total * 5 // 6:
            begun += engine.claim(["reports"], 5, worker="eu-2/8200", lease=LEASE).jobs
        running.append(begun)
        clock.advance(every)
        if len(running) > 2:
            outcomes = [
                TIMEOUT if failing and job.queue in ("free", "reports") else Done() for job in running[0]
            ]
            if any(job.queue == "reports" for job in running[0]):
                outcomes = [TIMEOUT for _ in running[0]]
            engine.settle(
                [
                    Settlement(job.seq, job.fence, end)
                    for job, end in zip(running.pop(0), outcomes, strict=True)
                ]
            )
        if n % 3 == 0:
            engine.keep_minutes()
    for queue in ("default", "mail", "render"):  # until its gate is shut
        engine.claim([queue], 20, worker="eu-1/4410", lease=LEASE)
    engine.keep_minutes()

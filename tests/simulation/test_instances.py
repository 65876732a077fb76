"""Instances through random histories; and the engine wounded, to see that the model notices."""

from collections import Counter
from typing import Any

import pytest

from tests.simulation.instance_model import History, NoticedError
from tests.simulation.wounds import wounded
from tests.support.postgres import empty_store
from tests.support.soak import often

STEPS = 120
PARTS = often(2, 16)
WITH_A_TIMER = 19  # a history in which nothing but upkeep can fire a timer
# What must have happened for so many histories to show anything.
PLAYED = {
    "admitted", "by rate", "died", "lost", "settled done", "settled failed", "settled handed back", "settled late",
    "settled pass", "job done", "job failed", "timer done", "wait done", "child done",
}  # fmt: skip


@pytest.mark.parametrize("part", range(PARTS))
def test_every_instance_stands_where_the_model_foretells(part: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(part, often(24, 4_000), PARTS):
        counts += History(seed).play(STEPS)

    assert set() == PLAYED - counts.keys()


def test_every_instance_stands_there_on_postgresql_too() -> None:
    for seed in range(often(3, 100)):
        with empty_store() as url:
            History(seed, url).play(STEPS // 2)


# By name: a `module:function` of penstock, and what to replace there, as (old, new).
WOUNDS: dict[str, tuple[Any, ...]] = {
    "slots are given back while an instance waits": (
        "engine.admission.instances:Admitting.start",
        ('fence, "", "", ON_RELEASE, now', 'fence, "", "", now + 5_000_000, now'),
    ),
    "the next in line is not let in": (
        "engine.admission.instances:admit",
        (
            "if _is_ready(lane)]\n    if not",
            "if _is_ready(lane) and not board.to_follow.finished]\n    if not",
        ),
    ),
    "an end is recorded, and nothing follows": (
        "engine.conducting:Conducting.end",
        (
            "if run.ending is None:\n        self._queue",
            "if run.ending is None and key != 'b':\n        self._queue",
        ),
    ),
    "an end is followed, and not recorded": (
        "engine.conducting:Conducting.end",
        ("run.put(step._replace(state=state.value", "(step._replace(state=state.value"),
    ),
    "what ended during a pass is not looked at": (
        "engine.conducting:Conducting._pass_ended",
        ("if run.version > seen:", "if False:"),
    ),
    "two passes at once": (
        "engine.conducting:Conducting._add_jobs",
        ("run.ending is None and run.pass_seq is None", "run.ending is None"),
    ),
    "a signal that comes early is dropped": (
        "engine.instances:InstanceVerbs.signal",
        ("rows.add_signal(board.db, (", "tuple(("),
    ),
    "a wait goes on after its signal": (
        "engine.conducting:Conducting.signalled",
        ("self._stopped.append((run.seq, key))", "pass"),
    ),
    "an instance ends while a step of it runs": (
        "engine.conducting:Conducting._wind_up",
        ("busy = {instance for instance, _, _ in left}", "busy = set()"),
    ),
    "steps that wait go on when an instance ends": (
        "engine.conducting:Conducting._wind_up",
        ("remove_all(board, jobs, State.CANCELLED, reason)", "jobs"),
    ),
    "a pause that freezes nothing": ("engine.freezing:freeze", ("for seq in seqs:", "for seq in []:")),
    "a resume that thaws nothing": ("engine.freezing:thaw", ("rejoin(board, arriving)", "pass")),
    "a step that comes back to a paused instance": (
        "engine.after_ends:_go_on",
        ("if returned and (paused", "if False and (paused"),
    ),
    "a step without its rate": (
        "engine.instance_run:step_job",
        ("tenant=row.tenant,", "tenant=row.tenant, limits=(),"),
    ),
    "a parent that is not told of its child": (
        "engine.conducting:Conducting.jobs_ended",
        ("elif end.key is not None:", 'elif end.key not in (None, "kid"):'),
    ),
    "a timer that is over too soon": (
        "engine.upkeep:UpkeepVerbs.upkeep",
        ("due_timers(board.db, board.now, BATCH)", "due_timers(board.db, board.now + 60_000_000, BATCH)"),
    ),
    "a timer that is fired by no upkeep": (
        "engine.upkeep:UpkeepVerbs.upkeep",
        ("due_timers(board.db, board.now, BATCH)", "due_timers(board.db, 0, BATCH)"),
    ),
    "a retry that forgets what was done": (
        "engine.retry_instance:_forget_failed",
        ("(found.seq, step.key) for step in forgotten}", "(found.seq, step.key) for step in steps}"),
    ),
    "a retry that passes no gate": (
        "engine.retry_instance:retry",
        ("rejoin(board, [(found.seq, None, 0, 0)])", "pass"),
    ),
}


@pytest.mark.parametrize("wound", WOUNDS)
def test_the_model_notices(wound: str) -> None:
    def play() -> None:
        for seed in (WITH_A_TIMER, *range(300)):
            History(seed).play(STEPS)

    with wounded(wound, WOUNDS), pytest.raises(NoticedError):
        play()

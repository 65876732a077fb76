"""Keys, queues, tenants and ids may be any text: what is written down under one is found under it, and no other."""

import asyncio
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from penstock.clock import SECOND
from penstock.errors import InvalidError, NotFoundError
from penstock.job import Bound, NewJob, OnFull, Settlement, TenantLimits
from penstock.lifecycle.outcomes import Done
from penstock.lifecycle.states import State
from penstock.lifecycle.unique import Unique
from penstock.limits.rules import Limit, Numbers, Window
from penstock.limits.spec import limits_from_json
from penstock.names import MAX_NAME
from tests.support.asgi import ask, serving
from tests.support.desk import Desk, rate, slots
from tests.support.soak import often

pytestmark = pytest.mark.usefixtures("healthy")

AWKWARD = [
    "a b", " ", "a|b", "a|c1|@t", "|", "@", "#1", "%", "_", "!", "a%b_c!", '"', "'", "\\", "a\\", '["k",', "{x}", "a/b",
    "../x", "?a=1&b=2", "[red]x[/red]", "--json", "é", "e\u0301", "😀", "\u200fab\u202e", "\u2028", "\ufeff", "\ufffd",
    "\U0010ffff", "NULL", ",", "=",
]  # fmt: skip


TEXT = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=12) | st.sampled_from(
    AWKWARD
)
JOBS = st.lists(
    st.tuples(TEXT | st.just(""), TEXT, TEXT, TEXT),
    min_size=1,
    max_size=6,
    unique_by=lambda job: (job[0], job[3]),
)
FEW = settings(
    max_examples=often(15, 100),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
SHARED = Limit("k", Numbers(slots=1), shared=True)


def longest(seed: int, size: int = MAX_NAME) -> str:
    """Return a name of so many bytes that cannot be made any shorter."""
    chance = random.Random(seed)
    letters = "".join(chr(chance.randrange(0x4E00, 0x9FFF)) for _ in range(size // 3))
    return letters + "x" * (size % 3)


def end(desk: Desk, *ids: str) -> None:
    attempts = [desk.attempts.pop(id_) for id_ in ids]
    assert all(desk.engine.settle([Settlement(job.seq, job.fence, Done()) for job in attempts]))


def start(desk: Desk, tenant: str, queue: str, count: int = 10) -> list[str]:
    claim = desk.engine.claim([queue], count, worker="w", tenant=tenant)
    desk.attempts |= {job.id: job for job in claim.jobs}
    return [job.id for job in claim.jobs]


@pytest.mark.parametrize("name", AWKWARD, ids=ascii)
def test_a_job_passes_under_any_names(desk: Desk, name: str) -> None:
    limits = (slots(name, 1), rate(f"{name}{name}", 5))
    ids = (name, f"{name} later")
    unique = Unique(name)
    desk.engine.enqueue([NewJob("t", id=i, queue=name, tenant=name, limits=limits) for i in ids])
    desk.engine.enqueue([NewJob("t", id="other", queue="q", unique=unique, limits=(slots("k", 1),))])

    assert [ids[0]] == start(desk, name, name)
    waits = desk.engine.why(ids[1])
    desk.engine.pause(name, tenant=name)

    assert (name, 0) == (waits.reasons[0].gate, waits.place)
    assert (1, 1) == ((gate := desk.engine.gate(name, name)).running, gate.waiting)
    assert {name, f"{name}{name}"} == {gate.key for gate in desk.engine.gates(prefix=name)[0]}
    assert [*reversed(ids)] == [view.id for view in desk.engine.jobs(key=name)]
    assert [*reversed(ids)] == [view.id for view in desk.engine.jobs(begins=name, queue=name, tenant=name)]
    assert ["other"] == [view.id for view in desk.engine.jobs(key="k")]
    assert [ids[1]] == [view.id for view in desk.engine.jobs(begins=ids[1])]
    assert (name, name) in {(queue["tenant"], queue["name"]) for queue in desk.engine.queues()}
    (again,) = desk.engine.enqueue([NewJob("t", queue="q", unique=unique)])
    assert ("other", True) == (again.id, again.reused)

    end(desk, name)
    desk.engine.resume(name, tenant=name)
    assert [ids[1]] == start(desk, name, name)
    assert State.CANCELLED == desk.engine.cancel("other")
    assert State.RUNNING is desk.engine.job(ids[1]).state


def test_the_longest_names_fit_and_a_byte_more_does_not(desk: Desk) -> None:
    tenant, queue, id_, *keys = (longest(seed) for seed in range(13))
    limits = tuple(slots(key, 1) for key in keys)
    new = NewJob("t" * 255, id=id_, queue=queue, tenant=tenant, limits=limits, unique=Unique(longest(99)))
    desk.engine.set_tenant_limits(tenant, TenantLimits(waiting=9))
    desk.engine.bound(queue, Bound(9, OnFull.REJECT), tenant=tenant)
    desk.engine.configure("queue", queue, Numbers(slots=9), tenant=tenant)
    desk.engine.enqueue([new, NewJob("t", id="next", queue=queue, tenant=tenant, limits=limits)])
    desk.engine.enqueue(
        [NewJob("t", id="late", queue=queue, tenant=tenant, limits=limits, due=desk.clock.now() + SECOND)]
    )

    assert [id_] == start(desk, tenant, queue)
    desk.clock.advance(SECOND)
    assert [] == start(desk, tenant, queue)
    assert 1 == desk.engine.why("late").place
    end(desk, id_)
    assert ["next"] == start(desk, tenant, queue)
    assert id_ == desk.engine.jobs(begins=id_[:100])[0].id
    for field in ("id", "queue", "tenant"):
        with pytest.raises(InvalidError, match=rf"^{field}: .* has 1,025 bytes in UTF-8; at most 1,024"):
            desk.engine.enqueue([NewJob("t", **{"id": "x", "queue": "q", field: "x" * 1025})])
    with pytest.raises(InvalidError, match=r"^key: .* has 1,025 bytes"):
        slots("x" * 1025, 1)


def test_jobs_with_the_same_many_long_keys_share_a_lane(desk: Desk) -> None:
    limits = tuple(slots(longest(seed), 1) for seed in range(10))
    others = (*limits[1:], slots(longest(77), 1))
    desk.engine.configure("type", "t", Numbers(slots=3))
    desk.enqueue("a b", *limits)
    desk.enqueue("c", *others)

    desk.engine.enqueue([NewJob("t", id="d", queue="q", limits=limits)])

    # One for a and b, one for c, one for d, whose type has a gate.
    lanes = desk.engine.store.read(lambda db: db.all("SELECT gates FROM lane"))
    assert 3 == len(lanes)
    assert "a" == desk.claim()


def test_a_job_of_many_costs_and_the_longest_names_is_set_apart_and_comes_back(desk: Desk) -> None:
    tenant, queue, much = longest(1), longest(2), 10**15
    keys = [f"k{number:02}" for number in range(40)]
    limits = tuple(Limit(key, Numbers(rate=Window(much, SECOND)), cost=much) for key in keys)
    desk.engine.enqueue([NewJob("😀" * 60, id="a", queue=queue, tenant=tenant, limits=limits)])
    assert [] == desk.engine.claim([queue], 1, worker="w", tenant=tenant, tasks=["another"]).jobs
    desk.engine.configure("key", keys[0], Numbers(rate=Window(1, SECOND)), tenant=tenant)

    assert [] == start(desk, tenant, queue)
    desk.engine.configure("key", keys[0], None, tenant=tenant)

    assert ["a"] == start(desk, tenant, queue)


def test_queues_with_bars_in_their_names_have_lines_of_their_own(desk: Desk) -> None:
    places = [("", "a|c1|@t"), ("t|c1", "a"), ("t", "a"), ("", "a|c1"), ("", "a"), ("t", "a|c1")]
    desk.enqueue("first", slots("k", 1))
    assert "first" == desk.claim()
    for number, (tenant, queue) in enumerate(places):
        desk.engine.enqueue([NewJob("t", id=str(number), queue=queue, tenant=tenant, limits=(SHARED,))])

    assert [0] * len(places) == [desk.engine.why(str(number)).place for number in range(len(places))]
    for number, (tenant, queue) in enumerate(places):
        end(desk, *desk.attempts)
        assert [str(number)] == start(desk, tenant, queue)


@pytest.mark.parametrize("field", ["id", "queue", "tenant"])
@pytest.mark.parametrize("name", ["a\n", "\x00", "\x1f", "\x9b", "\ud800"], ids=ascii)
def test_a_name_has_no_control_characters(desk: Desk, field: str, name: str) -> None:
    with pytest.raises(InvalidError, match=rf"^{field}: .* must be text without control characters"):
        desk.engine.enqueue([NewJob("t", **{"queue": "q", field: name})])
    with pytest.raises(NotFoundError):
        desk.engine.job("x")


@FEW
@given(JOBS)
def test_whatever_the_names_jobs_start_in_order_one_at_a_time_for_each_key(
    desk: Desk, drawn: list[tuple[str, str, str, str]]
) -> None:
    desk.engine.enqueue([NewJob("t", id=i, queue=q, tenant=t, limits=(slots(k, 1),)) for t, q, k, i in drawn])
    for tenant, queue, key, id_ in drawn:
        view = desk.engine.job(id_, tenant)
        assert (tenant, queue, key, id_) == (view.tenant, view.queue, view.limits[0].key, view.id)

    left = list(drawn)
    while left:
        running = []
        for tenant, queue in dict.fromkeys((t, q) for t, q, _, _ in left):
            found = [job for job in left if job[:2] == (tenant, queue)]
            free = [job for job in found if (tenant, job[2]) not in {(t, k) for t, _, k, _ in running}]
            first = {job[2]: job for job in reversed(free)}
            claim = desk.engine.claim([queue], len(drawn), worker="w", tenant=tenant)
            started = [
                (job.tenant, job.queue, limits_from_json(job.limits)[0].key, job.id) for job in claim.jobs
            ]
            assert sorted(first.values()) == sorted(started)
            running += started
            desk.attempts |= {str(job.seq): job for job in claim.jobs}
        end(desk, *desk.attempts)
        left = [job for job in left if job not in running]
    for tenant, _, _, id_ in drawn:
        desk.engine.forget(id_, tenant)


class TestOverHttp:
    """The same names over penstock's own protocol, and in what is counted."""

    @FEW
    @given(TEXT | st.just(""), TEXT, TEXT, TEXT)
    def test_whatever_the_names_are_they_come_back(
        self, desk: Desk, tenant: str, queue: str, key: str, id_: str
    ) -> None:
        job = {"task": "t", "id": id_, "queue": queue, "tenant": tenant}
        job |= {"args": '{"args":[],"kwargs":{}}', "limits": [{"key": key, "numbers": {"slots": 1}}]}
        named, take = (
            {"id": id_, "tenant": tenant},
            {"queues": [queue], "count": 2, "worker": "w", "tenant": tenant},
        )

        async def talk() -> list[Any]:
            async with serving(desk.engine) as site:
                asked = (
                    ("enqueue", {"jobs": [job]}), ("job", named), ("jobs", {"key": key, "begins": id_}), ("why", named),
                    ("claim", take), ("gate", {"key": key, "tenant": tenant}), ("gates", {"prefix": key}),
                )  # fmt: skip
                answers = [await ask(site, f"/penstock/v1/{verb}", body) for verb, body in asked]
                return [*answers, await ask(site, "/penstock/v1/metrics", None, "GET")]

        *answers, (status, metrics) = asyncio.run(talk())

        assert [200] * 8 == [*(status for status, _ in answers), status], answers
        _, view, found, why, claim, gate, gates = (body for _, body in answers)
        (claimed,) = claim["jobs"]
        assert [(id_, queue, tenant)] * 3 == [
            (each["id"], each["queue"], each["tenant"]) for each in (view, *found, claimed)
        ]
        assert (id_, key, tenant) == (why["job"], gate["key"], gate["tenant"])
        assert key in {each["key"] for each in gates["gates"]}
        samples = [s for family in text_string_to_metric_families(metrics.decode()) for s in family.samples]
        labels = [
            sample.labels for sample in samples if sample.name == "penstock_gate_active" and sample.value
        ]
        assert [{"key": key, "tenant": tenant}] == labels
        desk.engine.settle([Settlement(claimed["seq"], claimed["fence"], Done())])
        desk.engine.forget(id_, tenant)

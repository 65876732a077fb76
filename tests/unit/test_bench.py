"""How the benchmark counts: a measure that cannot fail would prove nothing."""

import os
from pathlib import Path
from statistics import mean, stdev
from urllib.parse import parse_qsl, urlsplit

import psycopg
import pytest

from penstock.bench.cluster import overlaps, rate
from penstock.bench.drain import free_jobs
from penstock.bench.main import main
from penstock.bench.pickup import CASES, WARM_UP
from penstock.bench.rate import worst_window
from penstock.bench.run_context import fill, opened, prepared
from penstock.bench.store_factory import Files, factory_for
from penstock.bench.worker_processes import (
    Assignment,
    WorkerLostError,
    drained,
    served,
    started,
    stopped,
)
from penstock.errors import InvalidError
from penstock.lifecycle.states import State
from tests.support.postgres import shared_url

SECOND = 1_000_000_000
STORES = {"sqlite": lambda: "", "postgres": shared_url}


@pytest.fixture(params=STORES)
def store(request):
    """What `--store` may name."""
    return STORES[request.param]()


@pytest.fixture
def context(store):
    with prepared(store, quick=True) as context:
        yield context


def schemas():
    with psycopg.connect(shared_url()) as connection:
        rows = connection.execute(
            "SELECT nspname FROM pg_namespace WHERE starts_with(nspname, %s)", (f"bench_{os.getpid()}_",)
        ).fetchall()
    return [name for (name,) in rows]


@pytest.mark.parametrize(
    ("starts", "worst"),
    [
        ([], 0),
        ([5], 1),
        ([0, SECOND], 1),
        ([0, SECOND - 1], 2),
        ([0, 1, 2, SECOND, SECOND + 1, 3 * SECOND], 3),
        ([0, SECOND // 2, SECOND, 3 * SECOND // 2], 2),
    ],
)
def test_the_worst_window_is_found_wherever_it_begins(starts, worst):
    assert worst_window(starts) == worst


@pytest.mark.parametrize(
    ("ours", "theirs", "found"),
    [
        ([(1, 0, 10), (1, 10, 20)], [(2, 5, 15)], 0),
        ([(1, 0, 10)], [(1, 9, 20)], 1),
        ([(1, 0, 30), (1, 10, 20)], [(1, 40, 50)], 1),
        ([(1, 0, 30), (2, 40, 50)], [(1, 10, 15), (1, 20, 25)], 2),
    ],
)
def test_handlers_of_one_key_are_seen_to_overlap_also_in_two_processes(ours, theirs, found):
    assert overlaps([*ours, *theirs]) == found


def test_processes_are_measured_from_the_first_begin_until_the_last_end_of_their_handlers():
    assert 1.5 == rate([(1, 0, SECOND), (2, SECOND, 2 * SECOND), (3, SECOND // 2, SECOND)])


def test_jobs_to_pick_up_come_at_random_moments_for_one_and_for_four_idle_workers():
    """P1: at an even pace nothing showed."""
    assert {(gap, workers) for gap in (0.02, 0.1, 1.0) for workers in (1, 4)} == {
        (case.mean, case.workers) for case in CASES
    }
    for case in CASES:
        pauses = case._replace(jobs=5_000).pauses()[WARM_UP:]
        assert pytest.approx(case.mean, rel=0.1) == mean(pauses)
        # Those of an even pace would hardly differ.
        assert pytest.approx(case.mean, rel=0.1) == stdev(pauses)


@pytest.mark.parametrize("once", [False, True])
def test_the_floor_leaves_jobs_as_the_engine_would(context, once):
    url = context.url("floor")
    fill(url, free_jobs(250))

    assert context.stores.floor_rate(url, 250, once=once) > 0

    with opened(url) as engine:
        assert {State.DONE: 250} == engine.count()
        assert [] == engine.doctor()


def test_the_floor_says_so_if_it_did_not_do_all(context):
    url = context.url("floor")
    fill(url, free_jobs(5))

    with pytest.raises(RuntimeError, match="moved 5 jobs of 6"):
        context.stores.floor_rate(url, 6, once=False)


def test_a_new_store_is_empty_whatever_was_there(context):
    fill(context.url("again"), free_jobs(3))

    with opened(context.url("again")) as engine:
        assert {} == engine.count()


def test_nothing_is_left_after_an_interrupt():
    folders = []

    def interrupted(store):
        with prepared(store, quick=True) as context:
            folders.append(context.folder)
            fill(context.url("w4-0"), free_jobs(1))
            fill(context.url("w4-1000"), free_jobs(1))
            assert not store or 2 == len(schemas())
            raise KeyboardInterrupt

    for named in STORES.values():
        with pytest.raises(KeyboardInterrupt):
            interrupted(named())

    assert [] == schemas()
    assert not any(folder.exists() for folder in folders)


def test_a_schema_of_its_own_takes_the_place_of_the_one_named():
    stores = factory_for("postgresql://me@db/jobs?schema=mine&options=-c%20jit%3Doff", Path())

    parts = urlsplit(stores.url("w4-0"))

    assert ("me@db", "/jobs") == (parts.netloc, parts.path)
    assert [("options", "-c jit=off"), ("schema", f"bench_{os.getpid()}_w4_0")] == parse_qsl(parts.query)


def test_sqlite_is_measured_in_a_folder_only(tmp_path):
    assert isinstance(factory_for("", tmp_path), Files)
    with pytest.raises(InvalidError, match="temporary folder"):
        factory_for("sqlite:///jobs.db", tmp_path)


def test_a_workload_that_lacks_its_packages_is_refused_before_any_is_run(capsys, monkeypatch):
    monkeypatch.setattr("penstock.bench.main.find_spec", lambda _: None)

    assert main(["W2", "W12"], as_json=False, quick=True) == 2
    assert "pip install 'penstock[silo]'" in capsys.readouterr().err


def test_an_unknown_workload_is_wrong_usage(capsys):
    assert 2 == main(["W99"], as_json=True, quick=True)
    assert "no workload W99" in capsys.readouterr().err


def test_workers_do_all_or_enough_or_what_they_can(context):
    url = context.url("workers")
    fill(url, free_jobs(300, "counted"))

    assert served(url, "counted", 100).seconds > 0
    with opened(url) as engine:
        assert engine.count()[State.DONE] >= 100
    assert drained(url, "counted").seconds > 0
    with started(Assignment(url, "counted", at_once=5), 2) as workers:
        assert 2 == len(stopped(workers))

    with opened(url) as engine:
        assert {State.DONE: 300} == engine.count()


def test_a_worker_that_cannot_begin_is_noticed(tmp_path, capfd):
    with pytest.raises(WorkerLostError), started(Assignment(str(tmp_path / "no" / "folder.db"), "noop")):
        pytest.fail("it went to work")

    assert "Traceback" in capfd.readouterr().err

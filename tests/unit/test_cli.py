"""How the command line reads what people write and shows what programs keep."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli import exit_status, root
from penstock.cli.options import file_of, named, read_numbers, read_time, read_window
from penstock.cli.output import Column, fitting, iso, numbers_plain, rough, when, widths
from penstock.cli.worker import read_weights
from penstock.clock import SECOND
from penstock.errors import (
    InvalidError,
    InvalidLimitError,
    NotFoundError,
    SchemaError,
    StoreBusyError,
    WrongStateError,
)
from penstock.http import uvicorn_server
from penstock.limits.rules import Numbers, Window

NOON = 1_767_268_800 * SECOND
windows = st.builds(Window, st.integers(0, 10**6), st.integers(1, 10**12))


@given(st.integers(0, 100), windows, windows)
def test_numbers_are_shown_as_the_options_take_them(slots, rate, throttle):
    numbers = Numbers(slots, rate, throttle)

    shown = numbers_plain(numbers)

    assert numbers == read_numbers(shown["slots"], shown["rate"], shown["throttle"])


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("100/1m", Window(100, 60 * SECOND)),
        ("10/s", Window(10, SECOND)),
        (" 5 / 250ms ", Window(5, SECOND // 4)),
    ],
)
def test_a_window_is_a_number_and_a_time(text, window):
    assert window == read_window("rate", text)


@pytest.mark.parametrize("text", ["100", "/1m", "100/", "1.5/1m", "-3/1m", "100/1m/2", "100/later"])
def test_what_is_no_window_is_refused_by_the_name_of_its_option(text):
    with pytest.raises(InvalidError, match="--rate"):
        read_window("rate", text)


def test_a_plain_number_of_time_is_seconds():
    assert (90 * SECOND, SECOND // 2, 600 * SECOND) == tuple(
        read_time("for", text) for text in ("90", "0.5", "10m")
    )
    assert read_time("for", "") is None
    with pytest.raises(InvalidError, match="--for"):
        read_time("for", "a while")


def test_a_limit_without_numbers_is_refused():
    with pytest.raises(InvalidError, match="--slots"):
        read_numbers(None, "", "")


def test_a_store_is_a_file_or_elsewhere():
    assert ["jobs.db", "jobs.db", "/var/jobs.db"] == [
        str(file_of(store)) for store in ("jobs.db", "sqlite:///jobs.db", "sqlite:////var/jobs.db")
    ]
    assert file_of("postgresql://somewhere/jobs") is None


def test_queues_named_beside_weights_weigh_one():
    assert {"rest": 1, "mail": 3} == read_weights("mail=3", ["rest"])
    assert {"mail": 3, "reports": 1} == read_weights("mail=3, reports = 1", [])


def test_a_queue_with_a_weight_may_have_any_name():
    assert {"a,b": 3, "c=d|e f": 1} == read_weights("a,b=3,c=d|e f=1", [])


def test_weights_that_cannot_be_read_are_refused():
    for text in ("mail", "mail=", "=3", "mail=much", "mail=3,"):
        with pytest.raises(InvalidError, match="--weights"):
            read_weights(text, [])


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (InvalidLimitError("rate", "no"), 2),
        (NotFoundError("job", "x"), 3),
        (WrongStateError("x", "done", "failed"), 1),
        (StoreBusyError("locked"), 4),
        (SchemaError("newer"), 4),
    ],
)
def test_every_error_has_a_status_a_script_can_use(error, status):
    assert status == exit_status(error)


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (5_000, "5 ms"),
        (1_500_000, "2 s"),
        (90 * SECOND, "2 min"),
        (899_999_999, "15 min"),
        (86_400 * SECOND, "1 d"),
    ],
)
def test_spans_are_shown_in_their_largest_unit(span, text):
    assert text == rough(span)


def test_moments_are_shown_both_ways():
    assert "2026-01-01T12:00:00Z" == iso(NOON)
    assert when(NOON - 3 * SECOND, NOON).startswith("3 s ago (")
    assert when(NOON + 3 * SECOND, NOON).startswith("in 3 s (")
    assert "" == when(None, NOON)


def test_the_least_important_columns_give_way_first():
    columns = [Column("job"), Column("task", 1), Column("enqueued", 3), Column("queue", 2)]

    shown = {width: [column.title for column in fitting(columns, width)] for width in (26, 16, 9, 1)}

    assert {
        26: ["job", "task", "enqueued", "queue"],
        16: ["job", "task", "queue"],
        9: ["job", "task"],
        1: ["job"],
    } == shown


def test_a_column_that_may_be_cut_is_cut_before_another_goes():
    columns = [Column("job", least=4, cells=["x" * 10]), Column("state"), Column("reason", 1, least=6)]

    shown = {width: (fitting(columns, width), widths(columns, width)) for width in (25, 20, 19, 18)}

    assert {25: 3, 20: 3, 19: 3, 18: 2} == {width: len(found) for width, (found, _) in shown.items()}
    assert {25: [10, 5, 6], 20: [5, 5, 6], 19: [4, 5, 6]} == {w: shown[w][1] for w in (25, 20, 19)}


@pytest.mark.parametrize(
    ("store", "name"),
    [
        ("jobs.db", "jobs.db"),
        ("sqlite:///var/lib/jobs.db", "jobs.db"),
        ("postgresql://me:secret@postgres-1:5432/jobs?sslmode=require", "jobs on postgres-1"),
        ("postgresql:///jobs", "jobs on this machine"),
        ("postgresql://postgres-1", "the database on postgres-1"),
        (":memory:", ":memory:"),
    ],
)
def test_a_store_is_called_by_its_name_and_its_server(store, name):
    assert name == named(store)


def test_the_proxies_that_are_trusted_reach_the_server(monkeypatch, tmp_path):
    served = []
    monkeypatch.setattr(uvicorn_server, "serve", lambda *given: served.append(given[3].proxies))
    monkeypatch.setattr("penstock.cli.serve.log_to_stderr", lambda *_: None)
    store = ["serve", "--store", str(tmp_path / "jobs.db")]

    for proxies in ([], ["--trusted-proxy", "10.0.0.7", "--trusted-proxy", "10.1.0.0/24"]):
        root.app([*store, *proxies], standalone_mode=False)

    assert [(), ("10.0.0.7", "10.1.0.0/24")] == served
    with pytest.raises(InvalidError, match="--trusted-proxy"):
        root.app([*store, "--trusted-proxy", "*"], standalone_mode=False)

"""How peers are compared: a verdict that cannot be missed would prove nothing."""

import shutil
import time
from itertools import pairwise
from xml.etree import ElementTree as ET

import psycopg
import pytest

from peers.environments import NotInstalledError
from peers.picture import by_processes
from peers.results import OURS, Result, Results
from peers.slow_flush import MILLISECONDS, slow_server
from peers.verdicts import verdicts
from penstock.bench.cluster import CASES, LONG, MANY, SHORT, Turn, figures

SVG = "{http://www.w3.org/2000/svg}"


def results(**rates):
    """Return W16 with most processes, by name: jobs per second in each round."""
    found = Results()
    for who, runs in rates.items():
        found.add(Result(who, "W16", MANY.name, "jobs/s", list(runs), broken=0))
    return found


def judged(found):
    (verdict,) = verdicts(found, ["W16"])
    return verdict


def plain(who, rates, violations=0):
    return [
        Result(who, "W16", case.name, "jobs/s", [rate], broken=violations).plain
        for case, rate in zip(SHORT, rates, strict=True)
    ]


@pytest.mark.parametrize(("mine", "word"), [(4_000, "ok"), (3_990, "missed")])
def test_many_processes_are_judged_by_the_best_peer(mine, word):
    verdict = judged(results(penstock=[mine], pgqueuer=[400], **{"pg-boss": [1_000]}))

    assert (mine / 1_000, word) == (verdict.found, verdict.word)
    assert "pg-boss" in verdict.text


def test_a_ratio_is_the_middle_one_of_the_rounds():
    verdict = judged(results(penstock=[4_000, 8_000, 9_000], dbos=[1_000, 1_000, 3_000]))

    assert 4.0 == verdict.found


def test_a_peer_that_broke_a_limit_sets_no_target():
    found = results(penstock=[4_000], procrastinate=[500])
    found.add(Result("pg-boss", "W16", MANY.name, "jobs/s", [4_000], broken=1))

    assert 8.0 == judged(found).found


def test_a_peer_that_was_stopped_sets_a_target_by_what_it_did():
    found = results(penstock=[4_000])
    found.add(Result("pgqueuer", "W16", MANY.name, "jobs/s", [2_000], broken=0, note="stopped"))

    assert "missed" == judged(found).word


def test_without_a_peer_nothing_is_judged():
    assert "not measured" == judged(results(penstock=[4_000])).word


@pytest.mark.parametrize(
    ("rates", "missed"),
    [
        ((1_000, 1_500, 2_500, 3_000), set()),
        ((1_000, 1_500, 2_500, 2_900), {"1 ms jobs, 8 / 1"}),
        ((1_000, 3_600, 3_200, 3_200), {"1 ms jobs, 4 / 2"}),
    ],
)
def test_more_processes_have_to_do_more(rates, missed):
    found = figures([_turn(rates, LONG.most)])

    assert missed == {figure.name for figure in found if figure.target and not figure.target.met}


def test_slow_handlers_have_to_keep_hands_busy():
    found = figures([_turn((1_000, 2_000, 3_000, 4_000), 0.74 * LONG.most)])

    assert ["20 ms jobs / what they could do"] == [
        figure.name for figure in found if figure.target and not figure.target.met
    ]


def test_a_picture_tells_in_words_too_what_it_shows():
    drawn = by_processes([*plain("pg-boss", (1, 2, 3, 4), violations=2), *plain(OURS, (5, 6, 7, 8_000))])

    picture = ET.fromstring(drawn)
    told = picture.findtext(f"{SVG}desc")
    names = [each.text for each in picture.iter(f"{SVG}text")]
    assert picture.findtext(f"{SVG}title")
    assert "penstock: 5, 6, 7, 8,000; pg-boss: 1, 2, 3, 4" in told
    assert {"jobs/s", "worker processes", "penstock (8,000/s)", "pg-boss (4/s, 8 overlaps)"} <= set(names)
    assert "prefers-color-scheme: dark" in drawn


def test_names_in_a_picture_do_not_cover_one_another():
    drawn = by_processes([*plain(OURS, (9, 9, 9, 9)), *plain("a", (1, 1, 1, 1)), *plain("b", (1, 1, 1, 1))])

    places = sorted(
        float(each.get("y")) for each in ET.fromstring(drawn).iter(f"{SVG}text") if each.text.endswith("/s)")
    )
    assert all(lower - upper >= 18 for upper, lower in pairwise(places))


def test_there_is_no_picture_of_what_was_not_run():
    assert "" == by_processes([Result(OURS, "W2", "drain", "jobs/s", [1.0]).plain])


def test_a_slow_flush_is_refused_without_a_compiler(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda _: None)

    with pytest.raises(NotInstalledError, match="it needs gcc"), slow_server():
        pass


def test_a_commit_waits_for_a_slow_flush():
    if shutil.which("gcc") is None:
        return  # it is refused there, as told above
    with slow_server() as url, psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE flushed (number BIGINT)")
        took = [_milliseconds(connection, number) for number in range(9)]

    # One or the other may find that the server has flushed for it.
    assert sorted(took)[4] >= MILLISECONDS


def _milliseconds(connection, number):
    began = time.perf_counter()
    connection.execute("INSERT INTO flushed VALUES (%s)", (number,))
    return (time.perf_counter() - began) * 1_000


def _turn(rates, long):
    found = dict.fromkeys(CASES, 1.0) | dict(zip(SHORT, rates, strict=True)) | {LONG: long}
    return Turn(found, 0)

"""The demo, run as users run it."""

import json
import os
import signal
import subprocess
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.support.command import COMMAND, document, penstock


def test_limits_are_kept_counts_are_right_and_calls_collide_only_without_a_limit():
    shown = document("demo", "A", "b", "drop", "D")

    unsafe, *others = shown["scenarios"]
    names = ("enqueued", "calls", "dropped", "reused")
    assert shown["ok"]
    assert any(call["collided"] for call in unsafe["timeline"])
    assert [(12, 12, 0, 0), (12, 3, 9, 0), (24, 3, 0, 21)] == [tuple(map(each.get, names)) for each in others]
    assert not any(call["collided"] for scenario in others for call in scenario["timeline"])


def test_a_workflow_keeps_the_slot_of_its_account_between_its_calls():
    (shown,) = document("demo", "I")["scenarios"]

    assert (6, 12) == (shown["enqueued"], shown["calls"])
    assert all(check["ok"] for check in shown["checks"])


def test_people_see_lanes_checks_and_a_summary(tmp_path):
    ran = penstock("demo", "D", "--spacing", "2ms", COLUMNS="80", TMPDIR=str(tmp_path))

    lines = ran.stdout.splitlines()
    assert 0 == ran.returncode, ran.stderr
    assert all(len(line) <= 80 for line in lines)
    assert 3 == sum("▐" in line and "7 re-used" in line for line in lines)
    assert any(line.split()[:2] == ["ok", "exactly"] for line in lines)
    assert any(line.split()[:2] == ["D", "dedupe"] for line in lines)
    assert [] == list(tmp_path.iterdir())


def test_a_scenario_that_is_not_there_is_refused():
    ran = penstock("demo", "Z")

    assert 2 == ran.returncode
    assert "'Z'" in ran.stderr
    assert "" == ran.stdout


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_demo_ends_its_children_and_leaves_nothing_behind(number, status, tmp_path):
    demo = subprocess.Popen(
        [*COMMAND, "demo", "G"], env={**os.environ, "TMPDIR": str(tmp_path)}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        # The scenario is named when everything is up.
        while "Throttle" not in demo.stdout.readline():
            assert demo.poll() is None
        children = _children(demo.pid)
        demo.send_signal(number)
        _, told = demo.communicate(timeout=120)
    finally:
        demo.kill()
        demo.wait()

    assert 2 == len(children)
    assert status == demo.returncode
    assert "Traceback" not in told
    assert not any(Path("/proc", child).exists() for child in children)
    assert [] == list(tmp_path.iterdir())


def test_the_monitor_beside_the_demo_shows_it_changes_nothing_and_ends_with_it(tmp_path):
    demo = subprocess.Popen(
        [*COMMAND, "demo", "D", "I", "--watch", "--no-browser"], env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        lines = [""]
        while "until Ctrl-C" not in lines[-1]:
            assert demo.poll() is None
            lines.append(demo.stdout.readline())
        children = _children(demo.pid)
        first, last = (line.split()[-1] for line in lines if "/timeline?since=" in line)
        with urlopen(f"{last}&format=json") as answer:
            shown = json.load(answer)
        with urlopen(Request(first, headers={"Accept": "text/html"})) as answer:
            page = answer.read().decode()
        change = Request(
            f"{last.partition('/timeline')[0]}/gates/pause", b"{}", {"Accept": "application/json"}
        )
        with pytest.raises(HTTPError) as refused:
            urlopen(change)
        refused.value.close()
        demo.send_signal(signal.SIGINT)
        _, told = demo.communicate(timeout=120)
    finally:
        demo.kill()
        demo.wait()

    names = [[shown["texts"][key] for key in keys] for keys in shown["columns"]["keys"]]
    assert (1, 2) == (names.count(["D refresh:acme"]), names.count(["I flow:acme"]))
    assert "data-fixed" in page
    assert 403 == refused.value.code
    assert 3 == len(children)
    assert (0, "") == (demo.returncode, told)
    assert not any(Path("/proc", child).exists() for child in children)
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("given", [["--watch", "--json"], ["--no-browser"]])
def test_what_does_not_go_together_is_refused(given):
    ran = penstock("demo", "D", *given)

    assert (2, "") == (ran.returncode, ran.stdout)


def _children(process):
    return Path(f"/proc/{process}/task/{process}/children").read_text().split()

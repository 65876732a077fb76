"""`penstock simulate` as its users meet it."""

import json
import os
import select
import signal
import subprocess
from xml.etree import ElementTree as ET

import pytest

from tests.support.command import COMMAND, document, penstock

PLAN = """
until = "10m"

[limits.api]
key = "api:{host}"
rate = "10/1m"

[[jobs]]
name = "call"
limits = ["api"]
keys = { host = 20 }
duration = { exponential = "1s" }
arrivals = { rate = "1/1s" }
"""
LONG = 'until = "20d"\n[[jobs]]\nduration = "500ms"\narrivals = { rate = "1/1s" }\n'


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "plan.toml").write_text(PLAN)
    (tmp_path / "long.toml").write_text(LONG)
    return tmp_path


def test_the_example_answers_whether_thirty_mails_a_day_are_enough(folder):
    (folder / "mail.toml").write_text(penstock("simulate", "--example").stdout)

    ran = penstock("simulate", "mail.toml", "--plot", "lines.svg", folder=folder)

    assert (0, "") == (ran.returncode, ran.stderr)
    assert "All 800 jobs were started" in ran.stdout
    assert "Bottleneck: mailbox (rate 30/1d)" in ran.stdout
    assert "mailbox:3" in ran.stdout
    assert "svg" in ET.parse(folder / "lines.svg").getroot().tag


def test_programs_get_one_document_which_a_seed_repeats(folder):
    seeds = ([], ["--seed", "1"], ["--seed", "2"])
    first, again, other = (
        document("simulate", "plan.toml", "--until", "90s", *seed, folder=folder) for seed in seeds
    )

    assert first == again
    assert first != other


def test_until_then_and_no_longer(folder):
    found = document("simulate", "plan.toml", "--until", "90s", folder=folder)

    assert 90 == found["seconds"]
    assert 60 < found["jobs"]["arrived"] < 120
    assert 20 == len(found["keys"])
    assert {"limit", "name", "p50", "p90", "p99", "longest", "still"} <= set(found["keys"][0])
    assert ["api", "workers"] == [use["limit"] for use in found["limits"]]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "plan: name a file, or see --example"),
        (("none.toml",), "plan: cannot read 'none.toml': No such file"),
        (("plan.toml", "--until", "soon"), "--until: 'soon' is not a duration"),
        (("plan.toml", "--until", "99999d"), "until: about"),
        (("plan.toml", "--plot", "no/where.svg"), "--plot: cannot write 'no/where.svg'"),
        (("plan.toml", "--plot", "lines.png"), "--plot: 'lines.png' must end in .svg"),
        (("bad.toml",), "bad.toml, line 2: limits.api.rate: '10' must be a number and a time"),
    ],
)
def test_what_cannot_be_played_is_refused_with_a_reason(folder, arguments, told):
    (folder / "bad.toml").write_text('[limits.api]\nrate = "10"\n[[jobs]]\n')

    ran = penstock("simulate", *arguments, folder=folder)

    assert (2, "") == (ran.returncode, ran.stdout)
    assert told in ran.stderr


def test_a_long_play_tells_how_far_it_is_and_an_interrupt_shows_what_was_seen(folder):
    terminal, other_end = os.openpty()
    process = subprocess.Popen(
        [*COMMAND, "simulate", "long.toml", "--json"], cwd=folder, text=True,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"}, stdout=subprocess.PIPE, stderr=other_end,
    )  # fmt: skip
    try:
        shown = read_until(terminal, "Ctrl-C to stop here")
        process.send_signal(signal.SIGINT)
        told, _ = process.communicate(timeout=60)
    finally:
        process.kill()
        os.close(other_end)
        os.close(terminal)

    assert "of about 1,728,000 jobs" in shown
    assert 130 == process.returncode
    assert json.loads(told)["complete"] is False


def read_until(terminal, text, patience=60):
    """Return what a terminal shows, up to *text*."""
    shown = ""
    while text not in shown:
        ready, _, _ = select.select([terminal], [], [], patience)
        assert ready, shown
        shown += os.read(terminal, 4096).decode(errors="replace")
    return shown

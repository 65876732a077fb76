"""A worker's terminal: what real `penstock worker` processes, and scripts that call `app.work()`, write."""

import json
import os
import pty
import re
import runpy
import signal
import subprocess
import sys
import time
from contextlib import chdir
from pathlib import Path

import pytest

from tests.support.command import COMMAND, penstock

ROOT = Path(__file__).parents[2]
TASKS = """
import asyncio, logging, time
from penstock import App, RetryPolicy

app = App("jobs.db")
log = logging.getLogger("shop")

@app.task
def sell(card: str) -> str:
    log.info("selling")
    return card

@app.task
def fails() -> None:
    raise ValueError("no such account")

@app.task(retry=RetryPolicy.of(2, delay="10ms"))
async def retries() -> None:
    raise ConnectionError("refused")

@app.task(timeout="50ms")
async def hangs() -> None:
    await asyncio.sleep(60)

@app.task
async def sleeps() -> None:
    log.warning("asleep")
    await asyncio.sleep(60)
"""
SECRET = "4111-1111"
LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} (INFO|WARNING|ERROR) +(.*)")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "tasks.py").write_text(TASKS)
    return tmp_path


def script(folder, code):
    """Run *code* in a Python process of its own."""
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}"}
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=280, check=True,
    )  # fmt: skip


def enqueue(folder, *calls):
    """Make *calls* of the tasks, in this process: that saves an import."""
    with chdir(folder):
        names = runpy.run_path("tasks.py", run_name="tasks")
        for call in calls:
            eval(call, names)
        names["app"].close()


ALL = (f"sell.enqueue({SECRET!r})", "fails.enqueue()", "retries.enqueue()", "hangs.enqueue()")


def test_lines_for_people_tell_how_each_attempt_ended(folder):
    enqueue(folder, *ALL)
    ran = penstock("worker", "tasks:app", "--until-idle", folder=folder)

    assert (0, "") == (ran.returncode, ran.stdout)
    told = [match.groups() for line in ran.stderr.splitlines() if (match := LINE.fullmatch(line))]
    jobs = {text.split()[0]: (level, text) for level, text in told if " failed " in text or " done " in text}
    assert re.fullmatch(r"tasks.sell \S{36} done in [\d.]+ m?s, waited [\d.]+ m?s", jobs["tasks.sell"][1])
    assert "ERROR" == jobs["tasks.fails"][0]
    assert "AttemptTimeout: the attempt took longer than 0.05 s" in jobs["tasks.hangs"][1]
    assert ["WARNING", "ERROR"] == [level for level, text in told if text.startswith("tasks.retries")]
    assert any(re.fullmatch(r"tasks.sell \S{36}: selling", text) for _, text in told)
    assert 1 == ran.stderr.count("\n    ValueError: no such account\n")
    assert all(line.startswith("    ") for line in ran.stderr.splitlines() if not LINE.fullmatch(line))
    assert SECRET not in ran.stderr
    assert "\x1b" not in ran.stderr


def test_objects_for_programs_have_the_job_in_their_fields(folder):
    enqueue(folder, *ALL)
    ran = penstock(
        "worker", "tasks:app", "--until-idle", "--log-format", "json", "--log-arguments", folder=folder
    )

    lines = [json.loads(line) for line in ran.stderr.splitlines()]
    by_outcome = {line["outcome"]: line for line in lines if "outcome" in line}
    assert {"done", "failed", "retry"} == set(by_outcome)
    done = by_outcome["done"]
    assert ("tasks.sell", "default", 1, [], "penstock.jobs") == (
        done["task"], done["queue"], done["attempt"], done["keys"], done["logger"],
    )  # fmt: skip
    assert f'"{SECRET}"' == done["result"]
    (own,) = [line for line in lines if line["logger"] == "shop"]
    assert done["job_id"] == own["job_id"]
    (failed,) = [line for line in lines if line.get("error") == "ValueError"]
    assert failed["traceback"].endswith("ValueError: no such account")


def test_the_level_decides_what_is_told(folder):
    enqueue(folder, *ALL)
    ran = penstock("worker", "tasks:app", "--until-idle", "--log-level", "error", folder=folder)

    assert {"ERROR"} == {match[1] for line in ran.stderr.splitlines() if (match := LINE.fullmatch(line))}


@pytest.mark.parametrize("set_up", ["", "import logging; logging.basicConfig()"])
def test_a_failing_job_leaves_a_line_in_a_process_that_configured_little_or_nothing(folder, set_up):
    ran = script(
        folder,
        f"{set_up}\nfrom tasks import *\nfails.enqueue()\nsell.enqueue('x')\napp.work(until_idle=True)",
    )

    assert re.search(r"tasks.fails \S{36} failed after [\d.]+ m?s: ValueError: no such account", ran.stderr)
    assert "    raise ValueError(" in ran.stderr
    assert "tasks.sell" not in ran.stderr


class Worker:
    """A worker whose standard error can be read as it comes; on a terminal if asked."""

    def __init__(self, folder, *, terminal=False):
        self.text = ""
        self._end, theirs = pty.openpty() if terminal else os.pipe()
        os.set_blocking(self._end, False)
        environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}", "TERM": "xterm"}
        environment.pop("NO_COLOR", None)
        self.process = subprocess.Popen(
            [*COMMAND, "worker", "tasks:app"],
            cwd=folder, env=environment, stdin=subprocess.DEVNULL, stderr=theirs,
        )  # fmt: skip
        os.close(theirs)

    def until(self, text):
        """Wait until it has written *text*."""
        deadline = time.monotonic() + 60
        while text not in self.text:
            assert time.monotonic() < deadline, self.text
            try:
                self.text += os.read(self._end, 65_536).decode()
            except BlockingIOError:
                time.sleep(0.01)

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self._end)


@pytest.fixture
def hire(folder):
    workers = []

    def start(**options):
        workers.append(Worker(folder, **options))
        return workers[-1]

    yield start
    for worker in workers:
        worker.close()


def test_ctrl_c_says_which_jobs_are_left_and_that_another_hands_them_back(folder, hire):
    enqueue(folder, "sleeps.enqueue()")
    worker = hire()
    worker.until("asleep")
    worker.process.send_signal(signal.SIGINT)
    worker.until("Ctrl-C again hands them back\n")
    worker.process.send_signal(signal.SIGINT)

    assert 0 == worker.process.wait(30)
    worker.until("has ended\n")
    stopping = (
        r"stopping: 1 job \(tasks.sleeps \S{36}\) is left to finish within 30s; Ctrl-C again hands them back"
    )
    assert re.search(stopping, worker.text)
    assert re.search(r"INFO +tasks.sleeps \S{36} handed back after [\d.]+ m?s: its worker stops", worker.text)


def test_colours_are_shown_on_a_terminal(folder, hire):
    enqueue(folder, "fails.enqueue()")
    worker = hire(terminal=True)
    worker.until("ValueError: no such account")

    assert "\x1b[31mERROR" in worker.text


def test_help_shows_what_holds_unless_told_otherwise():
    text = penstock("worker", "--help").stdout

    told = {"concurrency": "100", "threads": "8", "drain-timeout": "30s", "log-level": "info"}
    for option, default in told.items():
        assert re.search(rf"--{option} [^[]*\[default: [^]]*{default}", text), option

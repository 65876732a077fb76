"""README's section "In any language" works with curl alone, start to finish."""

import json
import os
import re
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.command import COMMAND
from tests.support.postgres import free_port

TOP = Path(__file__).parents[2]


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_commands_of_the_readme_do_what_it_says(tmp_path):
    text = (TOP / "README.md").read_text().partition("### In any language")[2]
    script = re.search(r"```sh\n(.*?)```", text, re.DOTALL)[1]
    # Another port, since another process may listen on this one; and the command that is being tested.
    script = script.replace("8080", str(free_port()))
    (tmp_path / "penstock").write_text(f'#!/bin/sh\nexec {" ".join(COMMAND)} "$@"\n')
    (tmp_path / "penstock").chmod(0o755)
    shell = subprocess.Popen(
        ["sh", "-ec", script.replace("curl -s", "echo; curl -s")],
        cwd=tmp_path,
        env={
            **os.environ,
            "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(TOP / "src"),
        },
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        printed, _ = shell.communicate(timeout=60)
    finally:
        with suppress(ProcessLookupError):  # if it failed half-way, the server is still there
            os.killpg(shell.pid, signal.SIGKILL)
    assert shell.returncode == 0
    answers = [json.loads(line) for line in printed.splitlines() if line]

    health, first, second, fetched, gate, acked, fetched_next, job = answers
    assert health["status"] == "ok"
    assert first["job"]["state"] == second["job"]["state"] == "available"
    assert [each["id"] for each in fetched["jobs"]] == [first["job"]["id"]]
    assert gate["concurrency"] == {"limit": 1, "active": 1, "available": 0}
    assert gate["waiting_count"] == 1
    assert acked["state"] == "completed"
    assert [each["id"] for each in fetched_next["jobs"]] == [second["job"]["id"]]
    assert job["job"]["result"] == {"synced": 12}

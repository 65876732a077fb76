"""Run the `penstock` command as users do: in a process of its own."""

import json
import os
import subprocess
import sys

COMMAND = (sys.executable, "-m", "penstock.cli")


def penstock(*arguments, folder=None, **environment):
    """Run `penstock` with *arguments* in *folder*; return the finished process."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=folder,
        env={**inherited, "COLUMNS": "100", **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def document(*arguments, folder=None, status=0, **environment):
    """Run `penstock` with `--json`; return the one document it prints."""
    ran = penstock(*arguments, "--json", folder=folder, **environment)

    assert status == ran.returncode, ran.stderr
    return json.loads(ran.stdout)

"""Run the `penstock` command as users do: in a process of its own."""

import json
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import threading
from pathlib import Path

PATIENCE = 30.0
COMMAND = (sys.executable, "-m", "penstock.cli")
# To import penstock takes longer than most commands, so a process that has imported it forks the others.
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    [
        "__main__",
        "penstock.cli.root",
        "penstock.http.serve",
        "psycopg",
        "typer._adapters",
        "uvicorn.lifespan.off",
    ]
)


class Process:
    """`penstock` at work with *arguments* in *folder*; what it writes to *streams* can be read.

    Its standard error goes to the end of the file *log*, if there is one.
    """

    def __init__(self, *arguments, folder=".", streams=(), log=None, **environment):
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
        pipes = {name: _FORKS.Pipe(duplex=False) for name in streams}
        writers = {name: writer for name, (_, writer) in pipes.items()}
        self._process = _FORKS.Process(
            target=_run, args=(arguments, Path(folder).resolve(), inherited | environment, writers, log)
        )
        self._process.start()
        for name, (reader, writer) in pipes.items():
            setattr(self, name, os.fdopen(os.dup(reader.fileno())))
            reader.close()
            writer.close()
        self.pid = self._process.pid

    @property
    def returncode(self):
        return self._process.exitcode

    def send_signal(self, number):
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self):
        """Kill it with -9: it has no time for anything."""
        self.send_signal(signal.SIGKILL)

    def wait(self, seconds=PATIENCE):
        """Wait until it has ended; return its exit status."""
        self._process.join(seconds)
        if self.returncode is None:
            raise subprocess.TimeoutExpired("penstock", seconds)
        return self.returncode


def penstock(*arguments, folder=".", **environment):
    """Run `penstock` with *arguments* in *folder*; return the finished process."""
    process = Process(
        *arguments, folder=folder, streams=("stdout", "stderr"), **{"COLUMNS": "100", **environment}
    )
    complaints = []
    reader = threading.Thread(target=lambda: complaints.append(process.stderr.read()))
    reader.start()
    bound = threading.Timer(100, process.kill)
    bound.start()
    with process.stdout, process.stderr:
        told = process.stdout.read()
        reader.join()
    bound.cancel()
    return subprocess.CompletedProcess(arguments, process.wait(), told, *complaints)


def document(*arguments, folder=".", status=0, **environment):
    """Run `penstock` with `--json`; return the one document it prints."""
    ran = penstock(*arguments, "--json", folder=folder, **environment)

    assert status == ran.returncode, ran.stderr
    return json.loads(ran.stdout)


def _run(arguments, folder, environment, writers, log):
    """Be `python -m penstock.cli`, in a process that was forked for it."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for name, writer in writers.items():
        os.dup2(writer.fileno(), {"stdout": 1, "stderr": 2}[name])
        writer.close()
    if log:
        os.dup2(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT), 2)
    sys.stdout, sys.stderr = os.fdopen(1, "w", 1), os.fdopen(2, "w", 1)
    sys.path.insert(0, str(folder))
    sys.argv = ["penstock", *arguments]
    runpy.run_module("penstock.cli", run_name="__main__", alter_sys=True)

"""Run the `penstock` command as users do: in a process of its own."""

import json
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

PATIENCE = 60.0
COMMAND = (sys.executable, "-m", "penstock.cli")
# To import penstock takes longer than most commands, so a process that has imported it forks the others.
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    [
        "__main__",
        "penstock.cli.root",
        "penstock.http.uvicorn_server",
        "psycopg",
        "typer._adapters",
        "uvicorn.lifespan.off",
    ]
)


class Process:
    """`penstock`, or another *module*, at work with *arguments* in *folder*.

    There are pipes to its standard *streams*; standard error may go to the end of the file *log* instead.
    """

    def __init__(self, *arguments, module="penstock.cli", folder=".", streams=(), log=None, **environment):
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
        pipes = {name: _FORKS.Pipe(duplex=False) for name in streams}
        theirs = {name: pipe[name != "stdin"] for name, pipe in pipes.items()}
        self._process = _FORKS.Process(
            target=_run,
            args=(module, arguments, Path(folder).resolve(), inherited | environment, theirs, log),
        )
        self._process.start()
        for name, pipe in pipes.items():
            ours = os.dup(pipe[name == "stdin"].fileno())
            setattr(self, name, os.fdopen(ours, "w" if name == "stdin" else "r"))
            for end in pipe:
                end.close()
        self.pid = self._process.pid

    @property
    def returncode(self):
        return self._process.exitcode

    def poll(self):
        return self.returncode

    def send_signal(self, number):
        if self.returncode is None:
            # The process that forked it tells of its end a moment later.
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self):
        """Kill it with -9: it has no time for anything."""
        self.send_signal(signal.SIGKILL)

    def wait(self, seconds=PATIENCE):
        """Wait until it has ended; return its exit status."""
        self._process.join(seconds)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(str(self.pid), seconds)
        return self.returncode


def penstock(*arguments, folder=".", **environment):
    """Run `penstock` with *arguments* in *folder*; return the finished process."""
    process = Process(
        *arguments, folder=folder, streams=("stdout", "stderr"), **{"COLUMNS": "100", **environment}
    )
    complaints = []
    reader = threading.Thread(target=lambda: complaints.append(process.stderr.read()))
    reader.start()
    bound = threading.Timer(250, process.kill)
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


def _run(module, arguments, folder, environment, streams, log):
    """Be `python -m MODULE`, in a process that was forked for it."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for name, stream in streams.items():
        os.dup2(stream.fileno(), ("stdin", "stdout", "stderr").index(name))
        stream.close()
    if log:
        os.dup2(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT), 2)
    sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w", 1), os.fdopen(2, "w", 1)
    sys.path.insert(0, str(folder))
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)

"""A PostgreSQL server on a slow disk: every flush takes two milliseconds."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from peers.environments import NotInstalledError
from tests.support.postgres import Server, disown

SOURCE: Final = Path(__file__).with_suffix(".c")
MILLISECONDS: Final = 2  # as the source says
_BOUND: Final = 60.0


@contextmanager
def slow_server() -> Iterator[str]:
    """Serve for the length of the block; yield where."""
    with TemporaryDirectory(prefix="penstock-slow-flush-") as folder:
        library = _library(Path(folder))
        server = Server.begin(durable=True, environment={"LD_PRELOAD": str(library)})
        try:
            # A library that cannot be loaded is left out without an error.
            if library.name not in Path(f"/proc/{server.pid}/maps").read_text():
                raise NotInstalledError("no slow flush: the server does not load the library")
            yield server.url
        finally:
            server.close()


def _library(folder: Path) -> Path:
    compiler = shutil.which("gcc")
    if compiler is None:
        raise NotInstalledError("no slow flush: it needs gcc, which is not installed here")
    # For the user of the server to read.
    disown(folder)
    made = folder / "slow_flush.so"
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", made, SOURCE, "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_BOUND, check=False)
    if done.returncode:
        raise NotInstalledError(f"no slow flush: gcc fails: {done.stderr.strip().splitlines()[-1]}")
    return made

"""The monitor beside the demo: read-only, for this machine alone.

Run as a process of its own; it prints its address, and ends when its standard input closes, so that it never outlives
the process that started it.
"""

import os
import subprocess
import sys
import threading
import webbrowser
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from penstock.errors import InvalidError

if TYPE_CHECKING:
    from penstock.http.uvicorn_server import Server

_NEEDED: Final = ("jinja2", "uvicorn")
_DESKTOPS: Final = ("darwin", "win32")


class Watched:
    """The monitor that runs beside the demo, at an *address*."""

    def __init__(self, process: subprocess.Popen[bytes], address: str) -> None:
        self._process = process
        self.address = address

    def page(self, since: int, until: int) -> str:
        """Return the address of the page on which the scenarios of a span of time are told apart."""
        return f"{self.address}/timeline?{urlencode({'since': since, 'until': until})}"

    def stay(self) -> None:
        """Go on until a key is pressed that ends the demo."""
        self._process.wait()


def check_needs() -> None:
    """Raise if what the monitor needs is not installed."""
    if any(find_spec(name) is None for name in _NEEDED):
        raise InvalidError("--watch", "needs more packages: pip install 'penstock[server]'")


def open_browser(url: str) -> None:
    """Open a page in the browser of the desktop, where there is one."""
    if has_desktop(os.environ, sys.platform):
        webbrowser.open(url)


def has_desktop(environment: Mapping[str, str], platform: str) -> bool:
    """Tell whether a person sits before this machine: a run of tests opens no windows."""
    if environment.get("CI"):
        return False
    return platform in _DESKTOPS or any(environment.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def main() -> None:
    """Show the store that is named until standard input closes."""
    from penstock.engine import open_engine
    from penstock.http.uvicorn_server import Server, Settings, listening
    from penstock.monitor import Monitor

    store = sys.argv[1]
    settings = Settings(port=0)
    monitor = Monitor(lambda: open_engine(store, migrate=False))
    server = Server(monitor, settings, lambda url: print(url, flush=True), monitor.end_streams)
    threading.Thread(target=_end_with_stdin, args=(server,), daemon=True).start()
    server.run(sockets=[listening(settings)])


def _end_with_stdin(server: "Server") -> None:
    # Not by `sys.stdin`, whose lock the interpreter wants when it ends before the read does.
    while os.read(sys.stdin.fileno(), 1):
        pass
    server.should_exit = True


if __name__ == "__main__":
    main()

"""The provider: a process outside that writes down what workers and producers tell it, a line each.

`python -m tests.chaos.provider SOCKET RECORD` ends once its standard input is closed and no handler is
connected any more.
"""

import json
import os
import selectors
import socket
import sys
import threading
import time
from pathlib import Path

PROVIDER = "PENSTOCK_CHAOS_PROVIDER"


def now() -> int:
    """Return nanoseconds by a clock that all processes share and that cannot be set."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Caller:
    """Tells the provider what happens; that counts as told even if the process is killed right after."""

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(path)
        self._lock = threading.Lock()

    def tell(self, what: str, *, at: int | None = None, **facts: object) -> None:
        line = {"what": what, "at": now() if at is None else at, "pid": os.getpid(), **facts}
        text = json.dumps(line).encode() + b"\n"
        with self._lock:
            self._socket.sendall(text)


def end_with_parent(end: threading.Event | None = None) -> None:
    """When standard input closes, set *end*, or end this process at once; so that no process is left behind."""

    def watch() -> None:
        # Not through sys.stdin, which must not be in use when Python ends.
        while os.read(0, 1):
            pass
        if end is None:
            os._exit(1)
        end.set()

    threading.Thread(target=watch, daemon=True).start()


def main() -> None:
    path, record = sys.argv[1:]
    with (
        selectors.DefaultSelector() as selector,
        socket.socket(socket.AF_UNIX) as door,
        Path(record).open("ab", buffering=0) as file,
    ):
        door.bind(path)
        door.listen(64)
        print("ready", flush=True)
        selector.register(door, selectors.EVENT_READ)
        selector.register(sys.stdin, selectors.EVENT_READ)
        rests: dict[socket.socket, bytes] = {}
        closing = False
        while rests or not closing:
            for key, _ in selector.select():
                if key.fileobj is door:
                    caller, _ = door.accept()
                    rests[caller] = b""
                    selector.register(caller, selectors.EVENT_READ)
                elif key.fileobj is sys.stdin:
                    closing = True
                    selector.unregister(sys.stdin)
                elif heard := key.fileobj.recv(65_536):
                    lines, _, rest = (rests[key.fileobj] + heard).rpartition(b"\n")
                    rests[key.fileobj] = rest
                    file.write(lines + b"\n" if lines else b"")
                else:
                    selector.unregister(key.fileobj)
                    del rests[key.fileobj]
                    key.fileobj.close()


if __name__ == "__main__":
    main()

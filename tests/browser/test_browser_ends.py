"""A browser ends with its test, also where its command is a script that waits for it."""

from contextlib import suppress
from pathlib import Path

from tests.support.browser import browsing
from tests.support.timing import until


def processes_of(folder):
    """Return the processes that have *folder* among their arguments."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if str(folder).encode() in (process / "cmdline").read_bytes():
                found.append(process.name)
    return found


def test_no_process_of_a_browser_outlives_its_test(tmp_path):
    folder = tmp_path / "browser"
    with browsing(folder, "about:blank", "--remote-debugging-port=0"):
        until((folder / "profile" / "DevToolsActivePort").exists)
        assert processes_of(folder)

    until(lambda: not processes_of(folder), 10)

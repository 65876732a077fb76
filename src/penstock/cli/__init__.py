"""The `penstock` command.

Answers go to standard output, complaints to standard error; `--json` gives one JSON document.
Exit status: 0 well; 1 the thing asked about is not well; 2 wrong usage; 3 no such thing;
4 the store cannot be used; 5 its file was removed, replaced or damaged; 70 a fault in penstock itself; 130 interrupted.
"""

import io
import os
import sys
from typing import NoReturn

from penstock.errors import InvalidError, NotFoundError, PenstockError, StoreBrokenError, StoreError

NOT_WELL, USAGE, NOT_FOUND, STORE, BROKEN, FAULT, INTERRUPTED = 1, 2, 3, 4, 5, 70, 130


def main() -> NoReturn:
    """Run the command line and exit with its status."""
    _print_anything()
    try:
        # Here, so that an interrupt while it loads is caught too.
        from penstock.cli.root import app

        app(prog_name="penstock")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except PenstockError as error:
        complain(str(error))
        sys.exit(exit_status(error))
    except Exception as error:
        if os.environ.get("PENSTOCK_TRACEBACK"):
            raise
        complain(
            f"a fault in penstock: {type(error).__name__}: {error}; set PENSTOCK_TRACEBACK=1 to see where"
        )
        sys.exit(FAULT)
    sys.exit(0)


def _print_anything() -> None:
    """Let a terminal that lacks a character show another one in its place."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def complain(message: str) -> None:
    """Say what is wrong, on standard error."""
    print(f"penstock: {message}", file=sys.stderr)


def exit_status(error: PenstockError) -> int:
    """Return the exit status that stands for *error*."""
    match error:
        case InvalidError():
            return USAGE
        case NotFoundError():
            return NOT_FOUND
        case StoreBrokenError():
            return BROKEN
        case StoreError():
            return STORE
        case _:
            return NOT_WELL

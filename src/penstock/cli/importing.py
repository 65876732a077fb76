"""Read jobs from a file, to bring them in: each line is an `ImportedJob` as JSON."""

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec.json import Decoder

from penstock.errors import InvalidError
from penstock.job import ImportedJob

_LINE: Final = Decoder(ImportedJob)


def read_jobs(lines: Iterable[bytes]) -> list[ImportedJob]:
    """Return the jobs; an error names the line and the field."""
    found = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found.append(_LINE.decode(line))
        except msgspec.MsgspecError as error:
            raise InvalidError(f"line {number}", str(error)) from None
    return found

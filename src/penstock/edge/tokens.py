"""Read a file of tokens, unless others can read it too."""

import os
import stat
from pathlib import Path
from typing import Final

from penstock.errors import InvalidError

FIELD: Final = "--token-file"
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_ROOT: Final = 0


def token_lines(file: Path) -> list[tuple[int, list[str]]]:
    """Return number and words of each line of *file* that is neither empty nor a comment."""
    try:
        with file.open() as opened:
            _check_private(file, os.fstat(opened.fileno()))
            lines = opened.read().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidError(FIELD, f"{file} cannot be read: {error}") from None
    split = [(number, line.split()) for number, line in enumerate(lines, 1)]
    return [(number, words) for number, words in split if words and not words[0].startswith("#")]


def _check_private(file: Path, found: os.stat_result) -> None:
    # A pipe has no name by which others could open it; Windows has no such modes.
    if not stat.S_ISREG(found.st_mode) or os.name != "posix":
        return
    # Root hands a secret to another user by its group, as where a container has one mounted.
    allowed = stat.S_IRGRP if found.st_uid == _ROOT else 0
    if found.st_mode & _OTHERS & ~allowed:
        mode = stat.S_IMODE(found.st_mode)
        raise InvalidError(
            FIELD,
            f"others can use {file} (its mode is {mode:04o}), so its tokens are no secret: chmod 600 {file}",
        )

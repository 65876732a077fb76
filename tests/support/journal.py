"""A file into which processes write what they see, a line of JSON each."""

import json
from pathlib import Path
from typing import Any


def read(journal: Path) -> list[dict[str, Any]]:
    """Return the lines written so far; a line that is still being written is left out."""
    text = journal.read_text() if journal.exists() else ""
    return [json.loads(line) for line in text.split("\n")[:-1]]

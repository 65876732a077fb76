"""How long a lane, or a job in it, has been kept by each of its gates.

A lane adds it up.  A job notes what its lane has when it joins, so the difference when it starts is how long each gate
kept the job.  Both are texts, `gate:microseconds,...`, because most are never read.
"""


def read(text: str) -> dict[int, int]:
    """Return the spans by gate."""
    pairs = (pair.split(":") for pair in text.split(",")) if text else ()
    return {int(gate): int(span) for gate, span in pairs}


def write(spans: dict[int, int]) -> str:
    """Return the text that `read` reads."""
    return ",".join([f"{gate}:{span}" for gate, span in spans.items() if span])


def longer(text: str, gate: int, span: int) -> str:
    """Return what a lane has been kept for once a gate has kept it for a *span* more."""
    if span <= 0:
        return text
    if not text:
        return f"{gate}:{span}"
    if "," not in text:  # most lanes have one gate
        known, _, spans = text.partition(":")
        if known == str(gate):
            return f"{known}:{int(spans) + span}"
    found = read(text)
    found[gate] = found.get(gate, 0) + span
    return write(found)


def between(noted: str, now: str) -> dict[int, int]:
    """Return how long each gate has kept a job, given what it noted and what its lane has *now*."""
    if noted == now:
        return {}
    if "," not in now and "," not in noted:
        gate, _, span = now.partition(":")
        known, _, earlier = noted.partition(":")
        if not known or known == gate:
            return {int(gate): int(span) - int(earlier or 0)}
    before = read(noted)
    return {gate: kept for gate, span in read(now).items() if (kept := span - before.pop(gate, 0)) > 0} | {
        gate: -span for gate, span in before.items() if span < 0
    }


def moved(noted: str, left: str, joined: str) -> str:
    """Return what a job notes that moves between lanes, given what both have: nothing that it waited is lost."""
    if noted == left:
        return joined
    spans = read(joined)
    for gate, kept in between(noted, left).items():
        spans[gate] = spans.get(gate, 0) - kept
    return write(spans)

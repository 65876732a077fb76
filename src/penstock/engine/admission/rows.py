"""Lanes, lines and gates as the store has them: rows, and texts in which stands and rules are written."""

import json
from collections.abc import Iterable
from dataclasses import astuple
from functools import lru_cache

from penstock.engine.admission.lane import Lane, Line, Post, Stand, stands_at
from penstock.engine.admission.turns import Turn
from penstock.limits.bucket import Bucket
from penstock.limits.gate import Gate, Rules, Starts
from penstock.limits.groups import Group
from penstock.limits.rules import OnLimit, numbers_from_text
from penstock.store.attempts import gates_from_text
from penstock.store.gates import GateRow, MemoryRow
from penstock.store.lanes import LaneRow, SavedLane


def lane_of(row: LaneRow) -> Lane:
    """Return a lane that was read."""
    id_, tenant, queue, part, gates, head, priority, ord_, cost, costs, behind, name, ready, task = row
    stands, apart = stands_from_text(gates)
    lane = Lane(id_, tenant, queue, part, stands, apart, head, priority, ord_, cost, costs, task, None, ready)
    if name is not None and behind is not None:
        lane.line = Line(behind, lane.stand_at(behind).own, name)
    return lane


def lane_row(lane: Lane) -> LaneRow:
    """Return a new lane as it is written."""
    head, priority, ord_, cost, costs, behind, line, ready, id_ = saved_lane(lane)
    gates = stands_to_text(lane.stands, lane.apart)
    return LaneRow(id_, *lane.where, gates, head, priority, ord_, cost, costs, behind, line, ready, lane.task)


def saved_lane(lane: Lane) -> SavedLane:
    """Return what may have changed of a lane, as it is written."""
    gate, name = (None, None) if lane.line is None else (lane.line.gate, lane.line.name)
    return lane.head, lane.priority, lane.ord, lane.cost, lane.costs, gate, name, lane.ready, lane.id


def line_of(lane: Lane, stand: Stand) -> Line:
    """Return the line in which *lane* waits at one of its gates."""
    apart = f"|#{lane.weight}" if lane.heavy else ""
    # A name has no control characters, so its own bars cannot be taken for separators; the tenant is the rest.
    queue = lane.queue.replace("|", "\x1f")
    name = f"{stand.gate}|{queue}|{stand.own.text}{apart}"
    if lane.part:
        name += f"|/{lane.part.replace('|', chr(0x1F))}"
    return Line(stand.gate, stand.own, f"{name}|@{lane.tenant}" if lane.tenant else name)


def in_part(part: str, signature: str) -> str:
    """Return the signature of the lane in a part that is like one in the first part of the queue."""
    return f"{part}\x1e{signature}" if part else signature


@lru_cache(maxsize=65_536)
def stands_from_text(text: str) -> tuple[tuple[Stand, ...], str | None]:
    """Read the gates of a lane, and the weight of the too heavy jobs it was set apart for, if it was."""
    plain, apart, weight = text.partition("#")
    stands = stands_at((gate, numbers_from_text(own), OnLimit(on)) for gate, own, on in json.loads(plain))
    return stands, weight if apart else None


def stands_to_text(stands: Iterable[Stand], apart: str | None) -> str:
    """Write the gates of a lane; *apart* is the weight of the too heavy jobs it was set apart for."""
    text = json.dumps([[s.gate, s.own.text, s.on_limit.value] for s in stands], separators=(",", ":"))
    return text if apart is None else f"{text}#{apart}"


def post_of(row: GateRow, now: int) -> Post:
    """Return a gate that was read, without what it no longer has to remember."""
    gate = Gate(row.id, row.running, None, rules_from_text(row.rules))
    if row.span is not None and row.starts is not None:
        gate.starts = Starts.unpack(row.span, row.starts, paced=row.paced != 0)  # None if unknown
        if row.gap is not None:
            gate.starts.bucket = Bucket(row.gap, row.folded_at, row.due)
        gate.starts.prune(now)
    turn = None
    if row.seq is not None:
        turn = Turn(row.seq, row.lane, row.priority, row.ord, row.cost, row.until, row.costs)
    post = Post(gate, row.lanes, row.asking, bool(row.heavy), turn, (row.running, row.lanes, row.asking))
    if row.kind == "group":
        post.gate = post.group = Group(row.id, row.running)
    elif row.member_of is not None:
        post.member_of = gates_from_text(row.member_of)
    return post


def memory_row(post: Post) -> MemoryRow:
    """Return what a gate remembers, as it is written."""
    starts = post.gate.starts
    assert starts is not None  # noqa: S101 - only gates that remember are marked
    bucket = (None, 0, 0) if starts.bucket is None else astuple(starts.bucket)
    return (
        post.gate.id, starts.span, int(post.heavy), starts.kept_until, starts.pack(), int(starts.paced), *bucket,
    )  # fmt: skip


def rules_from_text(text: str | None) -> Rules | None:
    """Read what was decided about a gate."""
    if text is None:
        return None
    plain = json.loads(text)
    return Rules(
        configured=numbers_from_text(plain["configured"]) if "configured" in plain else None,
        floating=plain.get("floating"),
        override=numbers_from_text(plain["override"]) if "override" in plain else None,
        override_until=plain.get("override_until"),
        shut_until=plain.get("shut_until", 0),
        shut_reason=plain.get("shut_reason", ""),
    )


def rules_to_text(rules: Rules) -> str | None:
    """Write what was decided about a gate; nothing if nothing was."""
    if rules.empty:
        return None
    plain: dict[str, object] = {}
    if rules.configured is not None:
        plain["configured"] = rules.configured.text
    if rules.floating is not None:
        plain["floating"] = rules.floating
    if rules.override is not None:
        plain["override"] = rules.override.text
        if rules.override_until is not None:
            plain["override_until"] = rules.override_until
    if rules.shut_until:
        plain["shut_until"] = rules.shut_until
        if rules.shut_reason:
            plain["shut_reason"] = rules.shut_reason
    return json.dumps(plain)

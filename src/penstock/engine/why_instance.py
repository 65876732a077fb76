"""What a running instance waits for."""

from typing import Final

from penstock.engine.admission.board import Board
from penstock.job import Why
from penstock.lifecycle.states import State
from penstock.limits.durations import format_duration
from penstock.store import instances as rows
from penstock.store.instances import ShownInstance, StepRow

MOST: Final = 5  # steps that are named


def why_running(board: Board, found: ShownInstance) -> Why:
    """Say what the steps of an instance wait for, and when the clock alone moves it on."""
    live = rows.live_steps(board.db, found.seq, MOST + 1)
    timers, waits = rows.timers(board.db, found.seq), rows.waits(board.db, found.seq)
    told = [_told(board, step, timers, waits) for step in live[:MOST] if step.kind != "frame"]
    if len(live) > MOST:
        told.append("and others")
    words = "is running; " + ("; ".join(told) if told else "waits for a worker to go over its memo")
    if found.ending is not None:
        words += "; ends when its steps have ended"
    if found.paused:
        words = f"is paused; {words}"
    return Why(found.id, State.RUNNING, (), None, min(timers.values(), default=None), words)


def _told(board: Board, step: StepRow, timers: dict[str, int], waits: dict[str, str]) -> str:
    if step.kind in ("job", "child"):
        kind = "job" if step.kind == "job" else "instance"
        return f"step {step.key!r} waits for {kind} {step.job}"
    until = ""
    if step.key in timers:
        until = f" for {format_duration(max(timers[step.key] - board.now, 0))}"
    if step.kind == "wait":
        most = f", at most{until}" if until else ""
        return f"step {step.key!r} waits for the signal {waits.get(step.key, '')!r}{most}"
    return f"step {step.key!r} sleeps{until}"

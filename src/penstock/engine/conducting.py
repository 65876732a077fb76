"""Move instances on: what has ended goes into the memo, a conductor answers with commands, and these are applied.

All of it happens in the transaction in which it ended.  What a transaction that holds no gates does to instances, no
other can see before it commits: it creates them.

Invariant: a live instance has a job, a pass, a child, a timer or a wait that will move it on.
Invariant: a step that is remembered never begins again.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from penstock.engine.admission.board import Board
from penstock.engine.admission.to_follow import JobEnd
from penstock.engine.commands import check_command, check_signal_name, moment_of
from penstock.engine.definitions import Definitions
from penstock.engine.enqueue import add, reserve
from penstock.engine.freezing import freeze
from penstock.engine.instance_run import Ending, Run, error_of, merged, pass_job, step_job
from penstock.engine.new_instances import add_instances, check_instance
from penstock.engine.removal import ask_to_stop, remove, remove_all
from penstock.engine.settle import Settling
from penstock.errors import InvalidError, InvalidJobError, NotFoundError, PenstockError
from penstock.ids import new_id
from penstock.job import (
    Await,
    Cancel,
    Child,
    Command,
    Entry,
    EntryState,
    Finish,
    NewInstance,
    NewJob,
    Note,
    Restart,
    Save,
    SetContext,
    Start,
    Timer,
)
from penstock.lifecycle.states import State
from penstock.sequences import Ended
from penstock.sequences.conductor import VERSION
from penstock.sequences.parse import ROOT
from penstock.store import instances as rows
from penstock.store import sequences as sequence_rows
from penstock.store.instances import EndOf, StepRow

SIGNAL_TIMEOUT: Final = "SignalTimeout"
PASS_KEY: Final = ""  # of a pass among the jobs of its instance
_LIVE: Final = EntryState.LIVE.value
_MOST_GIVEN_BACK: Final = 2**20  # signals in one transaction
_ENDS: Final = {State.DONE: EntryState.DONE, State.CANCELLED: EntryState.CANCELLED}


class Conducting:
    """The instances that one transaction moves on, and what it will write for them."""

    def __init__(self, board: Board, definitions: Definitions) -> None:
        self.board = board
        self._definitions = definitions
        self.runs: dict[int, Run] = {}
        self._queue: deque[tuple[Run, Ended | None]] = deque()
        self._starting: dict[tuple[int, str], NewJob] = {}
        self._children: dict[tuple[int, str], NewInstance] = {}
        self._timers: dict[tuple[int, str], int] = {}
        self._waits: dict[tuple[int, str], str] = {}
        self._stopped: list[tuple[int, str]] = []  # keys whose timer and wait are over
        self._ended: list[int] = []
        self._given_back: int | None = None  # the number of the next signal that is given back

    def load(self, seqs: Iterable[int]) -> None:
        """Bring instances in, and lock them."""
        missing = sorted({seq for seq in seqs if seq not in self.runs})
        if not missing:
            return
        self.board.to_follow.in_workflows = True
        for row in rows.locked(self.board.db, missing):
            ending = None if row.ending is None else msgspec.json.decode(row.ending, type=Ending)
            self.runs[row.seq] = Run(
                row, self.board, row.context, ending, row.version, row.pass_seq, row.pass_version
            )

    def begin(self, seqs: Sequence[int]) -> None:
        """Let instances begin that were admitted."""
        self.load(seqs)
        for seq in seqs:
            run = self.runs[seq]
            run.is_empty = run.version == 0  # nothing was remembered before its first admission
            self.board.events.tell(
                "instance.started", instance=run.row.id, workflow=run.row.workflow, tenant=run.row.tenant
            )
            self._queue.append((run, None))

    def jobs_ended(self, ends: Sequence[tuple[EndOf, JobEnd]]) -> None:
        """Note how jobs, passes and children ended."""
        self.load(end.of for end, _ in ends)
        self._ended += [end.seq for end, _ in ends]
        self._read_steps(ends)
        for end, how in ends:
            run = self.runs.get(end.of)
            if run is None:
                continue
            if end.key == PASS_KEY:
                self._pass_ended(run, how)
            elif end.key is not None:
                state = _ENDS.get(how.state, EntryState.FAILED)
                error = how.error
                if state is EntryState.FAILED and error is None:
                    error = error_of(how.state.value.capitalize(), "its job did not run")
                self.end(run, end.key, state, how.result, error)

    def _read_steps(self, ends: Sequence[tuple[EndOf, JobEnd]]) -> None:
        """Read the steps that ended, and the frames of whole sequences, at which every conductor looks first."""
        conducted = {end.of for end, _ in ends if end.of in self.runs and self.runs[end.of].row.sequence}
        unread = sorted(instance for instance in conducted if ROOT not in self.runs[instance].steps)
        for step in rows.steps_of(self.board.db, [end.seq for end, _ in ends], unread, ROOT):
            if step.instance in self.runs:
                self.runs[step.instance].steps.setdefault(step.key, step)
        for instance in unread:
            self.runs[instance].steps.setdefault(ROOT, None)

    def timers_over(self, timers: Sequence[tuple[int, str]]) -> None:
        """Note that timers, or waits for a signal, are over."""
        self.load(instance for instance, _ in timers)
        for instance, key in timers:
            run = self.runs.get(instance)
            step = None if run is None else run.step(key)
            if run is None or step is None:
                continue
            if step.kind == "wait":
                self._stopped.append((instance, key))
                self.end(
                    run, key, EntryState.FAILED, None, error_of(SIGNAL_TIMEOUT, "no signal came in time")
                )
            else:
                self.end(run, key, EntryState.DONE)

    def signalled(self, run: Run, key: str, payload: str) -> None:
        """Give a signal to the step that waits for it."""
        self._stopped.append((run.seq, key))
        self.end(run, key, EntryState.DONE, payload)

    def end(
        self, run: Run, key: str, state: EntryState, result: str | None = None, error: str | None = None
    ) -> None:
        """Remember how a step ended, and what follows from that; unless it has ended before."""
        step = run.step(key)
        if step is None or step.state != _LIVE:
            return
        run.put(step._replace(state=state.value, result=result, error=error, ended=self.board.now))
        if run.row.sequence is None:
            run.version += 1
            run.is_changed = True
        if run.ending is None:
            self._queue.append((run, Ended(key, state, result, error)))

    def finish(self, run: Run, command: Finish, reason: str = "") -> None:
        """Let an instance end, after what is live of it."""
        if run.ending is None:
            reason = reason or run.reason
            run.ending = Ending(command.state, command.result, command.error, reason, self.board.now)
            run.winds_up = True

    def cancel(self, seq: int, reason: str) -> None:
        """Cancel an instance: at once if it waits; if it runs, after its live steps have ended."""
        if remove(self.board, seq, State.CANCELLED, reason):
            return
        self.load([seq])
        run = self.runs.get(seq)
        if run is None or run.ending is not None:
            return
        if run.row.sequence is None:
            self.finish(run, Finish(State.CANCELLED), reason)
            return
        # Its scopes may have to come to their end first.
        run.reason, run.may_be_stuck = reason, True
        try:
            commands = self._definitions.cancel(self.board.db, run.row.sequence, run)
        except Exception as error:  # noqa: BLE001 - what it cannot conduct any more it must be able to end
            self.finish(
                run, Finish(State.CANCELLED, error=error_of(type(error).__name__, str(error))), reason
            )
        else:
            self._apply_all(run, commands)

    def save(self) -> None:
        """Conduct until nothing follows any more, and write everything down."""
        cancelled = True
        while cancelled:
            while self._queue:
                self._conduct(*self._queue.popleft())
            self._drop_unwanted()
            self._write()
            self._end_stuck()
            cancelled = self._wind_up()  # a child has its own way to be cancelled, which is written too

    # Conducting.

    def _conduct(self, run: Run, ended: Ended | None) -> None:
        if run.ending is not None:
            return
        run.may_be_stuck = True
        if run.row.sequence is None:
            run.wants_pass = True
            return
        db, number = self.board.db, run.row.sequence
        try:
            if ended is None:
                commands = self._definitions.begin(db, number, run, again=run.version > 0)
            else:
                commands = self._definitions.conduct(db, number, run, ended)
        except Exception as error:  # noqa: BLE001 - it must not keep other jobs from being settled
            self.finish(run, Finish(State.FAILED, error=error_of(type(error).__name__, str(error))))
            return
        self._apply_all(run, commands)

    def _pass_ended(self, run: Run, how: JobEnd) -> None:
        run.pass_seq, run.is_changed = None, True
        if run.ending is not None:
            return
        run.may_be_stuck = True
        if how.commands is not None:
            self._apply_all(run, how.commands)
            seen = run.pass_version if how.seen is None else how.seen
            if run.version > seen:
                run.wants_pass = True
        elif how.state is State.DONE:
            told = f"the task {run.row.workflow!r} is no workflow on the worker that ran it"
            self.finish(run, Finish(State.FAILED, error=error_of("NotAWorkflow", told)))
        else:
            error = how.error or error_of(how.state.value.capitalize(), "a pass over its memo did not run")
            self.finish(run, Finish(State.FAILED, error=error))

    def _apply_all(self, run: Run, commands: Iterable[object]) -> None:
        for command in commands:
            if run.ending is not None:
                break
            try:
                check_command(command)  # type: ignore[arg-type]  # outcomes know no commands
            except InvalidError as error:
                self.finish(run, Finish(State.FAILED, error=error_of(type(error).__name__, str(error))))
                break
            self._apply(run, command)  # type: ignore[arg-type]  # the same
            if isinstance(command, Restart):
                break

    def _apply(self, run: Run, command: Command) -> None:
        match command:
            case Start(key, job):
                self._start(run, key, job)
            case Timer(key, at, after):
                self._set_timer(run, key, at, after)
            case Await(key, name, after):
                self._await(run, key, name, after)
            case Child(key, new):
                self._start_child(run, key, new)
            case Note(key, value):
                if run.step(key) is None:
                    run.put(run.new(key, "note", EntryState.DONE)._replace(result=value))
            case Save(entry):
                self._save_entry(run, entry)
            case SetContext(context):
                run.text, run.decoded, run.is_changed = context, None, True
            case Cancel(key, signal):
                self._cancel_step(run, key, signal)
            case Finish():
                self.finish(run, command)
            case Restart(args):
                self._restart(run, args)

    def _start(self, run: Run, key: str, job: NewJob) -> None:
        if not self._put_new(run, key, "job"):
            return
        try:
            self._starting[run.seq, key] = step_job(run.row, job)
        except InvalidError as error:
            self._refuse(run, key, error)

    def _set_timer(self, run: Run, key: str, at: int | None, after: int | None) -> None:
        if not self._put_new(run, key, "timer"):
            return
        try:
            # Also one that is over already is left to the next claim, so that no transaction becomes long.
            self._timers[run.seq, key] = moment_of("timer", self.board.now, at, after)
        except InvalidError as error:
            self._refuse(run, key, error)

    def _await(self, run: Run, key: str, name: str, after: int | None) -> None:
        if not self._put_new(run, key, "wait"):
            return
        try:
            check_signal_name(name)
            until = None if after is None else moment_of("after", self.board.now, None, after)
        except InvalidError as error:
            self._refuse(run, key, error)
            return
        payload = rows.take_signal(self.board.db, run.seq, name)
        if payload is not None:
            self.end(run, key, EntryState.DONE, payload)
            return
        self._waits[run.seq, key] = name
        if until is not None:
            self._timers[run.seq, key] = until

    def _start_child(self, run: Run, key: str, new: NewInstance) -> None:
        if not self._put_new(run, key, "child"):
            return
        try:
            new = self._named(run, new)
            if new.unique is not None:
                raise InvalidJobError("unique", "a child can have no unique key")
            check_instance(self.board.db, self._definitions, new)
            if new.id is not None:
                planned = [each for each in self._children.values() if each.id is not None]
                reserve(self.board, [NewJob("", id=each.id, tenant=each.tenant) for each in [*planned, new]])
            self._children[run.seq, key] = new
        except PenstockError as error:
            self._refuse(run, key, error)

    def _put_new(self, run: Run, key: str, kind: str) -> bool:
        """Put a new step into the memo; False if it is remembered already."""
        step = run.step(key)
        if step is None:
            run.put(run.new(key, kind))
        elif step.kind == "frame" and step.state == _LIVE:
            run.put(step._replace(kind=kind))
        else:
            return False
        return True

    def _named(self, run: Run, new: NewInstance) -> NewInstance:
        """Return a child as it is created; that of a sequence is the sequence which it names."""
        new = msgspec.structs.replace(new, tenant=run.row.tenant, queue=new.queue or run.row.queue)
        if run.row.sequence is None or new.sequence is not None:
            return new
        db = self.board.db
        meta = msgspec.json.decode(new.meta, type=dict[str, Any])
        version = (meta.pop(VERSION, None) or {}).get("version")
        parent = sequence_rows.of_number(db, run.row.sequence)
        namespace = "default" if parent is None else parent.namespace
        found = sequence_rows.of_name(db, run.row.tenant, namespace, new.workflow, version)
        if found is None:
            raise NotFoundError(
                "sequence", new.workflow if version is None else f"{new.workflow} version {version}"
            )
        return msgspec.structs.replace(
            new, sequence=found.number, meta=merged(run.row.meta, msgspec.json.encode(meta).decode())
        )

    def _refuse(self, run: Run, key: str, error: PenstockError) -> None:
        """Let a step fail that could never run as it was asked for."""
        self.end(run, key, EntryState.FAILED, None, error_of(type(error).__name__, str(error)))

    def _save_entry(self, run: Run, entry: Entry) -> None:
        step = run.step(entry.key) or run.new(entry.key, "frame")
        if step.state != _LIVE:
            step = step._replace(kind="frame")
        ended = None if entry.state is EntryState.LIVE else step.ended or self.board.now
        run.put(
            step._replace(
                state=entry.state.value,
                result=entry.result,
                error=entry.error,
                frame=entry.frame,
                ended=ended,
            )
        )

    def _cancel_step(self, run: Run, key: str, signal: str | None) -> None:
        step = run.step(key)
        if step is not None and signal is not None and step.state == EntryState.DONE.value:
            self._give_back(run, step, signal)
        if step is None or step.state != _LIVE:
            return
        run.put(step._replace(state=EntryState.CANCELLED.value, ended=self.board.now))
        self._forget_plans(run.seq, key)
        if step.kind in ("timer", "wait"):
            self._stopped.append((run.seq, key))
        elif step.kind in ("job", "child"):
            self._stop_job(run.seq, key, "its workflow cancelled this step")

    def _give_back(self, run: Run, step: StepRow, signal: str) -> None:
        """Give a signal that came after the pass had looked to the next wait for it, or keep it for one to come."""
        run.put(step._replace(state=EntryState.CANCELLED.value, result=None))
        payload = step.result or "null"
        for key in rows.waits_for(self.board.db, run.seq, signal):
            if (other := run.step(key)) is not None and other.state == _LIVE:
                self.signalled(run, key, payload)
                return
        if self._given_back is None:
            (number,) = self.board.db.numbers(1)
            self._given_back = -number * _MOST_GIVEN_BACK
        # Before those that came later, and after those that were given back just now.
        rows.add_signal(self.board.db, (self._given_back, new_id(), run.seq, signal, payload, self.board.now))
        self._given_back += 1

    def _stop_job(self, instance: int, key: str, reason: str) -> None:
        live = rows.job_at(self.board.db, instance, key)
        if live is None:
            return
        if live.child:
            self.cancel(live.seq, reason)
        elif not remove(self.board, live.seq, State.CANCELLED, reason):
            ask_to_stop(self.board, live.seq)

    def _forget_plans(self, instance: int, key: str) -> None:
        for planned in (self._starting, self._children, self._timers, self._waits):
            planned.pop((instance, key), None)

    def _restart(self, run: Run, args: str) -> None:
        db = self.board.db
        for key in [key for instance, key in [*self._starting, *self._children, *self._timers, *self._waits]
                    if instance == run.seq]:  # fmt: skip
            self._forget_plans(run.seq, key)
        live = [job for job in rows.jobs(db, [run.seq]) if job.seq not in self._ended]
        rows.disown(db, run.seq)
        rows.forget_all(db, run.seq)
        for job in live:
            if job.child:
                self.cancel(job.seq, "its workflow was restarted")
            elif not remove(self.board, job.seq, State.CANCELLED, "its workflow was restarted"):
                ask_to_stop(self.board, job.seq)
        run.steps, run.changed, run.is_empty = {}, {}, True
        run.text, run.decoded, run.is_changed = args, None, True
        self._queue.append((run, None))

    # Writing.

    def _drop_unwanted(self) -> None:
        """Forget what was planned for instances that end now."""
        for planned in (self._starting, self._children, self._timers, self._waits):
            for instance, key in [at for at in planned if self.runs[at[0]].ending is not None]:
                del planned[instance, key]
                run = self.runs[instance]
                step = run.step(key)
                if step is not None and step.state == _LIVE:
                    run.put(step._replace(state=EntryState.CANCELLED.value, ended=self.board.now))

    def _add_children(self) -> None:
        if not self._children:
            return
        added = add_instances(
            self.board, list(self._children.values()), [instance for instance, _ in self._children], add
        )
        for (instance, key), (_, enqueued) in zip(self._children, added, strict=True):
            run = self.runs[instance]
            step = run.step(key)
            assert step is not None  # noqa: S101 - it was put there when its child was planned
            run.put(step._replace(job=enqueued.id))
        for (instance, _), (seq, _) in zip(self._children, added, strict=True):
            if self.runs[instance].row.paused:
                rows.set_paused(self.board.db, seq, 1)
        rows.add_jobs(
            self.board.db,
            [
                (seq, instance, key, 1)
                for (instance, key), (seq, _) in zip(self._children, added, strict=True)
            ],
        )

    def _add_jobs(self) -> None:
        for run in self.runs.values():
            if run.wants_pass and run.ending is None and run.pass_seq is None:
                self._starting[run.seq, PASS_KEY] = pass_job(run.row)
        if not self._starting:
            return
        seqs = self.board.db.numbers(len(self._starting))
        rows.add_jobs(
            self.board.db,
            [(seq, instance, key, 0) for seq, (instance, key) in zip(seqs, self._starting, strict=True)],
        )
        # Accepted when the instance was: no bound of a queue turns them away now.
        added = add(self.board, list(self._starting.values()), seqs)
        frozen = []
        for seq, (instance, key), enqueued in zip(seqs, self._starting, added, strict=True):
            run = self.runs[instance]
            if run.row.paused:
                frozen.append(seq)
            if key == PASS_KEY:
                run.pass_seq, run.pass_version, run.is_changed = seq, run.version, True
            elif (step := run.step(key)) is not None:
                run.put(step._replace(job=enqueued.id))
        if frozen:
            freeze(self.board, frozen)

    def _write(self) -> None:
        db = self.board.db
        if self._ended:
            rows.forget_jobs(db, self._ended)
        self._add_children()
        self._add_jobs()
        if self._stopped:
            rows.forget_timers(db, self._stopped)
            rows.forget_waits(db, self._stopped)
        changed = [step for run in self.runs.values() for key in run.changed if (step := run.steps[key])]
        if changed:
            rows.save_steps(db, changed)
        if self._timers:
            rows.set_timers(db, [(*at, until) for at, until in self._timers.items()])
        if self._waits:
            places = db.numbers(len(self._waits))
            rows.add_waits(
                db,
                [(*at, name, place) for (at, name), place in zip(self._waits.items(), places, strict=True)],
            )
        saved = [run for run in self.runs.values() if run.is_changed]
        if saved:
            rows.save(
                db,
                [
                    (
                        run.text,
                        run.row.paused,
                        run.row.ending,
                        run.version,
                        run.pass_seq,
                        run.pass_version,
                        run.seq,
                    )
                    for run in saved
                ],
            )
        for planned in (self._starting, self._children, self._timers, self._waits):
            for instance, _ in planned:
                self.runs[instance].may_be_stuck = False
            planned.clear()
        self._ended, self._stopped = [], []
        for run in self.runs.values():
            run.changed, run.is_changed = {}, False

    def _end_stuck(self) -> None:
        """Let instances fail that nothing would move on any more: their slots must come back."""
        doubtful = [run.seq for run in self.runs.values() if run.may_be_stuck and run.ending is None]
        for seq in rows.stuck(self.board.db, doubtful) if doubtful else ():
            told = "its conductor asked for nothing, and nothing that is live would move it on"
            self.finish(self.runs[seq], Finish(State.FAILED, error=error_of("NothingToWaitFor", told)))

    def _wind_up(self) -> bool:
        """End the instances that are to end, as far as nothing of them is live; tell whether a child was cancelled."""
        ending = {run.seq: run for run in self.runs.values() if run.ending is not None}
        if not ending:
            return False
        db, board = self.board.db, self.board
        live = rows.live(db, list(ending))
        waiting = sorted({instance for instance, _, kind, _ in live if kind not in ("job", "child")})
        if waiting:
            rows.stop_waiting(db, waiting, board.now)
        left = [(instance, kind, seq) for instance, _, kind, seq in live if seq is not None]
        fresh = [(instance, kind, seq) for instance, kind, seq in left if ending[instance].winds_up]
        for run in ending.values():
            run.winds_up = False
        children = False
        for instance in {instance for instance, _, _ in fresh}:
            run = ending[instance]
            assert run.ending is not None  # noqa: S101 - chosen by it
            reason = run.ending.reason or "its workflow ended"
            jobs = [seq for of, kind, seq in fresh if of == instance and kind == "job" and seq is not None]
            for seq in remove_all(board, jobs, State.CANCELLED, reason):
                ask_to_stop(board, seq)
            for seq in [seq for of, kind, seq in fresh if of == instance and kind == "child"]:
                if seq is not None:
                    self.cancel(seq, reason)
                    children = True
        busy = {instance for instance, _, _ in left}
        rows.set_ending(
            db,
            [(msgspec.json.encode(ending[seq].ending).decode(), seq) for seq in sorted(busy)
             if ending[seq].row.ending is None],
        )  # fmt: skip
        self._finish([run for seq, run in ending.items() if seq not in busy])
        return children

    def _finish(self, runs: Sequence[Run]) -> None:
        if not runs:
            return
        board = self.board
        if any(run.seq in board.to_follow.admitted for run in runs):
            board.db.send_last()  # their starts
        ends, reasons = {}, {}
        for run in runs:
            ending = run.ending
            assert ending is not None  # noqa: S101 - the caller looked
            ends[run.seq] = JobEnd(ending.state, ending.result, ending.error)
            reasons[run.seq] = ending.reason
            board.to_follow.finished.add(run.seq)
            del self.runs[run.seq]
            board.events.tell(
                f"instance.{ending.state.value}",
                instance=run.row.id,
                workflow=run.row.workflow,
                tenant=run.row.tenant,
                reason=ending.reason,
            )
        Settling(board).finish(ends, reasons)

"""Play a sequence to its end: the memo is a dict, jobs are functions, and the clock jumps."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from penstock.job import (
    Await,
    Cancel,
    Child,
    Command,
    Entry,
    EntryState,
    Finish,
    Save,
    SetContext,
    Start,
    Timer,
)
from penstock.sequences import Ended, begin, cancel, conduct, parse

MILLISECOND = 1_000
SECOND = 1_000_000
HOUR = 3_600 * SECOND
DAY = 24 * HOUR


class HandlerError(Exception):
    def __init__(self, message: str = "no", kind: str = "HandlerError") -> None:
        super().__init__(message)
        self.kind = kind


def step(block_id: str, handler: str = "work", **fields: object) -> dict:
    return {"type": "step", "id": block_id, "handler": handler, **fields}


def sequence(*blocks: dict, **fields: object) -> dict:
    return {"name": "test", "blocks": list(blocks), **fields}


@dataclass
class Play:
    """One instance.  With *crash* all that it knows is written down and read back after each list of commands."""

    definition: dict
    context: Mapping[str, object] = field(default_factory=dict)
    handlers: dict[str, Callable[[dict], object]] = field(default_factory=dict)
    instance: str = "instance-1"
    now: int = 1_700_000_000 * SECOND
    crash: bool = False
    choose: Callable[[list[str]], str] = min

    def __post_init__(self) -> None:
        self.sequence = parse(self.definition)
        self.memo: dict[str, Entry] = {}
        self.jobs: dict[str, Start] = {}
        self.timers: dict[str, int] = {}
        self.waits: dict[str, tuple[str, int | None]] = {}
        self.children: dict[str, Child] = {}
        self.finish: Finish | None = None
        self.keys: list[str] = []  # in the order in which they began
        self.lists: list[list[Command]] = []
        self.ends: list[Ended] = []
        self.cancelled: list[str] = []
        self.ran: list[tuple[str, dict]] = []
        self.reads = 0

    def entry(self, key: str) -> Entry | None:
        self.reads += 1
        return self.memo.get(key)

    def begin(self) -> "Play":
        self._apply(begin(self.sequence, self))
        return self

    def end(self, key: str, result: object = None, error: Exception | None = None) -> list[Command]:
        """End what is live at *key*."""
        state, told = EntryState.DONE, None
        if error is not None:
            state = EntryState.FAILED
            told = json.dumps({"kind": getattr(error, "kind", type(error).__name__), "message": str(error)})
        return self.conduct(Ended(key, state, None if told else json.dumps(result), told))

    def conduct(self, ended: Ended) -> list[Command]:
        for live in (self.jobs, self.timers, self.waits, self.children):
            live.pop(ended.key, None)
        assert self.memo[ended.key].state is EntryState.LIVE, ended.key
        self.memo[ended.key] = Entry(ended.key, ended.state, ended.result, ended.error)
        self.ends.append(ended)
        self.reads = 0
        commands = conduct(self.sequence, self, ended)
        self._apply(commands)
        return commands

    def cancel(self) -> list[Command]:
        commands = cancel(self.sequence, self)
        self._apply(commands)
        return commands

    def signal(self, name: str, payload: object) -> list[Command]:
        key = next(key for key, (wanted, _) in self.waits.items() if wanted == name)
        return self.end(key, payload)

    def fire(self, key: str) -> list[Command]:
        """Let the timer at *key* come, at its moment."""
        self.now = max(self.now, self.timers[key])
        return self.conduct(Ended(key, EntryState.DONE))

    def give_up(self, key: str) -> list[Command]:
        """Let a wait time out."""
        until = self.waits[key][1]
        assert until is not None
        self.now = max(self.now, until)
        return self.end(key, error=HandlerError("no signal came", "SignalTimeout"))

    def run_job(self, key: str) -> None:
        job = self.jobs[key].job
        self.now = max(self.now, job.due or 0)
        given = json.loads(job.args)["kwargs"]
        for attempt in range(1, job.retry.attempts + 1):
            self.ran.append((job.task, given))
            try:
                result = self.handlers.get(job.task, lambda _: None)(given)
            except HandlerError as error:
                if attempt == job.retry.attempts or error.kind in job.retry.never:
                    self.end(key, error=error)
                    return
            else:
                self.end(key, result)
                return

    def run(self, most: int = 100_000) -> "Play":
        """Go on until nothing but a signal or a child can move it."""
        if not self.lists:
            self.begin()
        for _ in range(most):
            if self.jobs:
                self.run_job(self.choose(list(self.jobs)))
            elif self.timers:
                first = min(self.timers.values())
                self.fire(self.choose([key for key, at in self.timers.items() if at == first]))
            else:
                break
        return self

    def result(self, key: str) -> object:
        text = self.memo[key].result
        return None if text is None else json.loads(text)

    def error(self, key: str) -> dict:
        return json.loads(self.memo[key].error or "null")

    def state(self, key: str) -> str:
        return self.memo[key].state.value

    @property
    def tasks(self) -> list[str]:
        return [task for task, _ in self.ran]

    @property
    def outcome(self) -> str | None:
        return self.finish.state.value if self.finish else None

    @property
    def failure(self) -> dict:
        assert self.finish is not None
        return json.loads(self.finish.error or "null")

    def _apply(self, commands: list[Command]) -> None:
        assert self.finish is None, "an instance that ended goes on"
        self.lists.append(commands)
        for command in commands:
            self._do(command)
        if self.finish is not None:
            assert [] == [key for key, entry in self.memo.items() if entry.state is EntryState.LIVE]
        else:
            assert self.jobs or self.timers or self.waits or self.children, "nothing will move it on"
        if self.crash:
            self._write_and_read()

    def _do(self, command: Command) -> None:
        match command:
            case Save(entry):
                self.memo[entry.key] = entry
            case SetContext(context):
                self.context = json.loads(context)
            case Cancel(key):
                for live in (self.jobs, self.timers, self.waits, self.children):
                    live.pop(key, None)
                assert self.memo[key].state is EntryState.LIVE, key
                self.memo[key] = Entry(key, EntryState.CANCELLED)
                self.cancelled.append(key)
            case Finish():
                self.finish = command
            case Start() | Timer() | Await() | Child():
                assert command.key not in self.memo, f"{command.key} begins twice"
                self.memo[command.key] = Entry(command.key, EntryState.LIVE)
                self.keys.append(command.key)
                self._start(command)

    def _start(self, command: Start | Timer | Await | Child) -> None:
        match command:
            case Start(key):
                self.jobs[key] = command
            case Timer(key, at, after):
                assert (at is None) != (after is None)
                self.timers[key] = at if after is None else self.now + after
            case Await(key, name, after):
                self.waits[key] = (name, None if after is None else self.now + after)
            case Child(key):
                self.children[key] = command

    def _write_and_read(self) -> None:
        """Forget all but what a store would have."""
        self.sequence = parse(json.loads(json.dumps(self.definition)))
        text = msgspec.json.encode(self.memo)
        self.memo = msgspec.json.decode(text, type=dict[str, Entry])
        text = msgspec.json.encode(self.jobs)
        self.jobs = msgspec.json.decode(text, type=dict[str, Start])
        self.context = json.loads(json.dumps(self.context))

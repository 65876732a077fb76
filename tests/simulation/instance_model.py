"""Random histories of instances, and a naive model that foretells where every one of them stands.

The model knows programs, and not how the engine keeps them.  After each operation every instance, every entry of its
memo and the slots of every key are compared.  Processes die at any statement, workers are lost, and passes are settled
late.
"""

import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from penstock.clock import SECOND
from penstock.job import (
    Await,
    Child,
    Claimed,
    Command,
    Finish,
    InstanceView,
    Memo,
    NewInstance,
    Note,
    Settlement,
    Start,
    Timer,
)
from penstock.lifecycle.outcomes import Conducted, Done, Failed, HandedBack
from tests.simulation.machine import Machine, machine
from tests.support.desk import rate, slots
from tests.support.runs import PASSES, body, job, steps

LEASE = 10 * SECOND
STARTS, WINDOW = 2, 10 * SECOND  # of the steps that have a rate
KEYS = {"one": 1, "two": 2, "kids": 1}
GO = "event:go"
LIMITED = (rate("r", STARTS, WINDOW),)
BODIES: dict[str, Callable[[Memo], list[Command]]] = {
    "steps": steps("a b"),
    "waits": body(Start("a", job("a")), Timer("t", after=3 * SECOND), Await("w", GO), Start("b", job("b"))),
    "gathers": body([Start("a", job("a")), Start("b", job("b")), Start("c", job("c"))], Start("d", job("d"))),
    "limited": body(Start("a", job("a", limits=LIMITED)), Start("b", job("b", limits=LIMITED))),
    "gives up": body([Note("n", "1"), Await("w", GO, after=20 * SECOND)], Start("a", job("a"))),
    "parent": body(
        [Child("kid", NewInstance("steps", queue=PASSES, limits=(slots("kids", 1),))), Start("a", job("a"))],
        Start("b", job("b")),
    ),
}
# Sequences of blocks that follow each other, as (key, kind).
BLOCKS = {
    "blocks": [("a", "job"), ("t", "timer"), ("n", "inside"), ("w", "wait"), ("b", "job")],
    "inside": [("m", "inside"), ("n", "inside")],
}


class NoticedError(AssertionError):
    """The engine did what the model does not allow."""


@dataclass(eq=False)
class Instance:
    """What should be true of an instance."""

    id: str
    program: str
    key: str | None
    rank: tuple[int, int]
    parent: "tuple[Instance, str] | None" = None
    state: str = "deferred"
    paused: bool = False
    ending: str | None = None
    memo: dict[str, str] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    due: dict[str, int] = field(default_factory=dict)
    children: dict[str, "Instance"] = field(default_factory=dict)
    inbox: int = 0  # signals that nothing has waited for
    ends: int = 0
    wants_pass: bool = False
    lost: set[str] = field(
        default_factory=set
    )  # steps, and "" for the pass, that come again whenever they may

    @property
    def shown(self) -> str:
        return "paused" if self.paused and self.state in ("deferred", "running") else self.state

    @property
    def in_python(self) -> bool:
        return self.program in BODIES

    def live(self, *kinds: str) -> list[str]:
        return [key for key, state in self.memo.items() if state == "live" and self.kinds[key] in kinds]


@dataclass(eq=False)
class Hand:
    """An attempt in a worker's hands: at a step, or at a pass (whose key is empty) with what that has seen."""

    claimed: Claimed
    of: Instance
    key: str
    until: int
    ends: int = 0
    outcome: Conducted | None = None


class History:
    """One history: what happens is drawn by lot from its seed."""

    def __init__(self, seed: int, url: str | None = None) -> None:
        self.chance = random.Random(seed)
        self.url = url
        self.all: dict[str, Instance] = {}
        self.hands: list[Hand] = []
        self.dead: list[Hand] = []  # attempts of workers that were lost
        self.former: list[Hand] = []  # attempts that were given up
        self.begins: list[int] = []
        self.counts: Counter[str] = Counter()
        self._numbers = 0

    def play(self, operations: int) -> Counter[str]:
        """Let so much happen, then let all come to its end; return what happened how often."""
        with machine(self.url, turns=True) as self.machine:
            self._put_sequences()
            for _ in range(operations):
                self._something()
                self._compare()
            self._come_to_an_end()
        return self.counts

    machine: Machine

    @property
    def now(self) -> int:
        return self.machine.wall

    @property
    def engine(self) -> Any:
        return self.machine.engine

    def _put_sequences(self) -> None:
        more = {
            "timer": {"handler": "sleep", "params": {"duration": "3s"}},
            "wait": {"handler": "wait_for_event", "params": {"event": "go"}},
            "inside": {"handler": "noop"},
        }
        self.numbers = {}
        for name, blocks in BLOCKS.items():
            written = [
                {"id": key, "type": "step", "handler": key, **more.get(kind, {})} for key, kind in blocks
            ]
            stored = self.engine.put_sequence(name, json.dumps({"name": name, "blocks": written}))
            self.numbers[name] = stored.number

    # What happens.

    def _something(self) -> None:
        moves: list[tuple[int, Callable[[], None]]] = [
            (4, self._create),
            (6, self._claim),
            (9, self._settle),
            (1, self._settle_late),
            (1, self._die),
            (3, self._signal),
            (1, self._cancel),
            (1, self._pause),
            (2, self._resume),
            (1, self._retry),
            (4, self._advance),
            (1, self._upkeep),
            (1, self._restart),
        ]
        (move,) = self.chance.choices([each for _, each in moves], [weight for weight, _ in moves])
        move()

    def _do(self, call: Callable[[], Any]) -> tuple[bool, Any]:
        """Do it, maybe in a process that dies; tell whether it was committed, and the answer."""
        if self.chance.random() < 0.12:
            return self.machine.until_crash(self.chance.randrange(60), call)
        return True, call()

    def _create(self) -> None:
        if sum(each.state != "ended" for each in self.all.values() if each.parent is None) >= 10:
            return
        key, priority = self.chance.choice(["one", "one", "two", None]), self.chance.choice([0, 0, 1])
        program = self.chance.choice([*BODIES, *BLOCKS])
        id_ = f"{program}-{self._next()}"
        new = NewInstance(
            program, "{}", id_, self.numbers.get(program), PASSES if program in BODIES else "q",
            priority=priority, limits=() if key is None else (slots(key, KEYS[key]),),
        )  # fmt: skip
        done, answer = self._do(lambda: self.engine.create_instances([new]))
        if done:
            made = self._arrive(Instance(id_, program, key, (-priority, self._next())))
            if answer is not None and answer[0].state != made.shown and made.state != "ended":
                raise NoticedError(f"{id_} was told to be {answer[0].state}, and is {made.shown}")

    def _claim(self) -> None:
        before = self._foretold()
        done, claim = self._do(lambda: self.engine.claim([PASSES, "q"], 100, worker="w", lease=LEASE))
        if not done:
            return
        self._sync()
        found = {(each.of.id, each.key) for each in [self._take(claimed) for claimed in claim.jobs]}
        if not claim.more and (missing := before - found):
            raise NoticedError(f"could have begun and did not: {missing}")

    def _settle(self) -> None:
        if not self.hands:
            return
        hand = self.hands.pop(self.chance.randrange(len(self.hands)))
        kind = self.chance.choices(["done", "failed", "handed back"], [8, 1, 1])[0]
        outcome: Any = {
            "done": Done('"x"'),
            "failed": Failed("E", "no"),
            "handed back": HandedBack(begun=True),
        }[kind]
        if not hand.key:
            outcome, kind = hand.outcome, "pass"
        settlement = Settlement(hand.claimed.seq, hand.claimed.fence, outcome)
        done, answer = self._do(lambda: self.engine.settle([settlement]))
        if not done:
            self.hands.append(hand)
            return
        if answer is not None and not answer[0]:
            raise NoticedError(f"{hand.of.id} {hand.key or 'pass'} was not heard")
        self._settled(hand, kind)

    def _settle_late(self) -> None:
        """Settle an attempt that was given up."""
        if not self.former:
            return
        hand = self.former.pop()
        outcome = hand.outcome or Done('"late"')
        if any(self.engine.settle([Settlement(hand.claimed.seq, hand.claimed.fence, outcome)])):
            raise NoticedError(f"{hand.of.id} took what an attempt said that was given up")
        self.counts["settled late"] += 1

    def _die(self) -> None:
        """Lose a worker with all it has in hand: leases run out later."""
        self.counts["died"] += bool(self.hands)
        self.chance.shuffle(self.hands)
        self.dead = [*self.dead, *self.hands[:2]]
        del self.hands[:2]

    def _signal(self) -> None:
        if chosen := self._one(lambda each: each.state != "ended"):
            done, _ = self._do(lambda: self.engine.signal(chosen.id, GO))
            if done:
                self._signalled(chosen)

    def _cancel(self) -> None:
        if chosen := self._one(lambda each: each.state != "ended" and each.parent is None):
            done, _ = self._do(lambda: self.engine.cancel_instance(chosen.id))
            if done:
                self._cancelled(chosen)

    def _pause(self) -> None:
        # Of those without children: these have a state of their own.
        if chosen := self._one(lambda each: each.state != "ended" and each.program != "parent"):
            done, _ = self._do(lambda: self.engine.pause_instance(chosen.id))
            if done:
                chosen.paused = True

    def _resume(self) -> None:
        if chosen := self._one(lambda each: each.state != "ended" and each.paused):
            done, _ = self._do(lambda: self.engine.resume_instance(chosen.id))
            if done:
                chosen.paused = False

    def _retry(self) -> None:
        chosen = self._one(
            lambda each: (
                each.state == "ended"
                and each.ending in ("failed", "cancelled")
                and each.in_python
                and each.program != "parent"
                and each.parent is None
            )
        )
        if chosen is None:
            return
        done, _ = self._do(lambda: self.engine.retry_instance(chosen.id))
        if not done:
            return
        kept = {step.key: step.state.value for step in self.engine.instance(chosen.id).steps}
        if kept != {key: state for key, state in chosen.memo.items() if key in kept}:
            raise NoticedError(f"a retry of {chosen.id} changed its memo to {kept}")
        if gone := [key for key, state in chosen.memo.items() if state == "done" and key not in kept]:
            raise NoticedError(f"a retry of {chosen.id} forgot what was done: {gone}")
        chosen.memo, chosen.state, chosen.ending = kept, "deferred", None
        chosen.lost, chosen.rank = {""}, (chosen.rank[0], self._next())
        self._admit()

    def _advance(self) -> None:
        self.machine.wait(self.chance.choice([SECOND, 2 * SECOND, 5 * SECOND, 12 * SECOND]))

    def _upkeep(self) -> None:
        self.engine.upkeep()
        self._sync()
        late = [
            (each.id, key)
            for each in self.all.values()
            for key in each.live("timer", "wait")
            if each.due.get(key, self.now + 1) <= self.now
        ]
        if late:
            raise NoticedError(f"timers are over and were not fired: {late}")

    def _restart(self) -> None:
        self.machine.restart()

    # What should follow.

    def _arrive(self, new: Instance) -> Instance:
        self.all[new.id] = new
        self._admit()
        return new

    def _admit(self) -> None:
        """Let in whom the slots allow, the first in line first."""
        for each in sorted(self.all.values(), key=lambda each: each.rank):
            if each.state != "deferred":
                continue
            held = sum(other.state == "running" for other in self.all.values() if other.key == each.key)
            if each.key is None or held < KEYS[each.key]:
                each.state = "running"
                self.counts["admitted"] += 1
                if each.in_python:
                    each.wants_pass = True
                else:
                    self._go_on(each)
                self._admit()
                return

    def _go_on(self, of: Instance) -> None:
        """Begin the blocks that come next in a sequence, up to one that takes time."""
        for key, kind in BLOCKS[of.program]:
            if key in of.memo:
                continue
            of.kinds[key] = kind
            if kind == "inside" or (kind == "wait" and of.inbox):
                of.inbox -= kind == "wait"
                of.memo[key] = "done"
                continue
            of.memo[key] = "live"
            if kind == "timer":
                of.due[key] = self.now + 3 * SECOND
            return
        self._finish(of, "done")

    def _apply(self, of: Instance, commands: tuple[Any, ...]) -> None:
        for command in commands:
            match command:
                case Start(key, _):
                    of.memo[key], of.kinds[key] = "live", "job"
                case Timer(key, _, after):
                    of.memo[key], of.kinds[key], of.due[key] = "live", "timer", self.now + (after or 0)
                case Note(key, _):
                    of.memo[key], of.kinds[key] = "done", "note"
                case Await(key, _, after):
                    of.memo[key], of.kinds[key] = "live", "wait"
                    if after is not None:
                        of.due[key] = self.now + after
                    if of.inbox:
                        of.inbox -= 1
                        self._step_ended(of, key, "done")
                case Child(key, new):
                    of.memo[key], of.kinds[key] = "live", "child"
                    (made,) = [step for step in self.engine.instance(of.id).steps if step.key == key]
                    child = Instance(made.job_id, new.workflow, "kids", (0, self._next()), (of, key))
                    of.children[key] = child
                    self._arrive(child)
                case Finish(state):
                    self._finish(of, state.value)

    def _step_ended(self, of: Instance, key: str, state: str) -> None:
        if of.memo[key] == "live":
            of.memo[key] = state
            of.ends += 1
            self.counts[f"{of.kinds[key]} {state}"] += 1
        if of.ending is not None:
            self._end_if_idle(of)
        elif of.in_python:
            of.wants_pass = True
        elif state == "done":
            self._go_on(of)
        else:
            self._finish(of, "failed")

    def _finish(self, of: Instance, state: str) -> None:
        """Let an instance end once nothing of it runs."""
        of.ending, of.wants_pass = state, False
        # The cancel of a sequence decides of its steps at once; those of a body end as they end.
        running = {hand.key for hand in self._running(of)} if of.in_python else set()
        for key in of.live("job", "timer", "wait"):
            if key not in running:
                of.memo[key] = "cancelled"
        for key in of.live("child"):
            self._cancelled(of.children[key])
        self._end_if_idle(of)

    def _end_if_idle(self, of: Instance) -> None:
        if of.state != "running" or self._running(of) or of.live("child"):
            return
        of.state = "ended"
        self._tell_parent(of)
        self._admit()

    def _tell_parent(self, of: Instance) -> None:
        if of.parent is not None:
            parent, key = of.parent
            self._step_ended(parent, key, of.ending or "cancelled")

    def _cancelled(self, of: Instance) -> None:
        if of.state == "deferred":
            of.state, of.ending = "ended", "cancelled"
            self._tell_parent(of)
            self._admit()
        elif of.state == "running" and of.ending is None:
            self._finish(of, "cancelled")

    def _signalled(self, of: Instance) -> None:
        waits = of.live("wait")
        if waits:
            of.due.pop(waits[0], None)
            self._step_ended(of, waits[0], "done")
        else:
            of.inbox += 1

    def _settled(self, hand: Hand, kind: str) -> None:
        self.counts[f"settled {kind}"] += 1
        of = hand.of
        if kind == "handed back" and of.ending is None:
            of.lost.add(hand.key)
        elif kind == "pass":
            assert hand.outcome is not None
            if of.ending is None:
                self._apply(of, hand.outcome.commands)
            of.wants_pass = of.ending is None and of.ends > hand.ends
            self._end_if_ending(of)
        elif of.ending is not None and kind != "done":
            self._step_ended(of, hand.key, "cancelled")  # it was asked to stop
        else:
            self._step_ended(of, hand.key, kind)

    def _end_if_ending(self, of: Instance) -> None:
        if of.ending is not None:
            self._end_if_idle(of)

    # What a claim may start.

    def _foretold(self) -> set[tuple[str, str]]:
        """Return the steps and passes that a claim must start, if it starts all it can."""
        found = set()
        for each in self.all.values():
            if each.state != "running" or each.paused or each.ending is not None:
                continue
            busy = {hand.key for hand in self._running(each)} | each.lost
            if each.program != "limited":
                found |= {(each.id, key) for key in each.live("job") if key not in busy}
            if each.wants_pass and "" not in busy:
                found.add((each.id, ""))
        return found

    def _take(self, claimed: Claimed) -> Hand:
        (step,) = self.engine.step_jobs([claimed.seq]).values()
        of, key = self.all[step.instance], step.key
        what = f"{of.id} {key or 'pass'}"
        if of.state != "running" or of.paused or of.ending is not None:
            raise NoticedError(f"{what} began, and its instance is {of.shown}")
        if any(hand.key == key for hand in self._running(of)):
            raise NoticedError(f"{what} runs twice at once")
        if not (of.wants_pass if not key else of.memo.get(key) == "live"):
            raise NoticedError(f"{what} began, and is {of.memo.get(key)}")
        hand = Hand(claimed, of, key, self.now + LEASE)
        of.lost.discard(key)
        if not key:
            memo = self.engine.memo(of.id)
            hand.ends, hand.outcome = of.ends, Conducted(tuple(BODIES[of.program](memo)), memo.version)
            of.wants_pass = False
        elif of.program == "limited":
            self._begun_by_rate()
        self.hands.append(hand)
        return hand

    def _begun_by_rate(self) -> None:
        self.begins = [at for at in self.begins if at > self.now - WINDOW] + [self.now]
        self.counts["by rate"] += 1
        if len(self.begins) > STARTS:
            raise NoticedError(f"{len(self.begins)} begins in a window of {STARTS}")

    def _running(self, of: Instance) -> list[Hand]:
        return [hand for hand in [*self.hands, *self.dead] if hand.of is of]

    # What the engine decided by the clock.

    def _sync(self) -> None:
        """Follow what only time decides: attempts that were lost, and timers that are over."""
        for hand in self._gone(*self.hands, *self.dead):
            (self.hands if hand in self.hands else self.dead).remove(hand)
            self.counts["lost"] += 1
            self.former.append(hand)
            of = hand.of
            if of.ending is None:
                of.lost.add(hand.key)
                of.wants_pass = of.wants_pass or not hand.key
            elif hand.key:
                self._step_ended(of, hand.key, "cancelled")
            else:
                self._end_if_idle(of)
        for each in list(self.all.values()):
            due = [key for key in each.live("timer", "wait") if each.due.get(key, self.now + 1) <= self.now]
            known = {step.key: step.state.value for step in self._view(each).steps} if due else {}
            for key in due:
                if known.get(key) in ("done", "failed"):
                    self._step_ended(each, key, "done" if each.kinds[key] == "timer" else "failed")

    def _gone(self, *hands: Hand) -> list[Hand]:
        """Return those of these attempts that the engine has given up, which it may once their lease is over."""
        over = [hand for hand in hands if hand.until <= self.now]
        kept = {(each.seq, each.fence) for each in self.engine.attempts([hand.claimed.id for hand in over])}
        return [hand for hand in over if (hand.claimed.seq, hand.claimed.fence) not in kept]

    # Comparing.

    def _view(self, of: Instance) -> InstanceView:
        view: InstanceView = self.engine.instance(of.id)
        return view

    def _compare(self) -> None:
        self._sync()
        for each in self.all.values():
            view = self._view(each)
            wanted = each.ending if each.state == "ended" else each.shown
            if view.state.value != wanted:
                raise NoticedError(f"{each.id} is {view.state.value}, and should be {wanted}")
            memo = {step.key: step.state.value for step in view.steps if "@" not in step.key}
            if memo != each.memo:
                raise NoticedError(f"{each.id} remembers {memo}, and should {each.memo}")
        for key, most in KEYS.items():
            held = sum(each.state == "running" for each in self.all.values() if each.key == key)
            told = sum(gate.running for gate in self.engine.gates(prefix=key)[0])
            if told != held or held > most:
                raise NoticedError(f"{key} has {told} running, and should have {held}")
        if problems := self.engine.doctor():
            raise NoticedError(f"the doctor says: {problems[0]}")

    def _come_to_an_end(self) -> None:
        for _ in range(200):
            if all(each.state == "ended" for each in self.all.values()):
                return
            for each in list(self.all.values()):
                if each.paused and each.state != "ended":
                    self.engine.resume_instance(each.id)
                    each.paused = False
                if each.live("wait"):
                    self.engine.signal(each.id, GO)
                    self._signalled(each)
            self._claim()
            while self.hands:
                self._settle()
            self.machine.wait(5 * SECOND)
            self.engine.upkeep()
            self._compare()
        left = {each.id: each.memo for each in self.all.values() if each.state != "ended"}
        raise NoticedError(f"will not end: {left}")

    def _one(self, wanted: Callable[[Instance], bool]) -> Instance | None:
        found = [each for each in self.all.values() if wanted(each)]
        return self.chance.choice(found) if found else None

    def _next(self) -> int:
        self._numbers += 1
        return self._numbers

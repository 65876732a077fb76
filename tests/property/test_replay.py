"""The order in which steps end changes no key, and every prefix of a history asks for the same keys."""

import json
import re
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import StepFailedError
from penstock.job import Cancel, Entry, EntryState, Finish, NewJob, Note, Start
from penstock.lifecycle.states import State
from penstock.replay import Raised, ask, first, gather, note, replay, signal, sleep

NAMES = st.sampled_from(["a", "b"])
LEAVES = st.one_of(
    st.tuples(st.just("step"), NAMES),
    st.tuples(st.just("sleep")),
    st.tuples(st.just("signal"), NAMES),
    st.tuples(st.just("note"), NAMES),
)


def nested(inner):
    programs = st.lists(inner, max_size=3)
    return st.one_of(
        st.tuples(st.just("gather"), programs),
        st.tuples(st.just("steps"), st.lists(NAMES, max_size=3)),
        st.tuples(st.just("loop"), st.integers(0, 3), inner),
        st.tuples(st.just("try"), inner, inner),
        st.tuples(st.just("first"), st.lists(inner, min_size=1, max_size=3)),
        st.tuples(st.just("both"), inner, inner),
    )


PROGRAMS = st.recursive(LEAVES, nested, max_leaves=8)


@dataclass
class Play:
    """One life of an instance: what it remembers, and which place in the program each key belongs to."""

    program: tuple
    memo: dict = field(default_factory=dict)
    places: dict = field(default_factory=dict)

    def commands(self, memo=None):
        """Return what a pass over a memo asks for, by key, and how it ended, if it did."""
        self.places = {}
        entries = self.memo if memo is None else memo
        found = replay(lambda: self.run(self.program, "p"), list(entries.values()), _end)
        ends = [each for each in found if isinstance(each, Finish)]
        return [each for each in found if not isinstance(each, Finish)], ends

    def step(self, name, place):
        asked = ask(name, name, lambda key: Start(key, NewJob(name)), json.loads)
        self.places[asked.key] = place
        return asked

    async def run(self, program, place):  # noqa: PLR0911 - one for each construct
        match program:
            case ["step", name]:
                return await self.step(name, place)
            case ["sleep"]:
                return await sleep(1)
            case ["signal", name]:
                return await signal(name)
            case ["note", name]:
                return await note(lambda: name)
            case ["steps", names]:
                return await gather(*[self.step(name, f"{place}.{n}") for n, name in enumerate(names)])
            case ["gather", inner]:
                return await gather(*[self.run(each, f"{place}.{n}") for n, each in enumerate(inner)])
            case ["first", inner]:
                return (await first(*[self.run(each, f"{place}.{n}") for n, each in enumerate(inner)])).which
            case ["loop", times, inner]:
                return [await self.run(inner, f"{place}.{n}") for n in range(times)]
            case ["both", one, other]:
                return [await self.run(one, f"{place}.0"), await self.run(other, f"{place}.1")]
            case ["try", one, other]:
                try:
                    return await self.run(one, f"{place}.0")
                except StepFailedError:
                    return await self.run(other, f"{place}.1")


def _end(ended):
    if isinstance(ended, Raised):
        assert isinstance(ended.error, StepFailedError), ended.error
        return Finish(State.FAILED)
    return Finish(State.DONE, json.dumps(ended.value))


def apply(memo, commands):
    """Return a memo as it is after *commands*."""
    memo = dict(memo)
    for each in commands:
        match each:
            case Cancel(key=key):
                if memo[key].state is EntryState.LIVE:
                    memo[key] = Entry(key, EntryState.CANCELLED)
            case Note(key=key, value=value):
                assert key not in memo
                memo[key] = Entry(key, EntryState.DONE, value)
            case _:
                assert each.key not in memo
                memo[each.key] = Entry(each.key, EntryState.LIVE)
    return memo


def ended(key, data):
    if not key.rpartition("/")[2].startswith(("sleep", "signal")) and data.draw(st.booleans()):
        return Entry(key, EntryState.FAILED, error='{"kind": "E", "message": "m"}')
    return Entry(key, EntryState.DONE, json.dumps(key))


def lost(memo, command):
    """Tell whether a command belongs to a branch that another has won against."""
    found = re.finditer(r"(?=(?:^|/)(first(?:#\d+)?)\[(\d+)\]/)", command.key)
    winners = [(memo.get(command.key[: each.start(1)] + each[1]), each[2]) for each in found]
    return not isinstance(command, Cancel) and any(entry and entry.result != n for entry, n in winners)


@given(PROGRAMS, st.data())
def test_every_prefix_of_a_history_asks_for_the_same_keys(program, data):
    """Play an instance to its end, late ends of cancelled steps included, then replay each memo on the way."""
    play, history, places = Play(program), [], {}
    for _ in range(200):
        commands, ends = play.commands()
        places |= play.places
        history.append((dict(play.memo), commands, ends))
        assert not [each.key for each in commands if lost(play.memo, each)]
        if ends:
            break
        # Some steps end while the pass is under way: it has not seen that, and may cancel them.
        live = sorted(key for key, entry in play.memo.items() if entry.state is EntryState.LIVE)
        raced = data.draw(st.lists(st.sampled_from(live), max_size=2, unique=True)) if live else []
        play.memo |= {key: ended(key, data) for key in raced}
        play.memo = apply(play.memo, commands)
        live = sorted(key for key, entry in play.memo.items() if entry.state is EntryState.LIVE)
        if live:
            chosen = data.draw(st.lists(st.sampled_from(live), min_size=1, max_size=3, unique=True))
            play.memo |= {key: ended(key, data) for key in chosen}
        elif not commands:
            assert raced, "nothing will move the instance on"

    assert history[-1][2], "it has no end"
    for memo, commands, ends in history:
        again, ends_again = play.commands(memo)

        assert (commands, ends) == (again, ends_again)
        assert play.places.items() <= places.items()


@given(PROGRAMS, st.data())
def test_the_same_ends_in_another_order_have_the_same_keys(program, data):
    """Without `first`, where the order decides, an instance is the same whatever ends first."""
    if "first" in str(program):
        return
    fates: dict[str, Entry] = {}
    one, other = (_played(Play(program), data, fates) for _ in range(2))

    assert one == other


def _played(play, data, fates):
    for _ in range(200):
        commands, ends = play.commands()
        if ends:
            return ends[0].state, ends[0].result
        play.memo = apply(play.memo, commands)
        live = sorted(key for key, entry in play.memo.items() if entry.state is EntryState.LIVE)
        for key in data.draw(st.lists(st.sampled_from(live), min_size=1, max_size=3, unique=True)):
            play.memo[key] = fates.setdefault(key, ended(key, data))
    raise AssertionError("it has no end")

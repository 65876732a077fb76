"""Which branch of a block begins, and what follows from the end of one."""

from itertools import accumulate
from typing import Final, assert_never

from penstock.job import EntryState, Timer
from penstock.lifecycle.states import State
from penstock.sequences.blocks import (
    Branching,
    CancellationScope,
    ForEach,
    Loop,
    Parallel,
    Race,
    Root,
    Router,
    Saga,
    Split,
    TryCatch,
)
from penstock.sequences.expression_parser import Expression
from penstock.sequences.functions import digest
from penstock.sequences.handlers import ParamError, failed_with
from penstock.sequences.memory import At, CompositeAt, Outcome
from penstock.sequences.run import STOPPING, Frame, Run
from penstock.sequences.saga import after_saga
from penstock.sequences.scope import CHUNK, Scope
from penstock.sequences.stopping import stop_branches
from penstock.sequences.values import LARGEST, BlockError, from_json, to_json

TRY: Final = 0
CATCH: Final = 1
FINALLY: Final = 2
ON_FAILURE: Final = 1
ON_CANCEL: Final = 2


def begin_composite(run: Run, at: At, block: Branching) -> None:
    """Begin a block that has branches."""
    where = CompositeAt(at, block, 0, 0, 0)
    try:
        _begin(run, where)
    except BlockError as error:
        run.conclude(at, failed_with(error))


def branch_ended(run: Run, where: CompositeAt, outcome: Outcome) -> None:
    """Go on after the end of a branch."""
    try:
        _after(run, where, outcome)
    except BlockError as error:
        _fail(run, where, failed_with(error))


def polled(run: Run, at: At, loop: Loop, iteration: int) -> None:
    """Go on with a loop after the pause between two of its iterations."""
    where = CompositeAt(at, loop, 0, 0, iteration)
    try:
        _iterate(run, where, loop)
    except BlockError as error:
        _fail(run, where, failed_with(error))


def stopped(run: Run, where: CompositeAt, still: list[str]) -> None:
    """Go on after one of those that had to come to their end did so; these are *still* to do it."""
    frame = run.frame(where.at.key)
    if still:
        run.save_frame(where.at.key, {**frame, STOPPING: still})
    elif isinstance(where.block, Root):
        cancelled(run, where)
    elif "winner" in frame:
        run.conclude(where.at, _done(winner=frame["winner"]))
    else:
        run.conclude(where.at, Outcome(EntryState.CANCELLED))


def cancelled(run: Run, where: CompositeAt) -> None:
    """Run what follows a cancel, and then end the instance."""
    run.save_frame(where.at.key, {"branch": ON_CANCEL})
    run.enter_branch(where._replace(branch=ON_CANCEL))


def _begin(run: Run, where: CompositeAt) -> None:
    block = where.block
    match block:
        case Parallel() | Race():
            branches = range(len(block.branches))
            run.save_frame(where.at.key, {"open": len(branches)})
            for branch in branches:
                run.enter_branch(where._replace(branch=branch))
        case Loop():
            _iterate(run, where, block)
        case ForEach():
            _next_item(run, where, _keep_items(run, where.at, block))
        case Router():
            scope = Scope(run, where.at)
            held = (number for number, condition in enumerate(block.conditions) if scope.holds(condition))
            _choose(run, where, next(held, len(block.conditions)))
        case Split():
            _choose(run, where, _variant(block, digest(run.memory.instance, block.id)))
        case TryCatch() | CancellationScope() | Saga():
            _choose(run, where, 0)
        case Root():
            run.enter_branch(where)
        case _:
            assert_never(block)


def _after(run: Run, where: CompositeAt, outcome: Outcome) -> None:
    block = where.block
    match block:
        case Parallel():
            _after_parallel(run, where, outcome)
        case Race():
            _after_race(run, where, outcome)
        case Loop():
            _after_iteration(run, where, block, outcome)
        case ForEach():
            _after_item(run, where, outcome)
        case Router():
            chosen = where.branch if where.branch < len(block.conditions) else None
            run.conclude(where.at, _done(route=chosen) if outcome.is_good else _failed(outcome))
        case Split():
            run.conclude(
                where.at, _done(variant=block.names[where.branch]) if outcome.is_good else _failed(outcome)
            )
        case CancellationScope():
            run.conclude(where.at, _done() if outcome.is_good else _failed(outcome))
        case TryCatch():
            _after_try(run, where, outcome)
        case Saga():
            after_saga(run, where, block, outcome)
        case Root():
            _after_all(run, where, outcome)
        case _:
            assert_never(block)


def _done(**result: object) -> Outcome:
    return Outcome(EntryState.DONE, to_json(result))


def _failed(outcome: Outcome) -> Outcome:
    return Outcome(EntryState.FAILED, error=outcome.error)


def _fail(run: Run, where: CompositeAt, outcome: Outcome) -> None:
    """Let a composite fail; its frame is kept, since it says which iteration was the last."""
    run.conclude(where.at, _failed(outcome), run.frame(where.at.key))


def _choose(run: Run, where: CompositeAt, branch: int) -> None:
    run.save_frame(where.at.key, {"branch": branch})
    run.enter_branch(where._replace(branch=branch))


def _after_parallel(run: Run, where: CompositeAt, outcome: Outcome) -> None:
    frame = _counted_down(run, where)
    if not outcome.is_good:
        frame.setdefault("error", outcome.error)
    if frame["open"]:
        run.save_frame(where.at.key, frame)
    elif "error" in frame:
        run.conclude(where.at, Outcome(EntryState.FAILED, error=str(frame["error"])))
    else:
        run.conclude(where.at, _done(branches=len(where.block.branches)))


def _after_race(run: Run, where: CompositeAt, outcome: Outcome) -> None:
    frame = _counted_down(run, where)
    if outcome.is_good:
        still = stop_branches(run, where.at, where.block, frame)
        if still:
            run.save_frame(where.at.key, {"winner": where.branch, STOPPING: still})
        else:
            run.conclude(where.at, _done(winner=where.branch))
    elif frame["open"]:
        run.save_frame(where.at.key, frame)
    else:
        run.conclude(where.at, _failed(outcome))


def _counted_down(run: Run, where: CompositeAt) -> Frame:
    frame = run.frame(where.at.key)
    return {**frame, "open": int(str(frame["open"])) - 1}


def _iterate(run: Run, where: CompositeAt, loop: Loop) -> None:
    """Begin an iteration, if the condition holds before it."""
    count = where.iteration
    if count >= loop.max_iterations:
        run.conclude(where.at, _done(iterations=count, capped=True), {"n": count - 1})
    elif Scope(run, where.at).holds(loop.condition):
        run.save_frame(where.at.key, {"n": count})
        run.enter_branch(where)
    else:
        run.conclude(where.at, _done(iterations=count), {"n": count - 1})


def _after_iteration(run: Run, where: CompositeAt, loop: Loop, outcome: Outcome) -> None:
    count = where.iteration + 1
    if not outcome.is_good and not loop.continue_on_error:
        _fail(run, where, outcome)
    elif Scope(run, where.at).holds(loop.break_on):
        run.conclude(where.at, _done(iterations=count), {"n": count - 1})
    elif loop.poll_interval and count < loop.max_iterations:
        run.act(Timer(f"{where.at.key}@poll.{count}", after=loop.poll_interval))
    else:
        _iterate(run, where._replace(iteration=count), loop)


def _keep_items(run: Run, at: At, block: ForEach) -> Frame:
    """Remember the items, in parts, so that an iteration reads one part; return the frame to begin with."""
    scope = Scope(run, at)
    given = block.collection
    items = scope.value(given) if isinstance(given, Expression) else scope.render(given)
    if not isinstance(items, list):
        raise ParamError("the collection does not come to a list")
    if len(items) > block.max_iterations:
        raise ParamError(
            f"the collection has {len(items):,} items; max_iterations is {block.max_iterations:,}"
        )
    parts = [to_json(items[first : first + CHUNK]) for first in range(0, len(items), CHUNK)]
    if sum(map(len, parts)) > LARGEST:
        raise ParamError(f"the collection has more than {LARGEST:,} characters")
    for number, part in enumerate(parts):
        run.save(f"{at.key}@items.{number}", Outcome(EntryState.DONE, part))
    return {"n": 0, "count": len(items)}


def _after_item(run: Run, where: CompositeAt, outcome: Outcome) -> None:
    if outcome.is_good:
        count = where.iteration + 1
        _next_item(run, where._replace(iteration=count), {**run.frame(where.at.key), "n": count})
    else:
        _fail(run, where, outcome)


def _next_item(run: Run, where: CompositeAt, frame: Frame) -> None:
    if where.iteration == frame["count"]:
        run.conclude(where.at, _done(iterations=where.iteration), {"n": where.iteration - 1})
    else:
        run.save_frame(where.at.key, frame)
        run.enter_branch(where)


def _variant(split: Split, drawn: bytes) -> int:
    """Return which variant a number that stands for chance falls into."""
    point = int.from_bytes(drawn) % sum(split.weights)
    return next(number for number, sum_so_far in enumerate(accumulate(split.weights)) if point < sum_so_far)


def _after_try(run: Run, where: CompositeAt, outcome: Outcome) -> None:
    frame = run.frame(where.at.key)
    if where.branch == TRY and not outcome.is_good:
        run.save_frame(where.at.key, {"branch": CATCH, "error": outcome.error})
        run.enter_branch(where._replace(branch=CATCH))
    elif where.branch != FINALLY:
        # What the block comes to, unless the last branch fails.
        failed = None if outcome.is_good else outcome.error
        run.save_frame(where.at.key, {**frame, "branch": FINALLY, "failed": failed})
        run.enter_branch(where._replace(branch=FINALLY))
    elif not outcome.is_good:
        run.conclude(where.at, _failed(outcome))
    elif isinstance(pending := frame["failed"], str):
        run.conclude(where.at, Outcome(EntryState.FAILED, error=pending))
    else:
        caught = frame.get("error")
        run.conclude(
            where.at,
            _done(caught=True, error=from_json(caught)) if isinstance(caught, str) else _done(caught=False),
        )


def _after_all(run: Run, where: CompositeAt, outcome: Outcome) -> None:
    """End the instance, after what its sequence wants to be done about a failure."""
    if where.branch == ON_CANCEL:
        _finish(run, where, State.CANCELLED, Outcome(EntryState.CANCELLED))
    elif where.branch == ON_FAILURE:
        failed = Outcome(EntryState.FAILED, error=str(run.frame(where.at.key)["error"]))
        _finish(run, where, State.FAILED, failed)
    elif outcome.is_good:
        run.finish(State.DONE, outcome)
    elif where.block.branches[ON_FAILURE]:
        run.save_frame(where.at.key, {"branch": ON_FAILURE, "error": outcome.error})
        run.enter_branch(where._replace(branch=ON_FAILURE))
    else:
        run.finish(State.FAILED, outcome)


def _finish(run: Run, where: CompositeAt, state: State, outcome: Outcome) -> None:
    run.save(where.at.key, outcome)
    run.finish(state, outcome)

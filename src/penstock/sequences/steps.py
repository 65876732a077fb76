"""How a step goes on: condition, delay, window, question, handler, retries, fallback, deadline.

Most steps are one job at their own key.  What else a step needs has a key of its own, `key@wait.1`; which of them is
live, where it is not plain, is in a frame at `key@step`.
"""

from typing import Final

from msgspec.structs import replace

from penstock.errors import InvalidError
from penstock.job import Await, EntryState, NewJob, Start, Timer
from penstock.lifecycle.retry import RetryPolicy, delay_before
from penstock.limits import UNLIMITED, Limit
from penstock.sequences.blocks import Step, Wait
from penstock.sequences.functions import digest
from penstock.sequences.gate_keys import resource_key
from penstock.sequences.handlers import (
    SERVED,
    SERVER_QUEUE,
    TAKE_START,
    FailedError,
    ParamError,
    failed_with,
    failure,
    params_text,
    run_inside,
    runs_inside,
)
from penstock.sequences.memory import At, Ended, Outcome
from penstock.sequences.parse_steps import HUMAN_REVIEW
from penstock.sequences.pool_values import GAPS, Gap, fill_gaps
from penstock.sequences.run import Run
from penstock.sequences.scope import Scope
from penstock.sequences.timing import delayed, in_window
from penstock.sequences.values import BlockError, from_json, is_same, to_json, to_text

HUMAN_INPUT: Final = "human_input:"
REQUEST: Final = (
    "penstock.request"  # in the meta of a job that the server runs: names its request, for all attempts
)
FRAME: Final = "step"
START: Final = "start"
PLAIN: Final = ("", "delay", START, "next")  # what may be live without a frame that says so
DEADLINE: Final = "deadline"
ESCALATE: Final = "escalate"
FALLBACK: Final = "fallback"
BREACH: Final = "breach"
_SKIPPED: Final = Outcome(EntryState.SKIPPED)
_CHANCES: Final = 2**64


def begin_step(run: Run, at: At, step: Step) -> None:
    """Begin a step: skip it, delay it, or go on at once."""
    try:
        if not Scope(run, at).holds(step.when):
            run.conclude(at, _SKIPPED)
            return
    except BlockError as error:
        run.conclude(at, failed_with(error))
        return
    moment = run.memory.now
    if step.delay is not None:
        chance = int.from_bytes(digest(run.memory.instance, at.key, "jitter")[:8]) / _CHANCES
        moment = delayed(step.delay, moment, chance, run.context.zone, run.context.holidays)
    _wait_until(run, at, step, moment, 0)


def step_ended(run: Run, at: At, step: Step, suffix: str, ended: Ended) -> None:
    """Go on after something that the step waited for."""
    phase, _, count = suffix.partition(".")
    number = int(count or 0)
    outcome = Outcome(ended.state, ended.result, ended.error)
    match phase:
        case "delay":
            _wait_until(run, at, step, run.memory.now, number + 1)
        case "start" if outcome.is_good:
            _handle(run, at, step, "", step.handler, step.params)
        case "start":
            _end(run, at, step, outcome)
        case "wait" if step.wait is not None:
            _answered(run, at, step, step.wait, outcome, number)
        case "deadline":
            _breached(run, at, step)
        case _:
            _handler_ended(run, at, step, suffix, outcome)


def live_keys(run: Run, at: At) -> list[str]:
    """Return the keys of what the step waits for."""
    named = run.frame(f"{at.key}@{FRAME}").get("live")
    suffixes = dict.fromkeys([*PLAIN, named if isinstance(named, str) else ""])
    keys = [f"{at.key}@{suffix}" if suffix else at.key for suffix in suffixes]
    return [key for key in keys if run.is_live(key)]


def end_watch(run: Run, at: At, step: Step) -> None:
    """Forget what a step waited for, and its deadline."""
    if step.deadline is not None:
        run.cancel(f"{at.key}@{DEADLINE}")
    if step.may_have_frame and run.is_live(f"{at.key}@{FRAME}"):
        run.save(f"{at.key}@{FRAME}", Outcome(EntryState.DONE))


def _wait_until(run: Run, at: At, step: Step, moment: int, count: int) -> None:
    """Wait for *moment*, and for the window that is open then; a timer that came late may have missed it."""
    if step.send_window is not None:
        moment = in_window(step.send_window, moment, run.context.zone)
    if moment > run.memory.now:
        suffix = _counted("delay", count)
        run.act(Timer(f"{at.key}@{suffix}", at=moment))
        if count:
            _watch(run, at, suffix)
        return
    if step.deadline is not None:
        run.act(Timer(f"{at.key}@{DEADLINE}", after=step.deadline))
    if step.wait is not None:
        timeout = step.wait.timeout
        _ask(run, at, 0, None if timeout is None else run.memory.now + timeout)
    else:
        _work(run, at, step)


def _ask(run: Run, at: At, count: int, until: object) -> None:
    """Wait for an answer of a person."""
    suffix = _counted("wait", count)
    after = max(1, until - run.memory.now) if isinstance(until, int) else None
    run.act(Await(f"{at.key}@{suffix}", f"{HUMAN_INPUT}{at.block.id}", after))
    run.save_frame(f"{at.key}@{FRAME}", {"live": suffix, "until": until})


def _answered(run: Run, at: At, step: Step, wait: Wait, outcome: Outcome, count: int) -> None:
    if outcome.state is not EntryState.DONE:
        if wait.escalation_handler is None:
            _end(run, at, step, outcome)
        else:
            asked = {"block_id": at.block.id, "prompt": wait.prompt, "instance_id": run.memory.instance}
            _handle(run, at, step, ESCALATE, wait.escalation_handler, asked)
        return
    payload = from_json(outcome.result)
    value = payload["value"] if isinstance(payload, dict) and "value" in payload else payload
    if wait.choices and not any(is_same(value, choice.value) for choice in wait.choices):
        _ask(run, at, count + 1, run.frame(f"{at.key}@{FRAME}").get("until"))
        return
    run.set_data(wait.store_as or at.block.id, value)
    if step.handler == HUMAN_REVIEW:
        _end(run, at, step, outcome)
    else:
        _work(run, at, step)


def _work(run: Run, at: At, step: Step) -> None:
    if runs_inside(step.handler) and (step.rate_limit_key is not None or step.pool is not None):
        _take_start(run, at, step)
    else:
        _handle(run, at, step, "", step.handler, step.params)


def _take_start(run: Run, at: At, step: Step) -> None:
    """Have the server take a start for a handler that is no job itself; errors in its params come before."""
    try:
        Scope(run, at).render(step.params, [])
        limits = _limits(run, at, step)
    except BlockError as error:
        _end(run, at, step, failed_with(error))
    else:
        run.act(Start(f"{at.key}@{START}", NewJob(TAKE_START, queue=SERVER_QUEUE, limits=limits)))


def _handle(run: Run, at: At, step: Step, suffix: str, handler: str, params: object, delay: int = 0) -> None:
    """Run a handler, here or as a job; its end is that of the step's part called *suffix*."""
    key = f"{at.key}@{suffix}" if suffix else at.key
    try:
        command = _command(run, at, step, suffix, handler, params, delay)
    except FailedError as error:
        command = failed_with(error)
    except BlockError as error:
        # Another try, or another handler, would be given the same.
        _end(run, at, step, _too_late(step) if suffix == BREACH else failed_with(error))
        return
    if isinstance(command, Outcome):
        run.save(key, command)
        _handler_ended(run, at, step, suffix, command)
    else:
        run.act(command)
        if suffix:
            _watch(run, at, suffix)


def _command(
    run: Run, at: At, step: Step, suffix: str, handler: str, params: object, delay: int
) -> Start | Timer | Await | Outcome:
    own = suffix not in {ESCALATE, BREACH}
    key = f"{at.key}@{suffix}" if suffix else at.key
    gaps: list[Gap] | None = [] if own and step.pool is not None else None
    rendered = Scope(run, at).render(params, gaps)
    if not isinstance(rendered, dict):
        raise ParamError("the params do not come to an object")
    text = params_text(rendered)
    if runs_inside(handler) and gaps:
        rendered = fill_gaps(rendered, gaps, _resource(run, at))
    inside = run_inside(run, key, handler, rendered)
    if inside is not None:
        return inside
    queue = SERVER_QUEUE if handler in SERVED else step.queue_name
    meta = _meta(run, at, suffix, handler, gaps)
    args = f'{{"args":[],"kwargs":{text}}}'
    job = NewJob(handler, args, queue, due=run.memory.now + delay if delay else None, meta=meta)
    return Start(key, _with_options(run, at, step, job) if own else job)


def _with_options(run: Run, at: At, step: Step, job: NewJob) -> NewJob:
    return replace(
        job,
        limits=_limits(run, at, step),
        timeout=step.timeout,
        retry=step.retry if step.retry_if is None else RetryPolicy(),
    )


def _resource(run: Run, at: At) -> str:
    """Return the resource of the start that was taken for a handler inside the engine."""
    taken = run.entry(f"{at.key}@{START}")
    name = None if taken is None else from_json(taken.result)
    if not isinstance(name, str):
        raise ParamError("no resource was taken for this handler")
    return name


def _meta(run: Run, at: At, suffix: str, handler: str, gaps: list[Gap] | None) -> str:
    """Return what the job of a step carries beside its arguments."""
    meta: dict[str, object] = {}
    if gaps:
        meta[GAPS] = gaps
    if handler in SERVED:
        # All attempts of the step are the same request, also where each is a job of its own.
        own = f"@{suffix}" if suffix in {ESCALATE, BREACH, FALLBACK} else ""
        meta[REQUEST] = f"{run.memory.instance}:{at.key}{own}"
    return to_json(meta) if meta else "{}"


def _limits(run: Run, at: At, step: Step) -> tuple[Limit, ...]:
    """Return what the start of a step must pass: the gate of its key, and a resource of its pool."""
    limits = []
    try:
        if step.pool is not None:
            limits.append(Limit(step.pool, UNLIMITED, group=True))
        if step.rate_limit_key is not None:
            key = Scope(run, at).render(step.rate_limit_key)
            if key is None:
                raise ParamError("the rate_limit_key comes to null")
            limits.append(Limit(resource_key(to_text(key)), UNLIMITED))
    except InvalidError as error:
        raise ParamError(f"the rate_limit_key cannot be used: {error.problem}") from None
    return tuple(limits)


def _handler_ended(run: Run, at: At, step: Step, suffix: str, outcome: Outcome) -> None:
    """Go on after a handler."""
    if suffix == BREACH:
        _end(run, at, step, _too_late(step))
    elif outcome.is_good or suffix in {ESCALATE, FALLBACK}:
        _end(run, at, step, outcome)
    elif _is_tried_again(run, at, step, suffix, outcome):
        tries = _tries(suffix)
        delay = delay_before(step.retry, tries, 0)
        _handle(run, at, step, f"try.{tries}", step.handler, step.params, delay)
    elif step.fallback_handler is not None:
        _handle(run, at, step, FALLBACK, step.fallback_handler, step.params)
    else:
        _end(run, at, step, outcome)


def _is_tried_again(run: Run, at: At, step: Step, suffix: str, outcome: Outcome) -> bool:
    """Tell whether an expression wants another try, which the job itself cannot ask; else the job has made them all."""
    if step.retry_if is None or _tries(suffix) >= step.retry.attempts or runs_inside(step.handler):
        return False
    error = from_json(outcome.error)
    if isinstance(error, dict) and error.get("kind") in step.retry.never:
        return False
    try:
        return Scope(run, at, outcome.error).holds(step.retry_if)
    except BlockError:
        return False


def _tries(suffix: str) -> int:
    return int(suffix.partition(".")[2] or 0) + 1


def _breached(run: Run, at: At, step: Step) -> None:
    """End what the step waits for, since its deadline has passed."""
    for key in live_keys(run, at):
        run.cancel(key)
    if step.on_deadline_breach is None:
        _end(run, at, step, _too_late(step))
    else:
        _handle(run, at, step, BREACH, *step.on_deadline_breach)


def _too_late(step: Step) -> Outcome:
    return failure("DeadlineBreached", f"step {step.id} took longer than its deadline")


def _end(run: Run, at: At, step: Step, outcome: Outcome) -> None:
    """End the step; what ended from outside the engine counts as failed."""
    if not outcome.is_good:
        error = outcome.error or to_json(
            {"kind": "Cancelled", "message": f"step {at.block.id} was cancelled"}
        )
        outcome = Outcome(EntryState.FAILED, error=error)
    end_watch(run, at, step)
    known = run.entry(at.key)
    if known is not None and (known.state, known.result) == (outcome.state, outcome.result):
        run.leave(at, outcome)
    else:
        run.conclude(at, outcome)


def _watch(run: Run, at: At, suffix: str) -> None:
    """Remember what the step waits for, where it is not plain."""
    run.save_frame(f"{at.key}@{FRAME}", {"live": suffix})


def _counted(name: str, count: int) -> str:
    return f"{name}.{count}" if count else name
